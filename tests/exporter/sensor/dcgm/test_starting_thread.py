"""The thread that starts the DCGM child lives as long as the child may.

The kernel sends PR_SET_PDEATHSIG when the thread that forked ends, not when its process does. A
child of a passing thread would die with it, and an embedded engine's helpers with the child.
"""

import os
import signal
import threading
from pathlib import Path

import pytest

from simulator.dcgm_engine import SimulatedDcgm
from simulator.node import SimulatedNode
from tests.exporter.sensor.dcgm.running import Supervised, simulated

SAMPLES = 4


@pytest.fixture
def dcgm(node: SimulatedNode, monkeypatch: pytest.MonkeyPatch) -> SimulatedDcgm:
    return simulated(node, monkeypatch)


def parents() -> dict[int, int]:
    """Return the thread that forked each child of this process, by the child's pid."""
    found: dict[int, int] = {}
    for task in Path("/proc/self/task").iterdir():
        for child in (task / "children").read_text(encoding="ascii").split():
            found[int(child)] = int(task.name)
    return found


def supervising() -> int:
    """Return the kernel's id of the supervisor's one thread."""
    (thread,) = [candidate for candidate in threading.enumerate() if candidate.name == "dcgm"]
    assert thread.native_id is not None
    return thread.native_id


def started_by(thread: int) -> int:
    """Return the one child that a thread forked and that still lives."""
    (child,) = [pid for pid, parent in parents().items() if parent == thread]
    return child


def test_the_child_outlives_the_thread_that_requested_it(dcgm: SimulatedDcgm) -> None:
    seen = Supervised(dcgm)
    passing = threading.Thread(target=seen.__enter__)
    passing.start()
    passing.join()
    try:
        seen.reading()
        child = started_by(supervising())
        for _ in range(SAMPLES):
            seen.reading()
        assert started_by(supervising()) == child
        assert seen.states[-1].restarts == 0
    finally:
        seen.__exit__(None, None, None)


def test_a_child_that_takes_a_dead_ones_place_is_started_by_the_same_thread(
    dcgm: SimulatedDcgm,
) -> None:
    with Supervised(dcgm) as seen:
        seen.reading()
        thread = supervising()
        first = started_by(thread)
        os.kill(first, signal.SIGKILL)
        seen.down("Crashed")
        seen.reading()
        assert supervising() == thread
        assert started_by(thread) != first
