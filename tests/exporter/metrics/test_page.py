"""What is served: one page per snapshot, well-formed in every form, and within its cap.

UPDATE_GOLDEN=1 rewrites tests/golden/.
"""

import gzip
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.agent.report import ledger
from exporter.metrics.counters import Reloads
from exporter.metrics.labels import Options
from exporter.metrics.render import DROPPED, page
from exporter.metrics.snapshot import Shown, Snapshot
from exporter.metrics.windows import WindowCounts
from exporter.model.node_health import SourceHealth
from exporter.model.readings import (
    DcgmReading,
    FabricReading,
    GpuReading,
    Hang,
    HealthFinding,
    LinkReading,
    MigReading,
    Observation,
    ProcessReading,
)
from exporter.self_metrics import SelfMetrics
from tests.exporter.metrics.pages import held, holder, read, rendered, shown, snapshot, values
from tests.exporter.worlds import START, Sensed, at, gpu, mig_gpu, part, seen, unseen
from tests.lab.examples import examples

GOLDEN = Path(__file__).parents[2] / "golden" / "exporter"
VALUES: dict[str, Any] = {
    "product": "NVIDIA H100 80GB HBM3",
    "fb_used": 1024 << 20,
    "remap_failure": False,
    "values": {150: 54, 155: 612.345, 203: 97, 204: 41, 251: 80000},
}
EVERY: tuple[GpuReading, ...] = (
    gpu(1, **VALUES),
    mig_gpu(2, product="NVIDIA H100 80GB HBM3", values={155: 200.0}, recovery_action=1),
    gpu(3, hung_call="nvmlDeviceGetTemperature"),
    gpu(4, lost=True),
)


def node(observation: Observation, **fields: Any) -> Snapshot:
    """Return a node after two XIDs, with holders of a GPU and of a slice that two share."""
    report = ledger.observe(ledger.begin("boot-1", "1", START), seen(*EVERY))
    sensed = Sensed()
    reported = [sensed.kmsg(1, 79), sensed.nvml(2, 94, 2, gi=5, ci=0)]
    report = ledger.take(report, reported, run="run-1", kernel_sequence=None)
    usual: dict[str, Any] = {
        "report": ledger.observe(report, observation),
        "holders": held(
            GPU_1=(holder(),), MIG_2_5=(holder("a", container="x"), holder("a", container="y"))
        ),
        "agent_sources": (SourceHealth(name="resourceslices", state="Up"),),
        "rejected": {"malformed": 2},
        "join_misses": {"no_uuid": 1},
    }
    return snapshot(observation, **(usual | fields))


def slices(profile: str, *gis: int) -> tuple[MigReading, ...]:
    return tuple(
        part(
            gi,
            uuid=f"MIG-{gi}",
            profile=profile,
            placement_start=gi,
            placement_size=1,
            fb_used=gi << 30,
            values={251: 1 << 10, 253: 12, 1001: gi / 10, 1004: 0.25, 1005: 0.5},
        )
        for gi in gis
    )


def board(product: str, **fields: Any) -> GpuReading:
    """Return a GPU of which everything in the default set could be read."""
    counters: dict[int, int | float | str] = VALUES["values"] | {
        100: 1980, 101: 2619, 140: 61, 156: 123456789, 202: 0, 206: 0, 207: 3, 253: 600,
        449: 4096, 526: 0, 393: 1, 394: 0, 1001: 0.91, 1004: 0.4, 1005: 0.3, 1009: 5_000_000,
        1010: 6_000_000, 1420: 1_500_000_000, 1423: 0,
    }  # fmt: skip
    whole = VALUES | {"product": product, "values": counters, "slowdown": 4}
    health: dict[str, Any] = {
        "sbe_volatile": 3, "dbe_volatile": 0, "sbe_aggregate": 9, "dbe_aggregate": 1,
        "sram_threshold": False, "remap_pending": False,
    }  # fmt: skip
    return gpu(1, **(whole | health | fields))


WORLDS: dict[str, Snapshot] = {
    "node": node(seen(*EVERY, seconds=30)),
    "a100": snapshot(seen(board("NVIDIA A100-SXM4-80GB", retired_pending=False))),
    "h100-shared": snapshot(
        seen(
            board(
                "NVIDIA H100 80GB HBM3",
                processes=(ProcessReading(pid=1, pod_uid="uid-a", memory=1 << 30, sm_util=40),),
            )
        ),
        holders=held(GPU_1=(holder("a", pod_uid="uid-a"), holder("b", pod_uid="uid-b"))),
    ),
    "h200-7x1g": snapshot(
        seen(board("NVIDIA H200", mig=True, instances=slices("1g.18gb", *range(7, 14)))),
        holders=held(MIG_7=(holder(profile="1g.18gb"),)),
    ),
    "b200-3g-2g": snapshot(
        seen(board("NVIDIA B200", mig=True, instances=slices("3g.90gb", 1) + slices("2g.45gb", 3)))
    ),
    "gb200-links": snapshot(
        seen(
            board(
                "NVIDIA GB200",
                links=tuple(
                    LinkReading(link=n, up=n != 3, values={1527: n, 1508: 1}) for n in range(4)
                ),
                fabric=FabricReading(state=3, status=0, health_summary=1, clique=7),
            )
        ),
        shown=Shown(options=Options(preset="full", hostname_label="hostname")),
    ),
}


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("form", ["text", "openmetrics"])
def test_the_page_is_as_recorded(world: str, form: str) -> None:
    made = page(WORLDS[world])
    body = made.text if form == "text" else made.openmetrics
    golden = GOLDEN / f"{world}.{form}"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_bytes(body)
    assert body.decode() == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize("world", WORLDS)
