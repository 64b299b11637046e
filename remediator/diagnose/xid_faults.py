"""XID records of one GPU into faults, each by its row of the table (`xid_table`).

A record proves that something happened; other sources show whether it is over
(`readings.ended_since`). A fault is certain, complete enough to evict pods, when its MIG instance
is named, the GPU is gone, or a recovery action after the XID requests more than keeping new work
away; and when a second source confirms the kernel log, one that the row counts. Pure.
"""

from collections.abc import Callable, Iterator
from datetime import datetime

import msgspec

from exporter.model import xid
from exporter.model.device import Instance
from exporter.model.node_health import GpuHealth, XidRecord
from exporter.model.node_health_words import UNKNOWN
from remediator.diagnose import links, readings
from remediator.diagnose.fault import (
    ALONE,
    NEAR,
    SEVERITY,
    Fault,
    FaultClass,
    Need,
    Record,
    Source,
    Surroundings,
    Unprovable,
    near,
)
from remediator.diagnose.readings import (
    HUNG,
    NOT_LISTED,
    UNPUBLISHED_LATER,
    ended_since,
    off_bus,
    requested_action,
    unread_for_long,
)
from remediator.diagnose.xid_table import RuleName, XidRule, rule_of

TIMEOUTS = 3
"""XIDs 119 after which the open kernel modules mark a GPU for reset, by default."""
REMAPS = frozenset({63, 64})
PLACES = {171: "in DRAM", 172: "in SRAM"}
"""XIDs that only detail a 48."""

_SILENT_WHEN_OVER = frozenset[FaultClass]({"fabric", "pending"})
"""Classes of which nothing is left to watch once the driver requests nothing."""
_WHOLE_GPU = frozenset[FaultClass](SEVERITY[SEVERITY.index("gpu") :])


class XidContext(msgspec.Struct, frozen=True):
    """One record to be read, with all that its rule may look at."""

    gpu: GpuHealth
    around: Surroundings
    record: XidRecord
    row: XidRule
    named_by: int | None = None
    """The XID whose line named this one, when it was not seen itself."""


class Meaning(msgspec.Struct, frozen=True):
    """The meaning of a record while it is not over."""

    fault_class: FaultClass
    needs: Need
    spares: str = ""
    """Why running work is left alone, "" when it need not be."""
    adds: str = ""
    """More evidence."""


_UNPROVABLE: frozenset[FaultClass] = frozenset(SEVERITY[SEVERITY.index("fabric") :])
"""Classes for which a user must look when no source can confirm the kernel log."""


def faults(gpu: GpuHealth, around: Surroundings) -> tuple[Fault, ...]:
    """Return the faults that the XIDs of a GPU are, in the order of their codes."""
    signals = [XidContext(gpu, around, record, rule_of(record.code)) for record in gpu.xids]
    signals += _faults_named_by(gpu, around)
    pairs = [(known, fault) for known in sorted(signals, key=_order) if (fault := _fault(known))]
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


def _is_unread(record: XidRecord, gpu: GpuHealth) -> bool:
    """Whether no reading since an error shows which instance had it: ids are used again."""
    read_at = gpu.recovery_action.observed_at
    older = read_at is not None and read_at < record.last_seen
    return older and record.gi is not None and record.placement is None


def _awaits_reading(signal: XidContext) -> bool:
    """Whether NVML, which is read at once after an error, is about to show whose it was."""
    reported_at, record = signal.around.reported_at, signal.record
    soon = reported_at is not None and reported_at - record.last_seen < NEAR
    alive = signal.around.up("nvml") is True and signal.gpu.presence == "Present"
    return soon and alive and _is_unread(record, signal.gpu)


def _order(signal: XidContext) -> tuple[object, ...]:
    record = signal.record
    gi, ci = (-1 if number is None else number for number in (record.gi, record.ci))
    place = (record.placement.start, record.placement.size) if record.placement else (-1, -1)
    return record.code, gi, ci, place, record.last_seen


