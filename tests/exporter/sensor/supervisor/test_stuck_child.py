"""A vendor process that cannot be killed, as one that sleeps in the driver.

A tracer holds the process at its end, so that SIGKILL does not remove it: for the
supervisor that is the same as uninterruptible sleep.
"""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from simulator.node import SimulatedNode
from tests.exporter.running import SOON, Exporter, is_running, wait_for

_TRACER = """
import ctypes, sys
SEIZE, DETACH, TRACE_EXIT = 0x4206, 17, 0x40
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
pid = int(sys.argv[1])
if libc.ptrace(SEIZE, pid, None, TRACE_EXIT):
    sys.exit(f"ptrace: errno {ctypes.get_errno()}")
print("holding", flush=True)
sys.stdin.readline()
if libc.ptrace(DETACH, pid, None, None):
    sys.exit(f"detach: errno {ctypes.get_errno()}")
"""


class Tracer:
    """Keeps a process from going away until `let_go`."""

    def __init__(self, pid: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _TRACER, str(pid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "holding\n"

    def let_go(self) -> None:
        self._process.communicate("\n", timeout=60)

    def end(self) -> None:
        self._process.kill()
        self._process.communicate(timeout=60)


def _release_file(node: SimulatedNode) -> Path:
    return node.root / "release"


@pytest.fixture
def held(node: SimulatedNode) -> Iterator[tuple[SimulatedNode, Exporter, int, Tracer]]:
    with Exporter(node, "run", SOON, f"--release-file={_release_file(node)}") as exporter:
        exporter.wait_shows("DCGM_FI_DEV_GPU_TEMP")
        child = exporter.nvml_child()
        tracer = Tracer(child)
        try:
            yield node, exporter, child, tracer
        finally:
            tracer.end()


def test_a_child_that_cannot_be_killed_is_called_stuck_and_gets_no_second(
    held: tuple[SimulatedNode, Exporter, int, Tracer],
) -> None:
    node, exporter, child, tracer = held
    node.hang(0)
    exporter.wait_shows('draguard_source_up{source="nvml",reason="Stuck"} 0')
    children = [
        line for line in exporter.descendants().values() if "exporter.sensor.nvml.child" in line
    ]
    assert len(children) == 1
    assert is_running(child)
    # The rest goes on: what the kernel log says is still counted.
    node.inject_xid(1, 79, nvml=False)
    exporter.wait_count(79, 1)
    exporter.wait_logged("reboot the node")
    tracer.let_go()
    node.heal(0)
    wait_for(lambda: not is_running(child), what="the end of the stuck child")
    exporter.wait_shows("DCGM_FI_DEV_GPU_TEMP")
    assert exporter.nvml_child() != child


def test_a_child_that_works_and_cannot_be_killed_for_a_release_is_not_called_up(
    held: tuple[SimulatedNode, Exporter, int, Tracer],
) -> None:
    node, exporter, _, tracer = held
    _release_file(node).write_text(f"{node.gpu(1).uuid}\n", encoding="utf-8")
    page = exporter.wait_shows('draguard_source_up{source="nvml",reason="Stuck"}')
    assert page.series("draguard_source_up")['source="nvml",reason="Stuck"'] == 0
    assert not page.series("DCGM_FI_DEV_GPU_TEMP")
    assert not page.shows('reason="Released"')
    tracer.let_go()
    exporter.wait_shows('presence="Unknown",reason="Released"', "DCGM_FI_DEV_GPU_TEMP")
