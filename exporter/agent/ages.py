"""How old each part of the sensor's observation is, by the agent's own clock.

Invariant: what a page shows and a report says was read within the time that its part allows. A
part is as old as its mark, the moment at which the sensor read it: while that does not move, the
part ages, whatever else the sensor sends, and whyever it stopped reading. Pure: time comes in.
"""

import math
from collections.abc import Callable, Mapping
from datetime import datetime

import msgspec

from exporter.model.readings import STARTING, Observation

STALE = "Stale"
"""Reason of a source that says it is up and was not read for too long."""

_LATE = 1.0
"""Seconds by which a look may be late while nothing but the agent itself is slow."""
_Mark = datetime | str
"""When a part was read last; STARTING before the first time."""


class _Part(msgspec.Struct, frozen=True):
    """What one thread of the sensor reads."""

    source: str
    title: str
    mark: Callable[[Observation], _Mark | None]
    """None: the source is down and says why itself, so nothing of it can be old."""
    without: Mapping[str, object]
    """What an observation has instead of a part that is too old."""


def _of_source(seen: Observation, name: str) -> _Mark | None:
    source = next((source for source in seen.sources if source.name == name), None)
    if source is None or source.up:
        return source and source.last_success
    # A start that never ends would leave the GPUs as the last report had them.
    return STARTING if source.reason == STARTING else None


_PARTS = (
    _Part(
        "nvml",
        "NVML",
        lambda seen: seen.nvml.at if seen.nvml else _of_source(seen, "nvml"),
        {"nvml": None, "hang": None},
    ),
    _Part("dcgm", "DCGM", lambda seen: seen.dcgm and seen.dcgm.at, {"dcgm": None}),
    _Part("kmsg", "the kernel log", lambda seen: _of_source(seen, "kmsg"), {}),
    _Part(
        "podresources",
        "the node (its kubelet and its PCI bus)",
        lambda seen: seen.node_at,
        {"containers": None, "pci_gpus": None, "pci_unbound": (), "pci_drivers": {}},
    ),
)


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
        self._since: dict[str, tuple[_Mark, float]] = {}
        self._confirmed: dict[str, _Mark] = {}

    def look(self, now: float) -> None:
        """Take a look, at least once an interval: between two others this process did not run.

        Such time is no time without messages.
        """
        late = now - self._looked - self._longest_look
        self._looked = now
        if late > 0:
            self._message = min(now, self._message + late)
            self._since = {
                name: (mark, min(now, since + late)) for name, (mark, since) in self._since.items()
            }

    def message(self, now: float) -> None:
        """Note that the sensor sent something of its state."""
        self._message = now

    def silence(self, now: float) -> float:
        """Return for how many seconds the sensor has sent nothing."""
        return now - self._message

    def note(self, seen: Observation, now: float) -> None:
        """Take the marks of an observation that came."""
        # After a standstill of the whole node the first thing to run may be the one that reads.
        self.look(now)
        self.message(now)
        for part in _PARTS:
            mark = part.mark(seen)
            known = self._since.get(part.source)
            if mark is None:
                self._since.pop(part.source, None)
            elif known is None:
                # An agent that is new may meet a sensor that stopped reading long ago.
                age = (seen.at - mark).total_seconds() if isinstance(mark, datetime) else 0.0
                self._since[part.source] = mark, now - max(0.0, age)
            elif known[0] != mark:
                self._since[part.source] = mark, now

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
        marks = {name: mark for name, (mark, _) in self._since.items() if name not in stale}
        if any(mark in {STARTING, self._confirmed.get(name)} for name, mark in marks.items()):
            return False
        self._confirmed = marks
        return True

    def sentence(self, source: str) -> str:
        """Say what is wrong with a source that is stale, and what to do."""
        title = next(part.title for part in _PARTS if part.source == source)
        return (
            f"the sensor runs and has not read {title} for {self.allowed:.0f} s or more: one of "
            "its threads is stuck. Restart its container, and report this with its log"
        )

    def without(self, seen: Observation, stale: frozenset[str]) -> Observation:
        """Return the observation with nothing in it that is too old."""
        for part in _PARTS:
            if part.source in stale:
                seen = msgspec.structs.replace(seen, **part.without)
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
            (name, since + self.allowed + (self._start if mark == STARTING else 0.0) - now)
            for name, (mark, since) in self._since.items()
        ]
