"""Who asks for a sample gets one that knows what is requested, at whatever moment it asks."""

from collections.abc import Callable

import pytest

from exporter import protocol
from exporter.sensor.nvml.vendor import NvmlVendor
from simulator.node import SimulatedNode
from tests.exporter.running import wait_for
from tests.exporter.sensor.supervisor.supervision import supervised


class Interrupted(NvmlVendor):
    """Something else is requested just when it was looked up for the first time."""

    ask: Callable[[], None] | None = None

    def request(self, now: float) -> protocol.SampleRequest:
        found = super().request(now)
        ask, self.ask = self.ask, None
        if ask is not None:
            ask()
        return found


def test_what_is_requested_while_a_sample_is_begun_is_in_the_next_one(
    node: SimulatedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    vendor, child, states = supervised(node, monkeypatch, Interrupted, interval=3600.0)
    vendor.ask = child.ask
    child.start()
    try:
        wait_for(
            lambda: sum(state.reading is not None for state in states) == 2, what="a second one"
        )
    finally:
        child.stop()
