"""How much memory and processor a vendor process takes, and when that is too much.

A library that leaks takes the node's memory before it fails; one that spins takes
a core from the pods. Both still answer, so nothing else finds them. Judging is
pure; `taken` reads /proc.
"""

import os
from collections import deque
from pathlib import Path

import msgspec

SPIN_SECONDS = 30.0
"""Of rest: a sample may cost what it costs, but between two samples there is nothing to do."""
SPIN_SHARE = 0.5
"""Of one core."""
_PER_EVENT = 0.01
"""CPU seconds that telling one event may cost; a storm of them is work."""
_MIB = 1 << 20


class Taken(msgspec.Struct, frozen=True):
    """What a process has taken at one moment (/proc/<pid>/statm and stat)."""

    memory: int
    """Resident bytes, shared pages included."""
    cpu: float
    """Seconds of all its threads since it began."""


class Excess(msgspec.Struct, frozen=True):
    """Why a process must end; the sentence goes on from its name."""

    reason: str
    sentence: str


class ResourceLimits:
    """Judges one process; `limit` is in MiB. Seconds are monotonic."""

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._rest: deque[tuple[float, float]] = deque()
        """(seconds, CPU seconds) of the last stretches of rest."""
        self._before: tuple[float, Taken] | None = None
        self._events = 0

    def reported(self) -> None:
        """Take note of an event that the process reported."""
        self._events += 1

    def works(self) -> None:
        """Take note that a sample was requested from it: what it burns from here on is no rest."""
        self._before = None

    def judge(self, taken: Taken | None, now: float, *, resting: bool) -> Excess | None:
        """Return what is too much; None when nothing is, or when it could not be read."""
        if taken is None:
            return None
        if resting:
            before, self._before = self._before, (now, taken)
            events, self._events = self._events, 0
            if before is not None:
                burnt = taken.cpu - before[1].cpu - events * _PER_EVENT
                self._rest.append((now - before[0], burnt))
                while sum(seconds for seconds, _ in self._rest) - self._rest[0][0] >= SPIN_SECONDS:
                    self._rest.popleft()
        if taken.memory > self._limit * _MIB:
            return Excess(
                "Leaking",
                f"takes {taken.memory / _MIB:.0f} MiB of memory, more than --child-memory-limit "
                f"allows ({self._limit:g} MiB)",
            )
        seconds, cpu = (sum(column) for column in zip((0.0, 0.0), *self._rest, strict=True))
        if seconds < SPIN_SECONDS or cpu <= SPIN_SHARE * seconds:
            return None
        return Excess(
            "Spinning",
            f"burnt {100 * cpu / seconds:.0f}% of a core over {seconds:.0f} s without a request",
        )


def taken(pid: int) -> Taken | None:
    """Read what a process takes, None when it is gone or /proc cannot be read."""
    folder = Path(f"/proc/{pid}")
    try:
        pages = (folder / "statm").read_text(encoding="ascii").split()
        # After the command's name, which may hold blanks and brackets: state is field 3.
        fields = (folder / "stat").read_bytes().rpartition(b")")[2].split()
        ticks = int(fields[11]) + int(fields[12])
        return Taken(
            memory=int(pages[1]) * os.sysconf("SC_PAGE_SIZE"),
            cpu=ticks / os.sysconf("SC_CLK_TCK"),
        )
    except (OSError, IndexError, ValueError):
        return None
