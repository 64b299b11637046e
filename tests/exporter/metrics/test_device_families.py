"""What the counters file asks for: values of GPUs, slices and links, each once."""

from collections.abc import Mapping

import msgspec
import pytest

from exporter.metrics.labels import Options
from exporter.metrics.render import page as make_page
from exporter.metrics.snapshot import Shown
from exporter.metrics.windows import WindowCounts
from exporter.model.node_health import XidRecord
from exporter.model.readings import (
    DcgmEntity,
    DcgmReading,
    GpuReading,
    HealthFinding,
    LinkReading,
    PeerReading,
)
from tests.exporter.metrics.pages import (
    Series,
    dcgm_of,
    held,
    holder,
    rendered,
    shown,
    snapshot,
    types,
    values,
    with_counters,
)
from tests.exporter.worlds import START, at, gpu, mig_gpu, part, seen

TEMP = "DCGM_FI_DEV_GPU_TEMP,gauge,x"
USED = "DCGM_FI_DEV_FB_USED,gauge,x"
POWER = "DCGM_FI_DEV_POWER_USAGE,gauge,x"
BUSY = "DCGM_FI_PROF_GR_ENGINE_ACTIVE,gauge,x"
PCIE = "DCGM_FI_PROF_PCIE_TX_BYTES,gauge,x"
LINK_STATE = "DCGM_FI_DEV_NVLINK_GET_STATE,gauge,x"
XIDS = "DCGM_EXP_XID_ERRORS_COUNT,gauge,x"
CLOCKS = "DCGM_EXP_CLOCK_EVENTS_COUNT,gauge,x"
HEALTH = "DCGM_EXP_GPU_HEALTH_STATUS,gauge,x"
PEERS = "DCGM_EXP_P2P_STATUS,gauge,x"
DRIVER = "DCGM_FI_DRIVER_VERSION,label,x"


def name(row: str) -> str:
    return row.partition(",")[0]


def show(
    *gpus: GpuReading, rows: tuple[str, ...], dcgm: DcgmReading | None = None
) -> Mapping[str, Series]:
    return rendered(snapshot(seen(*gpus), shown=shown(*rows), dcgm=dcgm))


def test_nvml_answers_first_and_dcgm_fills_what_it_does_not_tell() -> None:
    reading = gpu(1, values={150: 54})
    dcgm = dcgm_of(uuid="GPU-1", values={150: 99, 1001: 0.5})
    found = show(reading, rows=(TEMP, BUSY), dcgm=dcgm)
    assert values(found[name(TEMP)]) == {"GPU-1": 54}
    assert values(found[name(BUSY)]) == {"GPU-1": 0.5}


def test_values_have_dcgms_units() -> None:
    reading = gpu(1, fb_used=(1 << 30) + 5, values={155: 612.345, 100: 1980})
    found = show(reading, rows=(POWER, USED, "DCGM_FI_DEV_SM_CLOCK,gauge,x"))
    assert values(found[name(POWER)]) == {"GPU-1": 612.345}
    assert values(found[name(USED)]) == {"GPU-1": 1024}
    assert values(found["DCGM_FI_DEV_SM_CLOCK"]) == {"GPU-1": 1980}


@pytest.mark.parametrize("blank", [{}, {150: float("nan")}, {150: float("inf")}, {150: "warm"}])
def test_what_is_no_number_is_no_sample(blank: dict[int, int | float | str]) -> None:
    assert name(TEMP) not in show(gpu(1, values=blank), rows=(TEMP,))


def test_whole_numbers_are_written_as_such() -> None:
    what = snapshot(
        seen(gpu(1, values={150: 54.0, 1001: 0.25, 67: True, 100: -1})),
        shown=shown(TEMP, BUSY, "DCGM_FI_DEV_MIG_MODE,gauge,x", "DCGM_FI_DEV_SM_CLOCK,gauge,x"),
    )
    lines = make_page(what).text.decode().splitlines()
    numbers = {line.partition("{")[0]: line.rpartition(" ")[2] for line in lines if "{" in line}
    assert numbers[name(TEMP)] == "54"
    assert numbers[name(BUSY)] == "0.25"
    assert numbers["DCGM_FI_DEV_SM_CLOCK"] == "-1"