def _faults_named_by(gpu: GpuHealth, around: Surroundings) -> Iterator[XidContext]:
    """Return, as records, XIDs that others name as their cause and that no source reported.

    Drivers name causes from 570.123.01 on, and report a recovery action from 565 on. So the driver
    itself says whether what it named is over, and no user has to.
    """
    seen = {(entry.code, entry.epoch) for entry in gpu.xids}
    for reported in gpu.xids:
        cause = reported.caused_by
        if (
            cause is None
            or rule_of(reported.code).rule != "named"
            # A cause with a record of its own would count twice.
            or (cause, reported.epoch) in seen
        ):
            continue
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
        yield XidContext(gpu, around, record, rule_of(cause), named_by=reported.code)


def _is_tail(signal: XidContext, pairs: list[tuple[XidContext, Fault]]) -> bool:
    """Whether a timeout only follows from a fault of the whole GPU that stood before it."""
    return signal.row.rule == "repeated" and any(
        fault.ended is None
        and fault.fault_class in _WHOLE_GPU
        and other.row.rule != "repeated"
        and other.record.epoch == signal.record.epoch
        and other.record.first_seen <= signal.record.first_seen
        for other, fault in pairs
    )


def contained_errors(gpu: GpuHealth, around: Surroundings) -> Iterator[datetime]:
    """Return when contained errors happened that left nothing to watch.

    They are no fault, but a soak begins anew with each.
    """
    for record in gpu.xids:
        signal = XidContext(gpu, around, record, rule_of(record.code))
        meant = _RULES[signal.row.rule](signal)
        if meant and meant.fault_class == "contained" and _leaves_nothing(signal, "contained"):
            yield record.last_seen


def _fault(signal: XidContext) -> Fault | None:
    meant = _RULES[signal.row.rule](signal)
    if meant is None:
        return None
    record = signal.record
    ended = _end_of(signal, meant.fault_class)
    # A line that requests nothing needs no reading that says so as well: an incident would come and
    # go with each error that is reported before NVML is read.
    quiet = meant.fault_class == "contained" and record.reset_request == "NotRequested"
    if (ended or quiet) and _leaves_nothing(signal, meant.fault_class):
        return None
    if meant.fault_class == "contained" and _awaits_reading(signal):
        return None  # until then it may be of any slice
    # Any error of a channel may carry an instance. Only a contained one stays in it.
    known = meant.fault_class == "contained" and not _is_unread(record, signal.gpu)
    placed = instance_of(record, signal.gpu) if known else None
    second: list[Source] = [source for source in signal.row.second if _SECOND[source](signal)]
    unprovable = None
    if not second and ended is None and meant.fault_class in _UNPROVABLE:
        unprovable = _no_second_source(signal)
    doubt = _doubt(signal, meant, placed, ended)
    if not second:
        doubt = f"{ALONE}, and NVML cannot bear it out" if unprovable else doubt or ALONE
    return Fault(
        fault_class=meant.fault_class,
        cause=f"xid-{record.code}",
        xid=record.code,
        needs="human" if unprovable else meant.needs,
        last_seen=record.last_seen,
        evidence=_sentence(signal, meant),
        instance=placed,
        placement=record.placement if placed else None,
        gi_profile_id=record.gi_profile_id if placed else None,
        ended=ended,
        certain=not doubt,
        doubt=doubt,
        sources=(*logs(record.sources), *second),
        unprovable=unprovable,
        record=_count_of(signal),
    )


def _no_second_source(signal: XidContext) -> Unprovable | None:
    """Return why no second source can be read; elsewhere one may still come."""
    if signal.gpu.recovery_action.supported is False:
        return "DriverTooOld"
    return "NvmlUnavailable" if signal.around.up("nvml") is False else None


def _count_of(signal: XidContext) -> Record | None:
    """Return how far the report has counted, None for an XID that another one only named."""
    return None if signal.named_by is not None else Record.of(signal.record)


def logs(sources: tuple[str, ...]) -> tuple[Source, ...]:
    """Return how a record was read from the kernel log; one without sources counts as read there.

    What NVML or DCGM reported without a line of the log is not of the log.
    """
    found: list[Source] = ["Kmsg"] if "kmsg" in sources or not sources else []
    return (*found, "Syslog") if "syslog" in sources else tuple(found)


def _head(signal: XidContext) -> datetime:
    """Return from when on an answer counts.

    One GSP timeout makes a long tail; an answer to its head is an answer to all of it.
    """
    record = signal.record
    return record.first_seen if signal.row.rule == "repeated" else record.last_seen


