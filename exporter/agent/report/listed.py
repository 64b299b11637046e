"""GPUs that NVML lists, GPUs that it does not, and GPUs that are none.

Each changes the entries by UUID that it is given. Pure: time comes in.
"""

from collections import Counter
from datetime import timedelta

from exporter.agent.report import naming, presence, xid_counts
from exporter.agent.report.inventory import Bus, Published
from exporter.agent.report.naming import Gpus
from exporter.model.readings import NvmlReading, Observation


def read_all(gpus: Gpus, nvml: NvmlReading) -> None:
    """Take in what NVML reads of each GPU that it lists; of two under one UUID nothing."""
    bearers = Counter(reading.uuid for reading in nvml.gpus)
    for reading in nvml.gpus:
        if bearers[reading.uuid] > 1:
            known = gpus.get(reading.uuid) or presence.blank(reading.uuid, nvml.at)
            gpus[reading.uuid] = presence.ambiguous(known, nvml.at)
        else:
            naming.rename(gpus, reading.bus_id, reading.uuid)
            old = gpus.get(reading.uuid) or presence.blank(reading.uuid, nvml.at)
            gpus[reading.uuid] = xid_counts.completed(presence.read(old, reading, nvml.at), nvml.at)
            # Once more, as the name may have been ambiguous up to now.
            naming.rename(gpus, reading.bus_id, reading.uuid)


def miss(  # noqa: PLR0917 - what is there, what should be, and when
    gpus: Gpus,
    listed: set[str],
    seen: Observation,
    published: Published | None,
    bus: Bus,
    lost_after: timedelta,
) -> None:
    """Note the absence of the GPUs that NVML does not list."""
    # A reading that is sent again does not lengthen an absence: a GPU is missing as of the time of
    # the reading. That time may be from before the clock was set back.
    missed_at = min(seen.at, seen.nvml.at) if seen.nvml else seen.at
    for uuid, gpu in gpus.items():
        if uuid not in listed:
            gpus[uuid] = presence.absent(
                gpu,
                seen.at,
                missed_at=missed_at,
                published=None if published is None else uuid in published.uuids,
                place=bus.place_of(gpu),
                lost_after=lost_after,
            )


def forget_phantoms(gpus: Gpus, bus: Bus) -> int:
    """Drop GPUs of which only syslog(2) reported and that the kernel does not list.

    A program can write such lines. Returns how many XID records went.
    """
    named_by_log = (gpu for gpu in gpus.values() if gpu.presence_reason == presence.NEVER_LISTED)
    phantoms = [
        gpu.uuid
        for gpu in named_by_log
        if bus.present is not None
        and gpu.pci_bus_id not in bus.present
        and all(record.sources == ("syslog",) for record in gpu.xids)
    ]
    return sum(len(gpu.xids) + gpu.xids_dropped for gpu in map(gpus.pop, phantoms))
