"""The agent's end of the sensor's socket, used by several threads at once."""

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path, PosixPath
from tempfile import TemporaryDirectory

import pytest

from exporter import protocol
from exporter.agent.link import SensorLink
from exporter.model.node_health import Cursor


class Listener:
    """Says hello when it is let, as an agent does whose lock is taken."""

    def __init__(self) -> None:
        self.requested = threading.Event()
        self.may = threading.Event()

    def hello(self) -> protocol.Hello:
        self.requested.set()
        self.may.wait(60)
        return protocol.Hello(Cursor(), "", (1,))

    def welcome(self, message: protocol.Welcome) -> None: ...
    def signals(self, message: protocol.Signals) -> None: ...
    def observed(self, message: protocol.Observed) -> None: ...
    def unreachable(self, message: str, reason: str) -> None: ...
    def unknown(self, message: str) -> None: ...


@pytest.fixture
def silent() -> Iterator[tuple[Path, socket.socket]]:
    """A socket whose other end takes connections and says nothing."""
    with (
        # Short: a unix socket's path has 107 bytes at most.
        TemporaryDirectory(prefix="dg-") as folder,
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server,
    ):
        path = Path(folder) / "sensor.sock"
        server.bind(str(path))
        server.listen(1000)
        yield path, server


def test_the_hello_is_sent_first_whatever_is_requested_meanwhile(
    silent: tuple[Path, socket.socket],
) -> None:
    path, server = silent
    listener = Listener()
    link = SensorLink(path, listener, lambda: None)
    link.start()
    with contextlib.ExitStack() as ends:
        ends.callback(link.stop)
        ends.callback(listener.may.set)
        stream = ends.enter_context(server.accept()[0])
        assert listener.requested.wait(60)
        wanting = threading.Thread(target=link.want, args=((2,),))
        wanting.start()
        stream.settimeout(0.3)
        channel = protocol.Channel(stream)
        with pytest.raises(protocol.Closed, match="timed out"):
            channel.receive(protocol.to_sensor)
        listener.may.set()
        stream.settimeout(60)
        assert isinstance(channel.receive(protocol.to_sensor), protocol.Hello)
        assert channel.receive(protocol.to_sensor) == protocol.Requested((2,))
        wanting.join()


class Slow(PosixPath):
    """The place of a socket, which takes its time to be found."""

    requested = threading.Event()
    may = threading.Event()

    def __str__(self) -> str:
        self.requested.set()
        self.may.wait(60)
        return super().__str__()


def test_a_link_that_is_just_connecting_stops_as_well(silent: tuple[Path, socket.socket]) -> None:
    path, server = silent
    listener = Listener()
    listener.may.set()
    before = set(threading.enumerate())
    link = SensorLink(Slow(path), listener, lambda: None)
    link.start()
    assert Slow.requested.wait(60)
    stopping = threading.Thread(target=link.stop)
    stopping.start()
    time.sleep(0.3)  # it finds no connection to end, and waits
    Slow.may.set()
    with server.accept()[0]:
        stopping.join(60)
        # Other tests' threads may come and go meanwhile.
        left = {thread for thread in threading.enumerate() if thread.name == "sensor link"} - before
        for thread in left:
            thread.join(60)
        assert not any(thread.is_alive() for thread in left)