def _event(signal: XidContext, source: str) -> bool:
    """An event of the same code; that of an XID which names another counts for itself only.

    An old event proves nothing about a line of now. Older agents report no time.
    """
    record = signal.record
    recent = record.event_at is None or record.event_at >= _head(signal) - NEAR
    return signal.named_by is None and source in record.sources and recent


def _action_read(signal: XidContext) -> bool:
    action = signal.gpu.recovery_action
    read = action.observed_at
    return bool(action.value) and read is not None and read > _head(signal)


def _hung(signal: XidContext) -> bool:
    gpu = signal.gpu
    # Without NEAR: a call that hung before the line may have hung for another reason.
    return gpu.presence_reason == HUNG and gpu.presence_since >= _head(signal)


def _lost(signal: XidContext) -> bool:
    gpu = signal.gpu
    if gpu.presence_reason == UNPUBLISHED_LATER:
        # Where the line came long after it, the GPU may have been given away before.
        return gpu.presence_since >= signal.record.first_seen - NEAR
    return gpu.presence == "Lost" or gpu.presence_reason == NOT_LISTED


def _counters_rose(signal: XidContext) -> bool:
    rose = signal.gpu.memory.rose_at
    return rose is not None and rose >= _head(signal) - NEAR


_SECOND: dict[Source, Callable[[XidContext], bool]] = {
    "NvmlEvent": lambda signal: _event(signal, "nvml"),
    "Dcgm": lambda signal: _event(signal, "dcgm"),
    "RecoveryAction": _action_read,
    "GpuLost": _lost,
    "HungCall": _hung,
    "OffBus": lambda signal: off_bus(signal.gpu),
    "MemoryCounters": _counters_rose,
    "NvLink": lambda signal: links.links_failed(signal.gpu),
    "Fabric": lambda signal: links.fabric_fails(signal.gpu),
}
"""Whether a source confirms a record now; the column `second` lists those that count."""


def _end_of(signal: XidContext, fault_class: FaultClass) -> datetime | None:
    gpu, record = signal.gpu, signal.record
    confirmed = signal.around.confirmed(record.last_seen, _count_of(signal))
    # First: neither a reset nor a recovery action of 0 repairs a row that could not be remapped.
    # Where NVML does not read whether it could, such as under MIG, a user's word is all there is.
    if fault_class == "memory" and not readings.remaps_read_well(gpu, record.last_seen):
        return None if gpu.memory.remap_failure else confirmed
    if fault_class == "contained" and _has_no_recovery_action(gpu):
        return record.last_seen  # the catalogue requests only a restart of the program
    ended = ended_since(gpu, record.last_seen, record.epoch)
    reads = gpu.recovery_action.supported and not unread_for_long(gpu, signal.around.reported_at)
    says_itself = reads or requested_action(gpu) is not None
    if ended is not None or gpu.presence == "Lost" or says_itself:
        return ended
    # Another driver reports a reset by nothing. Where it is not known which, no GPU is healthy.
    return confirmed


def _has_no_recovery_action(gpu: GpuHealth) -> bool:
    return gpu.recovery_action.supported is False and requested_action(gpu) is None


def _leaves_nothing(signal: XidContext, fault_class: FaultClass) -> bool:
    """A contained error without MIG has no slice to watch: its process is gone."""
    without_mig = mig_of(signal.record, signal.gpu) is False
    return fault_class in _SILENT_WHEN_OVER or (fault_class == "contained" and without_mig)


def _doubt(
    signal: XidContext, meant: Meaning, instance: Instance | None, ended: datetime | None
) -> str:
    """Return what the evidence lacks to move pods, "" when it suffices."""
    if meant.fault_class == "contained":
        if mig_of(signal.record, signal.gpu) is False:
            return "without MIG, only the program that read the memory is affected"
        named = f"no source of XID {signal.record.code} has named the MIG instance"
        return "" if instance else named
    if ended is not None:
        return "it is over: by a reset, by the driver's word, or by that of a user"
    # Nothing on a GPU that is gone can finish.
    if meant.fault_class == "lost" and signal.gpu.presence != "Present":
        return ""
    return meant.spares or _doubt_by_action(signal)


