"""What goes in and out of a handler: a request without its socket, an answer that is complete."""

import socket
from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec

TEXT = "text/plain; charset=utf-8"


class Request(msgspec.Struct, frozen=True):
    """What a handler may depend on."""

    path: str
    accept: str = ""
    accept_encoding: str = ""
    query: Mapping[str, str] = {}
    """The last value of each name."""
    authorization: str = ""


class Response(msgspec.Struct, frozen=True):
    """An answer whose body is complete; `encoding` is the Content-Encoding that it has already."""

    status: int = 200
    content_type: str = TEXT
    body: bytes = b""
    encoding: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    sent: Callable[[], None] | None = None
    """Called when the answer is on its way as a whole, or never will be."""


def probe_response(good: bool, text: str) -> Response:  # noqa: FBT001 - the two halves of one answer
    """Return the answer to a liveness or readiness probe."""
    status = 200 if good else 503
    return Response(status, body=f"{'ok' if good else 'not ok'}: {text}\n".encode())


class ConfigError(Exception):
    """A web configuration that cannot be used; the message names it and says what to write."""


class Insecure(Exception):  # noqa: N818 - the ordinary end of a client that fails the handshake
    """A connection that did not become a secure one."""


Take = Callable[[socket.socket], None]


class Gate(Protocol):
    """Who may speak to a front (`serving.access`)."""

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """Sent with every answer."""
        ...

    def secure(self, stream: socket.socket, take: Take) -> None:
        """Make the connection one that may be spoken over; raises Insecure.

        Where another socket is then to be used, `take` gets it before a word is said over it.
        """
        ...

    def admits(self, authorization: str) -> bool: ...


Handler = Callable[[Request], Response]
