"""Tell which signals speak of the same error.

The kernel log, the NVML event set and DCGM report one error separately, and a
GPU that fell off the bus gets a second kernel line without the word Xid. Within
WINDOW by their own times, on the same GPU and with the same code, such sightings
are one error. DCGM reports late, so an error waits for its other sources for
PATIENCE. No source reports one error twice, but the kernel log may do so in
several lines, which come close together.

This is decided in the sensor, which receives all sources and outlives the agent,
so that an agent that restarts counts exactly as one that does not. A sensor that restarts
reads only the kernel log again: the errors that NVML and DCGM report to it are other ones than
those in the log by then. A line whose event an earlier sensor had is joined by the agent
(`agent/report/xid_counts`).
Pure: signals carry their own time.
"""

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from typing import TypeVar

import msgspec

from exporter.model.signals import ERRORS, PLACES_A_SECOND, Partner, Signal

WINDOW = timedelta(seconds=5)
"""Delta's study merges equal errors of one GPU within 5 s; NVML events lag by less than one."""
BETWEEN_LINES = 1.0
"""Seconds at most from one line of an error to the next, as the driver printed them. An H100 took
25 ms at most."""
ALL_LINES = 10.0
"""Seconds at most from the first line to the last: an H100 took 0.7 s for 397."""
PATIENCE = timedelta(minutes=2)
"""For which an error that lacks a source is kept."""
KEPT_OF_ONE_CODE = 256
"""Errors of one code on one GPU that are kept for each source they lack. When a storm has more,
the oldest go, and a late source of theirs is taken to speak of one that was counted."""
KEPT = 8192
"""Errors kept in all."""

_FELL_OFF_CODE = 79
_SOURCES = ("kmsg", "nvml", "dcgm")
_MOST_OPEN = 8
"""Errors of one code on one GPU whose lines may come mixed: one for each slice."""
_MOST_NAMES = 1024
"""Entries of the small tables beside the errors; no node has so many GPUs or codes."""

K = TypeVar("K")
V = TypeVar("V")
_Place = tuple[str, int]
"""A GPU, by bus id or else by UUID, and a code."""


class _Open(msgspec.Struct):
    """An error of which more lines may come, and when its first and last one were printed."""

    error: "_Error"
    first: float
    last: float

    def goes_on(self, signal: Signal) -> bool:
        now = _printed(signal)
        soon = 0.0 <= now - self.last <= BETWEEN_LINES
        return soon and now - self.first <= ALL_LINES and _fit(self.error, signal)


class _Error(msgspec.Struct, eq=False, kw_only=True):
    """An error that was reported, as far as it is known."""

    place: _Place
    number: int
    """Of the first sighting."""
    earliest: datetime
    latest: datetime
    gi: int | None
    ci: int | None
    lacks: set[str]

    def partner(self) -> Partner:
        return Partner(self.number, self.gi, self.ci)


