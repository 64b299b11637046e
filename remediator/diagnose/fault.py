"""The words of judgement: a fault, and what is true of one GPU.

A fault is a class of bad signal on one device. `Unknown` is a verdict of its
own and travels as one: it never adds a taint and never takes one away. Pure.
"""

import traceback
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from functools import wraps
from typing import Literal, ParamSpec, TypeVar, get_args

import msgspec

from exporter.model.device import Instance
from exporter.model.node_health import (
    GpuHealth,
    Inventory,
    MemorySlices,
    NodeHealth,
    SourceHealth,
    SwitchHealth,
    XidRecord,
)

P = ParamSpec("P")
T = TypeVar("T")
FaultClass = Literal["suspect", "pending", "contained", "fabric", "memory", "gpu", "lost", "node"]
"""`suspect`: XIDs that follow the GPU and not the job (`suspicion`); `pending`: a reset when
convenient (row remap or page retirement waits); the others as in docs/policy.md."""

SEVERITY: tuple[FaultClass, ...] = get_args(FaultClass)
"""From the least severe to the worst; an incident's class only moves to the right."""
OVER_AT_ONCE: frozenset[FaultClass] = frozenset({"suspect", "contained"})
"""Classes of which nothing goes on that a reset would end."""

Need = Literal[
    "nothing", "diagnosis", "fabric-recovery", "gpu-reset", "human", "node-reboot", "replacement"
]
"""What would repair it; always an act of others."""
NEEDS: tuple[Need, ...] = get_args(Need)
"""From the least to the most. Acts that stop the node come last: no other need may hide one."""
NODE_LEVEL: frozenset[Need] = frozenset({"node-reboot", "replacement"})
"""Acts that stop the whole node."""


