"""A proxy before the API server that sees each write, and can refuse, delay or cut it.

`after_write` runs when the server has stored a write and before its writer hears of it: the worst
moment for the writer to die.
"""

import http.client
import socket
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from kubeapi.endpoint import Endpoint

Write = tuple[str, str]
"""Method and path."""
_HOP = {"transfer-encoding", "connection", "keep-alive", "content-length"}


def _nothing(write: Write) -> None:
    """Let every write pass."""


class Proxy:
    """Plain HTTP on loopback in front of the endpoint, for the time of a `with` block."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._target = urlsplit(endpoint.server)
        self._tls = ssl.create_default_context(cafile=endpoint.ca_file)
        self._tls.sslsocket_class = _ClosedWhenReset
        self.writes: list[Write] = []
        """Those that were stored, Leases apart."""
        self.after_write: Callable[[Write], None] = _nothing
        self.refuse: int = 0
        """Answer with this status instead, 0 for none."""
        self.refused_path = ""
        """Refuse only paths that contain this."""
        self.retry_after = 0
        """Seconds for which a refusal asks to wait, 0 when it does not say."""
        self.delay = 0.0
        """Seconds that each answer comes late."""
        self.upstreams: dict[http.client.HTTPSConnection, _Request] = {}
        """Connections on which an answer is on its way."""
        self.open_gate = threading.Event()
        """While it is clear no request is answered."""
        self.open_gate.set()
        self.waiting = 0
        """Requests that have come to a gate that was shut."""
        self.late: tuple[str, ...] = ()
        """Watches of these collections report nothing while this is set."""
        self._server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"proxy": self}))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def cut(self, path: str = "") -> int:
        """End every answer that is on its way whose path contains this.

        Returns how many of them were watches for which somebody still waited.
        """
        watches = 0
        for upstream, requested in list(self.upstreams.items()):
            if path in requested.path:
                with suppress(OSError, AttributeError):
                    waiting = requested.waits()
                    upstream.sock.shutdown(socket.SHUT_RDWR)
                    watches += waiting and "watch=" in requested.path
        return watches

    def __enter__(self) -> "Proxy":
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.open_gate.set()
        self.late = ()
        self._server.shutdown()
        self._server.server_close()
        self.cut()

    def connect(self) -> http.client.HTTPSConnection:
        target = self._target
        return http.client.HTTPSConnection(
            target.hostname or "", target.port, timeout=60, context=self._tls
        )


class _Request(NamedTuple):
    path: str
    client: socket.socket

    def waits(self) -> bool:
        """Whether its client is still there: a watch outlives one that was killed until it tells.

        Raises OSError where the connection is broken.
        """
        with suppress(BlockingIOError):
            return self.client.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) != b""
        return True


class _ClosedWhenReset(ssl.SSLSocket):
    """Closes itself where the server resets it before the handshake; CPython 3.11 leaves it open.

    `SSLSocket._create` reads from a socket that is connected no more, and raises what comes.
    """

    def recv(self, buflen: int = 1024, flags: int = 0) -> bytes:
        try:
            return super().recv(buflen, flags)
        except ConnectionError:
            self.close()
            raise


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128
    """Connections that wait; a remediator that was cut off makes a dozen at once, and of more than
    the usual five some would be dropped and come seconds later."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A peer that was killed is what this proxy is for."""


class _Handler(BaseHTTPRequestHandler):
    """Of one proxy, set by a class of its own."""

    proxy: Proxy

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base's name
        """Stay quiet."""

    def _pass(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0)) or None
        self.proxy.waiting += not self.proxy.open_gate.is_set()
        self.proxy.open_gate.wait(60)
        if self.proxy.refuse and self.proxy.refused_path in self.path:
            self._refuse()
            return
        upstream = self.proxy.connect()
        self.proxy.upstreams[upstream] = _Request(self.path, self.connection)
        try:
            headers = {k: v for k, v in self.headers.items() if k.lower() not in _HOP}
            headers.pop("Host", None)
            upstream.request(self.command, self.path, body, headers)
            # A connection that is closed leaves its socket to an answer that is not.
            with closing(upstream.getresponse()) as answer:
                self._answer(answer)
        finally:
            self.proxy.upstreams.pop(upstream, None)
            upstream.close()

    def _answer(self, answer: http.client.HTTPResponse) -> None:
        time.sleep(self.proxy.delay)
        if self._tells_of_the_cluster() and answer.status < 300:
            write = (self.command, urlsplit(self.path).path)
            self.proxy.writes.append(write)
            self.proxy.after_write(write)
        self._relay(answer)

    def _refuse(self) -> None:
        self.send_response(self.proxy.refuse, "refused by the test")
        if self.proxy.retry_after:
            self.send_header("retry-after", str(self.proxy.retry_after))
        self.send_header("content-length", "0")
        self.end_headers()

    def _tells_of_the_cluster(self) -> bool:
        """A leader renews its Lease every few seconds, whatever it does otherwise."""
        return self.command != "GET" and "/coordination.k8s.io/" not in self.path

    def _relay(self, answer: http.client.HTTPResponse) -> None:
        self.send_response(answer.status)
        for key, value in answer.getheaders():
            if key.lower() not in _HOP:
                self.send_header(key, value)
        self.send_header("connection", "close")
        self.end_headers()
        with suppress(OSError, http.client.HTTPException):
            while piece := answer.read1(65536):
                while "watch=" in self.path and any(name in self.path for name in self.proxy.late):
                    time.sleep(0.05)
                self.wfile.write(piece)
                self.wfile.flush()

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _pass  # noqa: N815 - the base's names
