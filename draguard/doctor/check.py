"""One line of the doctor: the subject, its state, what it means, the remedy. Pure."""

from typing import Literal

import msgspec

State = Literal["ok", "warn", "bad", "unknown"]
"""`warn`: a feature is limited; `bad`: a feature does not work; `unknown`: it could not be
read, which is neither."""


class Check(msgspec.Struct, frozen=True):
    about: str
    state: State
    says: str
    remedy: str = ""
    """What to do about it, "" for nothing."""


def ok(about: str, says: str) -> Check:
    return Check(about, "ok", says)


def warn(about: str, says: str, remedy: str) -> Check:
    return Check(about, "warn", says, remedy)


def bad(about: str, says: str, remedy: str) -> Check:
    return Check(about, "bad", says, remedy)


def unknown(about: str, says: str, remedy: str) -> Check:
    return Check(about, "unknown", says, remedy)
