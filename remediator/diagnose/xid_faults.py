"""XID records of one GPU into faults, each by its row of the table (`xid_table`).

A record says that something happened; whether it is over, others say
(`recovery_action.over`). A fault is certain, complete enough to move pods, when
its MIG instance is named, the GPU is gone, or a recovery action that was heard
after the XID asks for more than keeping new work away; and when a second source
bears the kernel log out, one that the row counts. Pure.
"""

from collections.abc import Callable, Iterator
from datetime import datetime

import msgspec

from exporter.model import xid
from exporter.model.device import Instance
from exporter.model.node_health import GpuHealth, XidRecord
from exporter.model.node_health_words import UNKNOWN
from remediator.diagnose import links, memory
from remediator.diagnose.fault import ALONE, SEVERITY, Fault, FaultClass, Need, Record, Source
from remediator.diagnose.presence import HUNG, NOT_LISTED, off_bus
from remediator.diagnose.recovery_action import over, wanted
from remediator.diagnose.surroundings import NEAR, Surroundings, near
from remediator.diagnose.xid_table import RuleName, XidRule, rule_of

TIMEOUTS = 3
"""XIDs 119 after which the open kernel modules mark a GPU for reset, by default."""
REMAPS = frozenset({63, 64})
PLACES = {171: "in DRAM", 172: "in SRAM"}
"""XIDs that only detail a 48."""

_SILENT_WHEN_OVER = frozenset[FaultClass]({"fabric", "pending"})
"""Classes of which nothing is left to watch once the driver wants nothing done."""
_WHOLE_GPU = frozenset[FaultClass](SEVERITY[SEVERITY.index("gpu") :])


class Asked(msgspec.Struct, frozen=True):
    """One record to be read, with all that its rule may look at."""

    gpu: GpuHealth
    around: Surroundings
    record: XidRecord
    row: XidRule
    named_by: int | None = None
    """The XID whose line named this one, when it was not seen itself."""


class Meaning(msgspec.Struct, frozen=True):
    """What a record says while it is not over."""

    fault_class: FaultClass
    needs: Need
    spares: str = ""
    """Why running work is left alone, "" when it need not be."""
    adds: str = ""
    """More evidence."""


_UNPROVABLE: frozenset[FaultClass] = frozenset(SEVERITY[SEVERITY.index("fabric") :])
"""Classes for which somebody must look when nothing can bear the kernel log out."""


def faults(gpu: GpuHealth, around: Surroundings) -> tuple[Fault, ...]:
    """Return the faults that the XIDs of a GPU are, in the order of their codes."""
    asked = [Asked(gpu, around, record, rule_of(record.code)) for record in gpu.xids]
    asked += _named(gpu, around)
    pairs = [
        (candidate, fault)
        for candidate in sorted(asked, key=_order)
        if (fault := _fault(candidate))
    ]
    return tuple(fault for candidate, fault in pairs if not _is_tail(candidate, pairs))


def mig_of(record: XidRecord, gpu: GpuHealth) -> bool | None:
    """Return the MIG mode at the time of a record; of one that has none, the mode of now."""
    return gpu.mig if record.mig_mode == UNKNOWN else record.mig_mode == "Enabled"


def instance_of(record: XidRecord, gpu: GpuHealth) -> Instance | None:
    """Return the instance that a record names, None when no source named one.

    Without MIG instance ids mean nothing: some libraries send zeros.
    """
    if record.gi is None or not mig_of(record, gpu):
        return None
    return Instance(record.gi, record.ci)


def _order(asked: Asked) -> tuple[object, ...]:
    record = asked.record
    gi, ci = (-1 if number is None else number for number in (record.gi, record.ci))
    place = (record.placement.start, record.placement.size) if record.placement else (-1, -1)
    return record.code, gi, ci, place, record.last_seen


def _named(gpu: GpuHealth, around: Surroundings) -> Iterator[Asked]:
    """Return, as records, the XIDs that others name as their cause and that nobody has seen."""
    seen = {(entry.code, entry.epoch) for entry in gpu.xids}
    codes = {entry.code for entry in gpu.xids}
    for reported in gpu.xids:
        cause = reported.caused_by
        if (
            cause is None
            or rule_of(reported.code).rule != "named"
            or (cause, reported.epoch) in seen
        ):
            continue
        if cause in codes and not _all_in_this_epoch(gpu, reported):
            continue  # a record keeps the cause that one of its lines named, and not when
        record = XidRecord(
            code=cause,
            count=1,
            first_seen=reported.last_seen,
            last_seen=reported.last_seen,
            epoch=reported.epoch,
            gi=reported.gi,
            ci=reported.ci,
            mig_mode=reported.mig_mode,
            gi_profile_id=reported.gi_profile_id,
            placement=reported.placement,
            sources=reported.sources,
        )
        yield Asked(gpu, around, record, rule_of(cause), named_by=reported.code)


