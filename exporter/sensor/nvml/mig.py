"""The live MIG slices of a GPU, as NVML lists them now.

Slices come and go while the GPU is read, and an instance number is used again by
the next one. What is remembered is kept by UUID and numbers together, and what
cannot be told for certain (a slice that is just being destroyed) is left out.
"""

from collections import Counter
from collections.abc import Collection, Iterator
from typing import Any

import msgspec

from exporter.model.readings import MigReading
from exporter.sensor.nvml.fields import Fields, Lacking, Tally
from exporter.sensor.nvml.gpm import Gpm
from exporter.sensor.nvml.library import Caller
from exporter.sensor.nvml.table import OF_SLICES, TABLE
from exporter.sensor.nvml.units import MEBIBYTES, SMALL, text_of

SliceKey = tuple[str, int, int]
"""UUID, GPU instance, compute instance."""
_TABLE = {number: sources for number, sources in TABLE.items() if number in OF_SLICES}
_MOST = 64
"""Compute instances that a GPU may have; 8 GPU instances of 8 are far above any product."""


class _Live(msgspec.Struct, frozen=True):
    key: SliceKey
    handle: Any
    part: Fields


class Slices:
    """What is remembered of a GPU's slices from pass to pass."""

    def __init__(self, call: Caller, tally: Tally, gpm: Gpm) -> None:
        self._call = call
        self._tally = tally
        self._gpm = gpm
        self._known: dict[SliceKey, MigReading] = {}
        self._lacking: dict[SliceKey, Lacking] = {}

    def read(
        self, index: int, gpu: Any, fields: Fields, desired: Collection[int]
    ) -> tuple[MigReading, ...]:
        """Return the slices of a GPU; `fields` is the GPU's."""
        live = list(self._live(index, gpu, fields))
        keys = {slice_.key for slice_ in live}
        self._known = {key: known for key, known in self._known.items() if key in keys}
        self._lacking = {key: lacking for key, lacking in self._lacking.items() if key in keys}
        sharers = Counter(gi for _, gi, _ in keys)
        readings = [self._slice(gpu, fields, slice_, sharers, desired) for slice_ in live]
        fields.lost = fields.lost or any(slice_.part.lost for slice_ in live)
        return tuple(readings)

    def _live(self, index: int, gpu: Any, fields: Fields) -> Iterator[_Live]:
        most = fields.get("nvmlDeviceGetMaxMigDeviceCount") or 0
        for position in range(min(int(most), _MOST)):
            # Positions without a slice answer "not found", which may change at any time.
            handle = fields.ask("nvmlDeviceGetMigDeviceHandleByIndex", gpu, position)
            if handle is None:
                continue
            naming = Fields(self._call, index, handle, Lacking(), self._tally)
            uuid = text_of(naming.get("nvmlDeviceGetUUID"))
            gi = SMALL.take(naming.get("nvmlDeviceGetGpuInstanceId"))
            ci = SMALL.take(naming.get("nvmlDeviceGetComputeInstanceId"))
            fields.lost = fields.lost or naming.lost
            if uuid and gi is not None and ci is not None:
                key = (uuid, int(gi), int(ci))
                lacking = self._lacking.setdefault(key, Lacking())
                lacking.begin_pass()
                yield _Live(key, handle, Fields(self._call, index, handle, lacking, self._tally))

    def _slice(
        self,
        gpu: Any,
        fields: Fields,
        live: _Live,
        sharers: Counter[int],
        desired: Collection[int],
    ) -> MigReading:
        gi = live.key[1]
        part = live.part
        identity = self._known.get(live.key) or self._identify(gpu, live)
        values = part.values(_TABLE, desired)
        if sharers[gi] == 1:
            # GPM counts by GPU instance: with several slices in it, it is nobody's own.
            values |= self._gpm.of_slice(live.key, fields, part, (gpu, gi), desired)
        return msgspec.structs.replace(identity, fb_used=used_memory(part), values=values)

    def _identify(self, gpu: Any, live: _Live) -> MigReading:
        uuid, gi, ci = live.key
        instance = live.part.ask("nvmlDeviceGetGpuInstanceById", gpu, gi)
        about = None if instance is None else live.part.ask("nvmlGpuInstanceGetInfo", instance)
        # "NVIDIA A100-SXM4-40GB MIG 1g.5gb"
        name = text_of(live.part.get("nvmlDeviceGetName")) or ""
        found = MigReading(
            uuid=uuid,
            gi=gi,
            ci=ci,
            profile=name.rpartition(" MIG ")[2] if " MIG " in name else "",
            gi_profile_id=about.profileId if about else None,
            placement_start=about.placement.start if about else None,
            placement_size=about.placement.size if about else None,
        )
        if about and name:
            self._known[live.key] = found
        return found


def used_memory(fields: Fields) -> int | None:
    """Return bytes of framebuffer; version 2 keeps the driver's reserve out of "used"."""
    memory = fields.get("nvmlDeviceGetMemoryInfo_v2") or fields.get("nvmlDeviceGetMemoryInfo")
    # Plausible or not by the bounds of the field that pages show, which is rounded.
    return None if memory is None or MEBIBYTES.take(memory.used) is None else int(memory.used)
