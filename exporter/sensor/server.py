"""Serves a sensor to its agent over one unix socket; one agent at a time, the newest wins.

Garbage closes the connection and is counted. Who connects and does not say hello
makes room for the next one: a flood of connections costs _WAITING descriptors.
"""

import contextlib
import logging
import os
import socket
import struct
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec

from exporter import protocol
from exporter.model.readings import Observation
from exporter.sensor.feed import Position
from exporter.sensor.process import Sensor
from exporter.sensor.truncation import cuts

_log = logging.getLogger(__name__)

_HELLO_SECONDS = 5.0
_SEND_SECONDS = 30.0
"""An agent that does not read for so long is let go."""
_RETRY_SECONDS = 1.0
_WAITING = 8
"""Connections that have not said hello yet."""


class SensorServer:
    """Listens in one thread and serves each agent in two others."""

    def __init__(self, sensor: Sensor, path: Path) -> None:
        self._sensor = sensor
        self._path = path
        self._listener = _bind(path)
        self._bound = _inode(path)
        self._guard = threading.Lock()
        self._agent: protocol.Channel | None = None
        self._waiting: dict[protocol.Channel, None] = {}
        """Oldest first."""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._accept, name="sensor socket", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def pass_lock(self) -> None:
        """Take the lock and release it; a deadlock blocks the caller."""
        with self._guard:
            pass

    def stop(self) -> None:
        self._stopping.set()
        # Wakes the thread that accepts; close alone does not.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(_RETRY_SECONDS + 1)
        with self._guard:
            left = [*self._waiting, *([self._agent] if self._agent else [])]
        for channel in left:
            channel.end()
        if _inode(self._path) == self._bound:
            with contextlib.suppress(OSError):
                self._path.unlink()
        # Only now: as long as it is open no other socket is given its inode.
        self._listener.close()

    def _accept(self) -> None:
        while not self._stopping.is_set():
            try:
                stream, _ = self._listener.accept()
            except OSError as error:
                if not self._stopping.is_set():
                    _log.warning("the sensor's socket does not accept: %s", error)
                self._stopping.wait(_RETRY_SECONDS)
                continue
            channel = protocol.Channel(stream)
            with self._guard:
                self._waiting[channel] = None
                oldest = next(iter(self._waiting)) if len(self._waiting) > _WAITING else None
                if oldest is not None:
                    del self._waiting[oldest]
            if oldest is not None:
                oldest.end()
            try:
                _begin("agent", self._serve, stream, channel)
            except protocol.Closed as error:
                _log.warning("closing agent connection: %s", error)
                self._let_go(channel)

    def _serve(self, stream: socket.socket, channel: protocol.Channel) -> None:
        try:
            stream.settimeout(_HELLO_SECONDS)
            hello = self._greeted(channel)
            stream.settimeout(None)
            # A send fails after _SEND_SECONDS, a receive waits: an agent may have nothing to say.
            limit = struct.pack("@ll", int(_SEND_SECONDS), 0)
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
            # Only an agent that spoke properly takes the place of the one before.
            with self._guard:
                self._waiting.pop(channel, None)
                before, self._agent = self._agent, channel
            if before is not None:
                before.end()
            self._sensor.want(hello.requested)
            self._tell(channel, hello)
        except protocol.Closed:
            pass
        except protocol.WireError as error:
            self._refuse(error)
        finally:
            self._let_go(channel)

    def _let_go(self, channel: protocol.Channel) -> None:
        with self._guard:
            self._waiting.pop(channel, None)
        channel.close()

    def _greeted(self, channel: protocol.Channel) -> protocol.Hello:
        try:
            hello = channel.receive(protocol.to_sensor)
        except (protocol.VersionSkewError, protocol.UnknownKindError) as error:
            # In our version: so the agent knows whose fault it is.
            channel.send(protocol.Refused(f"the sensor does not understand this agent: {error}"))
            raise
        if not isinstance(hello, protocol.Hello):
            raise protocol.WireError("the first message must be a hello")
        return hello

    def _refuse(self, error: protocol.WireError) -> None:
        _log.warning("a connection to the sensor was closed: %s", error)
        self._sensor.refuse()

    def _hear(self, channel: protocol.Channel, position: Position) -> None:
        """Take what an agent says after its hello: that it shows other fields."""
        try:
            while not self._stopping.is_set():
                self._take(channel)
        except protocol.Closed:
            pass
        except protocol.WireError as error:
            self._refuse(error)
        finally:
            self._sensor.feed.let_go(position)
            channel.end()

    def _take(self, channel: protocol.Channel) -> None:
        try:
            message = channel.receive(protocol.to_sensor)
        except protocol.UnknownKindError:
            # Of a newer agent, which must do without an answer.
            self._sensor.refuse()
            return
        if isinstance(message, protocol.Requested):
            self._sensor.want(message.fields)

    def _tell(self, channel: protocol.Channel, hello: protocol.Hello) -> None:
        feed = self._sensor.feed
        position, boot_id = feed.resume(hello.cursor, hello.boot_id)
        channel.send(protocol.Welcome(position.run, boot_id))
        _begin("agent's words", self._hear, channel, position)
        while feed.is_current(position):
            signals, observation = feed.since(position)
            if signals is not None:
                channel.send(signals)
            if observation is not None:
                self._observed(channel, observation)

    def _observed(self, channel: protocol.Channel, observation: Observation) -> None:
        try:
            channel.send(protocol.Observed(observation))
        except protocol.TooLargeError:
            observation = msgspec.structs.replace(observation, cut=self._sensor.note_cut())
            for less in cuts(observation):
                with contextlib.suppress(protocol.TooLargeError):
                    channel.send(protocol.Observed(less))
                    return
            raise


def _begin(name: str, target: Callable[..., None], *arguments: object) -> None:
    """Start a thread; raises Closed when there is no room for one more."""
    try:
        threading.Thread(target=target, args=arguments, name=name, daemon=True).start()
    except RuntimeError as error:
        raise protocol.Closed(str(error)) from error


def _inode(path: Path) -> tuple[int, int] | None:
    """Return what tells one socket at a path from the next: another sensor may replace ours."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


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
    listener.listen(_WAITING)
    return listener
