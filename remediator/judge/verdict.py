"""What is true of one GPU: Sick(faults), Healthy(evidence) or Unknown(why).

The rules, in the order of the design's safety argument:

- The recovery action is the best witness. Read after an XID, it says whether
  the fault stands; 0 ends it. Where the driver has no such field, the catalogue
  decides, and only a new epoch (reset, reboot, driver load) ends a fault.
- Application XIDs, information and unknown codes are never a fault. They are
  counted elsewhere.
- A contained error is over as soon as it is written: its process is dead. Its
  slice is emptied and watched all the same; that is `episode`.
- A fault is `certain` when the evidence is complete enough to move pods: the
  MIG instance is named, the GPU is gone, or the recovery action after the XID
  asks for more than keeping new work away.
- Health needs a GPU that answers and a recovery action that was read of late.
  Anything short of that, without a fault, is Unknown.

Thresholds of truth live here; what is done about it is `policy`. Pure.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta

from exporter import xid
from exporter.device import Instance
from exporter.report import GpuHealth, XidRecord
from remediator.judge.fault import Fault, FaultClass, Healthy, Sick, Unknown, Verdict

RECOVERY_ACTIONS: dict[int, tuple[FaultClass, str]] = {
    1: ("gpu", "GPU reset"),
    2: ("node", "node reboot"),
    3: ("fabric", "drain P2P"),
    4: ("gpu", "drain and reset"),
    5: ("fabric", "recover IMEX domain"),
    6: ("gpu", "bus reset"),
    7: ("node", "system reboot"),
}
"""NVML field 230 beyond 0. A value that is not here needs a person: keep new work away."""

LEAVES_WORK_ALONE = frozenset({3, 4, 5})
"""Actions under which running work may finish: never a reason to evict."""

_SUSPECT: dict[xid.XidClass, FaultClass] = {
    "contained": "contained",
    "gpu": "gpu",
    "lost": "lost",
    "node": "node",
    "fabric": "fabric",
}


OLD_READING = timedelta(minutes=5)
"""A recovery action read this long before the report was made says nothing of now."""


def verdict(gpu: GpuHealth, reported_at: datetime | None = None, unusable: str = "") -> Verdict:
    """Judge one GPU from its report.

    `reported_at` is the report's own time; `unusable` says why the report cannot
    be believed at all.
    """
    if unusable:
        return Unknown(unusable)
    faults = tuple(_faults(gpu))
    if any(fault.ended is None for fault in faults):
        return Sick(faults)
    gap = _gap(gpu, reported_at)
    if gap:
        return Unknown(gap)
    return Healthy(_healthy_since(gpu, faults), _evidence_of_health(gpu), faults)


def _gap(gpu: GpuHealth, reported_at: datetime | None) -> str:
    """Return what is missing for a statement of health, "" when nothing is."""
    action = gpu.recovery_action
    if gpu.presence != "Present":
        return f"{gpu.uuid} cannot be asked: {gpu.presence_reason or gpu.presence}"
    unread = action.supported is None or (action.supported and action.value is None)
    if unread or action.observed_at is None:
        return f"the recovery action of {gpu.uuid} could not be read"
    if reported_at is not None and reported_at - action.observed_at > OLD_READING:
        return f"the recovery action of {gpu.uuid} was last read long before the report"
    return ""


def _healthy_since(gpu: GpuHealth, faults: tuple[Fault, ...]) -> datetime:
    starts = [gpu.presence_since]
    starts += [fault.ended for fault in faults if fault.ended is not None]
    starts += [since for since in (gpu.recovery_action.since, gpu.epoch_started) if since]
    return max(starts)


def _evidence_of_health(gpu: GpuHealth) -> str:
    if gpu.recovery_action.supported:
        return "answers, and the driver wants no recovery action"
    return "answers, and nothing speaks against it (the driver has no recovery action to ask)"


def _faults(gpu: GpuHealth) -> Iterator[Fault]:
    yield from _recovery_action(gpu)
    if gpu.presence == "Lost":
        yield Fault(
            fault_class="lost",
            cause="gpu-lost",
            last_seen=gpu.presence_since,
            evidence=f"the GPU is lost: {gpu.presence_reason or 'NVML no longer lists it'}",
            certain=True,
        )
    if gpu.memory.remap_failure:
        yield Fault(
            fault_class="memory",
            cause="row-remap-failure",
            last_seen=gpu.presence_since,
            evidence="a memory row could not be remapped; the board needs replacement",
            doubt="running work may go on after a failed row remap",
        )
    for record in gpu.xids:
        yield from _xid(gpu, record)


def _recovery_action(gpu: GpuHealth) -> Iterator[Fault]:
    action = gpu.recovery_action
    if not action.value:
        return
    known = RECOVERY_ACTIONS.get(action.value)
    fault_class, name = known or ("gpu", "an action this version does not know")
    spares_work = known is None or action.value in LEAVES_WORK_ALONE
    yield Fault(
        fault_class=fault_class,
        cause=f"recovery-action-{action.value}",
        last_seen=action.since or gpu.presence_since,
        evidence=f"the driver asks for recovery action {action.value} ({name})",
        certain=not spares_work,
        doubt=f"under recovery action {action.value} ({name}) running work may finish"
        if spares_work
        else "",
    )


def _xid(gpu: GpuHealth, record: XidRecord) -> Iterator[Fault]:
    known = xid.lookup(record.code)
    fault_class = _SUSPECT.get(known.xid_class)
    if fault_class is None:
        return
    if fault_class == "contained" and record.reset:
        fault_class = "gpu"  # a Blackwell 94 can ask for a reset of the whole GPU
    ended = _ended(gpu, record, fault_class)
    if ended and (fault_class == "fabric" or (fault_class == "contained" and gpu.mig is False)):
        return  # the driver wants nothing done and no slice is there to move: the process is gone
    instance = Instance(record.gi, record.ci) if record.gi is not None and gpu.mig else None
    doubt = _doubt(gpu, record, fault_class, instance, ended)
    yield Fault(
        fault_class=fault_class,
        cause=f"xid-{record.code}",
        xid=record.code,
        last_seen=record.last_seen,
        evidence=_sentence(known, record),
        instance=instance if fault_class == "contained" else None,
        ended=ended,
        certain=not doubt,
        doubt=doubt,
    )


def _ended(gpu: GpuHealth, record: XidRecord, fault_class: FaultClass) -> datetime | None:
    """Return since when an XID's fault is over, None while it stands."""
    if gpu.presence != "Present":
        return None
    if record.epoch < gpu.epoch:
        return max(gpu.epoch_started or gpu.presence_since, record.last_seen)
    action = gpu.recovery_action
    if action.value == 0 and _read_after(gpu, record):
        return max(action.since or record.last_seen, record.last_seen, gpu.presence_since)
    if fault_class == "contained" and action.supported is False:
        return record.last_seen  # nobody can be asked, and the catalogue wants only a restart
    return None