def _all_in_this_epoch(gpu: GpuHealth, record: XidRecord) -> bool:
    return gpu.epoch_started is None or record.first_seen >= gpu.epoch_started


def _is_tail(asked: Asked, pairs: list[tuple[Asked, Fault]]) -> bool:
    """Whether a timeout only follows from a fault of the whole GPU that stood before it."""
    return asked.row.rule == "repeated" and any(
        fault.ended is None
        and fault.fault_class in _WHOLE_GPU
        and other.row.rule != "repeated"
        and other.record.epoch == asked.record.epoch
        and other.record.first_seen <= asked.record.first_seen
        for other, fault in pairs
    )


def _fault(asked: Asked) -> Fault | None:
    meant = _RULES[asked.row.rule](asked)
    if meant is None:
        return None
    record = asked.record
    ended = _ended(asked, meant.fault_class)
    if ended and _leaves_nothing(asked, meant.fault_class):
        return None
    placed = instance_of(record, asked.gpu) if meant.fault_class == "contained" else None
    second: list[Source] = [source for source in asked.row.second if _SECOND[source](asked)]
    unprovable = (
        not second and ended is None and meant.fault_class in _UNPROVABLE and _nobody_to_ask(asked)
    )
    doubt = _doubt(asked, meant, placed, ended)
    if not second:
        doubt = f"{ALONE}, and NVML cannot bear it out" if unprovable else doubt or ALONE
    return Fault(
        fault_class=meant.fault_class,
        cause=f"xid-{record.code}",
        xid=record.code,
        needs="person" if unprovable else meant.needs,
        last_seen=record.last_seen,
        evidence=_sentence(asked, meant),
        instance=placed,
        placement=record.placement if placed else None,
        gi_profile_id=record.gi_profile_id if placed else None,
        ended=ended,
        certain=not doubt,
        doubt=doubt,
        sources=(*logs(record.sources), *second),
        unprovable=unprovable,
        record=None if asked.named_by else _counted(record),
    )


def _counted(record: XidRecord) -> Record:
    gi, ci = (-1 if number is None else number for number in (record.gi, record.ci))
    return Record(
        code=record.code,
        gi=gi,
        ci=ci,
        start=record.placement.start if record.placement else -1,
        count=record.count,
        first_seen=record.first_seen,
    )


def logs(sources: tuple[str, ...]) -> tuple[Source, ...]:
    """Return how a record was read from the kernel log; one without sources counts as read there.

    What NVML or DCGM told without a line of the log is not of the log.
    """
    found: list[Source] = ["Kmsg"] if "kmsg" in sources or not sources else []
    return (*found, "Syslog") if "syslog" in sources else tuple(found)


def _nobody_to_ask(asked: Asked) -> bool:
    return asked.gpu.recovery_action.supported is False or asked.around.up("nvml") is False


def _head(asked: Asked) -> datetime:
    """Return from when on an answer counts.

    One GSP timeout makes a long tail; an answer to its head is an answer to all of it.
    """
    record = asked.record
    return record.first_seen if asked.row.rule == "repeated" else record.last_seen


def _event(asked: Asked, source: str) -> bool:
    """An event of the same code; that of an XID which names another speaks for itself only.

    One of long ago says nothing of a line of now. Older agents tell no time.
    """
    record = asked.record
    recent = record.event_at is None or record.event_at >= _head(asked) - NEAR
    return asked.named_by is None and source in record.sources and recent


def _action_read(asked: Asked) -> bool:
    action = asked.gpu.recovery_action
    read = action.observed_at
    return bool(action.value) and read is not None and read > _head(asked)


def _hung(asked: Asked) -> bool:
    gpu = asked.gpu
    return gpu.presence_reason == HUNG and gpu.presence_since >= _head(asked)


def _counters_rose(asked: Asked) -> bool:
    rose = asked.gpu.memory.rose_at
    return rose is not None and rose >= _head(asked) - NEAR


_SECOND: dict[Source, Callable[[Asked], bool]] = {
    "NvmlEvent": lambda asked: _event(asked, "nvml"),
    "Dcgm": lambda asked: _event(asked, "dcgm"),
    "RecoveryAction": _action_read,
    "GpuLost": lambda asked: (
        asked.gpu.presence == "Lost" or asked.gpu.presence_reason == NOT_LISTED
    ),
    "HungCall": _hung,
    "OffBus": lambda asked: off_bus(asked.gpu),
    "MemoryCounters": _counters_rose,
    "NvLink": lambda asked: links.links_failed(asked.gpu),
    "Fabric": lambda asked: links.fabric_fails(asked.gpu),
}
"""Whether a source bears a record out now; the column `second` says which of them count."""


def _ended(asked: Asked, fault_class: FaultClass) -> datetime | None:
    gpu, record = asked.gpu, asked.record
    if fault_class == "memory" and not memory.reads_well(gpu, record.last_seen):
        return None
    if fault_class == "contained" and _cannot_be_asked(gpu):
        return record.last_seen  # the catalogue wants only a restart of the program
    return over(gpu, record.last_seen, record.epoch)


