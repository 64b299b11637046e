"""One small HTTP/1.1 front: fixed routes to functions, for scrapers, probes and people.

Handlers must be quick: they hand out what somebody else prepared. Slow or idle clients cost one
thread each and cannot keep others out: heads and answers have deadlines, and when all places are
taken the connection that idles longest makes room. GET and HEAD only.
"""

import contextlib
import logging
import socket
import threading
from collections.abc import Collection, Mapping

import msgspec

from serving.connection import Connection, plain
from serving.message import Gate, Handler, Request, Response

__all__ = ["Front", "FrontError", "Handler", "Request", "Response", "parse_listen"]

MAX_CONNECTIONS = 128
_ASK = (("WWW-Authenticate", 'Basic realm="draguard"'),)
_LATER = (("Retry-After", "1"),)
_log = logging.getLogger(__name__)


class FrontError(Exception):
    """The address cannot be listened on; the message says what to do."""


def parse_listen(listen: str) -> tuple[str, int]:
    """Split `host:port`, `[v6]:port` or `:port` (all addresses). Raises FrontError."""
    host, colon, port = listen.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise FrontError(f"{listen!r} is not an address to listen on; write host:port or :port")
    return host.removeprefix("[").removesuffix("]"), int(port)


class Limit:
    """How many answers of one path are on their way at once."""

    def __init__(self, most: int) -> None:
        self._places = threading.BoundedSemaphore(most)

    def enter(self) -> bool:
        return self._places.acquire(blocking=False)

    def leave(self) -> None:
        self._places.release()


class Front:
    """Serves `routes`, a function for each path, in threads of its own between start and stop."""

    def __init__(
        self,
        listen: str,
        routes: Mapping[str, Handler],
        *,
        connections: int = MAX_CONNECTIONS,
        access: Gate | None = None,
        free: Collection[str] = (),
        at_once: Mapping[str, int] | None = None,
    ) -> None:
        """`free` paths need no password; `at_once` limits how often a path is answered at once."""
        self._listen = listen
        self._routes = dict(routes)
        self._most = connections
        self._access = access
        self._free = frozenset(free)
        self._limits = {path: Limit(most) for path, most in (at_once or {}).items()}
        self._guard = threading.Lock()
        self._open: dict[Connection, None] = {}
        self._listener: socket.socket | None = None
        self._thread: threading.Thread | None = None

    @property
    def port(self) -> int:
        """The port in use, also when the setting was 0."""
        if self._listener is None:
            raise FrontError("not started")
        return int(self._listener.getsockname()[1])

    def start(self) -> None:
        """Listen and serve. Raises FrontError when the address is taken or not ours."""
        host, port = parse_listen(self._listen)
        try:
            self._listener = _listen(host, port)
        except OSError as error:
            raise FrontError(
                f"cannot listen on {self._listen}: {error.strerror or error}; choose another "
                "address or stop the process that uses it"
            ) from error
        self._thread = threading.Thread(
            target=self._accept, args=(self._listener,), name="http front", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Stop listening, end all connections and wait for their threads."""
        listener, self._listener = self._listener, None
        if listener is None or self._thread is None:
            return
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        listener.close()
        with self._guard:
            left = list(self._open)
        for connection in left:
            connection.end()
        for connection in left:
            connection.join()

    def answer(self, request: Request) -> Response:
        """Route one request; whatever a handler raises becomes a 500."""
        access = self._access
        if access is None:
            return self._limited(request)
        free = request.path in self._free
        if free or access.admits(request.authorization):
            answer = self._limited(request)
        else:
            answer = Response(401, body=b"a user and a password are needed\n", headers=_ASK)
        return msgspec.structs.replace(answer, headers=answer.headers + access.headers)

    def _limited(self, request: Request) -> Response:
        limit = self._limits.get(request.path)
        if limit is None:
            return self._routed(request)
        if not limit.enter():
            return Response(503, body=b"too many ask for this at once\n", headers=_LATER)
        answer = self._routed(request)
        return msgspec.structs.replace(answer, sent=limit.leave)

    def _routed(self, request: Request) -> Response:
        handler = self._routes.get(request.path)
        if handler is None:
            known = "\n".join(sorted(self._routes))
            requested = request.path[:200]
            return Response(404, body=f"{requested} is not here. There is:\n{known}\n".encode())
        try:
            return handler(request)
        except Exception:  # noqa: BLE001 - logged with its trace; others must still be served
            _log.exception("serving %s failed", request.path)
            return Response(500, body=b"this page failed; the log says why\n")

    def _forget(self, connection: Connection) -> None:
        with self._guard:
            self._open.pop(connection, None)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                if self._listener is None:
                    return
                threading.Event().wait(0.05)  # out of descriptors, perhaps: let some go first
                continue
            secure = self._access.secure if self._access else plain
            connection = Connection(sock, self.answer, self._forget, secure)
            with self._guard:
                # Those that idle longest, or are slowest, make room.
                excess = len(self._open) - self._most + 1
                if excess > 0:
                    for other in sorted(self._open, key=Connection.rank)[:excess]:
                        self._open.pop(other)
                        other.end()
                self._open[connection] = None
            try:
                connection.start()
            except RuntimeError as error:
                _log.warning("a connection is closed unserved: %s", error)
                connection.drop()


def _listen(host: str, port: int) -> socket.socket:
    if not host and socket.has_dualstack_ipv6():
        return socket.create_server(
            ("::", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=128
        )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=128)
