"""HTTP servers that misbehave on loopback, and a gate in front of a real one."""

import contextlib
import json
import selectors
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from time import monotonic
from typing import Any

from kubeapi.endpoint import Endpoint

Json = dict[str, Any]
Behaviour = Callable[[socket.socket, threading.Event], None]
"""Answers one request on a connection; the event says that the server is closing."""


def config_map(name: str, version: str, **data: str) -> Json:
    return {
        "metadata": {"name": name, "namespace": "default", "resourceVersion": version},
        "data": data,
    }


def listing(version: str, *items: Json, more: str = "") -> Behaviour:
    metadata = {"resourceVersion": version, "continue": more}
    return body(json.dumps({"kind": "List", "metadata": metadata, "items": items}).encode())


def body(content: bytes, status: int = 200, headers: str = "") -> Behaviour:
    def behave(connection: socket.socket, _end: threading.Event) -> None:
        head = f"HTTP/1.1 {status} X\r\ncontent-length: {len(content)}\r\n{headers}\r\n"
        connection.sendall(head.encode() + content)

    return behave


def refusal(status: int, reason: str = "", message: str = "no", headers: str = "") -> Behaviour:
    stated = {"kind": "Status", "code": status, "reason": reason, "message": message}
    return body(json.dumps(stated).encode(), status, headers)


def hang(_connection: socket.socket, end: threading.Event) -> None:
    end.wait()


def once(may: threading.Event, then: Behaviour) -> Behaviour:
    """Answer when a test lets it: what was true before stays so until then."""

    def behave(connection: socket.socket, end: threading.Event) -> None:
        while not (may.wait(0.05) or end.is_set()):
            pass
        then(connection, end)

    return behave


def drop(connection: socket.socket, _end: threading.Event) -> None:
    connection.close()


def garbage(connection: socket.socket, _end: threading.Event) -> None:
    connection.sendall(b"\x00\xff not http at all\r\n\r\n")
    connection.close()


def cut_off_chunk(connection: socket.socket, _end: threading.Event) -> None:
    connection.sendall(_CHUNKED + b'ff\r\n{"metadata": {')
    connection.close()


def drip(connection: socket.socket, end: threading.Event) -> None:
    """Send one byte after the other, for ever: never silent and never done."""
    connection.sendall(_CHUNKED)
    while not end.wait(0.02):
        connection.sendall(b"1\r\n \r\n")


def watch(*events: Json | bytes, then: Behaviour = hang) -> Behaviour:
    def behave(connection: socket.socket, end: threading.Event) -> None:
        connection.sendall(_CHUNKED)
        for event in events:
            line = event if isinstance(event, bytes) else json.dumps(event).encode() + b"\n"
            connection.sendall(f"{len(line):x}\r\n".encode() + line + b"\r\n")
        then(connection, end)

    return behave


def ended(connection: socket.socket, _end: threading.Event) -> None:
    """End a chunked answer as HTTP says."""
    connection.sendall(b"0\r\n\r\n")


_CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


class Hostile:
    """Answers lists and watches by two scripts; the last entry of each repeats."""

    def __init__(self, lists: Sequence[Behaviour], watches: Sequence[Behaviour] = (hang,)) -> None:
        self._scripts = {False: list(lists), True: list(watches)}
        self._end = threading.Event()
        self._threads: list[threading.Thread] = []
        self._guard = threading.Lock()
        self.requests: list[str] = []
        """Request lines and headers, as they came."""
        self.times: list[float] = []
        """When they came, in monotonic seconds."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._connections: list[socket.socket] = []
        self._spawn(self._accept)

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(server=f"http://127.0.0.1:{self._listener.getsockname()[1]}")

    def go_on_with(self, *lists: Behaviour) -> None:
        """Answer lists by another script from now on."""
        with self._guard:
            self._scripts[False] = list(lists)

    def close(self) -> None:
        self._end.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(60)
        for connection in self._connections:
            connection.close()

    def __enter__(self) -> "Hostile":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _spawn(self, target: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._connections.append(connection)
                self._spawn(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            for request in _requests(connection):
                self._next(request)(connection, self._end)

    def _next(self, request: str) -> Behaviour:
        with self._guard:
            self.requests.append(request)
            self.times.append(monotonic())
            script = self._scripts["watch=true" in request]
            return script.pop(0) if len(script) > 1 else script[0]


def _requests(connection: socket.socket) -> Iterator[str]:
    waiting = b""
    while True:
        while b"\r\n\r\n" not in waiting:
            piece = connection.recv(65536)
            if not piece:
                return
            waiting += piece
        head, waiting = waiting.split(b"\r\n\r\n", 1)
        yield head.decode()


class Gate:
    """Passes bytes to a real server's port until it is shut, then cuts and refuses."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._pairs: list[socket.socket] = []
        self._open = True
        self._done = False
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def shut(self) -> None:
        self._open = False

    def open(self) -> None:
        self._open = True

    def close(self) -> None:
        self._done = True
        self._thread.join(60)

    def __enter__(self) -> "Gate":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self) -> None:
        while not self._done:
            if not self._open:
                self._cut()
            for key, _ in self._selector.select(0.02):
                if key.data is None:
                    self._join(self._listener.accept()[0])
                else:
                    self._pass(key.fileobj, key.data)  # type: ignore[arg-type]
        self._cut()
        self._selector.close()
        self._listener.close()

    def _join(self, near: socket.socket) -> None:
        if not self._open:
            near.close()
            return
        try:
            far = socket.create_connection(("127.0.0.1", self._target), timeout=60)
        except OSError:
            near.close()
            return
        for one, other in ((near, far), (far, near)):
            self._selector.register(one, selectors.EVENT_READ, other)
            self._pairs.append(one)

    def _pass(self, connection: socket.socket, other: socket.socket) -> None:
        try:
            piece = connection.recv(65536)
            if piece:
                other.sendall(piece)
                return
        except OSError:
            pass
        self._drop((connection, other))

    def _cut(self) -> None:
        self._drop(list(self._pairs))

    def _drop(self, ends: Sequence[socket.socket]) -> None:
        for end in ends:
            if end in self._pairs:
                self._pairs.remove(end)
                self._selector.unregister(end)
                end.close()
