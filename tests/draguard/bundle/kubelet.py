"""The logs of a node's kubelet: what the real API server asks it for, over TLS on loopback."""

import ssl
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import trustme

from tests.lab.served import Served


class LoggingKubelet(Served):
    """`logs` by container; a container of another name does not exist."""

    def __init__(self, logs: Mapping[str, str]) -> None:
        self.requested: list[dict[str, list[str]]] = []
        """The parameters of each request for a log."""

        class Handler(BaseHTTPRequestHandler):
            kubelet = self

            def do_GET(self) -> None:
                where = urlsplit(self.path)
                container = where.path.rpartition("/")[2]
                self.kubelet.requested.append(parse_qs(where.query))
                body = logs.get(container, "container not found").encode()
                self.send_response(200 if container in logs else 400)
                self.send_header("content-type", "text/plain")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_request(self, code: object = "-", size: object = "-") -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        trustme.CA().issue_cert("127.0.0.1").configure_cert(context)  # pyright: ignore[reportUnknownMemberType] - pyOpenSSL is not installed
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
