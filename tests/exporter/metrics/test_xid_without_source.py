"""Nobody looked is neither 0 nor healthy, and what was seen of a GPU outlives its readings."""

from typing import Any

import msgspec
import pytest

from exporter.agent.report import ledger
from exporter.metrics.snapshot import Snapshot
from exporter.metrics.windows import WindowCounts
from exporter.model.node_health import SourceHealth
from exporter.model.readings import DcgmReading, HealthFinding
from exporter.sensor.nvml.vendor import NO_EVENTS
from tests.exporter.metrics.pages import Series, rendered, shown, snapshot, values
from tests.exporter.worlds import START, UP, Sensed, at, gpu, mig_gpu, seen

XID = "DCGM_FI_DEV_XID_ERRORS"
COUNT = "DCGM_EXP_XID_ERRORS_COUNT"
CLOCKS = "DCGM_EXP_CLOCK_EVENTS_COUNT"
HEALTH = "DCGM_EXP_GPU_HEALTH_STATUS"
SHOWN = shown(*(f"{name},gauge,x" for name in (XID, COUNT, CLOCKS, HEALTH)))
BEFORE = seen(gpu(1), mig_gpu(2))


def of(series: Series, uuid: str = "GPU-1") -> list[float]:
    return [value for labels, value in series if labels["UUID"] == uuid]


def after_an_xid(*fields: dict[str, Any]) -> Snapshot:
    """Return GPUs that were read once, had XID 79 or 94, and now say what `fields` say."""
    sensed = Sensed()
    signals = [sensed.kmsg(1, 79), sensed.kmsg(1, 94, 2, gi=3, ci=0)]
    report = ledger.observe(ledger.begin("boot-1", "1", START), BEFORE)
    report = ledger.take(report, signals, run="run-1", kernel_sequence=None)
    now = seen(
        *(gpu(number, **settings) for number, settings in enumerate(fields, start=1)), seconds=2
    )
    report = ledger.observe(report, now)
    windows = WindowCounts(
        xids={("GPU-1", None, None): {79: 1}, ("GPU-2", 3, 0): {94: 1}},
    )
    return snapshot(now, report=report, windows=windows, shown=SHOWN, at=at(2))


@pytest.mark.parametrize("silence", [{"lost": True}, {"hung_call": "nvmlDeviceGetPowerUsage"}])
def test_the_last_xid_outlives_the_gpu_that_it_took_away(silence: dict[str, Any]) -> None:
    found = rendered(after_an_xid(silence, silence))
    assert values(found[XID]) == {"GPU-1": 79, "GPU-2": 94}
    assert {(labels["UUID"], labels["xid"]): value for labels, value in found[COUNT]} == {
        ("GPU-1", "79"): 1,
        ("GPU-2", "94"): 1,
    }
    alive = rendered(after_an_xid({}, {}))
    for family in (XID, COUNT):
        assert found[family][0] == alive[family][0], "another label is another series"


def test_a_silent_gpu_without_xids_is_not_reported_to_have_none() -> None:
    found = rendered(snapshot(seen(gpu(1, lost=True), gpu(2)), shown=SHOWN))
    assert of(found[XID]) == of(found[COUNT]) == []
    assert of(found[XID], "GPU-2") == of(found[COUNT], "GPU-2") == [0]


def test_a_gpu_that_was_let_go_has_no_xids_to_show() -> None:
    found = rendered(after_an_xid({"released": True}, {"released": True, "lost": True}))
    assert XID not in found


def test_no_xid_is_0_only_where_somebody_would_have_reported_one() -> None:
    deaf = seen(gpu(1, without_events=True), gpu(2))
    for up, reported in ((False, []), (True, [0])):
        log = SourceHealth(name="kmsg", state="Up" if up else "Down")
        found = rendered(
            snapshot(msgspec.structs.replace(deaf, sources=(UP, log)), shown=SHOWN),
        )
        assert of(found[XID]) == of(found[COUNT]) == reported
        assert of(found[XID], "GPU-2") == of(found[COUNT], "GPU-2") == [0]


def test_dcgm_would_have_reported_an_xid_too() -> None:
    dcgm = DcgmReading(at=START, gpus=("GPU-1",))
    found = rendered(
        snapshot(
            seen(gpu(1, without_events=True), gpu(2, without_events=True)), dcgm=dcgm, shown=SHOWN
        )
    )
    assert (of(found[XID]), of(found[XID], "GPU-2")) == ([0], [])


def test_clock_events_that_were_not_read_are_not_none() -> None:
    found = rendered(snapshot(seen(gpu(1), gpu(2, slowdown=0)), shown=SHOWN))
    assert values(found[CLOCKS]) == {"GPU-2": 0}


def test_a_gpu_that_the_engine_does_not_read_is_not_healthy() -> None:
    sick = HealthFinding(
        uuid="GPU-3", watch="MEM", health=20, error_code="DCGM_FR_X", severity="", category=""
    )
    dcgm = DcgmReading(at=START, gpus=("GPU-1",), health=(sick,))
    found = rendered(snapshot(seen(gpu(1), gpu(2), gpu(3)), dcgm=dcgm, shown=SHOWN))[HEALTH]
    assert of(found) == [0] * 11
    assert of(found, "GPU-2") == []
    assert sorted(of(found, "GPU-3")) == [0] * 10 + [20]


def test_a_source_that_tells_no_events_says_so() -> None:
    source = SourceHealth(name="nvml", state="Up", reason=NO_EVENTS)
    changes = msgspec.structs.replace(seen(gpu(1)), sources=(source,))
    [(labels, value)] = [
        sample
        for sample in rendered(snapshot(changes))["draguard_source_up"]
        if sample[0]["source"] == "nvml"
    ]
    assert (labels["reason"], value) == ("NoEvents", 1)