def test_a_field_is_called_as_the_file_calls_it_and_typed_as_it_says() -> None:
    rows = (
        "DCGM_FI_DEV_GPU_TEMP_CELSIUS,gauge,x",
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION,counter,x",
        "DCGM_FI_DEV_SM_CLOCK,histogram,x",
        "DCGM_FI_DEV_MEM_CLOCK,summary,x",
    )
    reading = gpu(1, values={150: 54, 156: 5, 100: 1, 101: 2})
    made = make_page(snapshot(seen(reading), shown=shown(*rows)))
    plain, strict = types(made, openmetrics=False), types(made, openmetrics=True)
    names = [name(row) for row in rows]
    assert [plain[family] for family in names] == ["gauge", "counter", "untyped", "untyped"]
    assert [strict[family] for family in names] == ["gauge", "unknown", "unknown", "unknown"]


def test_families_come_in_the_order_of_the_file() -> None:
    made = make_page(snapshot(seen(gpu(1, values={150: 1, 155: 0.001})), shown=shown(POWER, TEMP)))
    assert list(types(made, openmetrics=False))[:2] == [name(POWER), name(TEMP)]


# --- MIG


def test_memory_is_of_slices_and_temperature_of_their_gpu() -> None:
    reading = mig_gpu(2, values={150: 40}, fb_used=99 << 20)
    found = show(reading, rows=(TEMP, USED))
    assert values(found[name(USED)], "GPU_I_ID") == {"3": 3, "5": 5}
    ((labels, value),) = found[name(TEMP)]
    assert (value, labels["UUID"], "GPU_I_ID" in labels) == (40, "GPU-2", False)


def test_a_mig_gpu_without_slices_shows_its_own_memory() -> None:
    found = show(gpu(2, mig=True, instances=(), fb_used=99 << 20), rows=(USED,))
    assert values(found[name(USED)], "GPU_I_ID") == {"": 99}


def test_profiling_is_the_gpus_where_no_slice_has_any() -> None:
    reading = mig_gpu(2, values={1001: 0.7})
    assert values(show(reading, rows=(BUSY,))[name(BUSY)], "GPU_I_ID") == {"": 0.7}


def test_profiling_of_slices_hides_the_gpus() -> None:
    dcgm = DcgmReading(
        at=START,
        entities=(
            DcgmEntity(uuid="GPU-2", values={1001: 0.7}),
            DcgmEntity(uuid="GPU-2", gi=3, values={1005: 0.2}),
            DcgmEntity(uuid="GPU-2", gi=3, ci=0, values={1001: 0.4}),
            DcgmEntity(uuid="GPU-2", gi=5, values={1001: 0.6}),
        ),
    )
    found = show(mig_gpu(2), rows=(BUSY, "DCGM_FI_PROF_DRAM_ACTIVE,gauge,x"), dcgm=dcgm)
    assert values(found[name(BUSY)], "GPU_I_ID") == {"3": 0.4, "5": 0.6}
    assert values(found["DCGM_FI_PROF_DRAM_ACTIVE"], "GPU_I_ID") == {"3": 0.2}


def test_what_dcgm_repeats_for_each_slice_is_shown_once() -> None:
    """DCGM answers for a GPU instance with the whole GPU's power; seven times that is no sum."""
    dcgm = DcgmReading(
        at=START,
        entities=tuple(DcgmEntity(uuid="GPU-2", gi=gi, values={155: 300.0}) for gi in (None, 3, 5)),
    )
    found = show(mig_gpu(2), rows=(POWER,), dcgm=dcgm)
    assert values(found[name(POWER)], "GPU_I_ID") == {"": 300}


