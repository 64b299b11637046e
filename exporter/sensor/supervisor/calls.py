"""The vendor calls under way in a process, and how long each has run while this process did.

After a frozen container, a stopped process group or a paused machine goes on, every call
looks older by the length of the pause. The waiting thread notices: it wakes much later than
planned. Calls under way then get their whole time once more, but each call only once, so
that a hung call is named even on a machine that is always late.
"""

import os
import time

import msgspec

from exporter.model.readings import CallNote
from exporter.sensor.supervisor import call_notes
from exporter.sensor.supervisor.deadlines import Deadlines

_LATE = 1.0
"""Seconds behind its time at which a look comes after a pause."""
_SAME = 0.5
"""Two looks at one call work out its beginning to within so many seconds."""


class Excuses:
    """Which calls were under way in a pause. Pure: monotonic seconds come in."""

    def __init__(self) -> None:
        self._over: dict[int, tuple[float, float]] = {}
        """By slot: when the call began, and when the pause was over."""

    def paused(self, notes: tuple[CallNote | None, ...], now: float) -> None:
        """Give what is under way its time once more, from now."""
        for slot, note in enumerate(notes):
            if note is not None and not self._excused(slot, note, now):
                self._over[slot] = (now - note.seconds, now)

    def counted(self, notes: tuple[CallNote | None, ...], now: float) -> list[CallNote | None]:
        """Return the notes with the seconds that count against each call."""
        return [self._counted(slot, note, now) for slot, note in enumerate(notes)]

    def _counted(self, slot: int, note: CallNote | None, now: float) -> CallNote | None:
        if note is None or not self._excused(slot, note, now):
            return note
        return msgspec.structs.replace(note, seconds=now - self._over[slot][1])

    def _excused(self, slot: int, note: CallNote, now: float) -> bool:
        known = self._over.get(slot)
        return known is not None and abs(now - note.seconds - known[0]) < _SAME


class Calls:
    """The notes that one child after the other writes, and what they say of its calls."""

    def __init__(self, deadlines: Deadlines) -> None:
        self._deadlines = deadlines
        self._excuses = Excuses()
        self.descriptor, self._notes = call_notes.create()
        """To be handed to the child."""
        self._awake = time.monotonic()
        """When it was last looked at anything here."""

    def close(self) -> None:
        self._notes.close()
        os.close(self.descriptor)

    def begin(self) -> None:
        """Forget what the child before this one had under way."""
        self._awake = time.monotonic()
        for slot in range(call_notes.SLOTS):
            call_notes.Slot(self._notes, slot).end()

    def waited(self, seconds: float) -> float:
        """Take note that a wait is over which was to last so long since the last look.

        Returns the seconds by which everything stood still, 0 as a rule.
        """
        now = time.monotonic()
        late, self._awake = now - self._awake - seconds, now
        if late < _LATE:
            return 0.0
        self._excuses.paused(call_notes.read_all(self._notes), now)
        return late

    def overdue(self, *, first: bool) -> CallNote | None:
        """Return a call that hangs; `first`: no sample has come from this process yet."""
        self.waited(0.0)
        return self._deadlines.overdue(self._counted(), first=first)

    def next_look(self, *, first: bool) -> float:
        """Return in how many seconds a call could be overdue at the earliest."""
        self.waited(0.0)
        return self._deadlines.next_look(self._counted(), first=first)

    def sampling(self) -> CallNote | None:
        """Return the call about a GPU, or about the library, that a sample waits for."""
        return call_notes.read(self._notes, call_notes.SAMPLING)

    def _counted(self) -> list[CallNote | None]:
        return self._excuses.counted(call_notes.read_all(self._notes), time.monotonic())
