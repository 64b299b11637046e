"""A real Chromium that opens dashboards from a page server."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from urllib.parse import urlencode

from playwright.sync_api import Browser as Chromium
from playwright.sync_api import Error, sync_playwright

from tests.lab.browser.install import Installed
from tests.lab.browser.page import HEIGHT, PATIENCE, Drawn

_FLAGS = ["--headless=shell", "--font-render-hinting=none", "--disable-lcd-text", "--no-sandbox"]
"""Root has no sandbox; the pages come from this project and from loopback."""


class Browser:
    """Opens the dashboards of one server."""

    def __init__(self, chromium: Chromium, url: str, width: int) -> None:
        self._chromium = chromium
        self._url = url
        self._width = width

    @contextmanager
    def dashboard(
        self, uid: str, now: float, since: str = "now-1h", **variables: str
    ) -> Generator[Drawn]:
        """Open a dashboard, its rows open, up to `now` in Unix seconds and with variables set."""
        query = {
            "from": since,
            "to": "now",
            "expand": "1",
            **{f"var-{name}": value for name, value in variables.items()},
        }
        with self.at(f"/d/{uid}?{urlencode(query)}", now) as drawn:
            yield drawn

    @contextmanager
    def at(self, path: str, now: float) -> Generator[Drawn]:
        """Open a path, as a link has it, in a browser whose clock says `now`."""
        page = self._chromium.new_page(
            viewport={"width": self._width, "height": HEIGHT}, timezone_id="UTC", locale="en-US"
        )
        page.clock.install(time=now)
        try:
            drawn = Drawn(page)
            page.goto(self._url + path, timeout=PATIENCE * 1000)
            try:
                drawn.settle()
            except (Error, AssertionError) as error:
                raise AssertionError(_unfinished(drawn)) from error
            yield drawn
        finally:
            page.close()


def _unfinished(drawn: Drawn) -> str:
    waiting = drawn.page.evaluate("() => window.drawn ? window.drawn.waiting() : 'the page'")
    return f"not drawn in {PATIENCE} s: {waiting}; complaints: {drawn.complaints}"


@contextmanager
def browser(installed: Installed, url: str, *, width: int = 1600) -> Generator[Browser]:
    """Start the installed Chromium; `width` is that of its window in pixels."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=installed.chromium,
            args=_FLAGS,
            env=_environment(installed),
            timeout=PATIENCE * 1000,
        )
        try:
            yield Browser(chromium, url, width)
        finally:
            chromium.close()


def _environment(installed: Installed) -> dict[str, str | float | bool]:
    """Let it find the libraries and fonts beside it; a page needs nothing of the machine."""
    return {
        **os.environ,
        "LD_LIBRARY_PATH": str(installed.libraries),
        "FONTCONFIG_FILE": str(installed.fonts),
        "HOME": str(installed.fonts.parent),
    }
