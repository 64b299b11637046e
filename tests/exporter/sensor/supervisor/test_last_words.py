"""What a child reported just before its end is no less true for that."""

import queue
import threading

import pytest

from exporter import protocol
from exporter.model.signals import Signal
from exporter.sensor.nvml.vendor import NvmlVendor
from simulator.node import SimulatedNode
from tests.exporter.running import PATIENCE, wait_for
from tests.exporter.sensor.supervisor.supervision import State, supervised


class Reopening(NvmlVendor):
    """Wants the library opened anew while the test says so."""

    now = False

    def must_reopen(self) -> bool:
        return self.now


class Inbox(queue.SimpleQueue[object]):
    """Says when something that happened lies in it."""

    def __init__(self) -> None:
        self.holds_news = threading.Event()

    def put(
        self,
        item: object,
        block: bool = True,  # noqa: FBT002 - the base's
        timeout: float | None = None,
    ) -> None:
        super().put(item, block, timeout)
        if isinstance(item, protocol.Happened):
            self.holds_news.set()


def test_an_error_that_waits_while_the_library_is_opened_anew_is_handed_on(
    node: SimulatedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    received: list[Signal] = []
    reported: list[State] = []
    inbox = Inbox()

    def on_state(state: State) -> None:
        reported.append(state)
        if len(reported) == 1:
            # The supervisor waits for us, so the event waits for the supervisor.
            node.inject_xid(0, 43, kernel=False)
            assert inbox.holds_news.wait(PATIENCE)
        vendor.now = len(reported) == 1

    vendor, child, states = supervised(
        node, monkeypatch, Reopening, 3600.0, reported=on_state, on_signal=received.append
    )
    child._inbox = inbox  # noqa: SLF001  # pyright: ignore - to know what lies in it
    child.start()
    try:
        wait_for(lambda: len(states) >= 2, what="a second child")
    finally:
        child.stop()
    assert [(signal.kind, signal.code) for signal in received] == [("xid", 43)]