def _read_after(gpu: GpuHealth, record: XidRecord) -> bool:
    read = gpu.recovery_action.observed_at
    return read is not None and read > record.last_seen


def _doubt(
    gpu: GpuHealth,
    record: XidRecord,
    fault_class: FaultClass,
    instance: Instance | None,
    ended: datetime | None,
) -> str:
    """Return what the evidence lacks to move pods, "" when it suffices."""
    if fault_class == "contained":
        return "" if instance else f"no witness of XID {record.code} has named the MIG instance"
    if ended is not None:
        return "the driver wants no recovery action any more"
    if fault_class == "lost" and gpu.presence != "Present":
        return ""
    return _doubt_by_action(gpu, record)


def _doubt_by_action(gpu: GpuHealth, record: XidRecord) -> str:
    action = gpu.recovery_action
    if action.supported is False:
        seen_here = record.last_seen >= gpu.presence_since
        return "" if seen_here else "it happened before the agent saw this GPU"
    if not (action.value and _read_after(gpu, record)):
        return f"the recovery action has not been read since XID {record.code}"
    if action.value in LEAVES_WORK_ALONE:
        return f"recovery action {action.value} lets running work finish"
    return ""


def _sentence(known: xid.Xid, record: XidRecord) -> str:
    where = "" if record.gi is None else f" on GPU instance {record.gi}"
    seen_by = " and ".join(record.sources) or "an unnamed source"
    return f"XID {record.code} ({known.description}){where}, seen by {seen_by}"
