"""How the end of a fault is seen that no recovery action covers: by a reading, or by a reset.

A report without such a fault proves nothing: the link may not have come up since the boot, the
fabric manager may hang, the agent may have lost the record of an error, NVML hides remaps under
MIG. So an incident records by a word which ends it awaits, of all its faults and not only of the
one that leads it. A state needs a reading of its own; what was logged once, of a switch or under a
driver before R565, needs a reset after it. A reading that is missing is Unknown. Pure.
"""

from collections.abc import Iterable, Iterator

from exporter.model.node_health import GpuHealth
from remediator.diagnose import readings
from remediator.diagnose.fault import OVER_AT_ONCE, Fault, FaultClass
from remediator.diagnose.links import COMPLETED

HEALTHY = (1, 3)
"""FabricHealth.health_summary: healthy, and limited capacity, which is no fault."""
_LINK, _SWITCH, _REMAPS = "nvlink-", "sxid-", "row-remaps"
_LINKS_FAILED = "nvlink-failed"
"""The cause of a fault that awaits links."""
_ALL_LINKS = "nvlink-all"
"""Of a record that is lost."""
_SIGNALS = ("xid-", "recovery-action-")
"""How the names of other causes begin that a report has once and does not read again."""


def awaited_ends(gpu: GpuHealth, faults: Iterable[Fault]) -> Iterator[str]:
    """Yield for each fault that stands what must be seen before it is over."""
    for fault in faults:
        # A driver without a recovery action says nothing of it; one that has it answers for it.
        if fault.ended is None and gpu.recovery_action.supported is not True:
            yield from _reset_after(fault.fault_class, fault.cause)
        # What any program of the node may have made up is over without proof, too.
        if fault.forgeable:
            continue
        if fault.cause == _LINKS_FAILED:
            yield from (f"{_LINK}{number}" for number in gpu.nvlink.failed)
        else:
            yield from _ends_by_name(fault.fault_class, fault.cause)


def _ends_by_name(fault_class: str, cause: str) -> Iterator[str]:
    """Yield what must be read before a fault is over of which no more is known than its names."""
    if cause in _STATES or cause.startswith(_SWITCH):
        yield cause
    # Whichever source reported it. What waits for a reset is of another class, and not awaited.
    if fault_class == "memory":
        yield _REMAPS


def ends_at_worst(fault_class: str, cause: str) -> Iterator[str]:
    """Yield the same where no record says more, such as which links had failed."""
    if cause == _LINKS_FAILED:
        yield _ALL_LINKS
    yield from _reset_after(fault_class, cause)
    yield from _ends_by_name(fault_class, cause)


def _reset_after(fault_class: str, cause: str) -> Iterator[str]:
    if cause.startswith(_SIGNALS) and fault_class not in OVER_AT_ONCE:
        yield cause


def fault_of(awaited: str) -> tuple[FaultClass | None, str]:
    """Return class and cause of the fault of which an end is awaited; None: it may be any class.

    What is known of a fault by these alone awaits that end again (`ends_at_worst`).
    """
    if awaited in {"sram-threshold", _REMAPS}:
        return "memory", awaited
    if awaited.startswith(_LINK):
        return "fabric", _LINKS_FAILED
    return ("fabric" if awaited in _STATES or awaited.startswith(_SWITCH) else None), awaited


def left_after_reset(awaited: Iterable[str]) -> tuple[str, ...]:
    """Return those ends that a reset does not show."""
    return tuple(end for end in awaited if not end.startswith((_SWITCH, *_SIGNALS)))


def not_seen(gpu: GpuHealth, awaited: Iterable[str]) -> tuple[str, ...]:
    """Return those ends that a report does not show; that of a switch, none does."""
    return tuple(end for end in awaited if why_not_ended(gpu, end, reset=False))


def why_not_ended(gpu: GpuHealth, awaited: str, *, reset: bool) -> str:
    """Return why an end that is awaited has not been seen, "" when it has.

    `reset`: the GPU was reset, or its node rebooted, since the last signal.
    """
    if awaited == _ALL_LINKS:
        down = ", ".join(map(str, gpu.nvlink.down))
        whole = bool(gpu.nvlink.up) and not down
        return "" if whole else f"not every NVLink is up, and which had failed is lost: {down}"
    if awaited.startswith(_LINK):
        up = awaited in {f"{_LINK}{number}" for number in gpu.nvlink.up}
        return "" if up else f"NVLink {awaited.removeprefix(_LINK)} has not come up again"
    if awaited.startswith(_SWITCH):
        return "" if reset else f"no reset has been seen since SXid {awaited.removeprefix(_SWITCH)}"
    if awaited.startswith(_SIGNALS):
        silent = gpu.recovery_action.supported is False and not reset
        return (
            f"no new epoch since {awaited}, and the driver has no recovery action" if silent else ""
        )
    if awaited == _REMAPS:
        failed = "a row remap has failed" if gpu.memory.remap_failure else ""
        return failed or readings.remaps_unread(gpu)
    match awaited:
        case "sram-threshold":
            good = gpu.memory.sram_threshold is False
        case "fabric-status":
            good = gpu.fabric.state == COMPLETED and gpu.fabric.status == 0
        case "fabric-unhealthy":
            good = gpu.fabric.health_summary in HEALTHY
        case _:  # of a version that knows more
            good = False
    return "" if good else _STATES.get(awaited, f"the end of {awaited} has not been seen")


_STATES = {
    "sram-threshold": "whether the SRAM threshold is exceeded could not be read",
    "fabric-status": "a completed registration with the fabric has not been read",
    "fabric-unhealthy": "that the GPU's part of the fabric is healthy has not been read",
}
"""By cause: what is missing of its end."""
