"""The agent's answers over HTTP: the page, alive, ready. Nothing is worked out here.

/health is dcgm-exporter's name for /healthz.
"""

from collections.abc import Callable, Mapping

from exporter.agent import Agent
from serving.front import Request, Response
from serving.negotiation import Exposition, exposition, wants_gzip

Handler = Callable[[Request], Response]
_TEXT = "text/plain; charset=utf-8"


def routes(agent: Agent) -> Mapping[str, Handler]:
    def metrics(request: Request) -> Response:
        page = agent.page()
        if page is None:
            return Response(503, _TEXT, b"the first page is not rendered yet; ask again\n")
        form, gzip = exposition(request.accept), wants_gzip(request.accept_encoding)
        plain, packed = (
            (page.openmetrics, page.openmetrics_gzip)
            if form is Exposition.OPENMETRICS
            else (page.text, page.text_gzip)
        )
        return Response(200, form.value, packed if gzip else plain, "gzip" if gzip else "")

    def alive(_: Request) -> Response:
        return Response(200, _TEXT, b"ok\n")

    def ready(_: Request) -> Response:
        why_not = agent.unready()
        return Response(503 if why_not else 200, _TEXT, f"{why_not or 'ok'}\n".encode())

    return {"/metrics": metrics, "/healthz": alive, "/health": alive, "/readyz": ready}