def test_both_forms_are_read_strictly_and_say_the_same(world: str) -> None:
    assert read(page(WORLDS[world]))


def test_the_exporters_own_families_follow_and_the_mark_of_the_end_stays_last() -> None:
    made = page(WORLDS["node"], *SelfMetrics("1").forms())
    assert "draguard_report_writes_total" in read(made)
    assert made.openmetrics.endswith(b"# EOF\n")
    assert made.openmetrics.count(b"# EOF") == 1
    assert b"# EOF" not in made.text


def test_both_forms_of_the_exporters_own_families_are_of_one_moment() -> None:
    """CPU time moves each hundredth of a second: two looks would differ in some of so many."""
    own = SelfMetrics("1")
    for _ in range(1000):
        text, openmetrics = (
            [line for line in form.splitlines() if line.startswith(b"process_")]
            for form in own.forms()
        )
        assert text == openmetrics


def test_gzip_is_the_same_page_and_the_same_page_the_same_bytes() -> None:
    made = page(WORLDS["node"])
    assert gzip.decompress(made.text_gzip) == made.text
    assert gzip.decompress(made.openmetrics_gzip) == made.openmetrics
    assert page(WORLDS["node"]) == made


def test_a_slice_carries_its_parents_uuid_and_its_own_memory() -> None:
    series = rendered(WORLDS["node"])["DCGM_FI_DEV_FB_USED"]
    found = [(labels, value) for labels, value in series if "GPU_I_ID" in labels]
    assert [value for _, value in found] == [3, 5]
    for labels, _value in found:
        assert (labels["UUID"], labels["GPU_I_PROFILE"]) == ("GPU-2", "1g.10gb")


def test_one_sum_over_a_family_counts_no_device_twice() -> None:
    """A slice that two containers share is one series; the info family has two rows."""
    found = rendered(WORLDS["node"])
    shared = [labels for labels, _ in found["DCGM_FI_DEV_FB_USED"] if labels.get("GPU_I_ID") == "5"]
    assert len(shared) == 1
    assert shared[0]["pod"] == "a"
    assert "container" not in shared[0]
    rows = [labels for labels, _ in found["draguard_device_allocation_info"]]
    assert [labels["container"] for labels in rows if labels.get("GPU_I_ID") == "5"] == ["x", "y"]


def test_while_nvml_is_down_readings_vanish_and_every_gpu_stays_visible() -> None:
    found = rendered(node(unseen(30)))
    assert not [family for family in found if family.startswith("DCGM_")]
    assert "draguard_gpu_recovery_action" not in found
    assert ({"source": "nvml", "reason": "Crashed"}, 0.0) in found["draguard_source_up"]
    assert len(found["draguard_gpu_info"]) == 4
    # Lost was found before and stays; of the others nothing is known.
    assert values(found["draguard_gpu_up"]) == {"GPU-4": 0}


def test_a_hang_is_named_with_gpu_and_call() -> None:
    hang = Hang("nvmlDeviceGetTemperature", 0, "GPU-1")
    found = rendered(node(msgspec.structs.replace(unseen(30), hang=hang)))
    named = {"gpu": "0", "UUID": "GPU-1", "call": "nvmlDeviceGetTemperature"}
    assert (named, 1.0) in found["draguard_source_hang_info"]
    assert values(found["draguard_gpu_up"]) == {"GPU-1": 0, "GPU-4": 0}


def test_a_counter_below_zero_is_no_sample() -> None:
    rows = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION,counter,x", "DCGM_FI_DEV_SM_CLOCK,gauge,x"
    reading = gpu(1, values={156: -1, 100: -1, 1420: -1, 1423: 0})
    found = rendered(snapshot(seen(reading), shown=shown(*rows)))
    assert "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION" not in found
    assert values(found["DCGM_FI_DEV_SM_CLOCK"]) == {"GPU-1": -1}
    assert values(found["draguard_gpu_clocks_event_seconds_total"], "reason") == {"hw_thermal": 0}


# --- the cap


def crowd(cap: int) -> Snapshot:
    readings = [gpu(n, values={150: n, 155: n / 1000}) for n in range(1, 9)]
    rows = ("DCGM_FI_DEV_GPU_TEMP,gauge,x", "DCGM_FI_DEV_POWER_USAGE,gauge,x")
    return snapshot(seen(*readings), shown=shown(*rows, max_series=cap))


