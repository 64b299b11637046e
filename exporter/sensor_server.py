"""Serves a sensor to its agent over one unix socket; one agent at a time, the newest wins.

What an agent sends is read once, as a Hello. Garbage closes the connection and
is counted.
"""

import contextlib
import logging
import os
import socket
import struct
import threading
from pathlib import Path

from exporter import wire
from exporter.sensor import Sensor

_log = logging.getLogger(__name__)

_HELLO_SECONDS = 5.0
_SEND_SECONDS = 30.0
"""An agent that does not read for so long is let go."""
_WAKE_SECONDS = 1.0


class SensorServer:
    """Listens in one thread and serves the agent in another."""

    def __init__(self, sensor: Sensor, path: Path) -> None:
        self._sensor = sensor
        self._path = path
        self._listener = _bind(path)
        self._agent: wire.Channel | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._accept, name="sensor socket", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(_WAKE_SECONDS + 1)
        if self._agent is not None:
            self._agent.close()
        self._listener.close()
        with contextlib.suppress(OSError):
            self._path.unlink()

    def _accept(self) -> None:
        self._listener.settimeout(_WAKE_SECONDS)
        while not self._stopping.is_set():
            try:
                stream, _ = self._listener.accept()
            except TimeoutError:
                continue
            except OSError as error:
                _log.warning("the sensor's socket does not accept: %s", error)
                self._stopping.wait(_WAKE_SECONDS)
                continue
            threading.Thread(target=self._serve, args=(stream,), name="agent", daemon=True).start()

    def _serve(self, stream: socket.socket) -> None:
        channel = wire.Channel(stream)
        try:
            stream.settimeout(_HELLO_SECONDS)
            hello = channel.receive(wire.to_sensor)
            stream.settimeout(None)
            _limit_sending(stream)
            # Only who spoke properly takes the place of the one before.
            before, self._agent = self._agent, channel
            if before is not None:
                before.close()
            if not isinstance(hello, wire.Hello):
                raise wire.WireError("the first message must be a hello")
            self._sensor.want(hello.wanted)
            threading.Thread(
                target=self._hear, args=(channel,), name="agent's words", daemon=True
            ).start()
            self._tell(channel, hello)
        except wire.Closed:
            pass
        except wire.WireError as error:
            _log.warning("a connection to the sensor was closed: %s", error)
            self._sensor.refuse()
        finally:
            channel.close()

    def _hear(self, channel: wire.Channel) -> None:
        """Take what an agent says after its hello: that it shows other fields."""
        try:
            while not self._stopping.is_set():
                heard = channel.receive(wire.to_sensor)
                if isinstance(heard, wire.Wanted):
                    self._sensor.want(heard.fields)
        except wire.Closed:
            pass
        except wire.WireError as error:
            _log.warning("a connection to the sensor was closed: %s", error)
            self._sensor.refuse()
            channel.close()

    def _tell(self, channel: wire.Channel, hello: wire.Hello) -> None:
        position, boot_id = self._sensor.resume(hello.cursor, hello.boot_id)
        channel.send(wire.Welcome(position.run, boot_id))
        while not self._stopping.is_set() and self._sensor.is_current(position):
            signals, observation = self._sensor.news(position, _WAKE_SECONDS)
            if signals is not None:
                channel.send(signals)
            if observation is not None:
                channel.send(wire.Observed(observation))


def _limit_sending(stream: socket.socket) -> None:
    """Let a send fail after _SEND_SECONDS, but a receive wait: an agent may have nothing to say."""
    limit = struct.pack("@ll", int(_SEND_SECONDS), 0)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)


def _bind(path: Path) -> socket.socket:
    """Bind the socket for owner and group only; one that a dead sensor left is replaced."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o117)
    try:
        listener.bind(str(path))
    finally:
        os.umask(before)
    listener.listen(4)
    return listener
