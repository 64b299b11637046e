"""A real API server behind a door that lets one version of an API group through.

So a real server of today answers as one of yesterday, and is upgraded while it is watched.
"""

import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from kubeapi.client import ApiError, Client
from kubeapi.endpoint import Endpoint

GROUP = "/apis/resource.k8s.io/"


class OlderServer(ThreadingHTTPServer):
    """Serves GET and watches of what `client` reaches; of the group only version `served`."""

    daemon_threads = True

    def __init__(self, client: Client, served: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.client = client
        self.served = served
        self.watches: list[Client] = []

    def upgrade(self, served: str) -> None:
        """Serve another version from now on; watches end, as in any upgrade."""
        self.served = served
        for watch in self.watches:
            watch.abort()

    def endpoint(self) -> Endpoint:
        return Endpoint(server=f"http://127.0.0.1:{self.server_port}")


class _Handler(BaseHTTPRequestHandler):
    @property
    def front(self) -> OlderServer:
        assert isinstance(self.server, OlderServer)
        return self.server

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        served = f"{GROUP}{self.front.served}"
        if path.startswith(GROUP) and path != served and not path.startswith(f"{served}/"):
            self._answer(404, b'{"kind": "Status", "code": 404, "reason": "NotFound"}')
        elif "watch=true" in self.path:
            self._watch()
        else:
            self._answer(200, self.front.client.get(self.path))

    def _answer(self, status: int, content: bytes) -> None:
        self.send_response(status)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _watch(self) -> None:
        own = self.front.client.sibling()
        self.front.watches.append(own)
        self.send_response(200)
        self.end_headers()
        with suppress(ApiError, OSError), own.stream(self.path, {}, idle_timeout=60.0) as lines:
            for line in lines:
                self.wfile.write(line + b"\n")
        own.close()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base's name
        del format, args


@contextmanager
def older_server(client: Client, served: str) -> Generator[OlderServer]:
    with OlderServer(client, served) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.upgrade("none")
        server.shutdown()
        thread.join()
