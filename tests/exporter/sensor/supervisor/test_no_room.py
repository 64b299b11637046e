"""A machine that has no room for one more process has it back some time."""

import errno
import os
import threading
from collections.abc import Mapping

import pytest

from benchmarks.processes import descendants
from exporter.sensor.nvml.vendor import NvmlVendor
from simulator.node import SimulatedNode
from tests.exporter.running import wait_for
from tests.exporter.sensor.supervisor.supervision import supervised

_NO_SUCH_STACK = 1 << 60
"""Bytes; beyond every address space, so that it is refused however freely memory is lent."""


class NoProcess(NvmlVendor):
    """The first process cannot be started."""

    tries = 0

    def environment(self) -> Mapping[str, str]:
        self.tries += 1
        if self.tries == 1:
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return super().environment()


class NoThread(NvmlVendor):
    """Nobody can be started to hear the first process: no memory has room for such a stack."""

    tries = 0

    def environment(self) -> Mapping[str, str]:
        self.tries += 1
        wait_for(
            lambda: [
                thread.ident for thread in threading.enumerate() if thread.name == "folder watch"
            ]
        )
        threading.stack_size(_NO_SUCH_STACK if self.tries == 1 else 0)
        return super().environment()


@pytest.mark.parametrize(
    ("vendor", "text"),
    [(NoProcess, "temporarily unavailable"), (NoThread, "can't start new thread")],
)
def test_a_process_that_cannot_be_started_is_a_state_and_is_tried_again(
    node: SimulatedNode, monkeypatch: pytest.MonkeyPatch, vendor: type[NvmlVendor], text: str
) -> None:
    _, child, states = supervised(node, monkeypatch, vendor, interval=0.2)
    child.start()
    try:
        wait_for(lambda: [state for state in states if state.reading], what="a reading")
    finally:
        child.stop()
        threading.stack_size(0)
    first = states[0].source
    assert (first.up, first.reason) == (False, "NotStarted")
    assert text in first.message
    left = [
        command
        for command in descendants(os.getpid()).values()
        if "exporter.sensor.nvml.child" in command
    ]
    assert not left, "a process nobody hears is left behind"
