"""A page and its probes: what one program listens on, from its flags.

With a web configuration the page wants TLS, and perhaps a client certificate and a password. The
kubelet has none of them: its probes would fail. So the health pages can be served a second time, on
a port of their own, without TLS and with nothing else.
"""

from collections.abc import Collection, Mapping
from pathlib import Path

from serving.front import Front
from serving.message import Handler

HEALTH = ("/healthz", "/health", "/readyz")
"""What only says alive or ready: free of passwords, and all that a health port has."""


class Fronts:
    """Both of them, started and stopped together."""

    def __init__(
        self,
        listen: str,
        routes: Mapping[str, Handler],
        *,
        health_listen: str = "",
        web_config: Path | None = None,
        at_once: Mapping[str, int] | None = None,
    ) -> None:
        """Read the web configuration; raises WebConfigError. `health_listen` "": no such port."""
        access = None
        if web_config is not None:
            # YAML and bcrypt cost memory that most nodes need not spend.
            from serving.access import Access

            access = Access(web_config)
        page = Front(listen, routes, access=access, free=HEALTH, at_once=at_once)
        self._page = page
        self._all: Collection[Front] = [page]
        if health_listen:
            health = {path: routes[path] for path in HEALTH if path in routes}
            self._health = Front(health_listen, health)
            self._all = [page, self._health]

    @property
    def port(self) -> int:
        """The page's port in use, also when the setting was 0."""
        return self._page.port

    @property
    def health_port(self) -> int:
        """The same of the health pages, which must be enabled."""
        return self._health.port

    def start(self) -> None:
        """Listen and serve. Raises FrontError when an address is taken or not ours."""
        started: list[Front] = []
        try:
            for front in self._all:
                front.start()
                started.append(front)
        except BaseException:
            for front in started:
                front.stop()
            raise

    def stop(self) -> None:
        """Stop listening, end all connections and wait for their threads."""
        for front in self._all:
            front.stop()
