"""The rows of one GPU: itself, its MIG slices and its NVLinks, each with labels and values. Pure.

A MIG slice is a row. Where a GPU instance is divided into several compute instances,
the GPU instance is a row beside theirs: memory and all that they share is its, and
the label GPU_CI_ID tells theirs apart.
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from exporter.agent.join.claims import Holder, Holders
from exporter.agent.report.xid_counts import by_instance
from exporter.metrics import labels, values
from exporter.metrics.counters import Counter
from exporter.metrics.labels import Identity, Options
from exporter.metrics.snapshot import Snapshot
from exporter.metrics.values import Key
from exporter.model.node_health import XidRecord
from exporter.model.readings import GpuReading, LinkReading, MigReading, NvmlReading, Values


class Scope(msgspec.Struct, frozen=True):
    """What part of a GPU a row is of."""

    gi: int | None = None
    ci: int | None = None
    divided: bool = False
    """Whether its neighbours have rows of their own: a GPU with slices, a GPU instance with
    compute instances."""

    def has(self, gi: int | None, ci: int | None) -> bool:
        """Return whether an error that names this instance is this row's."""
        if self.gi is None:
            return gi is None or not self.divided
        if gi != self.gi:
            return False
        return ci == self.ci if self.divided else ci in (None, self.ci)


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU, a MIG slice or an NVLink that was read, with what is shown of it."""

    gpu: GpuReading
    part: MigReading | None = None
    link: LinkReading | None = None
    scope: Scope = Scope()
    front: str
    """Labels up to the host name."""
    own: tuple[tuple[str, str], ...] = ()
    """Labels from fields and of pods, sorted."""
    end: str = ""
    """Labels of whom it was given to."""
    labels_left_out: int = 0
    """Of pods, because all do not fit on a page."""
    labels: str
    """All of them."""
    values: Values = {}
    xids: tuple[XidRecord, ...] = ()

    def with_labels(self, *more: tuple[str, str]) -> str:
        """Return the labels with some of a sample's own, in their place."""
        return labels.joined(self.front, labels.text(sorted((*self.own, *more))), self.end)


class _Slice(msgspec.Struct, frozen=True):
    """A MIG slice, or a GPU instance with several, before its labels."""

    part: MigReading
    scope: Scope
    uuids: tuple[str, ...]
    """MIG UUIDs whose holders are its own."""
    values: Values

    def identity(self, gpu: Identity) -> Identity:
        part = self.part
        if not self.scope.divided:
            return msgspec.structs.replace(gpu, profile=part.profile, gi=part.gi)
        if self.scope.ci is not None:
            return msgspec.structs.replace(gpu, profile=part.profile, gi=part.gi, ci=self.scope.ci)
        # `1c.3g.40gb` is one compute instance of a `3g.40gb`.
        profile = part.profile.partition("c.")[2] or part.profile
        return msgspec.structs.replace(gpu, profile=profile, gi=part.gi)