def test_nothing_is_dropped_below_the_cap_and_the_page_says_so() -> None:
    assert rendered(crowd(20_000))[DROPPED] == [({}, 0.0)]


def test_above_the_cap_the_end_is_dropped_and_counted_by_family() -> None:
    kept = rendered(crowd(0))
    assert "DCGM_FI_DEV_GPU_TEMP" not in kept
    room = sum(len(series) for name, series in kept.items() if name != DROPPED)
    found = rendered(crowd(room + 12))
    assert len(found["DCGM_FI_DEV_GPU_TEMP"]) == 8
    assert values(found["DCGM_FI_DEV_POWER_USAGE"]) == {f"GPU-{n}": n / 1000 for n in range(1, 5)}
    assert values(found[DROPPED], "family")["DCGM_FI_DEV_POWER_USAGE"] == 4


def test_the_cap_never_drops_what_tells_that_something_is_wrong() -> None:
    found = rendered(crowd(0))
    assert len(found["draguard_gpu_up"]) == 8
    assert {
        "draguard_gpu_info",
        "draguard_source_up",
        "draguard_snapshot_timestamp_seconds",
    } <= set(found)


def test_a_refused_counters_file_shows() -> None:
    found = rendered(snapshot(seen(gpu(1)), reloads=Reloads(failures=2, last_ok=False)))
    assert found["draguard_counters_reload_failures_total"] == [({}, 2.0)]
    assert found["draguard_counters_last_reload_success"] == [({}, 0.0)]


# --- whatever comes

_TEXTS = st.text(max_size=12)
_VALUES: Any = st.dictionaries(  # its keys are literals to the type checker
    st.sampled_from((1, 51, 100, 150, 156, 230, 252, 393, 449, 1001, 1009, 1420, 1527)),
    st.integers(-(2**63), 2**64) | st.floats() | _TEXTS,
    max_size=6,
)


@st.composite
def _gpus(draw: st.DrawFn) -> GpuReading:
    number = draw(st.integers(1, 3))
    parts = [
        MigReading(
            uuid=draw(_TEXTS),
            gi=draw(st.integers(0, 2)),
            ci=draw(st.integers(0, 1)),
            profile=draw(_TEXTS),
            values=draw(_VALUES),
        )
        for _ in range(draw(st.integers(0, 4)))
    ]
    links = [LinkReading(link=draw(st.integers(0, 2)), values=draw(_VALUES)) for _ in range(2)]
    return gpu(
        number,
        uuid=draw(st.sampled_from(("GPU-1", "GPU-2")) | _TEXTS),
        product=draw(_TEXTS),
        slowdown=draw(st.none() | st.integers(0, 2**40)),
        instances=draw(st.none() | st.just(tuple(parts))),
        links=draw(st.just(()) | st.just(tuple(links))),
        values=draw(_VALUES),
    )


@settings(max_examples=examples(150), deadline=None)
@given(
    readings=st.lists(_gpus(), max_size=4),
    texts=st.lists(_TEXTS, min_size=4, max_size=4),
    preset=st.sampled_from(("drop-in", "lean", "full")),
    health=st.none() | st.tuples(st.builds(HealthFinding, uuid=st.just("GPU-1"), watch=_TEXTS,
                                           health=st.just(10), error_code=_TEXTS)),
)  # fmt: skip
def test_whatever_is_read_the_page_is_well_formed_and_no_series_comes_twice(
    readings: list[GpuReading], texts: list[str], preset: Any, health: Any
) -> None:
    pod, claim, key, value = texts
    owner = holder(pod, pod_uid=claim, request=key, pod_labels=((key, value),))
    uuids = {reading.uuid for reading in readings} | {
        part.uuid for reading in readings for part in reading.instances or ()
    }
    rows = (
        "DCGM_FI_DEV_GPU_TEMP,gauge,x",
        "DCGM_FI_DEV_SM_CLOCK,counter,x",
        "DCGM_FI_DEV_XID_ERRORS,gauge,x",
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE,histogram,x",
        "DCGM_FI_DEV_BRAND,label,x",
        "DCGM_EXP_XID_ERRORS_COUNT,counter,x",
        "DCGM_EXP_GPU_HEALTH_STATUS,gauge,x",
    )
    what = snapshot(
        seen(*readings),
        shown=shown(*rows, options=Options(preset=preset)),
        holders=held(**dict.fromkeys(uuids, (owner, holder("b")))),
        dcgm=DcgmReading(at=at(0), health=health),
        windows=WindowCounts(xids={("GPU-1", 1, None): {31: 2}}),
    )
    assert rendered(what)


def test_a_metrics_only_install_says_nothing_of_reports() -> None:
    assert b"draguard_report_up 0.0" in SelfMetrics("1").text()
    assert b"draguard_report" not in SelfMetrics("1", reporting=False).text()
