"""The table of our families: Prometheus's rules for names and the labels it promises."""

import re

import pytest

from exporter.metrics import counters, fields
from exporter.metrics.families import METRICS, NEEDED, requested_fields
from exporter.metrics.metric import Metric
from tests.exporter.metrics.pages import rendered
from tests.exporter.metrics.test_page import WORLDS

RESERVED = ("_count", "_sum", "_bucket", "_created")
TYPES = ("gauge", "counter", "histogram", "summary", "untyped")
NO_BASE_UNITS = (
    "milliseconds", "microseconds", "nanoseconds", "minutes", "hours", "percent", "kilobytes",
    "megabytes", "mib", "mb", "ms", "us", "ns", "sec", "milliwatts", "mhz",
)  # fmt: skip


@pytest.mark.parametrize("metric", METRICS, ids=lambda entry: entry.name)
def test_a_metric_is_named_as_promtool_wants_it(metric: Metric) -> None:
    assert re.fullmatch(r"draguard_[a-z0-9]+(_[a-z0-9]+)*", metric.name)
    assert metric.name.endswith("_total") == (metric.type == "counter")
    assert not metric.name.endswith(RESERVED)
    words = metric.name.split("_")
    assert not set(words) & {*TYPES, *NO_BASE_UNITS}
    assert not [label for label in metric.labels if re.search("[a-z][A-Z]", label)]
    assert metric.help.endswith(".")
    assert metric.source


def test_no_name_comes_twice() -> None:
    names = [metric.name for metric in METRICS]
    assert len(names) == len(set(names))


def test_a_unit_is_that_of_the_name() -> None:
    units = {metric.name: metric.unit for metric in METRICS if metric.unit}
    assert units["draguard_gpu_clocks_event_seconds_total"] == "seconds"
    assert units["draguard_pod_memory_used_bytes"] == "bytes"
    assert units["draguard_pod_sm_utilization_ratio"] == "ratio"
    assert "draguard_gpu_up" not in units


def test_series_have_no_label_that_the_table_does_not_promise() -> None:
    promised = {metric.name: set(metric.labels) for metric in METRICS}
    shown: set[str] = set()
    for world in WORLDS.values():
        host = world.shown.options.host[0]
        for name, series in rendered(world).items():
            for labels, _value in series if name in promised else ():
                spelled = {"Hostname" if label == host else label for label in labels}
                assert spelled <= promised[name], name
                shown.add(name)
    # The worlds show most of the table; what they lack has tests of its own.
    assert len(shown) > len(METRICS) * 0.6


def test_the_fields_that_our_families_need_are_dcgms() -> None:
    assert all(fields.by_id(number) for number in NEEDED)


def test_a_page_needs_the_counters_files_fields_and_ours_once_each() -> None:
    requested = counters.parse(b"DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS,counter,x", "counters.csv")
    assert requested_fields(requested) == NEEDED
    more = counters.parse(b"DCGM_FI_DEV_GPU_TEMP,gauge,x", "counters.csv")
    assert requested_fields(more) == (150, *NEEDED)
