"""Why a claim cannot have a device, and why it cannot be allocated on a node. Pure."""

from typing import Literal

import msgspec

from allocation.model.pods import NodeWhy
from exporter.model.device import Device

Why = Literal[
    NodeWhy,
    "OtherNode",
    "PoolIncomplete",
    "PoolInvalid",
    "Allocated",
    "ClassSelector",
    "RequestSelector",
    "SelectorFails",
    "Fails",
    "NotEvaluated",
    "Capacity",
    "Counters",
    "Tainted",
    "Constraint",
]
"""In the order in which one is named first where a device has several."""


class Reason(msgspec.Struct, frozen=True, gc=False):
    why: Why
    what: str = ""
    """What it is about: an expression, the key of a taint, a capacity, a counter, an attribute."""
    by: tuple[str, ...] = ()
    """Who is behind it: claims, partitions, rules."""


class Candidate(msgspec.Struct, frozen=True, gc=False):
    """A device that a request looks at on a node."""

    device: Device
    reasons: tuple[Reason, ...] = ()
    """All of them; () can be had."""


Fault = Literal["SelectorFails", "Fails"]
"""With what the scheduler gives up on a node: an error of a selector itself, or another one."""
Ending = Literal["Allocated", "None", Fault, "NotEvaluated"]
"""`NotEvaluated`: only the scheduler knows."""


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """What becomes of claims on a node."""

    ending: Ending
    devices: tuple[tuple[str, str, Device], ...] = ()
    """Claim, request (`request/alternative`) and device, in the order of the claims."""
    why: str = ""
    """Of all but Allocated; of None where it is not only the devices."""

    @property
    def fault(self) -> Fault | None:
        return self.ending if self.ending in ("SelectorFails", "Fails") else None