def test_a_gpu_field_that_only_slices_tell_is_theirs() -> None:
    slice_ = part(3, uuid="MIG-1", values={1009: 7})
    found = show(gpu(1, mig=True, instances=(slice_,)), rows=(PCIE,))
    assert values(found[name(PCIE)], "GPU_I_ID") == {"3": 7}


def test_compute_instances_share_their_gpu_instances_memory() -> None:
    parts = tuple(
        part(
            2, uuid=f"MIG-{ci}", ci=ci, profile="1c.3g.40gb", fb_used=9 << 20,
            values={1001: 0.1 * ci},
        )
        for ci in (0, 1)
    )  # fmt: skip
    found = show(gpu(1, mig=True, instances=parts), rows=(USED, BUSY))
    ((labels, value),) = found[name(USED)]
    assert (value, labels["GPU_I_PROFILE"], labels["GPU_I_ID"]) == (9, "3g.40gb", "2")
    assert "GPU_CI_ID" not in labels
    assert values(found[name(BUSY)], "GPU_CI_ID") == {"0": 0.0, "1": 0.1}


def test_a_slice_that_is_gone_has_no_series() -> None:
    before = show(mig_gpu(2, gis=(3, 5)), rows=(USED,))
    after = show(mig_gpu(2, gis=(5,)), rows=(USED,))
    assert set(values(before[name(USED)], "GPU_I_ID")) == {"3", "5"}
    assert set(values(after[name(USED)], "GPU_I_ID")) == {"5"}


# --- NVLink


def test_links_have_their_own_spelling_of_labels() -> None:
    link = LinkReading(link=4, up=True, values={1508: 1})
    reading = gpu(1, product="H100", links=(link,))
    what = snapshot(seen(reading), shown=shown(LINK_STATE))
    (line,) = [
        row
        for row in make_page(what).text.decode().splitlines()
        if row.startswith(name(LINK_STATE) + "{")
    ]
    assert line == (
        'DCGM_FI_DEV_NVLINK_GET_STATE{nvlink="4",gpu="0",gpu_uuid="GPU-1",'
        'pci_bus_id="00000000:01:00.0",device="nvidia0",model_name="H100",Hostname="node-a"} 1'
    )


def test_links_that_only_dcgm_tells_of_are_shown() -> None:
    dcgm = dcgm_of(uuid="GPU-1", link=7, values={1508: 1})
    found = show(gpu(1), rows=(LINK_STATE,), dcgm=dcgm)
    assert values(found[name(LINK_STATE)], "nvlink") == {"7": 1}


# --- labels from fields


def test_a_label_row_becomes_a_label_of_every_series_and_no_metric() -> None:
    rows = (TEMP, USED, LINK_STATE, DRIVER, "DCGM_FI_DEV_BRAND,label,x")
    reading = mig_gpu(
        2, values={150: 40, 51: "Tesla"}, links=(LinkReading(link=0, values={1508: 1}),)
    )
    found = show(reading, rows=rows)
    for row in (TEMP, USED, LINK_STATE):
        for labels, _value in found[name(row)]:
            assert labels["DCGM_FI_DRIVER_VERSION"] == "595.45.04"
            assert labels["DCGM_FI_DEV_BRAND"] == "Tesla"
    assert "DCGM_FI_DRIVER_VERSION" not in found


def test_a_blank_label_of_one_gpu_is_not_the_label_of_the_one_before() -> None:
    readings = gpu(1, values={150: 1, 51: "Tesla"}), gpu(2, values={150: 2})
    found = show(*readings, rows=(TEMP, "DCGM_FI_DEV_BRAND,label,x"))
    assert [labels.get("DCGM_FI_DEV_BRAND") for labels, _ in found[name(TEMP)]] == ["Tesla", None]


