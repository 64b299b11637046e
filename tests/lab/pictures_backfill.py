"""A story as the storage of a Prometheus, as if it had been scraped while it happened."""

import re
import subprocess
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path

from tests.lab.pictures_cluster import EXPLAINER, REMEDIATOR
from tests.lab.pictures_story import Moment, Story

CLUSTER = "lab"
"""The label that a Prometheus of many clusters adds."""
_SAMPLE = re.compile(r"^([A-Za-z_:][\w:]*)(\{.*\})? (\S+)$")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_IS_TIME = re.compile(r"_timestamp_seconds$|^process_start_time_seconds$")
_LIVE = re.compile(
    r"^draguard_(snapshot|source_last_success|report_last_success)_timestamp_seconds$"
)
"""Times that move on by themselves while all is well: shown as old as they were when printed."""
_INSTANCES: Mapping[str, tuple[str, str]] = {
    "node-a": ("draguard-exporter", "10.0.0.11:9400"),
    "node-b": ("draguard-exporter", "10.0.0.12:9400"),
    "node-c": ("draguard-exporter", "10.0.0.13:9400"),
    REMEDIATOR: ("draguard-remediator", "10.0.1.7:8080"),
    EXPLAINER: ("draguard-explainer", "10.0.1.8:9403"),
}
"""Job and instance of each program, as a Prometheus in the cluster would find them."""


def write(
    story: Story, end: float, programs: Path, data: Path, renamed: Mapping[str, str] | None = None
) -> None:
    """Make blocks in `data` with the story's last moment at `end`, Unix seconds.

    `renamed` puts other label values in the place of those that the programs printed. `programs`
    is the folder of promtool.
    """
    data.mkdir(parents=True, exist_ok=True)
    text = data.parent / "story.om"
    with text.open("w", encoding="utf-8") as file:
        for line in _lines(story, end, renamed or {}):
            file.write(line)
        file.write("# EOF\n")
    command = [programs / "promtool", "tsdb", "create-blocks-from", "openmetrics", text, data]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    text.unlink()
    assert done.returncode == 0, f"promtool refuses the story: {done.stdout}{done.stderr}"


def _lines(story: Story, end: float, renamed: Mapping[str, str]) -> Iterator[str]:
    clock = _Clock(story.moments, [story.played(step, end) for step in range(len(story.moments))])
    for step, moment in enumerate(story.moments):
        at = story.played(step, end)
        for program, (job, instance) in _INSTANCES.items():
            page = moment.pages.get(program)
            target = f'cluster="{CLUSTER}",instance="{instance}",job="{job}"'
            yield f"up{{{target}}} {int(page is not None)} {at}\n"
            for name, labels, value in samples(page or ""):
                reported = _relabelled(labels, renamed)
                comma = "," if reported else ""
                shown = (
                    clock.shown_time(name, float(value), moment, at)
                    if _IS_TIME.search(name)
                    else value
                )
                yield f"{name}{{{reported}{comma}{target}}} {shown} {at}\n"


def samples(page: str) -> Iterator[tuple[str, str, str]]:
    """Yield name, label text and value of each sample of a page in Prometheus' text format."""
    for line in page.splitlines():
        if found := _SAMPLE.match(line):
            yield found[1], (found[2] or "{}")[1:-1].rstrip(","), found[3]


def _relabelled(labels: str, renamed: Mapping[str, str]) -> str:
    if not renamed or not any(value in labels for value in renamed):
        return labels
    return _LABEL.sub(
        lambda match: (
            f'{match[1]}="{_escaped(renamed[match[2]]) if match[2] in renamed else match[2]}"'
        ),
        labels,
    )


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


class _Clock:
    """Tells when in the story something was that a page dates in real time."""

    def __init__(self, moments: tuple[Moment, ...], played: list[float]) -> None:
        self._real = [moment.real for moment in moments]
        self._played = played

    def shown_time(self, name: str, value: float, moment: Moment, at: float) -> float:
        """Return the time to show for a value of a page that was read at `moment`."""
        return at - (moment.real - value) if _LIVE.match(name) else self._event(value)

    def _event(self, value: float) -> float:
        if value == 0 or len(self._real) < 2:
            return value
        spans = list(pairwise(zip(self._real, self._played, strict=True)))
        index = min(max(bisect_right(self._real, value) - 1, 0), len(spans) - 1)
        (real, played), (next_real, next_played) = spans[index]
        if value < real:
            return played - (real - value)
        return played + (value - real) / (next_real - real) * (next_played - played)