def _doubt_by_action(signal: XidContext) -> str:
    gpu, record = signal.gpu, signal.record
    if _has_no_recovery_action(gpu):
        # Without a recovery action no reading shows whether a reset has ended it since.
        seen_here = record.last_seen >= gpu.presence_since
        return "" if seen_here else "it happened before the agent saw this GPU"
    action = requested_action(gpu)
    if action is None or not action.after(_head(signal)):
        return f"the recovery action has not been read since XID {record.code}"
    return f"{action.in_words()} lets running work finish" if action.level.spares else ""


def _sentence(signal: XidContext, meant: Meaning) -> str:
    record = signal.record
    where = "" if record.gi is None else f" on GPU instance {record.gi}"
    seen_by = " and ".join(record.sources) or "an unnamed source"
    seen = f"seen by {seen_by}"
    if signal.named_by is not None:
        seen = f"named by XID {signal.named_by} that was {seen}"
    sentence = f"XID {record.code} ({xid.lookup(record.code).description}){where}, {seen}"
    return f"{sentence}; {meant.adds}" if meant.adds else sentence


def _stands(signal: XidContext) -> Meaning | None:
    row = signal.row
    return Meaning(row.fault, row.needs) if row.fault else None


def _never(signal: XidContext) -> Meaning | None:
    del signal


def _flags(signal: XidContext) -> Meaning | None:
    # The flags of the line and not its number: on Blackwell a contained error of PMU, SEC2 or GSP
    # requires a reset of the GPU.
    if signal.record.reset_request == "Immediate":
        return Meaning("gpu", "gpu-reset", adds="its line says that a reset is required")
    if signal.record.reset_request == "AfterDrain":
        why = "its line says that running work may finish before the reset"
        return Meaning("gpu", "gpu-reset", spares=why)
    return _stands(signal)


def _meaning_of_remap(signal: XidContext) -> Meaning | None:
    record = signal.record
    mates = [mate for mate in signal.gpu.xids if mate.epoch == record.epoch]
    places = {
        PLACES[mate.code]
        for mate in mates
        if mate.code in PLACES and near(mate.last_seen, record.last_seen)
    }
    spares = "its memory was taken out of use: running work may finish before the reset"
    # NVIDIA's catalogue: a 48 alone requires a reset, with a 63 or 64 a drain first.
    handled = any(
        # A record keeps the first and the last time of its code: the remap may be any in between.
        mate.code in REMAPS and mate.first_seen - NEAR <= record.last_seen <= mate.last_seen + NEAR
        for mate in mates
    )
    return Meaning(
        "gpu",
        "gpu-reset",
        spares=spares if handled else "",
        adds=f"the error was {' and '.join(sorted(places))}" if places else "",
    )


def _meaning_of_timeouts(signal: XidContext) -> Meaning | None:
    gpu, record = signal.gpu, signal.record
    begun = gpu.epoch_started
    here = begun is None or record.first_seen >= begun  # else part of the count is of before
    # Beyond its limit the driver prints one line of 30, so the count may be short.
    many = record.count >= TIMEOUTS or record.rate_limited
    # Where there is a recovery action, the driver itself says whether it has marked the GPU.
    if not _has_no_recovery_action(gpu) or (many and here):
        return Meaning("gpu", "gpu-reset")
    return Meaning("gpu", "gpu-reset", spares=f"fewer than {TIMEOUTS} timeouts may pass")


def _peers(signal: XidContext) -> Meaning | None:
    moment = signal.record.last_seen
    if links.peer_lost_near(signal.gpu, signal.around, moment):
        return None
    return Meaning("fabric", "gpu-reset", adds=links.switches_in_words(signal.around, moment))


def _meaning_of_words(signal: XidContext) -> Meaning | None:
    words = links.decode_last_line(signal.record, signal.around)
    if words is None:
        return Meaning("fabric", "gpu-reset", spares="its hex words say nothing that is known")
    # XID_154_EVAL leaves it to the recovery action, which is a fault of its own.
    if words.peer_caused or words.action != "RESET_GPU":
        return None
    return Meaning("fabric", "gpu-reset", adds=f"{words.unit}: {words.severity}, {words.action}")


_RULES: dict[RuleName, Callable[[XidContext], Meaning | None]] = {
    "stands": _stands,
    "never": _never,
    "flags": _flags,
    "remapped": _meaning_of_remap,
    "repeated": _meaning_of_timeouts,
    "named": _never,
    "peers": _peers,
    "decoded": _meaning_of_words,
}
"""`named` is read by `_faults_named_by`: such a record is no fault, what it names may be one."""
