"""From NVML's numbers and strings to DCGM's unit, or to nothing when they make no sense.

A value outside the bounds is refused: hardware says such things when it is
dying, and a page must not repeat them. Pure.
"""

import math
from typing import Any

import msgspec

_LARGEST = 0x7FFF_FFFF_FFFF_FFEF
"""Above it DCGM's int64 blanks begin, and NVML's "not available" (all ones)."""
_LONGEST_TEXT = 256


class Unit(msgspec.Struct, frozen=True):
    """Bounds are in NVML's unit; `times` and `divide` lead to DCGM's."""

    name: str
    lowest: int = 0
    highest: int = _LARGEST
    times: int = 1
    divide: int = 1
    real: bool = False
    """Whether DCGM gives it as a double; else it is rounded down, as DCGM does."""

    def take(self, raw: Any) -> int | float | None:
        """Return a raw number in DCGM's unit, None when it is refused."""
        if isinstance(raw, bool) or not isinstance(raw, int | float):
            return None
        if not math.isfinite(raw) or not self.lowest <= raw <= self.highest:
            return None
        if self.real:
            return float(raw) * self.times / self.divide
        if isinstance(raw, float):
            return int(raw * self.times / self.divide)
        return raw * self.times // self.divide


NUMBER = Unit("")
SWITCH = Unit("0 or 1", highest=1)
MEGAHERTZ = Unit("MHz", highest=100_000)
CELSIUS = Unit("C", lowest=-100, highest=200)
WATTS = Unit("W", highest=100_000_000, divide=1000, real=True)
"""From milliwatts."""
MILLIJOULES = Unit("mJ")
PERCENT = Unit("%", highest=100)
FAN = Unit("%", highest=300)
"""A fan may turn faster than its nominal speed (nvml.h, nvmlDeviceGetFanSpeed)."""
MEBIBYTES = Unit("MiB", highest=1 << 50, divide=1 << 20)
"""From bytes."""
RATIO = Unit("ratio", highest=1, real=True)
PERCENT_TO_RATIO = Unit("ratio", highest=200, divide=100, real=True)
"""GPM's percent; two counters read one after the other may give more than 100, as DCGM shows it."""
MEBIBYTES_TO_BYTES = Unit("bytes/s", highest=100_000_000, times=1 << 20)
"""GPM's MiB/s."""
KILOBYTES_PER_SECOND = Unit("KB/s", highest=1_000_000_000)
MEGABYTES_PER_SECOND = Unit("MB/s", highest=100_000_000)
NANOSECONDS = Unit("ns")
PSTATE = Unit("P-state", highest=15)
SMALL = Unit("", highest=0xFFFE)
"""Link generations, widths, modes, indices."""
WORD = Unit("", highest=0xFFFF_FFFF)
MASK = Unit("bit mask")


def text_of(raw: Any) -> str | None:
    """Return a string of NVML's, None when it is no readable text of one line."""
    if isinstance(raw, bytes):
        try:
            raw = raw.decode()
        except UnicodeDecodeError:
            return None
    if not isinstance(raw, str) or len(raw) > _LONGEST_TEXT or not raw.isprintable():
        return None
    return raw.strip()
