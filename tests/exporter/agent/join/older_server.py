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
_NOT_FOUND = b'{"kind": "Status", "code": 404, "reason": "NotFound"}'


class OlderServer(ThreadingHTTPServer):
    """Serves GET and watches of what `client` reaches; of the group only version `served`."""

    daemon_threads = True

    def __init__(self, client: Client, served: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.client = client
        self.served = served
        self._watches: list[Client] = []
        self._guard = threading.Lock()

    def upgrade(self, served: str) -> None:
        """Serve another version from now on; watches end, as in any upgrade."""
        with self._guard:
            self.served = served
            for watch in self._watches:
                watch.abort()

    def admits(self, path: str) -> bool:
        served = f"{GROUP}{self.served}"
        return not path.startswith(GROUP) or path == served or path.startswith(f"{served}/")

    def watching(self, path: str) -> Client | None:
        """Return what a watch is to go through, None where an upgrade came just before."""
        with self._guard:
            if not self.admits(path):
                return None
            self._watches.append(watch := self.client.sibling())
            return watch

    def endpoint(self) -> Endpoint:
        return Endpoint(server=f"http://127.0.0.1:{self.server_port}")


class _Handler(BaseHTTPRequestHandler):
    @property
    def front(self) -> OlderServer:
        assert isinstance(self.server, OlderServer)
        return self.server

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if "watch=true" not in self.path:
            if self.front.admits(path):
                self._answer(200, self.front.client.get(self.path))
            else:
                self._answer(404, _NOT_FOUND)
        elif (through := self.front.watching(path)) is not None:
            self._watch(through)
        else:
            self._answer(404, _NOT_FOUND)

    def _answer(self, status: int, content: bytes) -> None:
        self.send_response(status)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _watch(self, own: Client) -> None:
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
