"""A page server on loopback: one page for all dashboards, their JSON, and where Prometheus is."""

import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tests.lab.served import Served

Json = dict[str, Any]
Answer = Callable[[str], tuple[str, bytes] | None]
_KINDS = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
    ".json": "application/json",
}
_FOLDERS = {"/assets/": "", "/public/build/img/icons/": "icons/", "/public/fonts/": "fonts/"}
_NO_ICON = (_KINDS[".svg"], b'<svg xmlns="http://www.w3.org/2000/svg"/>')
"""Of icons that Grafana's server alone has."""


class Source(NamedTuple):
    """A Prometheus that dashboards are drawn from."""

    url: str
    name: str = "Prometheus"
    scrape_interval: str = "15s"
    """What its data source states, for `$__rate_interval`."""


class DashboardServer(Served):
    """Serves `/d/UID` for every dashboard given; ends with the block."""

    def __init__(self, site: Path, dashboards: Sequence[Json], sources: Sequence[Source]) -> None:
        self._site = site
        self._documents = _documents(dashboards, sources)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self._answer))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def _answer(self, path: str) -> tuple[str, bytes] | None:
        """Return (content type, body), None for what is not there."""
        if path in self._documents:
            return _KINDS[".json"], self._documents[path]
        if path.startswith("/d/"):
            return _file(self._site, "index.html")
        for prefix, folder in _FOLDERS.items():
            if path.startswith(prefix):
                found = _file(self._site, folder + path.removeprefix(prefix))
                return found or (_NO_ICON if folder == "icons/" else None)
        return None


def _documents(dashboards: Sequence[Json], sources: Sequence[Source]) -> Mapping[str, bytes]:
    index = [
        {"uid": dashboard["uid"], "title": dashboard["title"], "tags": dashboard.get("tags", [])}
        for dashboard in dashboards
    ]
    settings = [
        {
            "uid": f"prometheus-{number}",
            "name": source.name,
            "url": source.url,
            "timeInterval": source.scrape_interval,
            "isDefault": number == 0,
        }
        for number, source in enumerate(sources)
    ]
    documents: Mapping[str, object] = {
        "/dashboards/index.json": index,
        "/settings.json": {"datasources": settings},
        **{f"/dashboards/{dashboard['uid']}.json": dashboard for dashboard in dashboards},
    }
    return {path: json.dumps(document).encode() for path, document in documents.items()}


def _file(site: Path, name: str) -> tuple[str, bytes] | None:
    path = (site / name).resolve()
    if not path.is_relative_to(site) or not path.is_file():
        return None
    return _KINDS.get(path.suffix, "application/octet-stream"), path.read_bytes()


def _handler(answer: Answer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = answer(urlsplit(self.path).path)
            self.send_response(200 if found else 404)
            kind, body = found or ("text/plain", b"not here")
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with contextlib.suppress(BrokenPipeError):  # a page was closed before all came
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
            """Say nothing: pytest's output is no access log."""

    return Handler
