"""dcgm-exporter's rows and labels, one by one: a new one in a newer list turns these tests red."""

import csv
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from exporter.metrics import counters, labels
from exporter.metrics.labels import Options
from exporter.metrics.snapshot import Snapshot
from exporter.metrics.windows import WindowCounts
from exporter.model.node_health import XidRecord
from exporter.model.readings import (
    DcgmReading,
    HealthFinding,
    LinkReading,
    MigReading,
    NodePart,
    PeerReading,
)
from tests.exporter.metrics.pages import held, holder, rendered, shown, snapshot
from tests.exporter.worlds import START, at, gpu, mig_gpu, seen


class Row(NamedTuple):
    name: str
    type: str
    row: str
    since: str


class Label(NamedTuple):
    label: str
    of: str
    since: str


def _lines(name: str) -> Iterator[list[str]]:
    text = Path(__file__).with_name(name).read_text(encoding="utf-8")
    lines = csv.reader(line for line in text.splitlines() if not line.startswith("#"))
    next(lines)
    yield from lines


ROWS = [Row(*line) for line in _lines("dcgm_exporter_rows.csv")]
LABELS = [Label(*line) for line in _lines("dcgm_exporter_labels.csv")]
OLD_FILE = [row for row in ROWS if row.row == "1.x"]


def test_no_row_and_no_label_is_listed_twice() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS)
    assert len({label.label for label in LABELS}) == len(LABELS)


@pytest.mark.parametrize("row", [row for row in ROWS if row.row != "1.x"], ids=lambda row: row.name)
def test_each_of_their_rows_is_taken(row: Row) -> None:
    found = counters.parse(f"{row.name}, {row.type}, what it is".encode(), "counters.csv")
    (taken,) = (*found.metrics, *found.labels)
    assert (taken.name, taken.type, found.left_out, found.notes) == (row.name, row.type, {}, ())


def test_their_active_rows_are_the_default_set() -> None:
    known = counters.default()
    ours = {(row.name, row.type) for row in (*known.metrics, *known.labels)}
    assert ours == {(row.name, row.type) for row in ROWS if row.row == "active"}


@pytest.mark.parametrize("row", OLD_FILE, ids=lambda row: row.name)
def test_each_row_of_the_file_of_1x_is_left_out_with_a_word(row: Row) -> None:
    good = "DCGM_FI_DEV_GPU_TEMP, gauge, x"
    found = counters.parse(f"{row.name}, {row.type}, x\n{good}".encode(), "counters.csv")
    assert found.left_out == {"UnknownField": 1}
    assert "use the DCGM_FI_* name" in found.notes[0]


# --- labels

BESIDE = ("not here", "switch", "cpu")
"""Of what has no pod's labels: a pod may have these of its own."""
COMPUTED = (
    "DCGM_FI_DEV_XID_ERRORS,gauge,x",
    "DCGM_EXP_XID_ERRORS_COUNT,gauge,x",
    "DCGM_EXP_XID_ERRORS_TOTAL,counter,x",
    "DCGM_EXP_CLOCK_EVENTS_COUNT,gauge,x",
    "DCGM_EXP_CLOCK_EVENTS_TOTAL,counter,x",
    "DCGM_EXP_GPU_HEALTH_STATUS,gauge,x",
    "DCGM_EXP_P2P_STATUS,gauge,x",
)


def held_by_pods(**options: object) -> Snapshot:
    plugin = holder("a", dra=None, resource="nvidia.com/gpu", replica="3", pod_uid="uid-a")
    parts = tuple(
        MigReading(uuid=f"MIG-{ci}", gi=2, ci=ci, profile="1c.2g.20gb", values={1001: 0.5})
        for ci in (0, 1)
    )
    return snapshot(
        seen(
            gpu(1, values={150: 1}, product="NVIDIA H100"),
            mig_gpu(2),
            gpu(3, mig=True, instances=parts),
        ),
        holders=held(GPU_1=(plugin,), MIG_2_5=(holder("b", profile="1g.10gb"),)),
        shown=shown(
            "DCGM_FI_DEV_GPU_TEMP,gauge,x",
            "DCGM_FI_DEV_FB_USED,gauge,x",
            "DCGM_FI_PROF_GR_ENGINE_ACTIVE,gauge,x",
            "DCGM_FI_DRIVER_VERSION,label,x",
            options=msgspec.convert(options, Options),
        ),
    )


def computed() -> Snapshot:
    finding = HealthFinding(
        uuid="GPU-1",
        watch="SM",
        health=10,
        error_code="DCGM_FR_X",
        severity="MONITOR",
        category="HARDWARE_OTHER",
    )
    what = snapshot(
        seen(
            gpu(1, slowdown=4, peers=(PeerReading(peer=1, status=0),)),
            gpu(2, product="NVIDIA B200", links=(LinkReading(link=0, values={581: 1}),)),
            driver="580.95.05",
        ),
        dcgm=DcgmReading(at=START, health=(finding,)),
        windows=WindowCounts(
            xids={("GPU-1", None, None): {31: 1}}, clocks={"GPU-1": {"gpu_idle": 1}}
        ),
        clock_edges={"GPU-1": {"gpu_idle": 1}},
        shown=shown(*COMPUTED, "DCGM_FI_DEV_NVLINK_PPCNT_RECOVERY_TIME_SINCE_LAST,gauge,x"),
    )
    first, *others = what.report.gpus
    xid = XidRecord(code=31, count=1, first_seen=at(1), last_seen=at(1))
    gpus = (msgspec.structs.replace(first, xids=(xid,)), *others)
    return msgspec.structs.replace(what, report=msgspec.structs.replace(what.report, gpus=gpus))


def beside() -> Snapshot:
    parts = (
        NodePart(kind="switch", id=0, values={858: 41}),
        NodePart(kind="cpu", id=0, serial="0x1A", values={1100: 0.5}),
        NodePart(kind="core", id=0, of=0, values={1100: 0.5}),
    )
    rows = (
        "DCGM_FI_DEV_NVSWITCH_TEMPERATURE_CURRENT,gauge,x",
        "DCGM_FI_DEV_CPU_UTIL_TOTAL,gauge,x",
    )
    reading = DcgmReading(at=START, node_parts=parts)
    return snapshot(seen(gpu(1)), dcgm=reading, shown=shown(*rows))


@cache
def shown_labels() -> frozenset[str]:
    """Return every label that a DCGM series has in one of these worlds."""
    worlds = (
        held_by_pods(pod_uid=True),
        held_by_pods(old_namespace=True, hostname_label="hostname"),
        computed(),
        beside(),
    )
    return frozenset(
        name
        for world in worlds
        for family, series in rendered(world).items()
        if family.startswith("DCGM_")
        for named, _value in series
        for name in named
    )


@pytest.mark.parametrize("one", LABELS, ids=lambda case: case.label)
def test_each_of_their_labels_is_shown_or_listed_as_missing(one: Label) -> None:
    assert (one.label in shown_labels()) == (one.of != "not here")


def test_no_label_is_shown_that_they_have_not() -> None:
    assert shown_labels() <= {label.label for label in LABELS}


@pytest.mark.parametrize("one", [label for label in LABELS if label.of not in BESIDE], ids=str)
def test_no_pod_can_hide_a_label_of_theirs(one: Label) -> None:
    (named,), _ = labels.pod_pairs(Options(), (holder(pod_labels=((one.label, "mine"),)),), 4096)
    assert named == (f"label_{one.label}", "mine")
