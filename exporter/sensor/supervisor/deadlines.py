"""Which call of a vendor process took too long, and when to look again.

A call that begins after a look cannot be overdue before its whole allowance has
passed. So it is enough to look when the earliest running call would be overdue:
a hang is named in time, and while all is well almost nobody wakes up. Pure.
"""

from collections.abc import Sequence

import msgspec

from exporter.model.readings import CallNote
from exporter.sensor.supervisor import call_notes

_WHOLE_SAMPLE = 6
"""A sample may take this many times the deadline of one call, as long as calls come back."""
_AFTER = 0.05
"""Seconds behind a deadline at which to look: not just before it."""

_OF_A_GPU = 0.5
"""Share of the deadline that all calls about one GPU may take in a pass. With the call that was
under way then, a pass over a slow GPU is over before what was read of the others is stale."""
_STALE = 1.5
"""What was read is shown so many deadlines beyond its interval: a call that hangs late in a pass
is named before all that was read is withdrawn."""

Notes = Sequence[CallNote | None]
"""What each slot of `call_notes` says, in their order."""


class Deadlines(msgspec.Struct, frozen=True):
    """How long calls may take, in seconds."""

    call: float
    """`Settings.sample_deadline`."""
    start: float
    """`Settings.start_deadline`."""

    @property
    def sample(self) -> float:
        return _WHOLE_SAMPLE * self.call + self.start

    @property
    def gpu(self) -> float:
        return _OF_A_GPU * self.call

    @property
    def stale(self) -> float:
        return _STALE * self.call

    def overdue(self, notes: Notes, *, first: bool) -> CallNote | None:
        """Return a call that hangs; `first`: no sample has come from this process yet."""
        for slot, note in enumerate(notes):
            if note is not None and note.seconds > self._allowed(slot, note, first=first):
                return note
        return None

    def next_look(self, notes: Notes, *, first: bool) -> float:
        """Return in how many seconds a call could be overdue at the earliest."""
        left = [
            self._allowed(slot, note, first=first) - (note.seconds if note else 0.0)
            for slot, note in enumerate(notes)
        ]
        return max(min(left), 0.0) + _AFTER

    def _allowed(self, slot: int, note: CallNote | None, *, first: bool) -> float:
        if slot != call_notes.SAMPLING:
            return self.call + call_notes.WAIT_SECONDS
        # Without a GPU it is nvmlInit or alike, which may wake all of them.
        slow = first and note is not None and note.gpu is None
        return self.start if slow else self.call
