"""A server that answers some paths, for what no real API server does on loopback."""

import json
from collections.abc import Collection, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from tests.lab.served import Served


class PlayedApi(Served):
    """`answers` by path: an object as JSON, a text as it is; any other path is 404.

    A path that is `silent` gets no answer. Each path is added to `requested`.

    The real API server refuses to proxy to pods whose address is on loopback.
    """

    def __init__(
        self,
        answers: Mapping[str, object],
        silent: Collection[str] = (),
        requested: list[str] | None = None,
    ) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path = urlsplit(self.path).path
                if requested is not None:
                    requested.append(path)
                if path in silent:
                    self.close_connection = True
                    return
                found = answers.get(path)
                missing = {"kind": "Status", "message": "no such path", "reason": "NotFound"}
                content = missing if found is None else found
                body = content if isinstance(content, str) else json.dumps(content)
                self.send_response(404 if found is None else 200)
                self.send_header("content-length", str(len(body.encode())))
                self.end_headers()
                self.wfile.write(body.encode())

            def log_request(self, code: object = "-", size: object = "-") -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
