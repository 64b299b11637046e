"""How old each part of the sensor's observation is, by clocks that nobody can set.

Invariant: what a page shows and a report says was read within the time that its part allows. The
sensor counts the reads of each part. While a count stands still the part ages, whatever else the
sensor sends, and whyever it stopped reading. Pure: time comes in.
"""

import math
from collections.abc import Mapping

import msgspec

from exporter.model.readings import STARTING, Observation

STALE = "Stale"
"""Reason of a source that says it is up and was not read for too long."""

_LATE = 1.0
"""Seconds by which a look may be late while nothing but the agent itself is slow."""
_Count = tuple[str, int]
"""A run of the sensor, and how many times it has read a part."""


class _Part(msgspec.Struct, frozen=True):
    """What one thread of the sensor reads."""

    title: str
    without: Mapping[str, object]
    """What an observation has instead of a part that is too old."""


_NODE = "podresources"
_PARTS = {
    "nvml": _Part("NVML", {"nvml": None, "hang": None}),
    "dcgm": _Part("DCGM", {"dcgm": None}),
    "kmsg": _Part("the kernel log", {}),
    _NODE: _Part(
        "the node (its kubelet and its PCI bus)",
        {"containers": None, "pci_gpus": None, "pci_unbound": (), "pci_drivers": {}},
    ),
}
"""By source."""


class Ages:
    """Since when the sensor sends nothing, and nothing new of a part, in monotonic seconds."""

    def __init__(self, *, interval: float, deadline: float, start: float, now: float) -> None:
        """All in seconds; `deadline` is that of a sample, `start` that of the first one."""
        self.allowed = max(2 * interval, interval + 2 * deadline)
        """Seconds: one pass may be missed, and the sensor itself gives up a late one before."""
        self._start = start
        self._longest_look = interval + _LATE
        self._looked = now
        self._message = now
        self._since: dict[str, tuple[_Count, float]] = {}
        self._confirmed: dict[str, _Count] = {}

    def look(self, now: float) -> None:
        """Take a look, at least once an interval: between two others this process did not run.

        Such time is no time without messages.
        """
        late = now - self._looked - self._longest_look
        self._looked = now
        if late > 0:
            self._message = min(now, self._message + late)
            self._since = {
                name: (count, min(now, since + late))
                for name, (count, since) in self._since.items()
            }

    def message(self, now: float) -> None:
        """Note that the sensor sent something of its state."""
        self._message = now

    def silence(self, now: float) -> float:
        """Return for how many seconds the sensor has sent nothing."""
        return now - self._message

    def note(self, run: str, seen: Observation, now: float) -> None:
        """Take the counts of an observation that came from a run of the sensor."""
        # After a standstill of the whole node the first thing to run may be the one that reads.
        self.look(now)
        self.message(now)
        before, self._since = self._since, {}
        down = {source.name for source in seen.sources if not source.up} - {_NODE}
        starting = {source.name for source in seen.sources if source.reason == STARTING}
        for name, read in seen.reads.items():
            # A source that is down says why itself, and nothing of it is shown. A start that never
            # ends would leave the GPUs as the last report had them.
            if name in _PARTS and name not in down - starting:
                count, anew = (run, read.number), now - read.age
                known, since = before.get(name, (count, anew))
                self._since[name] = count, since if known == count else anew

    def stale(self, now: float) -> frozenset[str]:
        """Return the sources whose part is too old."""
        return frozenset(name for name, left in self._left(now) if left <= 0)

    def due(self, now: float) -> float:
        """Return in how many seconds the next part, or the sensor itself, is too old."""
        left = (*(left for _, left in self._left(now)), self.allowed - self.silence(now))
        return min((seconds for seconds in left if seconds > 0), default=math.inf)

    def confirms(self, now: float) -> bool:
        """Say whether all parts that are not too old were read since this was last true.

        The report states the others as unknown, so they need no reading to be confirmed.
        """
        stale = self.stale(now)
        counts = {name: count for name, (count, _) in self._since.items() if name not in stale}
        if any(
            count == self._confirmed.get(name) or not count[1] for name, count in counts.items()
        ):
            return False
        self._confirmed = counts
        return True

    def sentence(self, source: str) -> str:
        """Say what is wrong with a source that is stale, and what to do."""
        return (
            f"the sensor runs and has not read {_PARTS[source].title} for {self.allowed:.0f} s or "
            "more: one of its threads is stuck. Restart its container, and report this with its log"
        )

    def without(self, seen: Observation, stale: frozenset[str]) -> Observation:
        """Return the observation with nothing in it that is too old."""
        for name in sorted(stale):
            seen = msgspec.structs.replace(seen, **_PARTS[name].without)
        sources = tuple(
            msgspec.structs.replace(
                source, state="Down", reason=STALE, message=self.sentence(source.name)
            )
            if source.name in stale and (source.up or source.reason == STARTING)
            else source
            for source in seen.sources
        )
        return msgspec.structs.replace(seen, sources=sources)

    def _left(self, now: float) -> list[tuple[str, float]]:
        return [
            (name, since + self.allowed + (0.0 if count[1] else self._start) - now)
            for name, (count, since) in self._since.items()
        ]
