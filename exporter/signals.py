"""One piece of news about a GPU, numbered, and the bounded ring that keeps it for the agent.

The sensor turns kernel-log records and NVML events into signals; the agent
counts them. The ring lets an agent that was away take up where its report ends.
Pure: numbers and times come in.
"""

from collections import deque
from collections.abc import Iterable
from typing import Literal

import msgspec

from exporter.report import Cursor, Moment

Kind = Literal[
    "xid", "fell-off", "driver-load", "identity", "recovery", "sxid", "rate-limit", "topology"
]
"""`fell-off` is the kernel's line about a lost GPU without the word Xid (code 79), `identity` the
line that ties a bus id to a UUID, `recovery` NVML's event that the recovery action changed, `sxid`
an NVSwitch's error, `rate-limit` the driver's word that lines of `code` are left out from now on,
`topology` NVML's event that GPUs were bound, unbound or cut into other instances."""

ERRORS: tuple[Kind, ...] = ("xid", "fell-off")
"""Kinds that are counted."""


class Partner(msgspec.Struct, frozen=True, omit_defaults=True):
    """The earlier sighting of the same error by another witness, and its instance."""

    number: int
    gi: int | None = None
    ci: int | None = None


class Signal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One piece of news. Fields that a kind does not have keep their default."""

    kind: Kind
    source: Literal["kmsg", "nvml", "dcgm"]
    at: Moment
    number: int = 0
    """Position in the stream of this sensor run, from 1."""
    kernel_sequence: int | None = None
    bus_id: str = ""
    """In the form of `device.normal_bus_id`."""
    uuid: str = ""
    code: int = 0
    gi: int | None = None
    ci: int | None = None
    reset: bool | None = None
    drain_reset: bool | None = None
    pid: int | None = None
    process: str = ""
    message: str = ""
    caused_by: int | None = None
    """XID that the line names as the root cause (45, new drivers)."""
    recovery_to: int | None = None
    """The recovery action that a line with XID 154 says is wanted from now on."""
    link: int | None = None
    """NVLink of a `sxid`."""
    fatal: bool | None = None
    """Of a `sxid`: `Fatal` or `Non-fatal` as printed."""
    partner: Partner | None = None
    """Set when another witness told of this error before: it is then counted already."""


class Ring:
    """The last signals of one sensor run. Overflow drops the oldest and counts them."""

    def __init__(self, run: str, boot_id: str, capacity: int = 8192) -> None:
        self.run = run
        self.boot_id = boot_id
        self.dropped = 0
        self.last_number = 0
        self._signals: deque[Signal] = deque(maxlen=capacity)

    def number_next(self) -> int:
        """Return the number that the next signal must carry."""
        return self.last_number + 1

    def append(self, signal: Signal) -> None:
        """Keep a signal that carries `number_next()`."""
        self.dropped += len(self._signals) == self._signals.maxlen
        self.last_number = signal.number
        self._signals.append(signal)

    def after(self, number: int) -> list[Signal]:
        """Return the kept signals above a number of this run, oldest first."""
        newer: list[Signal] = []
        for signal in reversed(self._signals):
            if signal.number <= number:
                break
            newer.append(signal)
        newer.reverse()
        return newer

    def resume(self, cursor: Cursor, boot_id: str) -> list[Signal]:
        """Return what an agent with this cursor, written in boot `boot_id`, has not counted.

        To the same sensor run its own numbers say it. To a new run the kernel's
        sequence does, as a new sensor reads the whole kernel log again; its NVML
        events are all new. In another boot everything is.
        """
        if cursor.sensor_run == self.run:
            return self.after(cursor.signal_sequence)
        seen = cursor.kernel_sequence if boot_id == self.boot_id else None
        return list(_not_seen(self._signals, seen))


def _not_seen(signals: Iterable[Signal], kernel_sequence: int | None) -> Iterable[Signal]:
    for signal in signals:
        if (
            signal.kernel_sequence is None
            or kernel_sequence is None
            or signal.kernel_sequence > kernel_sequence
        ):
            yield signal
