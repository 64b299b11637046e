"""What a selector says of a device. Pure."""

from typing import Literal

import msgspec

Says = Literal["Matches", "NoMatch", "Fails", "NotEvaluated"]
"""`Fails`: in Kubernetes too, which then allocates nothing by it. `NotEvaluated`: Kubernetes knows
the answer, and we do not."""


class Answer(msgspec.Struct, frozen=True, gc=False):
    says: Says
    why: str = ""
    """Of the last two."""


MATCHES, NO_MATCH = Answer("Matches"), Answer("NoMatch")


def fails(why: str) -> Answer:
    return Answer("Fails", why)


def not_evaluated(why: str) -> Answer:
    return Answer("NotEvaluated", why)
