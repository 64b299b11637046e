"""Pages for tests: a snapshot, rendered, and read again by both strict parsers."""

import math
import re
from collections.abc import Mapping
from typing import Any

import msgspec
from prometheus_client import parser as text_format
from prometheus_client.openmetrics import parser as strict_format

from exporter.agent.join.claims import Holder, Holders
from exporter.agent.report import ledger
from exporter.metrics import counters
from exporter.metrics.render import Page, page
from exporter.metrics.snapshot import Shown, Snapshot
from exporter.model.readings import ClaimDevice, DcgmEntity, DcgmReading, Observation
from tests.exporter.worlds import START, at

# The parsers carry no types.
_text_families: Any = vars(text_format)["text_string_to_metric_families"]
_strict_families: Any = vars(strict_format)["text_string_to_metric_families"]

OF_SENSOR = set(Observation.__struct_fields__) - set(Snapshot.__struct_fields__)

Series = list[tuple[dict[str, str], float]]


def snapshot(observation: Observation, **fields: Any) -> Snapshot:
    """Return what an agent shows that has just seen this; `fields` are of either."""
    report = ledger.observe(ledger.begin("boot-1", "1", START), observation)
    of_sensor = {name: fields.pop(name) for name in OF_SENSOR & fields.keys()}
    usual: dict[str, Any] = {
        "node": "node-a",
        "at": at(30),
        "report": report,
        "seen": msgspec.structs.replace(observation, **of_sensor),
    }
    return Snapshot(**(usual | fields))


def shown(*rows: str, **fields: Any) -> Shown:
    """Return what is shown with a counters file of these rows."""
    return Shown(counters=counters.parse("\n".join(rows).encode(), "counters.csv"), **fields)


def dcgm_of(**values: Any) -> DcgmReading:
    """Return DCGM's word on one entity: its ids and values."""
    return DcgmReading(at=START, entities=(DcgmEntity(**values),))


def holder(pod: str = "train-0", **fields: Any) -> Holder:
    """Return a holder through DRA, unless `dra` is given."""
    claim = ClaimDevice(f"{pod}-gpu", "team", "gpu.nvidia.com", "node-a", "gpu-0")
    usual: dict[str, Any] = {"namespace": "team", "pod": pod, "container": "main", "dra": claim}
    return Holder(**(usual | fields))


def held(**by_uuid: Any) -> Holders:
    """Return holders by UUID; write GPU_1 for GPU-1."""
    return Holders({uuid.replace("_", "-"): holders for uuid, holders in by_uuid.items()})


def rendered(what: Snapshot) -> Mapping[str, Series]:
    """Return the series of a page by sample name, after strict reading of both its forms."""
    return read(page(what))


def read(made: Page) -> Mapping[str, Series]:
    """Read a page strictly; both forms must say the same and nothing twice."""
    plain = _series(_text_families, made.text.decode())
    strict = _series(_strict_families, made.openmetrics.decode())
    assert plain == strict
    return plain


def types(made: Page, *, openmetrics: bool) -> dict[str, str]:
    """Return the type of each family."""
    body = made.openmetrics if openmetrics else made.text
    words = (line.split(" ") for line in body.decode().splitlines() if line.startswith("# TYPE"))
    return {word[2]: word[3] for word in words}


def values(series: Series, label: str = "UUID") -> dict[str, float]:
    """Return values by one label, which must tell the series apart."""
    found = {labels.get(label, ""): value for labels, value in series}
    assert len(found) == len(series)
    return found


def _series(parse: Any, body: str) -> dict[str, Series]:
    written = {re.split("[{ ]", line, maxsplit=1)[0] for line in body.splitlines()}
    found: dict[str, Series] = {}
    names: list[str] = []
    for family in parse(body):
        names.append(family.name)
        for sample in family.samples:
            # The text parser gives counters the suffix that OpenMetrics wants.
            name = sample.name if sample.name in written else sample.name.removesuffix("_total")
            assert math.isfinite(sample.value)
            found.setdefault(name, []).append((sample.labels, sample.value))
    assert len(names) == len(set(names))
    for series in found.values():
        identities = [tuple(sorted(labels.items())) for labels, _ in series]
        assert len(identities) == len(set(identities))
    return found


def with_counters(what: Snapshot, *rows: str) -> Snapshot:
    return msgspec.structs.replace(what, shown=shown(*rows))
