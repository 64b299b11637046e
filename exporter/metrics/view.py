"""A snapshot laid out for rendering: every row that its families are made of. Pure."""

import msgspec

from exporter.agent.report.gpu_state import DUPLICATE_UUID
from exporter.metrics import labels
from exporter.metrics.labels import Options
from exporter.metrics.node_rows import NodeRow, node_rows
from exporter.metrics.rows import Layout, Row
from exporter.metrics.snapshot import Snapshot
from exporter.model.node_health import GpuHealth


class KnownRow(msgspec.Struct, frozen=True):
    """A GPU of the report, read now or not; its labels outlive the GPU."""

    gpu: GpuHealth
    labels: str


class Relayed(msgspec.Struct, frozen=True):
    """What DCGM alone tells of: of the DCGM_* families, and of no family of ours."""

    gpus: tuple[Row, ...] = ()
    slices: tuple[Row, ...] = ()
    links: tuple[Row, ...] = ()

    @property
    def devices(self) -> tuple[Row, ...]:
        return self.gpus + self.slices


class View(msgspec.Struct, frozen=True):
    snapshot: Snapshot
    options: Options
    gpus: tuple[Row, ...]
    slices: tuple[Row, ...]
    links: tuple[Row, ...]
    silent: tuple[Row, ...]
    """GPUs that NVML lists, lost or hung: there is nothing to read, and who they are is known."""
    known: tuple[KnownRow, ...]
    relayed: Relayed = Relayed()
    node_rows: tuple[NodeRow, ...] = ()
    """What DCGM tells of no GPU."""

    @property
    def names(self) -> dict[str, str]:
        """Labels of each GPU of the report, by UUID; none of a UUID that two GPUs say."""
        return {
            row.gpu.uuid: row.labels
            for row in self.known
            if row.gpu.presence_reason != DUPLICATE_UUID
        }

    @property
    def devices(self) -> tuple[Row, ...]:
        return self.gpus + self.slices


def view(snapshot: Snapshot) -> View:
    """Lay a snapshot out."""
    options = msgspec.structs.replace(snapshot.shown.options, node=snapshot.node)
    layout = Layout(snapshot, options)
    readings = snapshot.nvml.gpus if snapshot.nvml else ()
    unanswered = [gpu for gpu in readings if gpu.lost or gpu.hung_call]
    laid = [layout.of(gpu) for gpu in readings if not (gpu.lost or gpu.hung_call or gpu.released)]
    return View(
        snapshot=snapshot,
        options=options,
        gpus=tuple(gpu for gpu, _, _ in laid),
        slices=tuple(row for _, slices, _ in laid for row in slices),
        links=tuple(row for _, _, links in laid for row in links),
        silent=tuple(layout.of(gpu)[0] for gpu in unanswered if not gpu.released),
        known=tuple(KnownRow(gpu, known(options, gpu)) for gpu in snapshot.report.gpus),
        relayed=_relayed(snapshot, options),
        node_rows=tuple(node_rows(snapshot, options)),
    )


def _relayed(snapshot: Snapshot, options: Options) -> Relayed:
    if snapshot.relayed is None or snapshot.nvml is not None:
        return Relayed()
    layout = Layout(snapshot, options)
    laid = [layout.of(gpu) for gpu in snapshot.relayed.gpus]
    return Relayed(
        gpus=tuple(gpu for gpu, _, _ in laid),
        slices=tuple(row for _, slices, _ in laid for row in slices),
        links=tuple(row for _, _, links in laid for row in links),
    )


def known(options: Options, gpu: GpuHealth) -> str:
    """Return the labels of a GPU that stay the same when it is gone."""
    return labels.text(
        (
            (options.named("UUID"), gpu.uuid),
            ("pci_bus_id", labels.nvml_bus_id(gpu.pci_bus_id)),
            ("model_name", options.model(gpu.product)),
            options.host,
        )
    )
