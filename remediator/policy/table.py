"""What may be done about each class of fault: one row per class.

The safety argument, in prose, before the table:

Tainting is the power to kill jobs, so each class names its own ceiling, and the
shipped mode of every class is `incident-only`: it writes down what it would do.
A class whose evidence often arrives in two parts (`patient`) is not fenced
until the second part came or the settle time passed. A class under which
running work may finish (`memory`, `fabric`) never goes beyond NoSchedule.
Recovery needs positive evidence for the whole soak time, and the soak is longer
than the settle time, so that nothing is released before it could be judged.

Reading files is `policy_file`; here are values only. Pure.
"""

from datetime import datetime, timedelta
from typing import Literal, get_args

import msgspec

from remediator.judge.fault import SEVERITY, FaultClass

Mode = Literal["off", "incident-only", "dry-run", "enforce"]
MODES: tuple[Mode, ...] = get_args(Mode)
Ceiling = Literal["observe", "None", "NoSchedule", "NoExecute"]
"""`observe`: an incident and no rule at all."""
CEILINGS: tuple[Ceiling, ...] = get_args(Ceiling)


class PolicyError(ValueError):
    """The policy says something impossible; the message names where and what to write."""


class Repeat(msgspec.Struct, frozen=True):
    """The n-th episode of one GPU within a window needs a person: it is sticky."""

    count: int = 3
    within: timedelta = timedelta(days=30)


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """What may be done about one class of fault."""

    fault_class: FaultClass
    ceiling: Ceiling
    mode: Mode = "incident-only"
    settle: timedelta = timedelta(seconds=3)
    """From the last NoSchedule of a scope to its first NoExecute; also how long a patient class
    waits for better evidence. Covers that scheduler and eviction controller watch apart."""
    soak: timedelta = timedelta(minutes=10)
    """How long evidence of health must hold before the rules go."""
    patient: bool = False
    repeat: Repeat = Repeat()
    sticky: bool = False
    """Recovery alone never releases: a person confirms the repair."""
    probation: timedelta = timedelta(hours=24)
    """After release: a fault in it continues the episode count and is told as a relapse."""
    name: str = ""
    """Where the row comes from, for the case file: `classes.gpu`, `overrides[2]`."""

    def __post_init__(self) -> None:
        if self.soak <= self.settle:
            raise PolicyError(
                f"class {self.fault_class}: soak ({self.soak}) must be longer than settle "
                f"({self.settle}), or a fault would be released before it was judged"
            )


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a GPU is. Names that a kubelet cannot set on itself; labels are none of these."""

    node: str = ""
    drivers: frozenset[str] = frozenset()
    pools: frozenset[str] = frozenset()
    device_classes: frozenset[str] = frozenset()
    """Through which its devices are claimed now."""
    devices: frozenset[str] = frozenset()
    """UUIDs: the GPU and its published slices."""


ANYWHERE = Place()


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How many GPUs may carry rules of ours at once. Healing is never limited."""

    evict_gpus_per_node: int = 2
    """GPUs with NoExecute on one node: a third sick GPU in one machine is the machine's fault."""
    evict_gpus_per_cluster: int = 16
    fence_gpus_per_cluster: int = 128
    """GPUs with NoSchedule or more. A cap of its own, so that many sick nodes are still fenced
    while evictions are held."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if getattr(self, name) < 0:
                raise PolicyError(f"budget {name} is below 0; 0 holds everything back")


SHIPPED: tuple[Row, ...] = (
    Row(fault_class="suspect", ceiling="None"),
    Row(fault_class="pending", ceiling="observe"),
    Row(fault_class="contained", ceiling="NoExecute", patient=True),
    Row(fault_class="fabric", ceiling="NoSchedule", patient=True),
    Row(fault_class="memory", ceiling="NoSchedule"),
    Row(fault_class="gpu", ceiling="NoExecute"),
    Row(fault_class="lost", ceiling="NoExecute"),
    Row(fault_class="node", ceiling="NoExecute"),
)


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    rows: tuple[Row, ...] = SHIPPED
    limits: Limits = Limits()

    def __post_init__(self) -> None:
        if sorted(row.fault_class for row in self.rows) != sorted(SEVERITY):
            raise PolicyError(f"a policy has one row for each of {', '.join(SEVERITY)}")

    def row(self, fault_class: FaultClass, place: Place = ANYWHERE) -> Row:
        """Return what holds for a class of fault at a place."""
        del place  # no override is read yet
        return next(row for row in self.rows if row.fault_class == fault_class)

    def pause(self, place: Place, now: datetime) -> str:
        """Return why no new harm may be done at a place now, "" when it may."""
        del place, now
        return ""


def without_rules(policy: Policy) -> Policy:
    """Return what is left of a policy where no DeviceTaintRules are served: incidents only."""
    rows = tuple(
        msgspec.structs.replace(row, mode="off" if row.mode == "off" else "incident-only")
        for row in policy.rows
    )
    return msgspec.structs.replace(policy, rows=rows)
