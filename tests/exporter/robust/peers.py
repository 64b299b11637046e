"""The other end of the sensor's socket, played by a test."""

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from exporter import protocol
from exporter.model.node_health import Cursor
from exporter.model.readings import Observation
from tests.exporter.running import PATIENCE, wait_for


def frame(message: Any, version: int = protocol.PROTOCOL) -> bytes:
    """Return any value as a frame of any version."""
    body = msgspec.msgpack.encode(message)
    return bytes([version]) + len(body).to_bytes(4, "big") + body


def newer(message: msgspec.Struct) -> Any:
    """Return a message as a newer version may say it: with a field more in every object."""
    return _with_more(msgspec.to_builtins(message))


def _with_more(value: Any) -> Any:
    match value:
        case dict():
            members: dict[Any, Any] = {key: _with_more(element) for key, element in value.items()}  # pyright: ignore[reportUnknownVariableType] - anything at all
            named = bool(members) and all(isinstance(key, str) for key in members)
            return members | ({"of_a_later_version": {"x": [1, None]}} if named else {})
        case list() | tuple():
            return [_with_more(element) for element in value]  # pyright: ignore[reportUnknownVariableType] - anything at all
        case _:
            return value


class FakeSensor:
    """Says the same frames to whoever connects, as often as it is asked to."""

    def __init__(self, path: Path, *frames: bytes) -> None:
        self.frames = frames
        self.hellos: list[bytes] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(8)
        self._open: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def __enter__(self) -> "FakeSensor":
        return self

    def __exit__(self, *_: object) -> None:
        for connection in (self._listener, *self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        # Only when it has ended does nobody open one more.
        self._thread.join(PATIENCE)
        for connection in (*self._open, self._listener):
            connection.close()

    def say(self, data: bytes) -> None:
        """Say something to the one who connected last."""
        self._open[-1].sendall(data)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                stream, _ = self._listener.accept()
                self._open.append(stream)
                # An agent that hangs up is not the last one.
                with contextlib.suppress(OSError):
                    self.hellos.append(stream.recv(65536))
                    for piece in self.frames:
                        stream.sendall(piece)


class FakeAgent:
    """One connection to a real sensor."""

    def __init__(self, path: Path) -> None:
        self.stream = wait_for(lambda: _connected(path), what=f"who listens at {path}")
        self.channel = protocol.Channel(self.stream)

    def __enter__(self) -> "FakeAgent":
        return self

    def __exit__(self, *_: object) -> None:
        self.channel.close()

    def hello(self) -> protocol.ToAgent:
        self.channel.send(protocol.Hello(Cursor(), ""))
        return self.channel.receive(protocol.to_agent)

    def observations(self, seconds: float = PATIENCE) -> Iterator[Observation]:
        """Give what the sensor observes, for so long."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            message = self.channel.receive(protocol.to_agent)
            if isinstance(message, protocol.Observed):
                yield message.observation
        raise AssertionError("nothing of what was waited for was observed")


def _connected(path: Path) -> socket.socket | None:
    """Return a connection; None where there is a socket at which nobody listens yet."""
    stream = socket.socket(socket.AF_UNIX)
    stream.settimeout(PATIENCE)
    try:
        stream.connect(str(path))
    except (ConnectionRefusedError, FileNotFoundError):
        stream.close()
        return None
    return stream
