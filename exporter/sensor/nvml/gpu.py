"""One physical GPU in one pass: what health needs, and what the page shows."""

from typing import Any

import msgspec

from exporter.model.readings import FabricReading
from exporter.sensor.nvml import library as nvml
from exporter.sensor.nvml import link_table, picks
from exporter.sensor.nvml.fields import Fields, Lacking, Tally, keys_of
from exporter.sensor.nvml.gpm import C2C, C2C_LINKS, Gpm
from exporter.sensor.nvml.library import Caller
from exporter.sensor.nvml.links import Links, Traffic, count_links
from exporter.sensor.nvml.mig import Slices, used_memory
from exporter.sensor.nvml.processes import ProcessShares
from exporter.sensor.nvml.table import RETIREMENT_PENDING, TABLE

RECOVERY_ACTION = 230
"""NVML_FI_DEV_GET_GPU_RECOVERY_ACTION."""
_NUMBERS = {
    "slowdown": TABLE[112],
    "sbe_volatile": TABLE[310],
    "dbe_volatile": TABLE[311],
    "sbe_aggregate": TABLE[312],
    "dbe_aggregate": TABLE[313],
}
_FLAGS = {
    "sram_threshold": TABLE[346],
    "retired_pending": RETIREMENT_PENDING,
    "remap_failure": TABLE[395],
    "remap_pending": TABLE[396],
}
_HEALTH = tuple(source for sources in (_NUMBERS | _FLAGS).values() for source in sources)
"""Where the attributes of a `GpuReading` are from that the report needs, whatever a page needs."""


class SampleOptions(msgspec.Struct, frozen=True):
    """What a pass must read beside what health needs."""

    fields: frozenset[int] = frozenset()
    """DCGM field ids."""
    processes: bool = True


class Known:
    """What is remembered of one GPU from pass to pass."""

    def __init__(self, call: Caller, tally: Tally, gpm: Gpm) -> None:
        self.lacking = Lacking()
        self.links: int | None = None
        self.slices = Slices(call, tally, gpm)
        self.cut: tuple[bool | None, frozenset[str]] = (None, frozenset())
        """MIG mode and the slices' UUIDs of the pass before."""


class GpuReader:
    """Reads GPUs; what it remembers of them all is kept here, of one GPU in its `Known`."""

    def __init__(self, call: Caller, tally: Tally) -> None:
        self._call = call
        self._tally = tally
        self._gpm = Gpm(tally)
        self._traffic = Traffic()
        self._shares = ProcessShares()

    def begin(self) -> Known:
        return Known(self._call, self._tally, self._gpm)

    def end_pass(self, keys: set[str]) -> None:
        """Forget what belongs to GPUs and slices that are not there any more."""
        self._gpm.end_pass()
        self._traffic.keep(keys)
        self._shares.keep(keys)

    def read(
        self, index: int, key: str, handle: Any, known: Known, options: SampleOptions
    ) -> dict[str, Any]:
        """Return the fields of a `GpuReading` that change; `key` names the GPU for all passes."""
        again = known.lacking.begin_pass()
        fields = Fields(self._call, index, handle, known.lacking, self._tally)
        if (modes := fields.get("nvmlDeviceGetMigMode")) is not None:
            mig = bool(modes[0])
        else:
            # One that has no such mode is not in it.
            mig = None if fields.lost or fields.error else False
        if (known.links is None or (again and not known.links)) and not fields.lost:
            counted = count_links(fields)
            known.links = known.links if counted is None else counted
        count = 0 if mig else known.links or 0
        links = Links(key, fields, options.fields, self._traffic, count=count)
        shown = options.fields - link_table.NOT_WITH_MIG if mig else options.fields
        requested = shown if C2C.isdisjoint(shown) else shown | {C2C_LINKS}
        on_page = (source for number in requested for source in TABLE.get(number, ()))
        keys = keys_of((*_HEALTH, *on_page))
        fields.prefetch([(RECOVERY_ACTION, 0), *keys, *links.keys()])
        found: dict[str, Any] = _health(fields) | {
            "mig": mig,
            "links": links.read(),
            "fabric": _fabric(fields),
        }
        found["values"] = fields.values(TABLE, shown) | links.values
        found["values"] |= self._gpm.of_gpu(key, fields, handle, shown, links=count)
        if mig and not fields.lost:
            found["instances"] = known.slices.read(index, handle, fields, options.fields)
        if options.processes:
            found["processes"] = self._shares.read(key, fields, mig=bool(mig))
        # A GPU that is cut otherwise supports other things: what it lacked is queried again.
        uuids = frozenset(part.uuid for part in found.get("instances") or ())
        cut = (found["mig"], uuids)
        if known.cut[0] is not None and known.cut != cut:
            known.lacking.clear()
            known.links = None
        known.cut = cut
        return found | {"lost": fields.lost, "error": fields.error}


def _health(fields: Fields) -> dict[str, Any]:
    flags = {name: fields.whole(sources) for name, sources in _FLAGS.items()}
    supported, action = _recovery(fields)
    return {
        "fb_used": used_memory(fields),
        "recovery_supported": supported,
        "recovery_action": action,
        **{name: fields.whole(sources) for name, sources in _NUMBERS.items()},
        **{name: None if flag is None else bool(flag) for name, flag in flags.items()},
    }


def _recovery(fields: Fields) -> tuple[bool | None, int | None]:
    answer = fields.answer((RECOVERY_ACTION, 0))
    if answer is None or answer.code not in (nvml.SUCCESS, *nvml.ABSENT, nvml.INVALID_ARGUMENT):
        return None, None
    if answer.code != nvml.SUCCESS:
        return False, None
    # A number that makes no sense is refused and counted there, and nothing was reported.
    action = fields.whole(TABLE[1523])
    return (None if action is None else True), action


def _fabric(fields: Fields) -> FabricReading | None:
    info = fields.get("nvmlDeviceGetGpuFabricInfoV")
    if info is None or info.state == 0:
        return None
    return FabricReading(
        state=int(info.state),
        status=int(info.status),
        health_mask=info.health_mask,
        health_summary=info.health_summary,
        clique=int(info.clique),
        cluster_uuid=picks.cluster_uuid(info) or "",
    )
