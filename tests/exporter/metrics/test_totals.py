"""dcgm-exporter 4.8.3's counters that only grow: XIDs by code, and clock events that began."""

import msgspec
import pytest

from exporter.metrics import clock_edges, counters, fields
from exporter.metrics.clock_edges import ClockEdges
from exporter.metrics.snapshot import Snapshot
from exporter.metrics.windows import CLOCK_EVENTS
from exporter.metrics.xid_changes import Counted
from exporter.model.node_health import XidRecord
from exporter.model.readings import NvmlReading
from tests.exporter.metrics.pages import rendered, shown, snapshot, values
from tests.exporter.worlds import at, gpu, mig_gpu, seen

XIDS = "DCGM_EXP_XID_ERRORS_TOTAL"
CLOCKS = "DCGM_EXP_CLOCK_EVENTS_TOTAL"
ROWS = (f"{XIDS}, counter, x", f"{CLOCKS}, counter, x")


def xid(code: int, count: int, gi: int | None = None, ci: int | None = None) -> XidRecord:
    return XidRecord(code=code, count=count, first_seen=at(1), last_seen=at(2), gi=gi, ci=ci)


def with_xids(what: Snapshot, *xids: XidRecord) -> Snapshot:
    """Return the snapshot whose last GPU had these XIDs."""
    *others, last = what.report.gpus
    gpus = (*others, msgspec.structs.replace(last, xids=xids))
    return msgspec.structs.replace(what, report=msgspec.structs.replace(what.report, gpus=gpus))


def edges_of(*masks: int | None) -> dict[str, int]:
    """Return what was counted of a GPU whose passes showed these masks, the zeros left out."""
    found = ClockEdges()
    for number, mask in enumerate(masks):
        found.sampled(NvmlReading(at=at(30 * number), gpus=(gpu(1, slowdown=mask),)))
    return {name: count for name, count in found.counts().get("GPU-1", {}).items() if count}


def test_the_rows_are_taken_and_clock_events_ask_for_the_reasons() -> None:
    found = counters.parse("\n".join(ROWS).encode(), "counters.csv")
    assert [row.name for row in found.metrics] == [XIDS, CLOCKS]
    assert found.requested == (fields.CLOCKS_EVENT_REASONS,)


def test_xids_are_summed_up_by_code_for_the_gpu_and_for_each_slice() -> None:
    xids = xid(31, 2), xid(43, 1), xid(94, 3, gi=5, ci=0), xid(94, 1, gi=5)
    what = with_xids(snapshot(seen(gpu(1), mig_gpu(2)), shown=shown(*ROWS)), *xids)
    series = rendered(what)[XIDS]
    found = {
        (labels["UUID"], labels.get("GPU_I_ID"), labels["xid"]): value for labels, value in series
    }
    assert found == {
        ("GPU-2", None, "31"): 2,
        ("GPU-2", None, "43"): 1,
        ("GPU-2", "5", "94"): 4,
    }
    assert list(series[0][0])[-2:] == ["Hostname", "xid"]


def test_xids_of_slices_are_the_gpus_where_it_has_none() -> None:
    what = with_xids(snapshot(seen(gpu(1)), shown=shown(*ROWS)), xid(94, 3, gi=5), xid(94, 2))
    assert values(rendered(what)[XIDS], "xid") == {"94": 5}


def test_xids_are_those_of_our_own_counter() -> None:
    """A count that may still move to a slice is not shown yet, and one that moved late stays."""
    corrections: dict[Counted, int] = {
        (("GPU-1", None, None), 31): -2,
        (("GPU-1", None, None), 43): -3,
        (("GPU-1", None, None), 79): 1,
    }
    what = snapshot(seen(gpu(1)), shown=shown(*ROWS), xid_corrections=corrections)
    found = rendered(with_xids(what, xid(31, 2), xid(43, 5), xid(79, 1)))
    assert values(found[XIDS], "xid") == {"43": 2, "79": 2}
    assert values(found["draguard_xid_errors_total"], "code") == {"43": 2, "79": 2}


def test_a_gpu_that_is_lost_keeps_its_xids() -> None:
    what = with_xids(snapshot(seen(gpu(1, lost=True)), shown=shown(*ROWS)), xid(79, 1))
    assert values(rendered(what)[XIDS], "xid") == {"79": 1}


def test_0_is_no_error_and_no_error_is_no_series() -> None:
    what = with_xids(snapshot(seen(gpu(1)), shown=shown(*ROWS)), xid(0, 4))
    assert XIDS not in rendered(what)


def test_a_reason_counts_when_it_begins() -> None:
    assert edges_of(0x0, 0x60, 0x60, 0x20, 0x60) == {"sw_thermal": 1, "hw_thermal": 2}


def test_what_held_at_the_first_look_had_begun_before() -> None:
    assert edges_of(0x60, 0x61) == {"gpu_idle": 1}


def test_a_look_that_shows_no_reasons_ends_none() -> None:
    assert edges_of(0x0, 0x4, None, 0x4) == {"power_cap": 1}


def test_the_same_pass_reported_twice_is_one() -> None:
    found = ClockEdges()
    for mask in (0x0, 0x1, 0x0):
        found.sampled(NvmlReading(at=at(0), gpus=(gpu(1, slowdown=mask),)))
    assert set(found.counts()["GPU-1"].values()) == {0}


def test_every_reason_is_there_with_0_from_the_first_look_on() -> None:
    """A counter that begins at 1 hides its first event from rate()."""
    found = ClockEdges()
    found.sampled(NvmlReading(at=at(0), gpus=(gpu(1, slowdown=0x1FF), gpu(2))))
    what = snapshot(seen(gpu(1), gpu(2)), shown=shown(*ROWS), clock_edges=found.counts())
    series = rendered(what)[CLOCKS]
    assert values(series, "clock_event") == dict.fromkeys(CLOCK_EVENTS.values(), 0)
    assert {labels["UUID"] for labels, _ in series} == {"GPU-1"}


def test_clock_events_are_shown_by_gpu() -> None:
    edges = {"GPU-1": {"sw_thermal": 3}, "GPU-2": {"sw_thermal": 1}}
    what = snapshot(seen(gpu(1), mig_gpu(2)), shown=shown(*ROWS), clock_edges=edges)
    assert values(rendered(what)[CLOCKS]) == {"GPU-1": 3, "GPU-2": 1}


def test_of_too_many_gpus_the_first_ones_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock_edges, "MOST_GPUS", 2)
    found = ClockEdges()
    for number in (1, 2, 3):
        found.sampled(NvmlReading(at=at(number), gpus=(gpu(number, slowdown=0),)))
    assert list(found.counts()) == ["GPU-2", "GPU-3"]
