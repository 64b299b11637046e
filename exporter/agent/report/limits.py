"""What the CRD takes, and a report that fits it.

One field beyond its limit would have the API server refuse the whole report (422). So all is cut
here, in one place: texts become shorter, a number out of range is left out, of a list the most
severe entries stay, and `truncated` names what was cut. The limits are those of
deploy/crds/nodedevicehealths.yaml; tests/deploy holds the two together. Pure.
"""

import re
from collections.abc import Callable
from typing import Any, Protocol, TypeVar, cast

import msgspec

from exporter.agent.report import severity
from exporter.model.node_health import (
    MOST_SET_BACK,
    ConfigSpace,
    Cursor,
    FabricHealth,
    GpuHealth,
    Inventory,
    MemoryHealth,
    MemorySlices,
    MigInstance,
    NodeHealth,
    NvlinkHealth,
    PublishedDevice,
    RecoveryAction,
    Slowdown,
    SourceHealth,
    Summary,
    SwitchHealth,
    SxidRecord,
    VersionSince,
    XidRecord,
)

MAX_INT32 = 2**31 - 1
MAX_INT64 = 2**63 - 1
MAX_ATTENTION = 512
MAX_SOURCES_DOWN = 256
MAX_TRUNCATED = 32
"""Names kept in `truncated`."""

GPU_UUID = r"^(GPU-|unknown-)."
MIG_UUID = r"^MIG-."
_E = TypeVar("_E", bound=msgspec.Struct)

BUS_ID = r"^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.0$"


class Limit(Protocol):
    def fitted(self, value: Any) -> Any:
        """Return the value as far as it fits, None where nothing of it does."""


class Text(msgspec.Struct, frozen=True):
    """`absent`: an empty text is not written, so that it need not match."""

    longest: int
    pattern: str = ""
    absent: bool = False

    def fitted(self, value: str) -> str | None:
        if self.absent and not value:
            return value
        cut = value[: self.longest]
        return cut if not self.pattern or re.search(self.pattern, cut) else None


class Number(msgspec.Struct, frozen=True):
    """`counts`: a number that is too large is the largest one instead of none."""

    most: int = MAX_INT64
    least: int = 0
    counts: bool = False

    def fitted(self, value: int) -> int | None:
        if self.least <= value <= self.most:
            return value
        return min(max(value, self.least), self.most) if self.counts else None


class Items(msgspec.Struct, frozen=True):
    """Of too many entries those stay that `worth` sorts first; the order stays as it was."""

    most: int
    each: Text | Number | None = None
    worth: Callable[[Any], Any] | None = None

    def fitted(self, value: tuple[Any, ...]) -> tuple[Any, ...]:
        if self.each is not None:
            each = self.each
            found = tuple(fit for fit in map(each.fitted, value) if fit is not None)
            value = value if found == value else found
        if len(value) <= self.most:
            return value
        if self.worth is None:
            return value[: self.most]
        worth = self.worth
        order = sorted(range(len(value)), key=lambda place: worth(value[place]))
        return tuple(value[place] for place in sorted(order[: self.most]))


def _worst_records(record: XidRecord) -> tuple[int, int, float]:
    rank, count, seen = severity.keep_last(record)
    return -rank, -count, -seen


def _worst_switch_records(record: SxidRecord) -> tuple[bool, int, float]:
    return record.severity != "Fatal", -record.count, -record.last_seen.timestamp()


def _worst_gpus(gpu: GpuHealth) -> tuple[bool, bool, int]:
    """A GPU that is there or was lost, then the worst of the others."""
    worst = min((severity.rank(record.code) for record in gpu.xids), default=99)
    return gpu.presence == "Unknown", gpu.presence != "Lost", worst


_NAME, _REASON, _ID = Text(96), Text(64), Text(64)
_COUNT, _SMALL, _CODE = Number(counts=True), Number(MAX_INT32), Number(MAX_INT32)

