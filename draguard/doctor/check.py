"""One line of the doctor: what was looked at, how it is, what it means, what to do. Pure."""

from typing import Literal

import msgspec

State = Literal["ok", "warn", "bad", "unknown"]
"""`warn`: something works less; `bad`: something that was asked for does not work; `unknown`: it
could not be seen, which is neither."""


class Check(msgspec.Struct, frozen=True):
    about: str
    state: State
    says: str
    remedy: str = ""
    """What to do about it; "" when nothing is to be done."""


def ok(about: str, says: str) -> Check:
    return Check(about, "ok", says)


def warn(about: str, says: str, remedy: str) -> Check:
    return Check(about, "warn", says, remedy)


def bad(about: str, says: str, remedy: str) -> Check:
    return Check(about, "bad", says, remedy)


def unknown(about: str, says: str, remedy: str) -> Check:
    return Check(about, "unknown", says, remedy)
