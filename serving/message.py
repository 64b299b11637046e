"""What goes in and out of a handler: a request without its socket, an answer that is complete."""

from collections.abc import Callable, Mapping

import msgspec

TEXT = "text/plain; charset=utf-8"


class Request(msgspec.Struct, frozen=True):
    """What a handler may depend on."""

    path: str
    accept: str = ""
    accept_encoding: str = ""
    query: Mapping[str, str] = {}
    """The last value of each name."""


class Response(msgspec.Struct, frozen=True):
    """An answer whose body is complete; `encoding` is the Content-Encoding that it has already."""

    status: int = 200
    content_type: str = TEXT
    body: bytes = b""
    encoding: str = ""


Handler = Callable[[Request], Response]
