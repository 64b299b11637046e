"""`/debug`: a snapshot as a page that a person reads, and why a label is missing. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from exporter.agent.join.claims import Holder
from exporter.agent.join.device_resolution import Miss
from exporter.metrics.snapshot import Snapshot
from exporter.model import nvlink5
from exporter.model.node_health import NodeHealth, SourceHealth
from exporter.model.xid import lookup

_LAST_XIDS = 20
_WIDEST = 60
"""Characters of a column; longer text is cut there."""

MISSES: dict[Miss, str] = {
    "not_published": "no ResourceSlice of this node has it, and none that this agent has seen "
    "named the hardware that is there now",
    "no_uuid": "the slice names no hardware for the device",
    "not_live": "what is named does not exist now, or NVML does not list it (yet)",
    "unknown_id": "the device plugin's id is in no form that is known",
}
"""What a reason of `device_resolution.Miss` means, for a person."""


def debug_page(snapshot: Snapshot) -> str:
    """Return the page as text, with a column layout."""
    report = snapshot.report
    index = {gpu.uuid: gpu.index for gpu in (snapshot.nvml.gpus if snapshot.nvml else ())}
    gpus = sorted(report.gpus, key=lambda gpu: (index.get(gpu.uuid, len(index)), gpu.uuid))
    of_gpus = [
        (
            *(index.get(gpu.uuid), gpu.uuid, gpu.pci_bus_id, gpu.presence, gpu.presence_reason),
            "not supported"
            if gpu.recovery_action.supported is False
            else gpu.recovery_action.value,
            *(gpu.epoch, {True: "on", False: "off", None: None}[gpu.mig], gpu.product),
        )
        for gpu in gpus
    ]
    sources = [
        (
            source.name,
            "up" if source.up else "DOWN",
            source.reason,
            _at(source.last_success),
            source.message,
        )
        for source in _sources(snapshot)
    ]
    slices = [
        (
            *(gpu.uuid, part.gi, part.ci, part.profile),
            *(f"{part.placement_start}+{part.placement_size}", part.uuid),
        )
        for gpu in report.gpus
        for part in gpu.instances
    ]
    by_uuid, elsewhere = snapshot.holders.by_uuid, snapshot.holders.elsewhere
    held = [(uuid, *_holder(holder)) for uuid, holders in by_uuid.items() for holder in holders]
    held += [("(not NVML's)", *_holder(holder)) for holder in elsewhere]
    misses = [(device, reason, MISSES[reason]) for reason, device in snapshot.holders.misses]
    ignored = [(row.source, row.name, row.reason, row.message) for row in snapshot.shown.ignored]
    parts = (
        [
            f"node {_plain(snapshot.node)}, boot {_plain(report.boot_id) or 'not known'}, "
            f"driver {_plain(report.driver_version) or 'not known'}, seen {_at(snapshot.at)}"
        ],
        _section("SOURCES", _SOURCES, sources),
        _section("GPUS", _GPUS, of_gpus),
        _section("MIG SLICES", _SLICES, slices),
        _section("HOLDERS", _HOLDERS, held),
        _section("DEVICES WITHOUT A POD'S LABELS", _UNLABELLED, _unlabelled(snapshot)),
        _section("HOLDS WITHOUT A DEVICE", _MISSES, misses),
        _section(f"LAST {_LAST_XIDS} XIDS", _XIDS, _xids(report)),
        _section("SETTINGS WITHOUT EFFECT", _SETTINGS, ignored),
    )
    return "\n".join(line for part in parts for line in part) + "\n"


_SOURCES = ("source", "state", "reason", "last success", "what to do")
_GPUS = ("gpu", "uuid", "bus id", "presence", "reason", "recovery", "epoch", "mig", "product")
_SLICES = ("gpu uuid", "gi", "ci", "profile", "placement", "uuid")
_HOLDERS = ("device", "pod", "container", "claim", "request", "admin", "dra device or resource")
_UNLABELLED = ("device", "why")
_MISSES = ("device", "reason", "why")
_SETTINGS = ("source", "name", "reason", "what to do")
_XIDS = ("last seen", "gpu uuid", "gi", "code", "class", "count", "sources", "message")


def _section(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    cells = [[_cell(value) for value in row] for row in rows]
    yield ""
    yield f"{title} ({len(cells)})"
    if not cells:
        return
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    for row in (columns, *cells):
        # The last column is as long as it likes.
        padded = (text.ljust(width) for text, width in zip(row[:-1], widths, strict=False))
        yield "  ".join((*padded, row[-1])).rstrip()


def _cell(value: object) -> str:
    text = "-" if value in (None, "") else str(value)
    plain = _plain(text)
    return plain if len(plain) <= _WIDEST or " " in plain else plain[: _WIDEST - 1] + "…"


def _plain(text: str) -> str:
    """Leave nothing in a text that could steer a terminal or begin a line."""
    return "".join(mark if mark.isprintable() else " " for mark in text)


def _at(moment: datetime | None) -> str:
    return moment.isoformat(timespec="seconds") if moment else "never"


def _sources(snapshot: Snapshot) -> Iterator[SourceHealth]:
    yield from snapshot.report.sources
    yield from snapshot.agent_sources


def _holder(holder: Holder) -> Sequence[object]:
    claim = holder.dra
    named = f"{claim.driver}/{claim.pool}/{claim.device}" if claim else holder.resource
    return (
        f"{holder.namespace}/{holder.pod}",
        holder.container,
        f"{claim.claim_namespace}/{claim.claim}" if claim else None,
        holder.request,
        {True: "yes", False: "no", None: None}[holder.admin],
        named,
    )


def _unlabelled(snapshot: Snapshot) -> Iterator[Sequence[object]]:
    idle = 0
    for gpu in snapshot.report.gpus:
        for uuid in [part.uuid for part in gpu.instances] or [gpu.uuid]:
            why = _why_unlabelled(snapshot, uuid)
            idle += why == _UNALLOCATED
            if why and why != _UNALLOCATED:
                yield uuid, why
    if idle:
        yield f"{idle} more", _UNALLOCATED


_UNALLOCATED = "not allocated"


def _why_unlabelled(snapshot: Snapshot, uuid: str) -> str:
    """Say why a device's series name no pod, "" when they do."""
    holders = snapshot.holders.by_uuid.get(uuid, ())
    owners = [holder for holder in holders if not holder.admin]
    if len({(holder.namespace, holder.pod) for holder in owners}) > 1:
        return f"shared by {len(owners)} holders: see draguard_device_allocation_info"
    if owners:
        return ""
    down = [source for source in _sources(snapshot) if not source.up and source.name in _JOINING]
    if down:
        return "; ".join(f"{source.name} is down ({source.reason})" for source in down)
    if holders:
        return "allocated with admin access only, which owns nothing"
    return _UNALLOCATED


_JOINING = ("podresources", "resourceslices", "claims")


def _xids(report: NodeHealth) -> Iterator[Sequence[object]]:
    records = [(gpu, record) for gpu in report.gpus for record in gpu.xids]
    records.sort(key=lambda pair: pair[1].last_seen, reverse=True)
    for gpu, record in records[:_LAST_XIDS]:
        known = lookup(record.code)
        words = record.message or known.description
        # What the hex words of an NVLink error of Blackwell mean.
        decoded = nvlink5.decode(record.code, record.message, report.driver_version)
        if decoded is not None:
            whose = ", caused by the other end" if decoded.peer_caused else ""
            words = f"[{decoded.unit}: {decoded.action}, {decoded.severity}{whose}] {words}"
        yield (
            *(_at(record.last_seen), gpu.uuid, record.gi, f"{record.code} {known.mnemonic}"),
            *(known.xid_class, record.count, "+".join(record.sources)),
            words,
        )
