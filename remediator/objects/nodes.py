"""What is read of a Node, and the condition that we may set on it. Pure."""

from datetime import datetime
from typing import Literal

import msgspec

REPAIR_NEEDED = "DraguardDeviceRepairNeeded"
"""Type of our condition; True is a problem, as node-problem-detector has it."""


class NodeCondition(msgspec.Struct, frozen=True, kw_only=True):
    type: str
    status: Literal["True", "False", "Unknown"]
    reason: str
    """A CamelCase word that a machine may read."""
    message: str
    last_transition_time: datetime | None = None


class NodeFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One Node as its metadata tell; a Node that is gone has none."""

    name: str
    uid: str = ""
    cordons: tuple[str, ...] = ()
    """Others' cordons and quarantines, in words."""
    conditions: tuple[NodeCondition, ...] = ()
    """Those that Draguard may write, as stored; empty where it may not."""
