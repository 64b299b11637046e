"""A dashboard in the browser: waiting until it is drawn, and reading what it shows."""

import re
from pathlib import Path
from typing import Any, NamedTuple

from playwright.sync_api import ConsoleMessage, Page, Request

Json = dict[str, Any]
PATIENCE = 300.0
"""Seconds for a dashboard to be drawn: a busy machine draws one slowly, never wrongly."""
HEIGHT = 6000
"""Of the window in pixels: tables draw only the rows that are in sight, so all of a page is."""
_BETWEEN_LOOKS = 300
"""Milliseconds."""
_STILL = """() => {
  const now = window.drawn.waiting().length ? "" : document.querySelector("main").innerHTML;
  const [before, looks] = window.looks ?? ["", 0];
  window.looks = [now, now && now === before ? looks + 1 : 0];
  return window.looks[1] >= 3;
}"""
"""Whether the page was complete and the same at four looks in a row."""

_RGB = re.compile(r"rgba?\((\d+), (\d+), (\d+)")
_WORDS = """() => [...document.querySelectorAll("main [data-viz-panel-key]")].flatMap((panel) => {
  const title = panel.querySelector("h2, h6")?.textContent ?? "";
  const ground = (one) => {
    const { backgroundImage, backgroundColor } = getComputedStyle(one);
    const own = backgroundImage === "none" ? backgroundColor : backgroundImage;
    const clear = own === "rgba(0, 0, 0, 0)" || own.startsWith("url");
    return clear && one !== panel ? ground(one.parentElement) : own;
  };
  return [...panel.querySelectorAll("*")].flatMap((one) => {
    const own = [...one.childNodes].filter((child) => child.nodeType === Node.TEXT_NODE);
    const text = one.dataset.state ?? own.map((child) => child.textContent).join("").trim();
    return text ? [[title, text, getComputedStyle(one).color, ground(one)]] : [];
  });
})"""
"""The texts of the panels, each with its colour and what it stands on."""


class Panel(NamedTuple):
    """One panel as it was drawn."""

    title: str
    type: str
    errors: tuple[str, ...]
    events: int
    """Annotations over it."""
    drawn: int
    """How many series, rows or values; 0 where it says that there is none."""
    text: str


class Word(NamedTuple):
    """One text on the page, with the colours that the browser computed."""

    panel: str
    text: str
    colour: str
    background: str

    @property
    def is_green(self) -> bool:
        """Whether it, or what it stands on, is more green than anything else."""
        found = _RGB.findall(f"{self.colour} {self.background}")
        return any(int(g) > 1.25 * max(int(r), int(b)) for r, g, b in found)


class Drawn:
    """A dashboard in the browser, complete."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.complaints: list[str] = []
        """Errors of the page and of its console."""
        self.queries: list[str] = []
        """Addresses of Prometheus that were queried."""
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", self._hear)
        page.on("request", self._see)

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.complaints.append(f"{message.text} ({message.location.get('url', '')})")

    def _see(self, request: Request) -> None:
        if "/api/v1/" in request.url:
            self.queries.append(request.url)

    def settle(self) -> None:
        """Wait until all is drawn, nothing is queried any more, and the page stays as it is."""
        limit = PATIENCE * 1000
        complete = "() => window.drawn && !window.drawn.waiting().length"
        self.page.wait_for_function(complete, timeout=limit)
        self.page.wait_for_load_state("networkidle", timeout=limit)
        self.page.wait_for_function(_STILL, polling=_BETWEEN_LOOKS, timeout=limit)
        height: int = self.page.evaluate("() => document.querySelector('main').scrollHeight")
        assert height <= HEIGHT, f"{height} pixels high: what is out of sight is not drawn"

    def panels(self) -> dict[str, Panel]:
        """Return what each panel shows, by title."""
        found = [self._panel(state) for state in self.page.evaluate("() => window.drawn.panels()")]
        assert len({panel.title for panel in found}) == len(found), "two panels share a title"
        return {panel.title: panel for panel in found}

    def _panel(self, state: Json) -> Panel:
        box = self.page.locator(f'[data-viz-panel-key="{state["key"]}"]')
        marks = box.locator("[data-drawn]")
        count = int(marks.first.get_attribute("data-drawn") or 0) if marks.count() else -1
        return Panel(
            title=state["title"],
            type=state["type"],
            errors=tuple(state["errors"]),
            events=state["events"],
            drawn=count,
            text=box.inner_text(),
        )

    def variables(self) -> dict[str, Json]:
        """Return type, value, options and error of each variable by name."""
        return {
            variable["name"]: variable
            for variable in self.page.evaluate("() => window.drawn.variables()")
        }

    def links(self) -> list[str]:
        """Return every address on the page, as a person would follow it."""
        found: list[str] = self.page.eval_on_selector_all(
            "main a[href]", "(all) => all.map((one) => one.getAttribute('href'))"
        )
        return found

    def words(self) -> list[Word]:
        """Return every text in the panels with its colours."""
        return [Word(*word) for word in self.page.evaluate(_WORDS)]

    def picture(self, file: Path) -> None:
        """Write the whole dashboard as a PNG."""
        self.page.locator("main").screenshot(path=file, animations="disabled")
