"""How often something happened in the last minutes, as the DCGM_EXP_* counts say it.

XIDs are booked to the GPU, or to the MIG slice that they were reported for, and never to a
slice with the same number on another GPU. Pure: times come with what is counted.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Generic, TypeVar

import msgspec

from exporter.metrics.xid_changes import Change, Counted, Place
from exporter.model.readings import NvmlReading

CLOCK_EVENTS: Mapping[int, str] = {
    0x001: "gpu_idle",
    0x002: "clocks_setting",
    0x004: "power_cap",
    0x008: "hw_slowdown",
    0x010: "sync_boost",
    0x020: "sw_thermal",
    0x040: "hw_thermal",
    0x080: "hw_power_brake",
    0x100: "display_clocks",
}
"""Bits of nvmlDeviceGetCurrentClocksEventReasons, in dcgm-exporter's words."""

MAX_ENTRIES = 20_000
"""Kept per window; beyond, the oldest go. Repeats within a second are one entry."""

_Clock = tuple[str, str]
K = TypeVar("K", Counted, _Clock)


class WindowCounts(msgspec.Struct, frozen=True):
    """What happened within the windows, as of one moment."""

    xids: dict[Place, dict[int, int]] = {}
    """Times that each XID was counted."""
    clocks: dict[str, dict[str, int]] = {}
    """By UUID: samples in which each clock event was set."""


class Windows:
    """Remembers for a while; for one thread."""

    def __init__(self, xid_seconds: float, clock_seconds: float) -> None:
        self._xids: _Window[Counted] = _Window(xid_seconds)
        self._clocks: _Window[_Clock] = _Window(clock_seconds)
        self._sampled: datetime | None = None

    def took(self, changes: Iterable[Change]) -> None:
        """Book XIDs that were counted.

        A count that moved to the slice that a better source named is taken from where
        it was booked.
        """
        for change in changes:
            if change.more > 0:
                self._xids.add(change.at, change.counted, change.more)
            else:
                self._xids.take_back(change.counted, -change.more)

    def sampled(self, nvml: NvmlReading) -> None:
        """Book the clock events of one pass over the GPUs; the same pass again changes nothing."""
        if nvml.at == self._sampled:
            return
        self._sampled = nvml.at
        for gpu in nvml.gpus:
            for bit, name in CLOCK_EVENTS.items():
                if (gpu.slowdown or 0) & bit:
                    self._clocks.add(nvml.at, (gpu.uuid, name), 1)

    def counts(self, now: datetime) -> WindowCounts:
        """Return what is within the windows that end now."""
        xids: dict[Place, dict[int, int]] = {}
        counts = self._xids.counts(now)
        for place, code in sorted(counts, key=lambda counted: (counted[0][0], counted[1])):
            xids.setdefault(place, {})[code] = counts[place, code]
        clocks: dict[str, dict[str, int]] = {}
        for (uuid, name), count in sorted(self._clocks.counts(now).items()):
            clocks.setdefault(uuid, {})[name] = count
        return WindowCounts(xids, clocks)


class _Window(Generic[K]):
    """Counts by second and key."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._entries: dict[tuple[int, K], int] = {}

    def add(self, at: datetime, key: K, count: int) -> None:
        entry = int(at.timestamp()), key
        self._entries[entry] = self._entries.get(entry, 0) + count
        if len(self._entries) > MAX_ENTRIES:
            del self._entries[next(iter(self._entries))]

    def take_back(self, key: K, count: int) -> None:
        """Take away what was added last under a key, as far as it is still there."""
        for entry in reversed([entry for entry in self._entries if entry[1] == key]):
            taken = min(count, self._entries[entry])
            count -= taken
            self._entries[entry] -= taken
            if not self._entries[entry]:
                del self._entries[entry]

    def counts(self, now: datetime) -> dict[K, int]:
        """Return the sums, and forget what is outside: too old, or of before the clock was set."""
        end = now.timestamp()
        self._entries = {
            entry: count
            for entry, count in self._entries.items()
            if end - self._seconds < entry[0] <= end + self._seconds
        }
        sums: dict[K, int] = {}
        for (_second, key), count in self._entries.items():
            sums[key] = sums.get(key, 0) + count
        return sums
