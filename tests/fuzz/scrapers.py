"""What scrapers send: Accept headers, Authorization headers, and whole request heads."""

import base64
import binascii
import re
import socket
from random import Random
from typing import cast

from serving.basic_auth import Users
from serving.connection import Connection
from serving.front import Front
from serving.message import Request, Response
from serving.negotiation import Exposition, exposition, wants_gzip
from tests.fuzz import hostile
from tests.fuzz.target import Target, demand

ACCEPTS = (
    b"application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;"
    b"q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
    b"application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;"
    b"q=0.7,text/plain;q=0.3",
    b"text/plain",
    b"*/*",
    b"gzip, deflate;q=0.5, identity;q=0",
    b"x-gzip;q=1.0, *;q=0",
    b"text/html,application/xhtml+xml,application/xml;q=0.9,image/webp,*/*;q=0.8",
)
_SERVED = {
    "application/openmetrics-text": Exposition.OPENMETRICS,
    "application/openmetrics-text; version=1.0.0": Exposition.OPENMETRICS,
    "text/plain;version=0.0.4": Exposition.TEXT,
    "text/plain": Exposition.TEXT,
    "text/*": Exposition.TEXT,
    "image/webp": None,
    "application/openmetrics-text;version=2.0.0": None,
}

Accept = tuple[str, str, Exposition | None]
"""An Accept header, an Accept-Encoding header, and what must be chosen where that is known."""


def make_accept(random: Random) -> Accept:
    encoding = hostile.mutated(random, random.choice(ACCEPTS), 3, ACCEPTS).decode("latin-1")
    if random.randrange(3):
        header = hostile.mutated(random, random.choice(ACCEPTS), 4, ACCEPTS)
        return header.decode("latin-1"), encoding, None
    accepted = [(random.choice(list(_SERVED)), random.randrange(11)) for _ in range(4)]
    header = ",".join(f"{name};q={quality / 10}" for name, quality in accepted)
    best, most = Exposition.TEXT, 0
    for name, quality in accepted:
        offered = _SERVED[name]
        if offered is not None and quality > most:
            best, most = offered, quality
    if any(quality and _SERVED[name] is Exposition.TEXT for name, quality in accepted):
        best = Exposition.TEXT
    return header, encoding, best


def check_accept(made: Accept) -> None:
    accept, encoding, best = made
    chosen = exposition(accept)
    demand(best is None or chosen == best, "the scraper requested the other form", chosen)
    if wants_gzip(encoding):
        demand("gzip" in encoding.lower() or "*" in encoding, "gzip that nobody wants")


_USERS = {"alice": "secret", "bob": "", "zoë": "p:w"}


def make_authorization(random: Random) -> str:
    user, password = random.choice((*_USERS.items(), ("mallory", "secret"), ("", "")))
    inside = f"{user}:{password}".encode()
    if random.randrange(3) == 0:
        inside = hostile.mutated(random, inside, 2)
    header = b"Basic " + base64.b64encode(inside)
    return hostile.mutated(random, header, random.choice((0, 3)), (header,)).decode("latin-1")


def check_authorization(header: str) -> None:
    users = Users(_USERS, check=lambda password, known: password == known.encode())
    first = users.admits(header)
    demand(first == users.admits(header), "another answer the second time", first)
    demand(first == _entitled(header), "somebody else is let in, or somebody is kept out", first)


def _entitled(header: str) -> bool:
    scheme, _, encoded = header.partition(" ")
    try:
        stated = base64.b64decode(encoded.strip().encode("ascii"), validate=True)
    except (UnicodeEncodeError, binascii.Error):
        return False
    known = {f"{user}:{password}".encode() for user, password in _USERS.items()}
    return scheme.lower() == "basic" and stated in known


HEADS = (
    b"GET /metrics HTTP/1.1\r\nHost: node-a:9400\r\nAccept: */*\r\nAccept-Encoding: gzip\r\n\r\n",
    b"HEAD /readyz HTTP/1.1\r\nHost: x\r\nAuthorization: Basic YWxpY2U6c2VjcmV0\r\n\r\n",
    b"GET /metrics?name[]=up&x=%ff HTTP/1.0\r\n\r\n",
    b"POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc",
    b"GET http://[::1]/metrics HTTP/1.1\r\nConnection: keep-alive\r\n\r\n",
    b"GET //metrics HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"GET /metrics\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"GET /%00%0d%0aX-Evil:%20yes HTTP/1.1\r\nExpect: 100-continue\r\n\r\n",
    b"GET http://[/metrics HTTP/1.1\r\n folded: x\r\n\r\n",
)
_STATUS = {100, 200, 400, 404, 405, 408, 414, 431, 501, 503, 505}
_STATUS_LINE = re.compile(rb"HTTP/1\.[01] [0-9]{3} ")
_HEADERS = {
    *("server", "date", "content-type", "content-length", "vary", "connection", "allow"),
    *("content-encoding",),
}


class Wire:
    """A socket of which the whole is known beforehand."""

    def __init__(self, received: bytes) -> None:
        self._received = received
        self.sent = b""
        self.closed = False

    def recv(self, size: int) -> bytes:
        part, self._received = self._received[:size], self._received[size:]
        return part

    def sendall(self, data: bytes) -> None:
        self.sent += data

    def close(self) -> None:
        self.closed = True

    def settimeout(self, seconds: float) -> None:
        del seconds

    def setsockopt(self, *option: int) -> None:
        del option


def make_head(random: Random) -> bytes:
    raw = b"".join(random.choices(HEADS, k=random.choice((1, 1, 2))))
    raw = hostile.mutated(random, raw, 3, HEADS)
    if random.randrange(50) == 0:
        return raw[:-2] + b"X: y\r\n" * random.choice((90, 110, 6000)) + b"\r\n"
    return raw


_FRONT = Front("127.0.0.1:0", {"/metrics": lambda _: _PAGE, "/readyz": lambda _: Response()})
_PAGE = Response(body=b"draguard_up 1\n")


def check_head(raw: bytes) -> None:
    wire, over = Wire(raw), list[Connection]()
    Connection(cast("socket.socket", wire), _answer, over.append).run()
    demand(wire.closed and len(over) == 1, "a connection that is not ended")
    head, ended, _ = raw.partition(b"\r\n\r\n")
    requested = ended and len(head) < 32_000 and head.decode("latin-1").split("\n")[0].split()
    demand(wire.sent or not requested, "a request without an answer")
    demand(b"\nx-evil" not in wire.sent.lower(), "a header of the client's")
    left = wire.sent
    # An answer of HTTP/0.9 is a body alone.
    while _STATUS_LINE.match(left):
        left = _one_answer(left)


def _answer(request: Request) -> Response:
    # A header may come folded over several lines (RFC 9112, section 5.2), a path may not.
    demand(not set("\r\n") & set(request.path), "a line in a path", request)
    return _FRONT.answer(request)


def _one_answer(stated: bytes) -> bytes:
    """Read an answer as a client does; returns what follows it."""
    head, _, rest = stated.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    status = int(first.split(" ")[1])
    demand(status in _STATUS, "a status", first)
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    demand(headers.keys() <= _HEADERS, "a header from nowhere", head)
    size = int(headers.get("content-length", "0"))
    # A HEAD's answer names the size of a body that does not come.
    return rest if not rest or rest.startswith(b"HTTP/1.") else rest[size:]


TARGETS = (
    Target("accept", 50, make_accept, check_accept),
    Target("authorization", 40, make_authorization, check_authorization),
    Target("http-head", 30, make_head, check_head),
)
