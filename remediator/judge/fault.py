"""The words of judgement: a fault, and what is true of one GPU.

A fault is a class of bad signal on one device. `Unknown` is a verdict of its
own and travels as one: it never adds a taint and never takes one away. Pure.
"""

from datetime import datetime
from typing import Literal

import msgspec

from exporter.device import Instance

FaultClass = Literal["contained", "fabric", "memory", "gpu", "lost", "node"]

SEVERITY: tuple[FaultClass, ...] = ("contained", "fabric", "memory", "gpu", "lost", "node")
"""From the least severe to the worst; an incident's class only moves to the right."""


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """One finding against one GPU or one instance of it."""

    fault_class: FaultClass
    cause: str
    """A label value that names the signal: `xid-95`, `recovery-action-1`, `gpu-lost`."""
    last_seen: datetime
    evidence: str
    xid: int | None = None
    """The XID code, where the signal is one: the best name for what happened."""
    """One sentence for the case file."""
    instance: Instance | None = None
    ended: datetime | None = None
    """Since when positive evidence says that it is over; None while it stands."""
    certain: bool = False
    """Whether the evidence is complete enough to move pods: see `verdict`."""
    doubt: str = ""
    """What is missing while it is not certain."""


class Sick(msgspec.Struct, frozen=True):
    """At least one fault stands."""

    faults: tuple[Fault, ...]


class Healthy(msgspec.Struct, frozen=True):
    """Fresh, positive evidence that nothing stands, without a gap since `since`."""

    since: datetime
    evidence: str
    ended: tuple[Fault, ...] = ()
    """Faults of this boot that are over."""


class Unknown(msgspec.Struct, frozen=True):
    why: str


Verdict = Sick | Healthy | Unknown


def faults_of(verdict: Verdict) -> tuple[Fault, ...]:
    """Return every fault that a verdict speaks of, standing or over."""
    match verdict:
        case Sick(faults):
            return faults
        case Healthy():
            return verdict.ended
        case Unknown():
            return ()


def worst(classes: tuple[FaultClass, ...]) -> FaultClass:
    """Return the most severe of at least one class."""
    return max(classes, key=SEVERITY.index)
