"""Writes the tables of `docs/metrics.md` from the tables that the page is made from.

`python -m exporter.metrics.metric_reference docs/metrics.md` brings a file up to date; what
stands outside the marks is left as it is.
"""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from exporter.metrics import counters, fields
from exporter.metrics.families import METRICS
from exporter.metrics.families_gpu import GPU
from exporter.metrics.metric import Metric
from exporter.metrics.render import DROPPED
from exporter.self_metrics import SelfMetrics

_MARKED = re.compile(r"(<!-- begin (?P<name>[\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def updated(text: str) -> str:
    """Return a document with every table between its marks made anew."""
    return _MARKED.sub(
        lambda found: f"{found[1]}{''.join(_TABLES[found['name']]())}{found[3]}", text
    )


def _own() -> Iterator[str]:
    yield from _table(("metric", "type", "labels", "what it says", "from", "needs"))
    for metric in METRICS:
        meaning = metric.help if metric.kept else f"{metric.help} May be left out above the cap."
        yield _row(
            (
                f"`{metric.name}`",
                metric.type,
                _labels(metric),
                meaning,
                metric.source,
                metric.needs or "nothing",
            )
        )
    meaning = "Series left out of this page because of the cap on series, by family."
    yield _row((f"`{DROPPED}`", "gauge", "`family`", meaning, "the exporter", "nothing"))


def _labels(metric: Metric) -> str:
    if metric.labels[: len(GPU)] == GPU:
        return ", ".join(("*GPU*", *(f"`{name}`" for name in metric.labels[len(GPU) :])))
    return ", ".join(f"`{name}`" for name in metric.labels)


def _default() -> Iterator[str]:
    yield from _table(("metric", "type", "DCGM field", "unit", "of", "what it says"))
    known = counters.default()
    for row in (*known.metrics, *known.labels):
        field = row.field
        number = f"{field.id}, `{field.renamed}` as of 4.6" if field.renamed else str(field.id)
        yield _row((f"`{row.name}`", row.type, number, field.unit, _LEVELS[field.level], row.help))


def _numbers() -> Iterator[str]:
    """How many fields the table knows, by what they are of."""
    yield from _table(("of", "fields"))
    known = [field for field in fields.table().values() if not field.computed]
    for level in dict.fromkeys(field.level for field in known):
        count = sum(field.level == level for field in known)
        yield _row((_LEVELS[level], str(count)))


def _itself() -> Iterator[str]:
    yield from _table(("metric", "type", "what it says"))
    kinds: dict[str, str] = {}
    helps: dict[str, str] = {}
    for line in SelfMetrics("").text().decode().splitlines():
        mark, word, name, *rest = [*line.split(" ", 3), ""]
        if mark == "#":
            (kinds if word == "TYPE" else helps)[name] = rest[0]
    for name, kind in kinds.items():
        yield _row((f"`{name}`", kind, helps[name]))


_LEVELS: Mapping[str, str] = {
    "gpu": "GPU",
    "gi": "GPU instance",
    "ci": "slice",
    "link": "NVLink",
    "global": "node",
    "vgpu": "vGPU",
    "switch": "NVSwitch",
    "cpu": "CPU",
    "core": "CPU core",
    "connectx": "ConnectX",
}
_TABLES: Mapping[str, Callable[[], Iterable[str]]] = {
    "own": _own,
    "default": _default,
    "numbers": _numbers,
    "itself": _itself,
}


def _table(columns: tuple[str, ...]) -> Iterator[str]:
    yield _row(columns)
    yield _row(tuple("---" for _ in columns))


def _row(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |\n"


def main() -> None:
    """Bring the named files up to date."""
    for path in map(Path, sys.argv[1:]):
        path.write_text(updated(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
