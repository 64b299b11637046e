"""Under which UUID news of a GPU is kept.

The kernel log names bus ids. A GPU that nothing has tied to a UUID yet is kept
under its bus id and gets its name, and its records, once NVML, a ResourceSlice
or the log tells it. The same is done while two GPUs bear one UUID: by that name
nothing could be counted right. Pure.
"""

from collections.abc import Mapping

import msgspec

from exporter.agent.report import gpu_state, xid_counts
from exporter.model.node_health import GpuHealth
from exporter.model.signals import Signal
from kubeapi.types import LATEST

UNKNOWN_PREFIX = "unknown-"
"""Begins the `uuid` of a GPU that is known by its bus id alone, which follows."""

MAX_UNKNOWN = 32
"""GPUs kept that only the kernel log knows."""

Gpus = dict[str, GpuHealth]
_AWAY = (
    gpu_state.NOT_IDENTIFIED,
    gpu_state.NOT_LISTED,
    gpu_state.NOT_PUBLISHED,
    gpu_state.NOT_ON_BUS,
    gpu_state.SET_ASIDE,
    gpu_state.UNPUBLISHED_LATER,
)


def uuid_of(gpus: Gpus, signal: Signal) -> str:
    """Return the UUID, or the name by bus id, of the GPU that a signal speaks of."""
    named = gpus.get(signal.uuid)
    on_bus = [
        gpu for gpu in gpus.values() if gpu.pci_bus_id == signal.bus_id and not _ambiguous(gpu)
    ]
    # A board that was taken out has the address in its entry, too.
    there = max(
        on_bus,
        key=lambda gpu: (
            gpu.presence == "Present",
            gpu.presence_reason not in _AWAY,
            gpu.presence_since,
        ),
        default=None,
    )
    by_bus = there.uuid if there else UNKNOWN_PREFIX + signal.bus_id
    if named is not None:
        # By bus as the kernel log is, so that two sources of one error meet.
        return by_bus if _ambiguous(named) and signal.bus_id else named.uuid
    return signal.uuid or by_bus


def admit(gpus: Gpus, uuid: str, signal: Signal) -> bool:
    """Make an entry for a GPU that only the log speaks of; False when there are too many."""
    if uuid in gpus:
        return True
    by_log_only = sum(gpu.presence_reason == gpu_state.NEVER_LISTED for gpu in gpus.values())
    if by_log_only >= MAX_UNKNOWN:
        return False
    gpus[uuid] = GpuHealth(
        uuid=uuid,
        presence="Unknown",
        presence_since=signal.at,
        presence_reason=gpu_state.NEVER_LISTED,
        pci_bus_id=signal.bus_id,
    )
    return True


def rename(gpus: Gpus, bus_id: str, uuid: str) -> None:
    """Give a GPU that was known by its bus id its UUID, and with it its records."""
    unknown = gpus.get(UNKNOWN_PREFIX + bus_id)
    if unknown is None:
        return
    known = gpus.get(uuid)
    if known is not None and _ambiguous(known):
        return
    _move(gpus, unknown, uuid)


def name_by_bus(gpus: Gpus, uuids: Mapping[str, str]) -> None:
    """Name all GPUs known by their bus id whose UUID is in a table by bus id.

    ResourceSlices of before a reboot say where boards were then: they do not name a board that
    this boot has seen at another address.
    """
    for gpu in [gpu for gpu in gpus.values() if gpu.uuid.startswith(UNKNOWN_PREFIX)]:
        known = gpus.get(uuids.get(gpu.pci_bus_id, ""))
        if gpu.pci_bus_id in uuids and (known is None or known.pci_bus_id in ("", gpu.pci_bus_id)):
            rename(gpus, gpu.pci_bus_id, uuids[gpu.pci_bus_id])


def unname(gpus: Gpus, bus_id: str, uuid: str) -> None:
    """Name a GPU by its bus id again that got a UUID which NVML now reads at another address."""
    known = gpus.get(uuid)
    if known is None or not bus_id or known.pci_bus_id in ("", bus_id):
        return
    # One that NVML has listed in this boot was put into another slot.
    if known.product or known.serial or known.minor is not None:
        return
    _move(gpus, known, UNKNOWN_PREFIX + known.pci_bus_id)


def _move(gpus: Gpus, gpu: GpuHealth, uuid: str) -> None:
    """Put a GPU under another name; the one that is there, if any, gets its records."""
    del gpus[gpu.uuid]
    there = gpus.get(uuid)
    if there is None:
        gpus[uuid] = msgspec.structs.replace(gpu, uuid=uuid)
    else:
        dropped = there.xids_dropped + gpu.xids_dropped
        whole = msgspec.structs.replace(there, xids_dropped=dropped)
        # Each name has epochs of its own.
        moved = tuple(
            msgspec.structs.replace(
                record, epoch=gpu_state.epoch_at(there, record.last_seen, LATEST)
            )
            for record in gpu.xids
        )
        gpus[uuid] = xid_counts.with_records(whole, xid_counts.joined(there.xids, moved))


def _ambiguous(gpu: GpuHealth) -> bool:
    return gpu.presence_reason == gpu_state.DUPLICATE_UUID