def test_labels_come_in_dcgm_exporters_order() -> None:
    owner = holder(pod_labels=(("zone", "a"), ("app", "b")))
    what = snapshot(
        seen(gpu(1, product="H100", values={150: 54})),
        shown=shown("DCGM_FI_DEV_XID_ERRORS,gauge,x", DRIVER),
        holders=held(GPU_1=(owner,)),
    )
    (line,) = [
        row
        for row in make_page(what).text.decode().splitlines()
        if row.startswith("DCGM_FI_DEV_XID_ERRORS{")
    ]
    assert line == (
        'DCGM_FI_DEV_XID_ERRORS{gpu="0",UUID="GPU-1",pci_bus_id="00000000:01:00.0",'
        'device="nvidia0",modelName="H100",Hostname="node-a",'
        'DCGM_FI_DRIVER_VERSION="595.45.04",app="b",err_code="0",err_msg="No Error",zone="a",'
        'container="main",dra_claim_name="train-0-gpu",dra_claim_namespace="team",'
        'dra_device_name="gpu-0",dra_driver_name="gpu.nvidia.com",dra_pool_name="node-a",'
        'namespace="team",pod="train-0"} 0'
    )


# --- computed families


def test_the_window_count_of_a_gpu_without_xids_is_one_zero_without_a_code() -> None:
    found = show(gpu(1, product="H100"), rows=(XIDS,))
    ((labels, value),) = found[name(XIDS)]
    assert value == 0
    assert list(labels) == [
        "gpu", "UUID", "pci_bus_id", "device", "modelName", "Hostname", "window_size_in_ms",
    ]  # fmt: skip
    assert labels["window_size_in_ms"] == "300000"


def test_window_counts_go_to_the_gpu_or_slice_that_they_are_of() -> None:
    windows = WindowCounts(
        xids={
            ("GPU-1", None, None): {42: 1, 46: 2},
            ("GPU-2", None, None): {31: 1},
            ("GPU-2", 3, 0): {94: 3},
        }
    )
    what = snapshot(seen(gpu(1), mig_gpu(2)), shown=shown(XIDS), windows=windows)
    found = {
        (labels["UUID"], labels.get("GPU_I_ID"), labels.get("xid")): value
        for labels, value in rendered(what)[name(XIDS)]
    }
    assert found == {
        ("GPU-1", None, "42"): 1,
        ("GPU-1", None, "46"): 2,
        ("GPU-2", None, "31"): 1,
        ("GPU-2", "3", "94"): 3,
        ("GPU-2", "5", None): 0,
    }


def test_xids_of_slices_that_mig_gave_up_are_the_gpus() -> None:
    windows = WindowCounts(xids={("GPU-1", 3, None): {94: 1}})
    what = snapshot(seen(gpu(1)), shown=shown(XIDS), windows=windows)
    assert values(rendered(what)[name(XIDS)], "xid") == {"94": 1}


def test_clock_events_are_shown_by_reason() -> None:
    windows = WindowCounts(clocks={"GPU-1": {"gpu_idle": 1, "hw_thermal": 2, "sw_thermal": 2}})
    what = snapshot(
        seen(gpu(1), gpu(2, slowdown=0)),
        windows=windows,
        shown=shown(CLOCKS, clock_window=60.0),
    )
    series = rendered(what)[name(CLOCKS)]
    assert values([sample for sample in series if sample[0]["UUID"] == "GPU-1"], "clock_event") == {
        "gpu_idle": 1,
        "hw_thermal": 2,
        "sw_thermal": 2,
    }
    assert values([sample for sample in series if sample[0]["UUID"] == "GPU-2"], "clock_event") == {
        "": 0
    }
    assert {labels["window_size_in_ms"] for labels, _ in series} == {"60000"}


