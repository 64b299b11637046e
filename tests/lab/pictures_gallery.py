"""All dashboards over a played story: its Prometheus, the page server and the browser, together."""

import json
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.exporter.running import free_port
from tests.lab.browser.chromium import Browser, browser
from tests.lab.browser.install import Installed
from tests.lab.browser.serve import DashboardServer, Source
from tests.lab.pictures_backfill import write
from tests.lab.pictures_story import STEP_SECONDS, Story
from tests.lab.prometheus import Prometheus

Json = dict[str, Any]
DASHBOARDS = Path(__file__).parents[2] / "dashboards" / "json"


class Gallery(NamedTuple):
    """What there is to look at, and when the story ends (Unix seconds)."""

    browser: Browser
    prometheus: Prometheus
    story: Story
    end: float

    def at(self, step: int) -> float:
        """Return when a step of the story was; dashboards are opened then."""
        return self.story.played(step, self.end)


def dashboards() -> Mapping[str, Json]:
    """Return the generated dashboards by uid."""
    found = (json.loads(file.read_text(encoding="utf-8")) for file in sorted(DASHBOARDS.iterdir()))
    return {dashboard["uid"]: dashboard for dashboard in found}


@contextmanager
def gallery(
    story: Story,
    installed: Installed,
    programs: Path,
    folder: Path,
    renamed: Mapping[str, str] | None = None,
) -> Generator[Gallery]:
    """Serve the story's dashboards; `programs` has prometheus and promtool, `folder` is empty."""
    end = time.time() // 60 * 60
    write(story, end, programs, folder / "data", renamed)
    port = free_port()
    with Prometheus(programs, folder, {}, port=port) as prometheus:
        source = Source(f"http://127.0.0.1:{port}", scrape_interval=f"{STEP_SECONDS}s")
        boards = list(dashboards().values())
        with (
            DashboardServer(installed.site, boards, [source]) as server,
            browser(installed, server.url) as opened,
        ):
            yield Gallery(opened, prometheus, story, end)
