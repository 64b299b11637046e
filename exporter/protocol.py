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

from exporter.model.node_health import Cursor
from exporter.model.readings import CallNote, DcgmReading, NvmlReading, Observation
from exporter.model.signals import Signal

PROTOCOL = 1
MAX_FRAME = 4 << 20
"""Bytes of one frame; 56 slices with pods and a full batch of signals stay far below."""

_HEAD = struct.Struct("!BI")
_HIGHEST_VERSION = 31
"""No version will be above: text begins there, and who speaks text is no agent or sensor."""
T = TypeVar("T")


class WireError(Exception):
    """What came is no frame of ours, or the other side is gone."""


class Closed(WireError):  # noqa: N818 - the ordinary end of a connection
    """The other side closed between two frames."""


class VersionSkewError(WireError):
    """The other side speaks another version, and cannot be understood."""


class UnknownKindError(WireError):
    """A message of a kind that only a newer version has; what follows can be read."""


class TooLargeError(WireError):
    """A message of our own is too large to be sent; nothing of it was."""


class Hello(msgspec.Struct, frozen=True, tag="hello"):
    """Agent to sensor, first and once."""

    cursor: Cursor
    boot_id: str
    """The boot that the cursor was written in, "" for none."""
    requested: tuple[int, ...] = ()
    """DCGM field ids that the page shows, beside those that health needs."""


class Requested(msgspec.Struct, frozen=True, tag="requested"):
    """Agent to sensor: from now on the page shows these fields."""

    fields: tuple[int, ...]


class Welcome(msgspec.Struct, frozen=True, tag="welcome"):
    """Sensor to agent, the answer to Hello."""

    run: str
    boot_id: str


class Refused(msgspec.Struct, frozen=True, tag="refused"):
    """Sensor to agent before it closes the connection: why it does."""

    message: str


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
    requested: tuple[int, ...] = ()
    """DCGM field ids that are shown; what health needs is read without a request."""
    processes: bool = True
    """Whether the NVML child reads which processes use each GPU."""
    gpu_seconds: float | None = None
    """What the NVML child's calls about one GPU may take together; None: whatever they take."""


class Sampled(msgspec.Struct, frozen=True, tag="sampled"):
    """NVML child to sensor."""

    reading: NvmlReading
    overdue: tuple[CallNote, ...] = ()
    """GPUs that were not read to the end: the last call, and the seconds of all."""


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


ToSensor = Hello | Requested
ToAgent = Welcome | Refused | Signals | Observed
ToChild = SampleRequest
FromChild = Sampled | DcgmSampled | Failed | Happened

_encoder = msgspec.msgpack.Encoder()


def encode(message: msgspec.Struct) -> bytes:
    """Return a message as one frame; raises TooLargeError."""
    body = _encoder.encode(message)
    if len(body) > MAX_FRAME:
        raise TooLargeError(f"a message of {len(body)} bytes is above the limit of {MAX_FRAME}")
    return _HEAD.pack(PROTOCOL, len(body)) + body


def length(head: bytes) -> int:
    """Return the size of the body that a frame's head announces; raises WireError."""
    version, size = _HEAD.unpack(head)
    if version > _HIGHEST_VERSION:
        raise WireError(f"no frame: it begins with byte {version}")
    if version != PROTOCOL:
        raise VersionSkewError(f"protocol version {version} received, {PROTOCOL} expected")
    if size > MAX_FRAME:
        raise WireError(f"a frame of {size} bytes is above the limit of {MAX_FRAME}")
    return size


def decode(body: bytes, decoder: msgspec.msgpack.Decoder[T]) -> T:
    """Return the message in a body; raises WireError.

    Fields that are not known here are passed over, and those that did not come have
    their defaults: so a version more or less is no matter as a rule.
    """
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise _skew(body, error) from error
    # RecursionError: a frame may be nested as deep as its sender likes.
    except (msgspec.DecodeError, ValueError, OverflowError, RecursionError) as error:
        raise WireError(f"a frame that cannot be read: {error}") from error


class _Tag(msgspec.Struct, frozen=True):
    type: str


_tag_of = msgspec.msgpack.Decoder(_Tag)
_KINDS = frozenset(
    str(kind.__struct_config__.tag)
    for kind in (
        *(Hello, Requested, Welcome, Refused, Signals, Observed),
        *(SampleRequest, Sampled, DcgmSampled, Failed, Happened),
    )
)


def _skew(body: bytes, error: msgspec.ValidationError) -> WireError:
    """Say what a body is that is well-formed and no message of ours."""
    try:
        kind = _tag_of.decode(body).type
    except (msgspec.DecodeError, ValueError, OverflowError, RecursionError):
        return WireError(f"a frame that cannot be read: {error}")
    if kind not in _KINDS:
        return UnknownKindError(f"a message of the unknown kind {kind[:40]!r} came")
    return VersionSkewError(f"a message {kind!r} of another version came: {error}")


to_sensor = msgspec.msgpack.Decoder(ToSensor)
to_agent = msgspec.msgpack.Decoder(ToAgent)
to_child = msgspec.msgpack.Decoder(ToChild)
from_child = msgspec.msgpack.Decoder(FromChild)


class Channel:
    """Frames over a connected stream socket. Raises WireError, never OSError."""

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

    def end(self) -> None:
        """Wake whoever reads or writes here with Closed; that thread then closes."""
        with contextlib.suppress(OSError):
            self._stream.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        # Wakes a thread that reads from the socket; close alone does not.
        self.end()
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
