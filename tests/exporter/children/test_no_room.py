"""A machine that has no room for one more process has it back some time."""

import errno
import os
from collections.abc import Mapping

import pytest

from exporter.children.child import VendorChild, VendorState
from exporter.nvml.vendor import NvmlVendor
from exporter.readings import NvmlReading
from exporter.setup.settings import Settings
from simulator.node import SimulatedNode
from tests.exporter.running import wait_for


class Crowded(NvmlVendor):
    """The first process cannot be started."""

    tries = 0

    def environment(self) -> Mapping[str, str]:
        self.tries += 1
        if self.tries == 1:
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return super().environment()


def test_a_process_that_cannot_be_started_is_a_state_and_is_tried_again(
    node: SimulatedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in node.environment().items():
        monkeypatch.setenv(name, value)
    settings = Settings(
        node_name="node-a",
        nvml_library_dir=node.library_dir,
        release_file=node.root / "release",
        interval=0.2,
    )
    states: list[VendorState[NvmlReading]] = []
    child = VendorChild[NvmlReading](
        Crowded(settings, lambda: ()), settings, states.append, lambda _: None
    )
    child.start()
    try:
        wait_for(lambda: [one for one in states if one.reading], what="a reading")
    finally:
        child.stop()
    first = states[0].source
    assert (first.up, first.reason) == (False, "NotStarted")
    assert "temporarily unavailable" in first.message
