"""The tables of docs/metrics.md, from the tables that the exporter's page is made from."""

from collections.abc import Iterator, Mapping, Sequence

from exporter.metrics import counters, fields
from exporter.metrics.families import METRICS
from exporter.metrics.families_gpu import GPU
from exporter.metrics.render import DROPPED
from exporter.self_metrics import SelfMetrics
from tools.generated_docs.table import Tables


def _own() -> Iterator[Sequence[str]]:
    yield "metric", "type", "labels", "what it says", "from", "needs"
    for metric in METRICS:
        stated = metric.help if metric.kept else f"{metric.help} May be left out above the cap."
        needs = metric.needs or "nothing"
        of_gpu = metric.labels[: len(GPU)] == GPU
        names = metric.labels[len(GPU) :] if of_gpu else metric.labels
        labels = ", ".join([*(["*GPU*"] if of_gpu else []), *(f"`{name}`" for name in names)])
        yield f"`{metric.name}`", metric.type, labels, stated, metric.source, needs
    stated = "Series left out of this page because of the cap on series, by family."
    yield f"`{DROPPED}`", "gauge", "`family`", stated, "the exporter", "nothing"


def _default() -> Iterator[Sequence[str]]:
    yield "metric", "type", "DCGM field", "unit", "of", "what it says"
    known = counters.default()
    for row in (*known.metrics, *known.labels):
        field = row.field
        number = f"{field.id}, `{field.renamed}` as of 4.6" if field.renamed else str(field.id)
        yield f"`{row.name}`", row.type, number, field.unit, _LEVELS[field.level], row.help


def _numbers() -> Iterator[Sequence[str]]:
    """How many fields the table knows, by what they are of."""
    yield "of", "fields"
    known = [field for field in fields.table().values() if not field.computed]
    for level in dict.fromkeys(field.level for field in known):
        count = sum(field.level == level for field in known)
        yield _LEVELS[level], str(count)


def _itself() -> Iterator[Sequence[str]]:
    yield "metric", "type", "what it says"
    kinds: dict[str, str] = {}
    helps: dict[str, str] = {}
    for line in SelfMetrics("").text().decode().splitlines():
        mark, word, name, *rest = [*line.split(" ", 3), ""]
        if mark == "#":
            (kinds if word == "TYPE" else helps)[name] = rest[0]
    for name, kind in kinds.items():
        yield f"`{name}`", kind, helps[name]


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
TABLES: Tables = {
    "own": _own,
    "default": _default,
    "numbers": _numbers,
    "itself": _itself,
}
