"""Nobody waits for the log: not on a pipe that is full, not on one that is closed."""

import fcntl
import logging
import os
import re
import signal
from collections.abc import Iterator

import pytest

from exporter.logs import Outlet
from simulator.node import SimulatedNode
from tests.exporter.robust.confined import Confined
from tests.exporter.running import Exporter, send, wait_for
from tests.lab import leftovers


@pytest.fixture
def full_pipe() -> Iterator[int]:
    out, into = os.pipe()
    size = fcntl.fcntl(into, fcntl.F_SETPIPE_SZ, 4096)
    os.write(into, b"x" * size)
    yield into
    os.close(out)
    os.close(into)


@pytest.fixture
def closed_pipe() -> Iterator[int]:
    out, into = os.pipe()
    os.close(out)
    yield into
    os.close(into)


def test_a_pipe_that_is_full_stops_nothing(node: SimulatedNode, full_pipe: int) -> None:
    with Confined(node, "run", "--log-level=DEBUG", log=full_pipe) as exporter:
        _works(node, exporter)
        assert exporter.stop() == 0


def test_a_pipe_that_is_closed_stops_nothing(node: SimulatedNode, closed_pipe: int) -> None:
    with Confined(node, "run", "--log-level=DEBUG", log=closed_pipe) as exporter:
        _works(node, exporter)
        assert exporter.stop() == 0


def _works(node: SimulatedNode, exporter: Exporter) -> None:
    exporter.wait_shows('draguard_source_up{source="nvml"} 1')
    send(exporter.nvml_child(), signal.SIGKILL)
    # So that it stays down until it was looked at, however long that takes.
    node.segfault(0, "nvmlDeviceGetTemperature")
    exporter.wait_shows('draguard_source_up{source="nvml",reason="Crashed"} 0')
    node.heal(0)
    exporter.wait_shows('draguard_source_up{source="nvml"} 1')
    node.kubelet.stop()
    exporter.wait_shows('draguard_source_up{source="podresources",reason="NotFound"} 0')
    node.inject_xid(0, 79)
    exporter.wait_count(79, 1)


@pytest.mark.parametrize("waits", [True, False], ids=["waits", "never waits"])
def test_lines_that_find_no_room_are_counted(*, waits: bool) -> None:
    out, into = os.pipe()
    # Whoever shares a pipe may have made it one that never waits.
    os.set_blocking(into, waits)
    fcntl.fcntl(into, fcntl.F_SETPIPE_SZ, 4096)
    log = logging.Logger("of this test")
    with leftovers.kept():  # its thread waits for lines until the process ends
        outlet = Outlet(into)
    log.addHandler(outlet)
    for number in range(5000):
        log.warning("line %d", number)
    os.set_blocking(out, False)
    read = bytearray()
    wait_for(lambda: read.extend(_what_is_there(out)) or b"line 900" in read)
    log.warning("one more")
    last = re.compile(rb"^one more.*\n", re.MULTILINE)
    wait_for(lambda: read.extend(_what_is_there(out)) or last.search(read))
    # Each line was written, or counted by a later one.
    left_out = map(int, re.findall(rb" \((\d+) lines before this one", read))
    assert sum(left_out) + len(re.findall(rb"^line \d+", read, re.MULTILINE)) == 5000
    outlet.close()
    os.close(out)
    os.close(into)


def _what_is_there(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 1 << 16)
    except BlockingIOError:
        return b""
