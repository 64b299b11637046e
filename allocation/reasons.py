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


Ending = Literal["Allocated", "None", "Fails", "NotEvaluated"]
"""`Fails`: the scheduler gives up on the node with an error. `NotEvaluated`: only it knows."""


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """What becomes of claims on a node."""

    ending: Ending
    devices: tuple[tuple[str, str, Device], ...] = ()
    """Claim, request (`request/alternative`) and device, in the order of the claims."""
    why: str = ""
    """Of the last two, and of None where it is not only the devices."""
