"""A snapshot laid out for rendering: each GPU and slice beside its labels. Pure."""

from collections.abc import Iterator

import msgspec

from exporter import labels
from exporter.claims import Holder, Holders
from exporter.readings import GpuReading, MigReading
from exporter.report import GpuHealth, MigInstance, XidRecord
from exporter.snapshot import Snapshot


class GpuRow(msgspec.Struct, frozen=True):
    """A GPU that was read. `identity` ends with the Hostname, `holder` has the pod's labels."""

    reading: GpuReading
    identity: str
    holder: str
    xids: tuple[XidRecord, ...]

    @property
    def labels(self) -> str:
        return labels.joined(self.identity, self.holder)


class SliceRow(msgspec.Struct, frozen=True):
    """A MIG slice that was read."""

    reading: MigReading
    identity: str
    holder: str
    xids: tuple[XidRecord, ...]

    @property
    def labels(self) -> str:
        return labels.joined(self.identity, self.holder)


class KnownRow(msgspec.Struct, frozen=True):
    """A GPU of the report, read now or not; its labels outlive the GPU."""

    gpu: GpuHealth
    labels: str


class AllocationRow(msgspec.Struct, frozen=True):
    labels: str


class View(msgspec.Struct, frozen=True):
    snapshot: Snapshot
    gpus: tuple[GpuRow, ...]
    slices: tuple[SliceRow, ...]
    known: tuple[KnownRow, ...]
    allocations: tuple[AllocationRow, ...]


def view(snapshot: Snapshot) -> View:
    """Lay a snapshot out."""
    xids = {gpu.uuid: gpu.xids for gpu in snapshot.report.gpus}
    readings = snapshot.nvml.gpus if snapshot.nvml else ()
    readable = [one for one in readings if not (one.lost or one.hung_call)]
    return View(
        snapshot=snapshot,
        gpus=tuple(_gpu_row(snapshot, one, xids.get(one.uuid, ())) for one in readable),
        slices=tuple(
            _slice_row(snapshot, one, part, xids.get(one.uuid, ()))
            for one in readable
            for part in one.instances or ()
        ),
        known=tuple(KnownRow(gpu, _known(snapshot, gpu)) for gpu in snapshot.report.gpus),
        allocations=tuple(_allocations(snapshot)),
    )


def _gpu_row(snapshot: Snapshot, reading: GpuReading, xids: tuple[XidRecord, ...]) -> GpuRow:
    own = tuple(one for one in xids if one.gi is None) if reading.instances else xids
    return GpuRow(reading, _identity(snapshot, reading), _held(snapshot.holders, reading.uuid), own)


def _slice_row(
    snapshot: Snapshot, reading: GpuReading, part: MigReading, xids: tuple[XidRecord, ...]
) -> SliceRow:
    return SliceRow(
        part,
        _identity(snapshot, reading, part),
        _held(snapshot.holders, part.uuid),
        tuple(one for one in xids if one.gi == part.gi and one.ci in (None, part.ci)),
    )


def _identity(snapshot: Snapshot, reading: GpuReading, part: MigReading | None = None) -> str:
    return labels.text(
        (
            ("gpu", str(reading.index)),
            ("UUID", reading.uuid),
            ("pci_bus_id", labels.nvml_bus_id(reading.bus_id)),
            ("device", f"nvidia{reading.index}"),
            ("modelName", reading.product),
            ("GPU_I_PROFILE", part.profile if part else ""),
            ("GPU_I_ID", str(part.gi) if part else ""),
            ("Hostname", snapshot.node),
        )
    )


def _held(holders: Holders, uuid: str) -> str:
    return labels.text(labels.agreed(holders.by_uuid.get(uuid, ())).items())


def _known(snapshot: Snapshot, gpu: GpuHealth) -> str:
    return labels.text(
        (
            ("UUID", gpu.uuid),
            ("pci_bus_id", labels.nvml_bus_id(gpu.pci_bus_id)),
            ("modelName", gpu.product),
            ("Hostname", snapshot.node),
        )
    )


def _allocations(snapshot: Snapshot) -> Iterator[AllocationRow]:
    gpus = {gpu.uuid: gpu for gpu in snapshot.report.gpus}
    parts = {part.uuid: (gpu, part) for gpu in gpus.values() for part in gpu.instances}
    for uuid, holders in snapshot.holders.by_uuid.items():
        gpu, part = parts.get(uuid, (gpus.get(uuid), None))
        for holder in holders:
            yield AllocationRow(_allocation(snapshot, uuid, gpu, part, holder))


def _allocation(
    snapshot: Snapshot,
    uuid: str,
    gpu: GpuHealth | None,
    part: MigInstance | None,
    holder: Holder,
) -> str:
    return labels.text(
        (
            ("UUID", gpu.uuid if gpu else uuid),
            ("pci_bus_id", labels.nvml_bus_id(gpu.pci_bus_id) if gpu else ""),
            ("modelName", gpu.product if gpu else ""),
            ("GPU_I_PROFILE", part.profile if part else ""),
            ("GPU_I_ID", str(part.gi) if part else ""),
            ("dra_mig_device_uuid", uuid if uuid.startswith("MIG-") else ""),
            ("Hostname", snapshot.node),
            *labels.holder_pairs(holder).items(),
            ("share_id", holder.dra.share_id if holder.dra else ""),
            ("resource", holder.resource),
        )
    )