def test_one_thermal_failure_leaves_the_other_ten_watches_at_zero() -> None:
    finding = HealthFinding(
        uuid="GPU-1",
        watch="THERMAL",
        health=20,
        error_code="DCGM_FR_THERMAL_VIOLATIONS",
        severity="TRIAGE",
        category="HARDWARE_THERMAL",
    )
    dcgm = DcgmReading(at=START, health=(finding,))
    series = show(mig_gpu(1), rows=(HEALTH,), dcgm=dcgm)[name(HEALTH)]
    words = ("health_error_code", "health_error_severity", "health_error_category")
    found = {
        labels["health_watch"]: (value, *(labels[word] for word in words))
        for labels, value in series
    }
    assert len(found) == 11
    failed = (20, "DCGM_FR_THERMAL_VIOLATIONS", "TRIAGE", "HARDWARE_THERMAL")
    assert found.pop("THERMAL") == failed
    assert set(found.values()) == {(0, "DCGM_FR_OK", "NONE", "NONE")}
    assert all("GPU_I_ID" not in labels for labels, _ in series)


def test_health_that_was_not_queried_is_not_healthy() -> None:
    assert name(HEALTH) not in show(gpu(1), rows=(HEALTH,))
    assert name(HEALTH) not in show(gpu(1), rows=(HEALTH,), dcgm=DcgmReading(at=START))


def test_peers_are_reported_with_their_state() -> None:
    reading = gpu(1, peers=(PeerReading(1, 0), PeerReading(2, 3), PeerReading(3, 77)))
    series = show(reading, rows=(PEERS,))[name(PEERS)]
    assert {labels["peer_gpu"]: labels["link_status"] for labels, _ in series} == {
        "1": "OK",
        "2": "TopologyNotSupported",
        "3": "Unknown",
    }


def test_computed_families_are_shown_only_where_the_file_asks_for_them() -> None:
    found = rendered(with_counters(snapshot(seen(gpu(1))), TEMP))
    assert not [family for family in found if family.startswith("DCGM_EXP_")]


def test_the_xid_gauge_shows_the_last_one_of_each_place() -> None:
    what = snapshot(seen(mig_gpu(2)), shown=shown("DCGM_FI_DEV_XID_ERRORS,gauge,x"))
    xids = (
        XidRecord(code=31, count=1, first_seen=at(1), last_seen=at(9)),
        XidRecord(code=43, count=1, first_seen=at(5), last_seen=at(5)),
        XidRecord(code=94, count=1, first_seen=at(2), last_seen=at(2), gi=5, ci=0),
    )
    (known,) = what.report.gpus
    report = msgspec.structs.replace(what.report, gpus=(msgspec.structs.replace(known, xids=xids),))
    series = rendered(msgspec.structs.replace(what, report=report))["DCGM_FI_DEV_XID_ERRORS"]
    assert values(series, "GPU_I_ID") == {"": 31, "3": 0, "5": 94}
    assert [labels["err_code"] for labels, _ in series] == ["31", "0", "94"]


def test_gpus_that_do_not_answer_or_were_let_go_have_no_series() -> None:
    readings = (
        gpu(1, values={150: 1}, lost=True),
        gpu(2, values={150: 2}, hung_call="nvmlDeviceGetTemperature"),
        gpu(3, values={150: 3}, released=True),
        gpu(4, values={150: 4}),
    )
    assert values(show(*readings, rows=(TEMP,))[name(TEMP)]) == {"GPU-4": 4}


def test_two_gpus_with_one_uuid_stay_two_series() -> None:
    twin = gpu(2, values={150: 2}, uuid="GPU-1")
    found = show(gpu(1, values={150: 1}), twin, rows=(TEMP,))
    assert values(found[name(TEMP)], "gpu") == {"0": 1, "1": 2}


def test_nothing_is_shown_of_devices_while_nvml_is_down() -> None:
    what = snapshot(seen(gpu(1, values={150: 1})), nvml=None, shown=Shown(options=Options()))
    assert not [family for family in rendered(what) if family.startswith("DCGM_")]
