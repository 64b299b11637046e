"""A small real proxy in this process: it opens tunnels (CONNECT), and forwards requests without."""

import base64
import selectors
import socket
import socketserver
import ssl
from collections.abc import Mapping
from contextlib import suppress

from tests.lab.served import Served

_PIECE = 1 << 16


class ConnectProxy(Served):
    """Open it with `with`. `places` are names that only the proxy can resolve, to host and port.

    `login` is `user:password` if it requires one; `refuse` the status of every answer.
    """

    def __init__(
        self,
        places: Mapping[str, tuple[str, int]],
        *,
        login: str = "",
        refuse: int = 0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.opened: list[str] = []
        """`CONNECT host:port`, or the request line that it forwarded."""
        outer = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                near: socket.socket = self.request
                with suppress(OSError):  # the client does not trust our certificate, or has gone
                    if tls is not None:
                        near = tls.wrap_socket(near, server_side=True)
                    with near:
                        outer.serve(near, places, login, refuse)

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True

    def serve(
        self, near: socket.socket, places: Mapping[str, tuple[str, int]], login: str, refuse: int
    ) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            piece = near.recv(_PIECE)
            if not piece:
                return
            head += piece
        line, _, rest = head.decode("latin-1").partition("\r\n")
        headers = {
            name.lower(): value.strip()
            for name, colon, value in (each.partition(":") for each in rest.splitlines())
            if colon
        }
        self.opened.append(line)
        expected = f"Basic {base64.b64encode(login.encode()).decode()}" if login else ""
        status = refuse or (407 if headers.get("proxy-authorization", "") != expected else 0)
        if status:
            near.sendall(f"HTTP/1.1 {status} No\r\ncontent-length: 0\r\n\r\n".encode())
            return
        method, target, _ = line.split(" ")
        name = target if method == "CONNECT" else target.split("/")[2]
        with socket.create_connection(places[name], 30) as far:
            if method == "CONNECT":
                near.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                path = "/" + target.split("/", 3)[3]
                one = head.replace(b"\r\n", b"\r\nconnection: close\r\n", 1)
                far.sendall(one.replace(target.encode(), path.encode(), 1))
            pump(near, far)


def pump(near: socket.socket, far: socket.socket) -> None:
    """Carry bytes in both directions until one end is closed."""
    with selectors.DefaultSelector() as selector:
        selector.register(near, selectors.EVENT_READ, far)
        selector.register(far, selectors.EVENT_READ, near)
        while True:
            for key, _ in selector.select(30):
                source = key.fileobj
                assert isinstance(source, socket.socket)
                piece = source.recv(_PIECE)
                while isinstance(source, ssl.SSLSocket) and source.pending():
                    piece += source.recv(_PIECE)
                if not piece:
                    return
                key.data.sendall(piece)
