"""The agent's answers over HTTP: the page, alive, ready, and what a person reads.

/health is dcgm-exporter's /healthz, with its answer and headers.
"""

from collections.abc import Callable, Mapping

from exporter.agent.process import Agent
from exporter.metrics.debug_page import debug_page
from exporter.settings import Settings
from serving.front import Request, Response
from serving.fronts import Fronts
from serving.negotiation import Exposition, exposition, wants_gzip

Handler = Callable[[Request], Response]
_TEXT = "text/plain; charset=utf-8"
_HTML = "text/html; charset=utf-8"
_START = b"""<!doctype html><title>Draguard exporter</title><h1>Draguard exporter</h1>
<p><a href="/metrics">metrics</a> <a href="/debug">last observation as text</a>
<a href="/readyz">ready?</a></p>
"""


def routes(agent: Agent) -> Mapping[str, Handler]:
    def metrics(request: Request) -> Response:
        page = agent.page()
        if page is None:
            return Response(503, _TEXT, b"no page is rendered; ask again, or see the log\n")
        form, gzip = exposition(request.accept), wants_gzip(request.accept_encoding)
        plain, packed = (
            (page.openmetrics, page.openmetrics_gzip)
            if form is Exposition.OPENMETRICS
            else (page.text, page.text_gzip)
        )
        return Response(200, form.value, packed if gzip else plain, "gzip" if gzip else "")

    def alive(_: Request) -> Response:
        return Response(200, _TEXT, b"ok\n")

    def theirs(_: Request) -> Response:
        available = "true" if agent.page() else "false"
        return Response(200, _TEXT, b"OK", headers=(("X-Registry-Available", available),))

    def ready(_: Request) -> Response:
        why_not = agent.unready()
        return Response(503 if why_not else 200, _TEXT, f"{why_not or 'ok'}\n".encode())

    def debug(_: Request) -> Response:
        return Response(200, _TEXT, debug_page(agent.snapshot()).encode())

    def start(_: Request) -> Response:
        return Response(200, _HTML, _START)

    return {
        "/": start,
        "/metrics": metrics,
        "/healthz": alive,
        "/health": theirs,
        "/readyz": ready,
        "/debug": debug,
    }


def fronts_of(settings: Settings, agent: Agent) -> Fronts:
    """Return what the agent listens on, not started; raises serving.web_config.WebConfigError."""
    return Fronts(
        settings.listen,
        routes(agent),
        health_listen=settings.health_listen,
        web_config=settings.web_config,
        at_once={"/metrics": settings.max_scrapes, "/debug": 1},
    )
