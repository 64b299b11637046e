"""The agent's end of the sensor's socket: connects, says where the report ends, reads, retries."""

import contextlib
import logging
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from exporter import protocol

_log = logging.getLogger(__name__)

_BACK_OFF = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
_CONNECT_SECONDS = 5.0
UNREACHABLE = "SensorUnreachable"
VERSION_SKEW = "VersionSkew"


class Listener(Protocol):
    """Who takes what the sensor tells, on the link's thread."""

    def hello(self) -> protocol.Hello:
        """Return from where to go on, and what is requested."""
        ...

    def welcome(self, message: protocol.Welcome) -> None: ...
    def signals(self, message: protocol.Signals) -> None: ...
    def observed(self, message: protocol.Observed) -> None: ...
    def unreachable(self, message: str, reason: str) -> None:
        """Take note that the sensor is stale now."""
        ...

    def unknown(self, message: str) -> None:
        """Take note of a message that only a newer version has; it was left out."""
        ...


class SensorLink:
    """One thread that keeps the connection up."""

    def __init__(self, path: Path, listener: Listener, on_refused: Callable[[], None]) -> None:
        self._path = path
        self._listener = listener
        self._on_refused = on_refused
        self._channel: protocol.Channel | None = None
        self._speaking = threading.Lock()
        """The hello comes first, and one message after the other."""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sensor link", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self.reconnect()
        self._thread.join(_CONNECT_SECONDS)

    def reconnect(self) -> None:
        """End the connection; the next one starts from the position of then."""
        channel, self._channel = self._channel, None
        if channel is not None:
            # Its own thread closes it: that one may be about to read from the descriptor.
            channel.end()

    def want(self, fields: tuple[int, ...]) -> None:
        """Tell the sensor that other fields are shown; without a connection its hello will."""
        with self._speaking:
            channel = self._channel
            if channel is not None:
                with contextlib.suppress(protocol.WireError):
                    channel.send(protocol.Requested(fields))

    def _run(self) -> None:
        failures = 0
        while not self._stopping.is_set():
            try:
                received = self._once()
            except protocol.VersionSkewError as error:
                received = 0
                self._listener.unreachable(
                    f"the sensor at {self._path} is of another version ({error}): use one image "
                    "for both",
                    VERSION_SKEW,
                )
            except protocol.WireError as error:
                received = 0
                self._complain(str(error))
            except Exception as error:  # noqa: BLE001 - logged; nobody else hears the sensor
                received = 0
                self._on_refused()
                _log.exception("a message of the sensor cannot be processed")
                self._complain(f"its message cannot be processed: {error!r}")
            failures = 0 if received else failures + 1
            self._stopping.wait(_BACK_OFF[min(failures, len(_BACK_OFF) - 1)])

    def _complain(self, what: str) -> None:
        if not self._stopping.is_set():
            self._listener.unreachable(
                f"the sensor at {self._path} does not answer ({what}): see that it runs and that "
                "this agent's group may use the socket",
                UNREACHABLE,
            )

    def _once(self) -> int:
        """Connect and read until the connection ends; returns how many messages came."""
        try:
            channel = protocol.Channel(_connected(self._path))
        except OSError as error:
            raise protocol.Closed(f"cannot connect: {error}") from error
        received = 0
        try:
            with self._speaking:
                self._channel = channel
                if self._stopping.is_set():
                    # Who stops may have found no connection to end.
                    raise protocol.Closed("stopping")
                channel.send(self._listener.hello())
            while True:
                message: protocol.ToAgent | None = None
                try:
                    message = channel.receive(protocol.to_agent)
                except protocol.UnknownKindError as error:
                    self._on_refused()
                    self._listener.unknown(
                        f"{error}, and is left out: the sensor is newer than this agent"
                    )
                if self._channel is not channel:
                    # A closed socket still gives what had arrived.
                    raise protocol.Closed("connecting anew")
                if message is not None:
                    self._take(message)
                received += 1
        except protocol.Closed as error:
            self._complain(str(error))
            return received
        except protocol.WireError:
            self._on_refused()
            raise
        finally:
            self._channel = None
            channel.close()

    def _take(self, message: protocol.ToAgent) -> None:
        match message:
            case protocol.Welcome():
                self._listener.welcome(message)
            case protocol.Signals():
                self._listener.signals(message)
            case protocol.Observed():
                self._listener.observed(message)
            case protocol.Refused():
                raise protocol.VersionSkewError(message.message)


def _connected(path: Path) -> socket.socket:
    stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        stream.settimeout(_CONNECT_SECONDS)
        stream.connect(str(path))
        stream.settimeout(None)
    except OSError:
        stream.close()
        raise
    return stream