class Record(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """Which record of the report a fault is read from, and how far it had counted."""

    code: int
    gi: int = -1
    """-1: no instance was named."""
    ci: int = -1
    start: int = -1
    """First memory slice of the instance: an id that is used again is another record."""
    count: int
    first_seen: datetime
    """By the node's clock."""

    @classmethod
    def of(cls, entry: XidRecord) -> "Record":
        gi, ci = (-1 if number is None else number for number in (entry.gi, entry.ci))
        return cls(
            code=entry.code,
            gi=gi,
            ci=ci,
            start=entry.placement.start if entry.placement else -1,
            count=entry.count,
            first_seen=entry.first_seen,
        )

    @property
    def key(self) -> tuple[int, int, int, int]:
        """What a record counts: one code on one instance."""
        return self.code, self.gi, self.ci, self.start


Source = Literal[
    "Kmsg",
    "Syslog",
    "NvmlEvent",
    "Dcgm",
    "RecoveryAction",
    "GpuLost",
    "HungCall",
    "OffBus",
    "MemoryCounters",
    "NvLink",
    "Fabric",
    "Nvml",
]
"""What reports a fault: the kernel log read from /dev/kmsg or by syslog(2), NVML's event of the
same code, DCGM where it does not read that log itself, and what NVML and the PCI bus read
afterwards. `Nvml`: a state that NVML reads and that is the fault."""
SOURCES: tuple[Source, ...] = get_args(Source)
LOGS: frozenset[Source] = frozenset({"Kmsg", "Syslog"})
"""Kernel messages quote text of programs, so the log alone disrupts nothing."""
ALONE = "only the kernel log reports it"
Unprovable = Literal["DriverTooOld", "NvmlUnavailable", "NotInNvml"]
UNPROVABLE: Mapping[Unprovable, str] = {
    "DriverTooOld": "this driver has no recovery action: R565 is the first",
    "NvmlUnavailable": "NVML does not answer on the node",
    "NotInNvml": "NVML reads no failed link or fabric on any GPU of the node",
}
"""Why no second source can confirm a fault, as words of the condition `FaultUnconfirmed`."""


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """One finding against one GPU or one instance of it."""

    fault_class: FaultClass
    cause: str
    """A label value that names the signal: `xid-95`, `recovery-action-1`, `gpu-lost`."""
    last_seen: datetime
    evidence: str
    """One sentence for the incident."""
    xid: int | None = None
    """The XID code, where the signal is one: the best name for what happened."""
    needs: Need = "gpu-reset"
    instance: Instance | None = None
    placement: MemorySlices | None = None
    """Of the instance when the error was counted; None from older agents."""
    gi_profile_id: int | None = None
    """Likewise."""
    ended: datetime | None = None
    """Since when positive evidence shows that it is over; None while it stands."""
    certain: bool = False
    """Whether the evidence is complete enough to evict pods: see `xid_faults`."""
    doubt: str = ""
    """What is missing while it is not certain."""
    record: Record | None = None
    """None where the report keeps no record of its own for it."""
    sources: tuple[Source, ...] = ("Nvml",)
    unprovable: Unprovable | None = None
    """Why no other source can confirm what only the kernel log reports; None while one may."""

    @property
    def alone(self) -> bool:
        """Whether only the kernel log reports it."""
        return LOGS.issuperset(self.sources)

    @property
    def is_past(self) -> bool:
        """Whether what has harmed pods is over, whatever the driver requests because of it."""
        return self.ended is not None or self.fault_class in OVER_AT_ONCE

    @property
    def forgeable(self) -> bool:
        """Whether a program without any right may have made it up.

        syslog(2) gives lines, not records.
        """
        return set(self.sources) == {"Syslog"}


class Healthy(msgspec.Struct, frozen=True):
    """Fresh, positive evidence that nothing stands, without a gap since `since`."""

    since: datetime
    evidence: str
    ended: tuple[Fault, ...] = ()
    """Faults of this boot that are over."""


class Sick(msgspec.Struct, frozen=True):
    """At least one fault stands."""

    faults: tuple[Fault, ...]
    but_pending: Healthy | None = None
    """What would be true without what waits for a reset, where only such faults stand."""


class Unknown(msgspec.Struct, frozen=True):
    why: str
    bug: str = ""
    """The trace, where a mistake of this program is why."""


def attempt(decide: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | Unknown:
    """Return a decision, or Unknown with the trace where this program fails to make it.

    The one place where a bug in a decision is caught: it costs one GPU its decision, and no other
    GPU theirs.
    """
    try:
        return decide(*args, **kwargs)
    except Exception as error:  # noqa: BLE001 - the other GPUs go on
        return of_bug(error)


def or_unknown(decide: Callable[P, T]) -> Callable[P, T | Unknown]:
    """Decorate a decision: each call of it is an `attempt`."""

    @wraps(decide)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> T | Unknown:
        return attempt(decide, *args, **kwargs)

    return guarded


def of_bug(error: Exception) -> Unknown:
    """Return what is known where this program failed; call it where the error is caught."""
    text = f"{type(error).__name__}: {error}"[:200]
    why = f"a bug of Draguard, please report it: {text}"
    return Unknown(why, bug="".join(traceback.format_exception(error)))


Verdict = Sick | Healthy | Unknown


def faults_of(verdict: Verdict) -> tuple[Fault, ...]:
    """Return every fault of a verdict, standing or over."""
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


def most_needed(needs: Iterable[Need]) -> Need:
    """Return the greatest of what would repair something, `nothing` of none."""
    found: list[Need] = ["nothing", *needs]
    return max(found, key=NEEDS.index)


def weight(fault: Fault) -> tuple[int, bool, bool, float, str, str]:
    """Order faults, the most informative first; total, so observing order never matters."""
    return (
        -SEVERITY.index(fault.fault_class),
        not fault.certain,
        fault.xid is None,
        -fault.last_seen.timestamp(),
        fault.cause,
        f"{fault.instance} {fault.placement} {fault.evidence}",
    )


NEAR = timedelta(minutes=1)
"""Two signals this close together may have one cause: drivers log one failure in several lines, and
NVML is read in between."""


Confirmed = Callable[[datetime, Record | None], datetime | None]
"""Takes when a signal was last seen, and its record. Returns when a user confirmed after it that
the GPU is repaired, None where no user has."""


def no_confirmation(last_seen: datetime, record: Record | None) -> None:
    del last_seen, record


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """The report around one GPU, and its users. What is not known is empty."""

    reported_at: datetime | None = None
    """The report's own time, by the node's clock."""
    driver_version: str = ""
    sources: tuple[SourceHealth, ...] = ()
    switches: tuple[SwitchHealth, ...] = ()
    inventory: Inventory = Inventory()
    gpus: tuple[GpuHealth, ...] = ()
    """Every GPU of the report, the diagnosed one too."""
    confirmed: Confirmed = no_confirmation
    """Of the diagnosed GPU."""
    repaired: bool = False
    """A user has confirmed the repair of its incident, and nothing that is known came after it."""

    def up(self, source: str) -> bool | None:
        """Return whether a source works, None when the report does not name it."""
        return next((state.up for state in self.sources if state.name == source), None)

    def peers(self, gpu: GpuHealth) -> tuple[GpuHealth, ...]:
        return tuple(peer for peer in self.gpus if peer.uuid != gpu.uuid)


NO_SURROUNDINGS = Surroundings()


def surroundings(report: NodeHealth | None) -> Surroundings:
    """Return the content of a report beside its GPUs; nothing is known without one."""
    if report is None:
        return NO_SURROUNDINGS
    return Surroundings(
        reported_at=report.observed_at,
        driver_version=report.driver_version,
        sources=report.sources,
        switches=report.switches,
        inventory=report.inventory,
        gpus=report.gpus,
    )


def near(moment: datetime, other: datetime) -> bool:
    return abs(moment - other) <= NEAR
