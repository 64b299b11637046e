"""Keeps what users of a release build on: `python -m tools.kept_release`, once per release.

It writes the chart of this version as Helm packs it, with its CRDs and values, and the names of all
metrics and recording rules. Tests upgrade from the chart, and fail if a later version refuses its
values, narrows its CRDs or loses a name.
"""

import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

from alerts.table import recorded
from allocation.explainer.families import FAMILIES as EXPLAINER
from deploy.program import run
from deploy.sources import CHART, ROOT
from exporter.metrics import counters, fields
from exporter.metrics.families import METRICS
from exporter.metrics.render import DROPPED
from exporter.self_metrics import SelfMetrics
from remediator.controller.metric_table import FAMILIES as REMEDIATOR

KEPT = ROOT / "tests" / "deploy" / "releases"
NAMES = "names.txt"


def chart_of(folder: Path) -> Path:
    """Return the packed chart of a kept release."""
    return folder / f"draguard-{folder.name}.tgz"


def names() -> list[str]:
    """Return `NAME TYPE LABEL,LABEL` for metrics, DCGM fields and recording rules, sorted."""
    return sorted({" ".join(words).strip() for words in _names()})


def _names() -> Iterator[tuple[str, ...]]:
    for metric in METRICS:
        yield metric.name, metric.type, ",".join(metric.labels)
    yield DROPPED, "gauge", "family"
    default = counters.default()
    for row in (*default.metrics, *default.labels):
        yield row.name, row.type
    for field in fields.table().values():
        yield field.name, "field"
    for line in SelfMetrics("").text().decode().splitlines():
        if line.startswith("# TYPE "):
            yield tuple(line.split()[2:4])
    for family in (*REMEDIATOR, *EXPLAINER):
        yield family.full_name, family.kind, ",".join(family.labels)
    for recording in recorded():
        yield recording.name, "record"


def main() -> int:
    """Write the files of the present version; returns the exit status."""
    folder = KEPT / version("draguard")
    if folder.exists():
        print(f"{folder} exists: a kept release is never written again", file=sys.stderr)
        return 1
    folder.mkdir(parents=True)
    print(run("package", str(CHART), "--destination", str(folder)).strip())
    (folder / NAMES).write_text("\n".join(names()) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
