"""Every metric and label that a query may name, from the tables that the pages are made from."""

from collections.abc import Mapping

import msgspec

from allocation.explainer.families import FAMILIES as EXPLAINER
from dashboards.promql import NUMBER
from exporter.metrics import counters, families
from exporter.metrics.families_claims import HOLDER
from exporter.self_metrics import SelfMetrics
from remediator.controller.metric_table import FAMILIES as REMEDIATOR
from serving.families import Family

SCRAPED = frozenset({"cluster", "instance", "job", "node"})
"""Labels that the scrape may add; `node` by our PodMonitor."""
DEVICE = frozenset(
    {"gpu", "UUID", "pci_bus_id", "device", "modelName", "Hostname"}
    | {"GPU_I_PROFILE", "GPU_I_ID", "GPU_CI_ID", *HOLDER}
)


class Known(msgspec.Struct, frozen=True):
    labels: frozenset[str]
    counter: bool = False


def _of_exporter() -> dict[str, Known]:
    return {
        metric.name: Known(frozenset(metric.labels), metric.type == "counter")
        for metric in families.METRICS
    }


def _of_counters_file() -> dict[str, Known]:
    return {row.name: Known(DEVICE, row.type == "counter") for row in counters.default().metrics}


def _of_exporter_itself() -> dict[str, Known]:
    lines = SelfMetrics(version="1", reporting=True).text().decode().splitlines()
    reported = [line.split()[2:] for line in lines if line.startswith("# TYPE ")]
    labels = frozenset({"status", "version"})
    return {name: Known(labels, kind == "counter") for name, kind in reported}


def _of_controllers() -> dict[str, Known]:
    families: tuple[Family, ...] = (*REMEDIATOR, *EXPLAINER)
    plain = {
        family.full_name: Known(frozenset(family.labels), family.kind == "counter")
        for family in families
    }
    histograms = (family for family in families if family.kind == "histogram")
    buckets = {
        f"{family.full_name}_bucket": Known(frozenset({*family.labels, "le"}), counter=True)
        for family in histograms
    }
    return plain | buckets


FAMILIES_KNOWN: Mapping[str, Known] = {
    "up": Known(frozenset()),
    **_of_exporter(),
    **_of_counters_file(),
    **_of_exporter_itself(),
    **_of_controllers(),
}
"""Of a default install: a panel on a field that the counters file leaves out would be blank."""
LABELS = SCRAPED.union({NUMBER}, *(family.labels for family in FAMILIES_KNOWN.values()))