class Dedup:
    """Remembers the errors that still lack a source."""

    def __init__(self) -> None:
        self._errors: dict[int, _Error] = {}
        """By number, oldest first."""
        self._lacking: dict[tuple[_Place, str], dict[int, _Error]] = {}
        """Of one code on one GPU, those that lack a source."""
        self._crowded_out: dict[_Place, _Error] = {}
        """The newest that went because there were too many."""
        self._unfinished: dict[_Place, list[_Open]] = {}
        """Newest last. Slices may report at the same time."""
        self._bus_ids: dict[str, str] = {}
        """By UUID, from signals that name both."""

    def pair(self, signal: Signal, deaf: Collection[str] = ()) -> Signal:
        """Return the signal with its partner, when the same error was reported before.

        `deaf` are the sources that were not listening by then, so they will not report it.
        """
        if signal.uuid and signal.bus_id:
            self._bus_ids[signal.uuid] = signal.bus_id
            _shorten(self._bus_ids, _MOST_NAMES)
        gpu = signal.bus_id or self._bus_ids.get(signal.uuid, signal.uuid)
        if signal.kind not in ERRORS or not gpu:
            return signal
        while self._errors:
            oldest = next(iter(self._errors.values()))
            if signal.at - oldest.latest <= PATIENCE:
                break
            self._drop(oldest)
        place = (gpu, signal.code)
        if (earlier := self._earlier_line(place, signal)) is not None:
            return msgspec.structs.replace(signal, partner=earlier, further=True)
        partner = self._join(place, signal) or self._crowded(place, signal)
        if partner is None:
            self._keep(place, signal, deaf)
        return msgspec.structs.replace(signal, partner=partner)

    def _earlier_line(self, place: _Place, signal: Signal) -> Partner | None:
        """Let an error have one more line; returns how it was known before."""
        waiting = self._unfinished.get(place, []) if _source(signal) == "kmsg" else []
        begun = next((begun for begun in reversed(waiting) if begun.goes_on(signal)), None)
        if begun is None:
            return None
        begun.last = _printed(signal)
        if not signal.unfinished:
            waiting.remove(begun)
        return self._absorb(begun.error, signal)

    def _expect_lines(self, error: _Error, signal: Signal) -> None:
        if not signal.unfinished:
            return
        now = _printed(signal)
        waiting = self._unfinished.setdefault(error.place, [])
        self._unfinished[error.place] = [*waiting[1 - _MOST_OPEN :], _Open(error, now, now)]
        _shorten(self._unfinished, _MOST_NAMES)

    def _absorb(self, error: _Error, signal: Signal) -> Partner:
        """Note one more sighting of an error; returns how it was known before."""
        before = error.partner()
        error.gi = signal.gi if error.gi is None else error.gi
        error.ci = signal.ci if error.ci is None else error.ci
        error.earliest = min(error.earliest, signal.at)
        error.latest = max(error.latest, signal.at)
        return before

    def _join(self, place: _Place, signal: Signal) -> Partner | None:
        """Let an error have one more source; returns how it was known before."""
        source = _source(signal)
        error = _best(self._lacking.get((place, source), {}).values(), signal)
        if error is None:
            return None
        before = self._absorb(error, signal)
        self._expect_lines(error, signal)
        error.lacks.discard(source)
        self._remove(error, (source,))
        if not error.lacks:
            self._errors.pop(error.number, None)
        return before

    def _crowded(self, place: _Place, signal: Signal) -> Partner | None:
        gone = self._crowded_out.get(place)
        if gone is None or _source(signal) not in gone.lacks or not _fit(gone, signal):
            return None
        within = -PATIENCE <= signal.at - gone.latest <= WINDOW
        return gone.partner() if within else None

    def _keep(self, place: _Place, signal: Signal, deaf: Collection[str]) -> None:
        others = (*_SOURCES, "text") if signal.code == _FELL_OFF_CODE else _SOURCES
        error = _Error(
            place=place,
            number=signal.number,
            earliest=signal.at,
            latest=signal.at,
            gi=signal.gi,
            ci=signal.ci,
            lacks={*others} - {_source(signal), *deaf},
        )
        self._errors[error.number] = error
        self._expect_lines(error, signal)
        for lacked in error.lacks:
            waiting = self._lacking.setdefault((place, lacked), {})
            waiting[error.number] = error
            if len(waiting) > KEPT_OF_ONE_CODE:
                self._crowd_out(next(iter(waiting.values())))
        if len(self._errors) > KEPT:
            self._crowd_out(next(iter(self._errors.values())))

    def _crowd_out(self, error: _Error) -> None:
        self._crowded_out.pop(error.place, None)
        self._crowded_out[error.place] = error
        _shorten(self._crowded_out, _MOST_NAMES)
        self._drop(error)

    def _drop(self, error: _Error) -> None:
        self._errors.pop(error.number, None)
        self._remove(error, error.lacks)

    def _remove(self, error: _Error, sources: Iterable[str]) -> None:
        for source in sources:
            waiting = self._lacking.get((error.place, source))
            if waiting is not None:
                waiting.pop(error.number, None)
                if not waiting:
                    del self._lacking[error.place, source]


def adds_nothing(signal: Signal) -> bool:
    """Say whether a paired signal is but a further line that names no more than those before it.

    A crash may print hundreds of them, which must not push other errors out of the ring.
    """
    if not signal.further or not signal.unfinished or signal.partner is None:
        return False
    named = (signal.gi, signal.ci) in ((None, None), (signal.partner.gi, signal.partner.ci))
    return named and signal.reset is None and signal.caused_by is None


def _printed(signal: Signal) -> float:
    """Return when a line was printed, in seconds of a clock that only lines share."""
    if signal.kernel_sequence is None:
        return signal.at.timestamp()
    return signal.kernel_sequence / PLACES_A_SECOND


def _source(signal: Signal) -> str:
    source = "kmsg" if signal.source == "syslog" else signal.source  # one log, read in two ways
    return "text" if signal.kind == "fell-off" else source


def _best(waiting: Iterable[_Error], signal: Signal) -> _Error | None:
    """Return the oldest that fits, one whose instance both name before any other."""
    first = None
    for error in waiting:
        # Differences: a clock may say the last second that a time can tell.
        near = signal.at - error.latest <= WINDOW and error.earliest - signal.at <= WINDOW
        if near and _fit(error, signal):
            if signal.gi is None or error.gi is not None:
                return error
            first = first or error
    return first


def _fit(error: _Error, signal: Signal) -> bool:
    """Say whether both may be of one instance: a missing id fits every id."""
    return same(error.gi, signal.gi) and same(error.ci, signal.ci)


def same(one: int | None, other: int | None) -> bool:
    """Say whether two ids may be one."""
    return one is None or other is None or one == other


def _shorten(table: dict[K, V], most: int) -> None:
    if len(table) > most:
        del table[next(iter(table))]
