"""One gRPC call over a unix socket: the one door to HTTP/2 (the `h2` library).

grpcio would do the same for 20 MB more on every node, most of them for threads and
pools that one question each ten seconds has no use for. What gRPC adds to HTTP/2
for a call with one answer is little: five bytes before each message, and a status
in the trailers (the gRPC protocol document, "Requests" and "Responses").
"""

import re
import socket
import struct
from pathlib import Path
from time import monotonic
from urllib.parse import unquote

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import h2.settings

DEADLINE_EXCEEDED, PERMISSION_DENIED, RESOURCE_EXHAUSTED = 4, 7, 8
UNIMPLEMENTED, INTERNAL, UNAVAILABLE = 12, 13, 14
"""Status codes of gRPC (its document "Status codes and their use")."""

NAMES = {
    1: "CANCELLED",
    2: "UNKNOWN",
    3: "INVALID_ARGUMENT",
    DEADLINE_EXCEEDED: "DEADLINE_EXCEEDED",
    5: "NOT_FOUND",
    PERMISSION_DENIED: "PERMISSION_DENIED",
    RESOURCE_EXHAUSTED: "RESOURCE_EXHAUSTED",
    UNIMPLEMENTED: "UNIMPLEMENTED",
    INTERNAL: "INTERNAL",
    UNAVAILABLE: "UNAVAILABLE",
    16: "UNAUTHENTICATED",
}
_HEAD = struct.Struct("!BI")
_STATUS = re.compile(r"[0-9]{1,3}")
_STREAM = 1
_PIECE = 1 << 16


class CallFailed(Exception):  # noqa: N818 - as gRPC has it, a status
    """The call ended without an answer; `code` is gRPC's."""

    def __init__(self, code: int, details: str) -> None:
        super().__init__(f"{NAMES.get(code, code)}: {details}")
        self.code = code
        self.details = details


def call(path: Path, method: str, request: bytes, *, seconds: float, most: int) -> bytes:
    """Return the one message of an answer, of `most` bytes; raises CallFailed."""
    deadline = monotonic() + seconds
    try:
        opened = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    except OSError as error:
        raise CallFailed(UNAVAILABLE, str(error)) from error
    with opened as stream:
        try:
            stream.settimeout(seconds)
            stream.connect(str(path))
            exchange = _Exchange(most)
            stream.sendall(exchange.ask(method, request, seconds))
            while not exchange.ended:
                left = deadline - monotonic()
                if left <= 0:
                    raise TimeoutError
                stream.settimeout(left)
                piece = stream.recv(_PIECE)
                if not piece:
                    raise CallFailed(UNAVAILABLE, "the connection was closed without an answer")
                if reply := exchange.take(piece):
                    stream.sendall(reply)
        except TimeoutError:
            raise CallFailed(DEADLINE_EXCEEDED, f"no answer in {seconds:g} s") from None
        except OSError as error:
            raise CallFailed(UNAVAILABLE, str(error)) from error
        except h2.exceptions.H2Error as error:
            raise CallFailed(INTERNAL, f"what came is not HTTP/2: {error}") from error
    return exchange.message()


class _Exchange:
    """One request and its answer, as bytes in and out."""

    def __init__(self, most: int) -> None:
        config = h2.config.H2Configuration(client_side=True, header_encoding="utf-8")
        self._connection = h2.connection.H2Connection(config)
        self._most = most
        self._body = bytearray()
        self._status: int | None = None
        self._details = ""
        self.ended = False

    def ask(self, method: str, request: bytes, seconds: float) -> bytes:
        connection = self._connection
        connection.local_settings = h2.settings.Settings(
            client=True,
            initial_values={
                h2.settings.SettingCodes.ENABLE_PUSH: 0,
                h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: self._most + _HEAD.size,
            },
        )
        connection.initiate_connection()
        connection.increment_flow_control_window(self._most)
        headers = (
            (":method", "POST"),
            (":scheme", "http"),
            (":path", method),
            (":authority", "localhost"),
            ("te", "trailers"),
            ("content-type", "application/grpc"),
            ("grpc-timeout", f"{int(seconds * 1000)}m"),
        )
        connection.send_headers(_STREAM, headers)
        connection.send_data(_STREAM, _HEAD.pack(0, len(request)) + request, end_stream=True)
        return connection.data_to_send()

    def take(self, piece: bytes) -> bytes:
        """Take what came and return what must be sent; raises CallFailed or H2Error."""
        for event in self._connection.receive_data(piece):
            match event:
                case h2.events.DataReceived():
                    self._body += event.data or b""
                    announced = (
                        _HEAD.unpack_from(self._body)[1] if len(self._body) >= _HEAD.size else 0
                    )
                    if max(announced, len(self._body) - _HEAD.size) > self._most:
                        raise CallFailed(
                            RESOURCE_EXHAUSTED, f"the answer is larger than {self._most} bytes"
                        )
                    self._connection.acknowledge_received_data(
                        event.flow_controlled_length or 0, _STREAM
                    )
                case h2.events.ResponseReceived() | h2.events.TrailersReceived():
                    headers = {_text(name): _text(value) for name, value in event.headers or ()}
                    if headers.get(":status", "200") != "200":
                        raise CallFailed(UNAVAILABLE, f"HTTP status {headers[':status'][:20]}")
                    if "grpc-status" in headers:
                        code = headers["grpc-status"]
                        self._status = int(code) if _STATUS.fullmatch(code) else INTERNAL
                        self._details = unquote(headers.get("grpc-message", ""))[:1000]
                case h2.events.StreamEnded():
                    self.ended = True
                case h2.events.StreamReset() | h2.events.ConnectionTerminated():
                    raise CallFailed(UNAVAILABLE, f"the call was cut: {event.error_code}")
                case _:
                    pass
        return self._connection.data_to_send()

    def message(self) -> bytes:
        """Return the answer when all came; raises CallFailed."""
        if self._status:
            raise CallFailed(self._status, self._details)
        body = bytes(self._body)
        if self._status is None or len(body) < _HEAD.size:
            raise CallFailed(INTERNAL, "the answer has no status or no message")
        packed, size = _HEAD.unpack_from(body)
        if packed or size != len(body) - _HEAD.size:
            raise CallFailed(INTERNAL, "the answer is compressed, or not one message")
        return body[_HEAD.size :]


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("utf-8", "replace")
