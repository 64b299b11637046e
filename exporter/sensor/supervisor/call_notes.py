"""Which vendor call is running, in memory that two processes share.

The child notes each call before it makes it; when it does not come back, the
parent reads the note, so that a hang has a name. Layout: one slot per thread of
start time (monotonic seconds, 0 while idle), GPU index (-1: none) and call name.
"""

import mmap
import os
import struct
import time

from exporter.model.readings import CallNote

_SLOT = struct.Struct("=di64s")
_START = struct.Struct("=d")
_PITCH = 128
SIZE = 4096

SAMPLING = 0
"""Slot of the thread that reads state."""
EVENTS = 1
"""Slot of the thread that waits for events of GPUs."""
SYSTEM_EVENTS = 2
"""Slot of the thread that waits for GPUs that the driver takes or lets go."""
SLOTS = 3
WAIT_SECONDS = 5.0
"""What waiting for an event may take by itself, beside the deadline of a call."""


class Slot:
    """Where one thread of the child writes."""

    def __init__(self, memory: mmap.mmap, number: int) -> None:
        self._memory = memory
        self._at = number * _PITCH

    def begin(self, gpu: int, call: str) -> None:
        # The start goes last, so that a reader never sees it beside an older name.
        _SLOT.pack_into(self._memory, self._at, 0.0, gpu, call.encode())
        _START.pack_into(self._memory, self._at, time.monotonic())

    def end(self) -> None:
        _START.pack_into(self._memory, self._at, 0.0)


def create() -> tuple[int, mmap.mmap]:
    """Return a descriptor to hand to the child, and the memory behind it."""
    descriptor = os.memfd_create("draguard-calls")
    os.ftruncate(descriptor, SIZE)
    return descriptor, mmap.mmap(descriptor, SIZE)


def attach(descriptor: int) -> mmap.mmap:
    return mmap.mmap(descriptor, SIZE)


def read(memory: mmap.mmap, slot: int) -> CallNote | None:
    """Return the call under way in a slot, None while there is none."""
    start, gpu, name = _SLOT.unpack_from(memory, slot * _PITCH)
    if start == 0.0:
        return None
    call = name.split(b"\0", 1)[0].decode("ascii", "replace")
    return CallNote(None if gpu < 0 else gpu, call, time.monotonic() - start)


def read_all(memory: mmap.mmap) -> tuple[CallNote | None, ...]:
    """Return the calls under way, in the order of their slots."""
    return tuple(read(memory, slot) for slot in range(SLOTS))