class Layout:
    """Makes the rows of one snapshot."""

    def __init__(self, snapshot: Snapshot, options: Options) -> None:
        counters = snapshot.shown.counters
        self._options = options
        self._holders: Holders = snapshot.holders
        self._nvml = snapshot.nvml or snapshot.relayed or NvmlReading(at=snapshot.at)
        self._dcgm: Mapping[Key, Values] = values.by_entity(snapshot.dcgm)
        # Without NVML a value is DCGM's or none: not even the number of a GPU is NVML's.
        self._known = snapshot.nvml is not None
        self._fields: Sequence[Counter] = () if options.preset == "lean" else counters.labels
        self._xids = {gpu.uuid: by_instance(gpu.xids) for gpu in snapshot.report.gpus}
        # Each series has an equal part, so that no pod's labels take the place of another's.
        rows = sum(1 + len(gpu.instances or ()) + len(gpu.links) for gpu in self._nvml.gpus)
        series = min(snapshot.shown.max_series, rows * len(counters.metrics))
        self._most_label_bytes = labels.PAGE_POD_LABEL_BYTES // max(1, series)
        uuids = [gpu.uuid for gpu in self._nvml.gpus]
        self._doubted = {uuid for uuid in uuids if uuids.count(uuid) > 1}

    def of(self, gpu: GpuReading) -> tuple[Row, tuple[Row, ...], tuple[Row, ...]]:
        """Return the rows of a GPU, of its slices and of its links."""
        whole = values.of_gpu(gpu, self._nvml, self._dcgm, known=self._known)
        slices = tuple(self._slices(gpu))
        links = self._links(gpu)
        rest, of_slices = values.divided(whole, [slice_.values for slice_ in slices])
        own, of_links = values.divided(rest, [found for _, found in links])
        # Of two GPUs that say one UUID nobody can tell which one it is that is held.
        owners = self._holders.owners(gpu.uuid) if gpu.uuid not in self._doubted else ()
        scope = Scope(divided=bool(gpu.instances))
        front = labels.device(self._options, _identity(gpu))
        row = self._row(gpu, scope=scope, front=front, found=own, whole=whole, owners=owners)
        slice_rows = tuple(
            self._slice_row(gpu, slice_, found, whole)
            for slice_, found in zip(slices, of_slices, strict=True)
        )
        link_rows: list[Row] = []
        for (link, _), found in zip(links, of_links, strict=True):
            identity = msgspec.structs.replace(_identity(gpu), link=link.link)
            front = labels.nvlink(self._options, identity)
            of_link = self._row(
                gpu, scope=Scope(), front=front, found=found, whole=whole, owners=owners
            )
            link_rows.append(msgspec.structs.replace(of_link, link=link, xids=()))
        return row, slice_rows, tuple(link_rows)

    def _slices(self, gpu: GpuReading) -> Iterator[_Slice]:
        by_gi: dict[int, list[MigReading]] = {}
        for part in sorted(gpu.instances or (), key=lambda part: (part.gi, part.ci)):
            by_gi.setdefault(part.gi, []).append(part)
        for group in by_gi.values():
            if len(group) > 1:
                yield from self._divided(gpu, group)
                continue
            (part,) = group
            found = values.of_slice(gpu, part, self._dcgm, alone=True)
            yield _Slice(part, Scope(part.gi, part.ci), (part.uuid,), found)

    def _divided(self, gpu: GpuReading, group: Sequence[MigReading]) -> Iterator[_Slice]:
        read = [values.of_slice(gpu, part, self._dcgm, alone=False) for part in group]
        gi = group[0].gi
        shared = values.of_instance(gpu, gi, self._dcgm)
        for found in reversed(read):
            shared |= {k: value for k, value in found.items() if values.of_gpu_instance(k)}
        uuids = tuple(part.uuid for part in group)
        yield _Slice(group[0], Scope(gi, None, divided=True), uuids, shared)
        for part, found in zip(group, read, strict=True):
            own = {k: value for k, value in found.items() if not values.of_gpu_instance(k)}
            yield _Slice(part, Scope(gi, part.ci, divided=True), (part.uuid,), own)

    def _links(self, gpu: GpuReading) -> list[tuple[LinkReading, Values]]:
        read = {link.link: link for link in gpu.links}
        for uuid, _gi, _ci, number in self._dcgm:
            if uuid == gpu.uuid and number is not None:
                read.setdefault(number, LinkReading(link=number))
        return [
            (link, values.of_link(gpu, number, link.values, self._dcgm))
            for number, link in sorted(read.items())
        ]

    def _slice_row(self, gpu: GpuReading, slice_: _Slice, found: Values, whole: Values) -> Row:
        owners = tuple(
            holder for uuid in dict.fromkeys(slice_.uuids) for holder in self._holders.owners(uuid)
        )
        front = labels.device(self._options, slice_.identity(_identity(gpu)))
        mig_uuid = slice_.uuids[0] if len(slice_.uuids) == 1 else ""
        row = self._row(
            gpu,
            scope=slice_.scope,
            front=front,
            found=found,
            whole=whole,
            owners=owners,
            mig_uuid=mig_uuid,
        )
        return msgspec.structs.replace(row, part=slice_.part)

    def _row(
        self,
        gpu: GpuReading,
        *,
        scope: Scope,
        front: str,
        found: Values,
        whole: Values,
        owners: tuple[Holder, ...],
        mig_uuid: str = "",
    ) -> Row:
        of_pods, left_out = labels.pod_pairs(self._options, owners, self._most_label_bytes)
        of_fields = (
            (row.name, str(value))
            for row in self._fields
            if (value := found.get(row.field.id, whole.get(row.field.id))) is not None
        )
        own = tuple(sorted((*of_fields, *of_pods)))
        end = labels.attributes(self._options, owners, mig_uuid)
        return Row(
            gpu=gpu,
            scope=scope,
            front=front,
            own=own,
            end=end,
            labels_left_out=left_out,
            labels=labels.joined(front, labels.text(own), end),
            values=found,
            xids=tuple(
                record for record in self._xids.get(gpu.uuid, ()) if scope.has(record.gi, record.ci)
            ),
        )


def _identity(gpu: GpuReading) -> Identity:
    return Identity(gpu.index, gpu.uuid, gpu.bus_id, gpu.product)
