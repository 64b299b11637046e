"""What is known of GPUs after a reading: those that NVML lists, does not list, or that are none.

Each changes the entries by UUID that it is given. Pure: time comes in.
"""

from collections import Counter
from datetime import timedelta

from exporter.agent.report import gpu_state, naming, xid_counts
from exporter.agent.report.inventory import Bus, Published, unidentified
from exporter.agent.report.naming import Gpus
from exporter.model.readings import Observation

MAX_GONE = 64
"""GPUs kept that NVML does not list any more; a node has few, unless a board's UUID changes."""


def take_in(  # noqa: PLR0917 - what is there, what should be, and when
    gpus: Gpus,
    seen: Observation,
    reason: str,
    published: Published | None,
    bus: Bus,
    lost_after: timedelta,
    *,
    unread_after: timedelta,
    reloaded: bool,
) -> int:
    """Take in what NVML reads of each GPU, or that it no longer lists it.

    `reason` is why NVML answers nothing; `reloaded`: another driver answers than the one before.
    Returns how many XID records went, with the GPUs that were gone first when there are too many.
    """
    if seen.nvml is None:
        hung = seen.hang.uuid if seen.hang else None
        for uuid, gpu in gpus.items():
            why = gpu_state.HUNG if uuid == hung else f"Nvml{reason}"
            gpus[uuid] = gpu_state.unread(gpu, why, seen.at)
        return 0
    nvml = seen.nvml
    if reloaded:
        for uuid, gpu in gpus.items():
            gpus[uuid] = gpu_state.other_driver(gpu, seen.at)
    # Of two GPUs under one UUID it is unknown which is which.
    bearers = Counter(reading.uuid for reading in nvml.gpus)
    for reading in nvml.gpus:
        if bearers[reading.uuid] > 1:
            known = gpus.get(reading.uuid) or gpu_state.blank(reading.uuid, nvml.at)
            gpus[reading.uuid] = gpu_state.ambiguous(known, nvml.at)
        else:
            naming.unname(gpus, reading.bus_id, reading.uuid)
            naming.rename(gpus, reading.bus_id, reading.uuid)
            old = gpus.get(reading.uuid) or gpu_state.blank(reading.uuid, nvml.at)
            gpus[reading.uuid] = xid_counts.completed(
                gpu_state.read(old, reading, nvml.at, unread_after=unread_after),
                nvml.at,
                xid_counts.Layout.of(old),
            )
            # Once more, as the name may have been ambiguous up to now.
            naming.rename(gpus, reading.bus_id, reading.uuid)
    # A reading that is sent again does not lengthen an absence: a GPU is missing as of the time of
    # the reading. That time may be from before the clock was set back.
    missed_at = min(seen.at, nvml.at)
    missing, all_identified = gpus.keys() - bearers.keys(), not unidentified(seen)
    for uuid in missing:
        gpus[uuid] = gpu_state.absent(
            gpus[uuid],
            seen.at,
            missed_at=missed_at,
            published=None if published is None else uuid in published.uuids,
            place=bus.place_of(gpus[uuid]),
            all_identified=all_identified,
            lost_after=lost_after,
        )
    gone = sorted(missing, key=lambda uuid: (gpus[uuid].presence_since, uuid))
    dropped = [gpus.pop(uuid) for uuid in gone[:-MAX_GONE]]
    return sum(len(gpu.xids) + gpu.xids_dropped for gpu in dropped)


def forget_phantoms(gpus: Gpus, bus: Bus) -> int:
    """Drop GPUs of which only syslog(2) reported and that the kernel does not list.

    A program can write such lines. Returns how many XID records went.
    """
    named_by_log = (gpu for gpu in gpus.values() if gpu.presence_reason == gpu_state.NEVER_LISTED)
    phantoms = [
        gpu.uuid
        for gpu in named_by_log
        if bus.present is not None
        and gpu.pci_bus_id not in bus.present
        and all(record.sources == ("syslog",) for record in gpu.xids)
    ]
    return sum(len(gpu.xids) + gpu.xids_dropped for gpu in map(gpus.pop, phantoms))