def _cannot_be_asked(gpu: GpuHealth) -> bool:
    return gpu.recovery_action.supported is False and wanted(gpu) is None


def _leaves_nothing(asked: Asked, fault_class: FaultClass) -> bool:
    """A contained error without MIG has no slice to watch: its process is gone."""
    without_mig = mig_of(asked.record, asked.gpu) is False
    return fault_class in _SILENT_WHEN_OVER or (fault_class == "contained" and without_mig)


def _doubt(asked: Asked, meant: Meaning, instance: Instance | None, ended: datetime | None) -> str:
    """Return what the evidence lacks to move pods, "" when it suffices."""
    if meant.fault_class == "contained":
        named = f"no source of XID {asked.record.code} has named the MIG instance"
        return "" if instance else named
    if ended is not None:
        return "it is over: a reset came after it, or the driver wants nothing done any more"
    if meant.fault_class == "lost" and asked.gpu.presence != "Present":
        return ""
    return meant.spares or _doubt_by_action(asked)


def _doubt_by_action(asked: Asked) -> str:
    gpu, record = asked.gpu, asked.record
    if _cannot_be_asked(gpu):
        seen_here = record.last_seen >= gpu.presence_since
        return "" if seen_here else "it happened before the agent saw this GPU"
    action = wanted(gpu)
    if action is None or not action.after(_head(asked)):
        return f"the recovery action has not been read since XID {record.code}"
    return f"{action.in_words()} lets running work finish" if action.level.spares else ""


def _sentence(asked: Asked, meant: Meaning) -> str:
    record = asked.record
    where = "" if record.gi is None else f" on GPU instance {record.gi}"
    seen_by = " and ".join(record.sources) or "an unnamed source"
    told = f"seen by {seen_by}"
    if asked.named_by is not None:
        told = f"named by XID {asked.named_by} that was {told}"
    said = f"XID {record.code} ({xid.lookup(record.code).description}){where}, {told}"
    return f"{said}; {meant.adds}" if meant.adds else said


def _stands(asked: Asked) -> Meaning | None:
    row = asked.row
    return Meaning(row.fault, row.needs) if row.fault else None


def _never(asked: Asked) -> Meaning | None:
    del asked


def _flags(asked: Asked) -> Meaning | None:
    if asked.record.reset_request == "Immediate":
        return Meaning("gpu", "gpu-reset", adds="its line says that a reset is required")
    if asked.record.reset_request == "AfterDrain":
        why = "its line says that running work may finish before the reset"
        return Meaning("gpu", "gpu-reset", spares=why)
    return _stands(asked)


def _remapped(asked: Asked) -> Meaning | None:
    record = asked.record
    mates = [mate for mate in asked.gpu.xids if mate.epoch == record.epoch]
    places = {
        PLACES[mate.code]
        for mate in mates
        if mate.code in PLACES and near(mate.last_seen, record.last_seen)
    }
    spares = "its memory was taken out of use: running work may finish before the reset"
    handled = any(mate.code in REMAPS and _spans(mate, record.last_seen) for mate in mates)
    return Meaning(
        "gpu",
        "gpu-reset",
        spares=spares if handled else "",
        adds=f"the error was {' and '.join(sorted(places))}" if places else "",
    )


def _spans(record: XidRecord, moment: datetime) -> bool:
    return record.first_seen - NEAR <= moment <= record.last_seen + NEAR


def _repeated(asked: Asked) -> Meaning | None:
    gpu, record = asked.gpu, asked.record
    begun = gpu.epoch_started
    here = begun is None or record.first_seen >= begun  # else part of the count is of before
    many = record.count >= TIMEOUTS or record.rate_limited
    if not _cannot_be_asked(gpu) or (many and here):
        return Meaning("gpu", "gpu-reset")
    return Meaning("gpu", "gpu-reset", spares=f"fewer than {TIMEOUTS} timeouts may pass")


def _peers(asked: Asked) -> Meaning | None:
    moment = asked.record.last_seen
    if links.peer_lost_near(asked.gpu, asked.around, moment):
        return None
    return Meaning("fabric", "gpu-reset", adds=links.switches_in_words(asked.around, moment))


def _decoded(asked: Asked) -> Meaning | None:
    words = links.decoded(asked.record, asked.around)
    if words is None:
        return Meaning("fabric", "gpu-reset", spares="its hex words say nothing that is known")
    if words.peer_caused or words.action != "RESET_GPU":
        return None
    return Meaning("fabric", "gpu-reset", adds=f"{words.unit}: {words.severity}, {words.action}")


_RULES: dict[RuleName, Callable[[Asked], Meaning | None]] = {
    "stands": _stands,
    "never": _never,
    "flags": _flags,
    "remapped": _remapped,
    "repeated": _repeated,
    "named": _never,
    "peers": _peers,
    "decoded": _decoded,
}
"""`named` is read by `_named`: such a record is no fault, what it names may be one."""
