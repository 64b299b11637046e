"""What agents take from a sensor: each the signals and the observation that it does not have yet.

The last signals are kept, so that an agent that was away loses none.
"""

import threading
import uuid
from collections.abc import Callable, Collection

import msgspec

from exporter.model.node_health import Cursor
from exporter.model.readings import Observation
from exporter.model.signals import Signal
from exporter.model.xid_dedup import Dedup, adds_nothing
from exporter.protocol import Signals
from exporter.sensor.ring import Ring

BATCH = 1000
"""Signals in one message."""


class Position(msgspec.Struct):
    """How far one agent has received."""

    run: str
    number: int
    state: int = 0
    backlog: list[Signal] = []
    """What it has not counted of the time before it came."""
    counted_to: int | None = None
    """The last kernel record that it counted before it came."""
    over: bool = False
    """Whether the agent is gone."""


class Feed:
    """The signals of one run of the node, and the number of its state.

    `changed` is the one lock of the sensor too: `observe` runs under it, and all that changes what
    it returns calls `touch` before the lock is released.
    """

    def __init__(self, boot_id: str, observe: Callable[[], Observation]) -> None:
        self.changed = threading.Condition()
        self.ring = Ring(uuid.uuid4().hex, boot_id)
        self._observe = observe
        self._state = 0
        self._kernel_sequence: int | None = None
        self._dedup = Dedup()

    def begin_run(self, boot_id: str) -> None:
        """Start over, as after a reboot; agents are let go and come again."""
        with self.changed:
            self.ring = Ring(uuid.uuid4().hex, boot_id)
            self._dedup = Dedup()
            self._kernel_sequence = None
            self.touch()

    def touch(self) -> None:
        """Have the observation sent anew."""
        with self.changed:
            self._state += 1
            self.changed.notify_all()

    def add(self, signal: Signal, deaf: Collection[str]) -> bool:
        """Number a signal, pair it and keep it; returns whether it adds anything."""
        with self.changed:
            numbered = msgspec.structs.replace(signal, number=self.ring.number_next())
            paired = self._dedup.pair(numbered, deaf)
            if adds_nothing(paired):
                return False
            self.ring.append(paired)
            self.changed.notify_all()
            return True

    def read_to(self, kernel_sequence: int) -> None:
        """Note a kernel record as read, after its signal was added.

        The agent's cursor must not run ahead of what it counts.
        """
        with self.changed:
            self._kernel_sequence = kernel_sequence

    def resume(self, cursor: Cursor, boot_id: str) -> tuple[Position, str]:
        """Return where an agent with this cursor stands, and the boot id."""
        with self.changed:
            position = Position(
                run=self.ring.run,
                number=self.ring.last_number,
                state=-1,
                backlog=self.ring.resume(cursor, boot_id),
                counted_to=self.ring.counted_to(cursor, boot_id),
            )
            return position, self.ring.boot_id

    def since(self, position: Position) -> tuple[Signals | None, Observation | None]:
        """Wait for what is new since a position, and move it.

        A position of another run (the node was rebooted), or whose agent is gone, gets nothing.
        """
        with self.changed:
            self.changed.wait_for(
                lambda: (
                    position.backlog
                    or position.state != self._state
                    or position.number < self.ring.last_number
                    or not self._is_live(position)
                )
            )
            if not self._is_live(position):
                return None, None
            signals = self._take(position)
            if position.state == self._state:
                return signals, None
            position.state = self._state
            return signals, self._observe()

    def is_current(self, position: Position) -> bool:
        with self.changed:
            return self._is_live(position)

    def let_go(self, position: Position) -> None:
        """Wake who waits for news of this position: its agent is gone."""
        with self.changed:
            position.over = True
            self.changed.notify_all()

    def _is_live(self, position: Position) -> bool:
        return position.run == self.ring.run and not position.over

    def _take(self, position: Position) -> Signals | None:
        waiting = position.backlog + self.ring.after(position.number, position.counted_to)
        position.number = self.ring.last_number
        batch, position.backlog = waiting[:BATCH], waiting[BATCH:]
        if not batch:
            return None
        read = [signal.kernel_sequence for signal in batch]
        if not position.backlog:
            # Not with a backlog: the cursor would cover records whose signals are still to be sent.
            read.append(self._kernel_sequence)
        # `_kernel_sequence` may be behind the batch: it is set after a record's signal is added.
        last = max((sequence for sequence in read if sequence is not None), default=None)
        return Signals(tuple(batch), last)
