"""One client's connection: heads in, whole answers out, with a deadline on everything.

A thread of its own, so that a slow client costs nobody else. GET and HEAD only.
"""

import contextlib
import logging
import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from io import BytesIO
from time import monotonic
from typing import Any
from urllib.parse import parse_qs, urlsplit

from serving.message import Handler, Insecure, Request, Response, Take

HEAD_SECONDS = 5.0
ANSWER_SECONDS = 10.0
IDLE_SECONDS = 120.0
_MAX_HEAD = 32 << 10
_log = logging.getLogger(__name__)


Secure = Callable[[socket.socket, Take], None]
"""Makes of an accepted connection one that may be spoken over (`message.Gate`)."""


def plain(_sock: socket.socket, _take: Take) -> None:
    """Speak over the connection as it is."""


class Connection(threading.Thread):
    """One client, request after request."""

    def __init__(
        self,
        sock: socket.socket,
        answer: Handler,
        done: Callable[["Connection"], None],
        secure: Secure = plain,
    ) -> None:
        super().__init__(name="http connection", daemon=True)
        self._answer = answer
        self._secure = secure
        self._done = done
        self._sock = sock
        self._since = monotonic()
        self._busy = False
        self._ended = False

    def rank(self) -> tuple[bool, float]:
        """Sort idle before busy, and longer before shorter."""
        return self._busy, self._since

    def end(self) -> None:
        self._ended = True
        with contextlib.suppress(OSError):
            # Not TLS's own, after which another thread would go on in plain text.
            socket.socket.shutdown(self._sock, socket.SHUT_RDWR)

    def drop(self) -> None:
        """Close a connection that was never started."""
        self._sock.close()
        self._done(self)

    def _take(self, sock: socket.socket) -> None:
        self._sock = sock
        if self._ended:
            self.end()

    def run(self) -> None:
        try:
            with contextlib.suppress(OSError, Insecure):
                self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._sock.settimeout(HEAD_SECONDS)
                self._secure(self._sock, self._take)
                self._serve()
        except Exception:  # noqa: BLE001 - logged with its trace; one client must cost no other
            _log.exception("a connection failed")
        finally:
            self._sock.close()
            self._done(self)

    def _serve(self) -> None:
        waiting = b""
        while True:
            self._busy, self._since = False, monotonic()
            head, waiting = self._head(waiting)
            if not head:
                return
            self._busy, self._since = True, monotonic()
            exchange = _Exchange(head, self._answer)
            self._sock.settimeout(ANSWER_SECONDS)
            try:
                self._sock.sendall(exchange.answer)
            finally:
                exchange.sent()
            if exchange.close_connection:
                return

    def _head(self, waiting: bytes) -> tuple[bytes, bytes]:
        """Read up to the empty line; nothing when the client goes, dawdles or says too much."""
        deadline = monotonic() + (HEAD_SECONDS if waiting else IDLE_SECONDS)
        while b"\r\n\r\n" not in waiting:
            left = deadline - monotonic()
            if left <= 0 or len(waiting) > _MAX_HEAD:
                return b"", b""
            self._sock.settimeout(left)
            piece = self._sock.recv(8192)
            if not piece:
                return b"", b""
            if not waiting:
                deadline = monotonic() + HEAD_SECONDS
            waiting += piece
        head, rest = waiting.split(b"\r\n\r\n", 1)
        if len(head) > _MAX_HEAD:
            return b"", b""
        return head + b"\r\n\r\n", rest


class _Exchange(BaseHTTPRequestHandler):
    """The standard library's reading of a request head, over bytes instead of a socket."""

    protocol_version = "HTTP/1.1"
    server_version = "draguard"
    sys_version = ""

    def __init__(self, head: bytes, answer: Handler) -> None:  # no socket for the parent to set up
        self._handler = answer
        self.rfile = BytesIO(head)
        self._out = BytesIO()
        self.wfile = self._out
        self.close_connection = True
        self.requestline, self.request_version, self.command = "", "", ""
        self.sent: Callable[[], None] = lambda: None
        """To be called when the answer is sent, or never will be."""
        self.raw_requestline = self.rfile.readline(_MAX_HEAD)
        if self.parse_request():
            self._respond()

    @property
    def answer(self) -> bytes:
        """The answer as it goes over the wire."""
        return self._out.getvalue()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the parent's name
        _log.debug(format, *args)

    def _respond(self) -> None:
        if self.command not in ("GET", "HEAD") or self.headers.get("transfer-encoding"):
            self.close_connection = True
            allow = (("Allow", "GET, HEAD"),)
            stated = b"only GET and HEAD are served here\n"
            self._write(Response(405, body=stated, headers=allow))
            return
        if self.headers.get("content-length", "0") != "0":
            self.close_connection = True  # its body would be read as the next request
        try:
            where = urlsplit(self.path)
            query = {name: values[-1] for name, values in parse_qs(where.query).items()}
        except ValueError:  # such as `http://[/`
            self.close_connection = True
            self._write(Response(400, body=b"this address cannot be read\n"))
            return
        self._write(
            self._handler(
                Request(
                    where.path,
                    ", ".join(self.headers.get_all("accept", [])),
                    ", ".join(self.headers.get_all("accept-encoding", [])),
                    query,
                    self.headers.get("authorization", ""),
                )
            )
        )

    def _write(self, response: Response) -> None:
        self.sent = response.sent or self.sent
        self.send_response(response.status)
        self.send_header("Content-Type", response.content_type)
        self.send_header("Content-Length", str(len(response.body)))
        self.send_header("Vary", "Accept, Accept-Encoding")
        if response.encoding:
            self.send_header("Content-Encoding", response.encoding)
        for name, value in response.headers:
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self._out.write(response.body)
