"""Kubeconfigs of tests, and servers with TLS that see who calls."""

import json
import ssl
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import trustme

Entry = dict[str, Any]
Respond = Callable[["Request"], tuple[int, Entry]]
HTTP = "http://127.0.0.1:1"
HTTPS = "https://127.0.0.1:1"


def written(
    folder: Path, user: Entry, cluster: Entry | None = None, name: str = "config", **more: Any
) -> Path:
    """Write a kubeconfig with one context, `one`."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "one", "cluster": {"server": HTTP} | (cluster or {})}],
        "users": [{"name": "one", "user": user}],
        "contexts": [{"name": "one", "context": {"cluster": "one", "user": "one"}}],
        "current-context": "one",
    }
    file = folder / name
    file.write_text(json.dumps(content | more), encoding="utf-8")
    return file


class _Server(ThreadingHTTPServer):
    respond: Respond


class Request(BaseHTTPRequestHandler):
    """One request; the server answers it with `respond`."""

    def do_GET(self) -> None:
        self.body = self.rfile.read(int(self.headers.get("content-length", 0))).decode()
        assert isinstance(self.server, _Server)
        status, answer = self.server.respond(self)
        content = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_POST(self) -> None:
        self.do_GET()

    @property
    def caller(self) -> str:
        """The name in the client's certificate, "" for none."""
        connection = self.connection
        assert isinstance(connection, ssl.SSLSocket)
        found: Any = connection.getpeercert()
        return str(found["subject"][-1][0][1]) if found else ""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - so named there
        """Say nothing."""


@contextmanager
def tls_server(authority: trustme.CA, respond: Respond, name: str = "127.0.0.1") -> Generator[str]:
    """Serve with a certificate of the authority, and take clients' certificates of it; its URL."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # trustme says nothing of the type of pyOpenSSL's contexts, which it takes as well.
    authority.issue_cert(name).configure_cert(context)  # pyright: ignore[reportUnknownMemberType]
    authority.configure_trust(context)  # pyright: ignore[reportUnknownMemberType]
    context.verify_mode = ssl.CERT_OPTIONAL
    with _Server(("127.0.0.1", 0), Request) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        server.respond = respond
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"https://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
