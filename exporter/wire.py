"""Frames between the exporter's own processes, and the messages in them.

A frame is one byte of protocol version, four bytes of length (network order)
and a msgpack body. Anything else is a WireError: the reader closes and counts,
it never crashes. Pure but for reading from and writing to a socket it is given.
"""

import contextlib
import socket
import struct
from typing import TypeVar

import msgspec

from exporter.readings import DcgmReading, NvmlReading, Observation
from exporter.report import Cursor
from exporter.signals import Signal

PROTOCOL = 1
MAX_FRAME = 4 << 20
"""Bytes of one frame; 56 slices with pods and a full batch of signals stay far below."""

_HEAD = struct.Struct("!BI")
T = TypeVar("T")


class WireError(Exception):
    """What came is no frame of ours, or the other side is gone."""


class Closed(WireError):  # noqa: N818 - the ordinary end of a connection
    """The other side closed between two frames."""


class Hello(msgspec.Struct, frozen=True, tag="hello"):
    """Agent to sensor, first and once."""

    cursor: Cursor
    boot_id: str
    """The boot that the cursor was written in, "" for none."""
    wanted: tuple[int, ...] = ()
    """DCGM field ids that the page shows, beside those that health needs."""


class Wanted(msgspec.Struct, frozen=True, tag="wanted"):
    """Agent to sensor: from now on the page shows these fields."""

    fields: tuple[int, ...]


class Welcome(msgspec.Struct, frozen=True, tag="welcome"):
    """Sensor to agent, the answer to Hello."""

    run: str
    boot_id: str


class Signals(msgspec.Struct, frozen=True, tag="signals"):
    """Sensor to agent: what happened, in order."""

    signals: tuple[Signal, ...]
    kernel_sequence: int | None
    """The last kernel-log record that was read when these were taken."""


class Observed(msgspec.Struct, frozen=True, tag="observed"):
    """Sensor to agent: the state now, whole."""

    observation: Observation


class SampleRequest(msgspec.Struct, frozen=True, tag="sample"):
    """Sensor to a vendor child: read every GPU but those in `skip` (NVML indices)."""

    skip: tuple[int, ...] = ()
    wanted: tuple[int, ...] = ()
    """DCGM field ids that are shown; what health needs is read without being asked for."""
    processes: bool = True
    """Whether the NVML child reads which processes use each GPU."""


class Sampled(msgspec.Struct, frozen=True, tag="sampled"):
    """NVML child to sensor."""

    reading: NvmlReading


class DcgmSampled(msgspec.Struct, frozen=True, tag="dcgm"):
    """DCGM child to sensor."""

    reading: DcgmReading


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """A vendor child to sensor: the library cannot be used at all. The child ends itself after."""

    reason: str
    message: str


class Happened(msgspec.Struct, frozen=True, tag="happened"):
    """A vendor child to sensor: an event; the number is given by the sensor."""

    signal: Signal


ToSensor = Hello | Wanted
ToAgent = Welcome | Signals | Observed
ToChild = SampleRequest
FromChild = Sampled | DcgmSampled | Failed | Happened

_encoder = msgspec.msgpack.Encoder()


def encode(message: msgspec.Struct) -> bytes:
    """Return a message as one frame; raises WireError when it would be too large."""
    body = _encoder.encode(message)
    if len(body) > MAX_FRAME:
        raise WireError(f"a message of {len(body)} bytes is above the limit of {MAX_FRAME}")
    return _HEAD.pack(PROTOCOL, len(body)) + body


def length(head: bytes) -> int:
    """Return the size of the body that a frame's head announces; raises WireError."""
    version, size = _HEAD.unpack(head)
    if version != PROTOCOL:
        raise WireError(f"protocol version {version} came, {PROTOCOL} is spoken here")
    if size > MAX_FRAME:
        raise WireError(f"a frame of {size} bytes is above the limit of {MAX_FRAME}")
    return size


def decode(body: bytes, decoder: msgspec.msgpack.Decoder[T]) -> T:
    """Return the message in a body; raises WireError."""
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError, OverflowError) as error:
        raise WireError(f"a frame that cannot be read: {error}") from error


to_sensor = msgspec.msgpack.Decoder(ToSensor)
to_agent = msgspec.msgpack.Decoder(ToAgent)
to_child = msgspec.msgpack.Decoder(ToChild)
from_child = msgspec.msgpack.Decoder(FromChild)


class Channel:
    """Frames over a connected stream socket. Raises Closed or WireError, never OSError."""

    def __init__(self, stream: socket.socket) -> None:
        self._stream = stream

    def send(self, message: msgspec.Struct) -> None:
        try:
            self._stream.sendall(encode(message))
        except OSError as error:
            raise Closed(f"cannot send: {error}") from error

    def receive(self, decoder: msgspec.msgpack.Decoder[T]) -> T:
        """Block for the next message, as long as the socket's timeout allows."""
        return decode(self._exactly(length(self._exactly(_HEAD.size))), decoder)

    def close(self) -> None:
        # Wakes a thread that reads from the socket; close alone does not.
        with contextlib.suppress(OSError):
            self._stream.shutdown(socket.SHUT_RDWR)
        self._stream.close()

    def _exactly(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            try:
                piece = self._stream.recv(min(size - len(parts), 1 << 16))
            except OSError as error:
                raise Closed(f"cannot receive: {error}") from error
            if not piece:
                raise Closed("the other side closed the connection")
            parts += piece
        return bytes(parts)
