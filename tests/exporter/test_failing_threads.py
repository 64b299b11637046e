"""What becomes of the page when a thread meets an error that nobody expected."""

import contextlib
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from exporter import protocol
from exporter.agent.link import SensorLink
from exporter.agent.process import Agent
from exporter.metrics.counters_file import CountersFile
from exporter.model.node_health import Cursor
from exporter.settings import Settings
from exporter.shutdown import THREAD_FAILED
from tests.exporter.running import wait_for

_THREAD = """
import threading, time
from exporter.shutdown import end_with_any_thread

end_with_any_thread()
threading.Thread(target={target}, name="kernel log", daemon=True).start()
time.sleep({seconds})
"""


def run(target: str, seconds: float) -> tuple[int, str]:
    program = _THREAD.format(target=target, seconds=seconds)
    done = subprocess.run(
        [sys.executable, "-c", program], stderr=subprocess.PIPE, text=True, check=False, timeout=60
    )
    return done.returncode, done.stderr


def test_a_thread_that_fails_ends_the_process_and_says_which_and_why() -> None:
    code, logged_text = run("lambda: 1 / 0", 50)
    assert code == THREAD_FAILED
    assert "the thread 'kernel log' ended by an error" in logged_text
    assert "ZeroDivisionError" in logged_text


def test_a_thread_that_ends_as_it_should_ends_nothing_else() -> None:
    assert run("lambda: None", 0.2) == (0, "")
    assert run("exit", 0.2) == (0, "")


@pytest.fixture
def folder() -> Iterator[Path]:
    # Short: a unix socket's path has 107 bytes at most.
    with TemporaryDirectory(prefix="dg-") as root:
        yield Path(root)


class FailingCounters(CountersFile):
    """Fails at each look while the test says so."""

    failing = False

    def look(self) -> bool:
        if self.failing:
            raise RuntimeError("no such row")
        return super().look()


def test_a_page_that_cannot_be_rendered_is_not_replaced_by_an_older_one(folder: Path) -> None:
    counters = FailingCounters(None)
    settings = Settings(node_name="node-a", sensor_socket=folder / "none.sock", interval=0.1)
    agent = Agent(settings, None, "1", counters)
    agent.start()
    try:
        wait_for(agent.page, what="a first page")
        counters.failing = True
        wait_for(lambda: agent.page() is None, what="the page to go")
        # Counted once the page is gone.
        none = b"draguard_render_failures_total 0"
        wait_for(lambda: none not in agent.metrics.text(), what="its count")
        counters.failing = False
        wait_for(agent.page, what="the next page")
    finally:
        agent.stop()


class Listener:
    """Takes what a sensor says, and fails at the first signals."""

    def __init__(self) -> None:
        self.complaints: list[str] = []
        self.welcomed = 0
        self.received = threading.Event()

    def hello(self) -> protocol.Hello:
        return protocol.Hello(Cursor(), "")

    def welcome(self, message: protocol.Welcome) -> None:
        self.welcomed += bool(message.run)

    def signals(self, message: protocol.Signals) -> None:
        assert not message.signals
        if self.welcomed == 1:
            raise KeyError("a GPU that nobody knows")
        self.received.set()

    def observed(self, message: protocol.Observed) -> None: ...

    def unreachable(self, message: str, reason: str) -> None:
        self.complaints.append(f"{reason}: {message}")

    def unknown(self, message: str) -> None:
        self.complaints.append(message)


def test_what_the_sensor_says_and_the_agent_cannot_take_is_requested_again(folder: Path) -> None:
    path = folder / "sensor.sock"
    listener, refused = Listener(), list[int]()
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        server.bind(str(path))
        server.listen()
        server.settimeout(60)
        link = SensorLink(path, listener, lambda: refused.append(1))
        link.start()
        try:
            for _ in range(2):
                stream, _ = server.accept()
                channel = protocol.Channel(stream)
                stack.callback(channel.close)
                channel.receive(protocol.to_sensor)
                channel.send(protocol.Welcome("run", "boot"))
                channel.send(protocol.Signals((), None))
            assert listener.received.wait(60)
        finally:
            link.stop()
    assert refused == [1]
    assert "KeyError" in listener.complaints[0]