LIMITS: dict[type[msgspec.Struct], dict[str, Limit]] = {
    NodeHealth: {
        "boot_id": _ID,
        "agent_version": Text(256),
        "driver_version": Text(256),
        "sources": Items(16),
        "gpus": Items(128, worth=_worst_gpus),
        "switches": Items(16),
        "xids_dropped": _COUNT,
        "report_interval_seconds": Number(MAX_INT32, 1, counts=True),
        "clock_set_back_ms": Number(MOST_SET_BACK, counts=True),
    },
    VersionSince: {"version": Text(256)},
    Cursor: {"kernel_sequence": Number(), "sensor_run": _ID, "signal_sequence": Number()},
    SourceHealth: {"name": Text(32), "reason": _REASON, "message": Text(400)},
    GpuHealth: {
        "uuid": Text(96, GPU_UUID),
        "pci_bus_id": Text(16, BUS_ID, absent=True),
        "serial": _NAME,
        "minor": _SMALL,
        "product": _NAME,
        "presence_reason": _REASON,
        "epoch": _COUNT,
        "xids": Items(256, worth=_worst_records),
        "xids_dropped": _COUNT,
        "slowdowns": Items(8),
        "instances": Items(32),
        "last_published": Items(32),
    },
    RecoveryAction: {"value": _CODE, "logged": _CODE},
    MemoryHealth: {"dbe_volatile": _COUNT, "dbe_aggregate": _COUNT},
    FabricHealth: {
        "state": _CODE,
        "status": _CODE,
        "health_mask": Number(),
        "health_summary": _CODE,
        "clique": Number(),
        "cluster_uuid": Text(64),
    },
    NvlinkHealth: {
        "up": Items(72, _SMALL),
        "down": Items(72, _SMALL),
        "failed": Items(72, _SMALL),
    },
    Slowdown: {},
    ConfigSpace: {},
    XidRecord: {
        "code": _CODE,
        "count": _COUNT,
        "epoch": _COUNT,
        "previous_epoch": _COUNT,
        "gi": Number(),
        "ci": Number(),
        "gi_profile_id": Number(),
        "pid": Number(),
        "process": Text(64),
        "message": Text(160),
        "caused_by": _CODE,
        "sources": Items(4, Text(16)),
    },
    MemorySlices: {"start": _SMALL, "size": Number(MAX_INT32, 1)},
    MigInstance: {
        "uuid": Text(96, MIG_UUID),
        "gi": Number(),
        "ci": Number(),
        "profile": _NAME,
        "gi_profile_id": Number(),
        "placement_start": _SMALL,
        "placement_size": Number(MAX_INT32, 1),
    },
    PublishedDevice: {
        "driver": Text(63),
        "pool": Text(253),
        "device": Text(63),
        "uuid": Text(96),
        "gi_profile_id": Number(),
        "placement_start": _SMALL,
        "placement_size": Number(MAX_INT32, 1),
    },
    SwitchHealth: {"pci_bus_id": Text(16, BUS_ID), "sxids": Items(16, worth=_worst_switch_records)},
    SxidRecord: {
        "code": _CODE,
        "count": _COUNT,
        "links": Items(64, _SMALL),
        "message": Text(80),
        "sources": Items(2, Text(16)),
    },
    Inventory: {
        "seen": _SMALL,
        "on_bus": _SMALL,
        "set_aside": _SMALL,
        "published": _SMALL,
        "missing": Items(32, Text(96)),
        "unidentified": _SMALL,
    },
    Summary: {"attention": Text(MAX_ATTENTION), "sources_down": Text(MAX_SOURCES_DOWN)},
}
"""By struct and field."""


def within(report: NodeHealth) -> NodeHealth:
    """Return the report as the CRD takes it, with the names of what was cut."""
    cut: set[str] = set()
    fitted = _entry(report, "", cut)
    if fitted is None or not cut:
        return report
    lost = _records(report) - _records(fitted)
    return msgspec.structs.replace(
        fitted,
        xids_dropped=min(MAX_INT64, fitted.xids_dropped + lost),
        truncated=tuple(sorted({*report.truncated, *cut})[:MAX_TRUNCATED]),
    )


def _records(report: NodeHealth) -> int:
    of_gpus = sum(len(gpu.xids) for gpu in report.gpus)
    return of_gpus + sum(len(switch.sxids) for switch in report.switches)


def _entry(entry: _E, path: str, cut: set[str]) -> _E | None:
    """Return an entry within its limits, None where a required field cannot be kept."""
    limits = LIMITS.get(type(entry), {})
    changes: dict[str, Any] = {}
    for name, spelled in zip(entry.__struct_fields__, entry.__struct_encode_fields__, strict=True):
        value = getattr(entry, name)
        fitted = _value(value, limits.get(name), f"{path}{spelled}", cut)
        if fitted is not value:
            changes[name] = fitted
            if _is_cut(value, fitted):
                cut.add(f"{path}{spelled}")
    if not changes:
        return entry
    for field in msgspec.structs.fields(entry):
        if field.name in changes and changes[field.name] is None:
            if field.required:
                return None
            changes[field.name] = field.default
    if isinstance(entry, GpuHealth) and "xids" in changes:
        left_out = len(entry.xids) - len(changes["xids"])
        before: int = changes.get("xids_dropped", entry.xids_dropped)
        changes["xids_dropped"] = min(MAX_INT64, before + left_out)
    return msgspec.structs.replace(entry, **changes)


def _is_cut(value: Any, fitted: Any) -> bool:
    """Whether a value itself was cut, and not something in it that has a name of its own."""
    if fitted is None or not isinstance(value, (msgspec.Struct, tuple)):
        return True
    if isinstance(value, msgspec.Struct):
        return False
    entries = cast("tuple[Any, ...]", value)
    return len(fitted) < len(entries) or not isinstance(entries[0], msgspec.Struct)


def _value(value: Any, limit: Limit | None, path: str, cut: set[str]) -> Any:
    if isinstance(value, msgspec.Struct):
        return _entry(value, f"{path}.", cut)
    if value is None:
        return value
    whole: Any = value
    if isinstance(value, tuple):
        entries = cast("tuple[Any, ...]", value)
        if entries and isinstance(entries[0], msgspec.Struct):
            fitted: list[Any] = [_entry(entry, f"{path}.", cut) for entry in entries]
            if any(entry is not other for entry, other in zip(fitted, entries, strict=True)):
                whole = tuple(entry for entry in fitted if entry is not None)
    return whole if limit is None else limit.fitted(whole)
