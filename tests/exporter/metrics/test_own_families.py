"""Our own families: what they say of a GPU's health, and what they leave unsaid."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from exporter.agent.join.claims import Holders
from exporter.metrics.snapshot import Snapshot
from exporter.model.node_health import (
    GpuHealth,
    Inventory,
    NodeHealth,
    SourceHealth,
    SwitchHealth,
    SxidRecord,
    XidRecord,
)
from exporter.model.readings import (
    ClaimDevice,
    DcgmReading,
    FabricReading,
    LinkReading,
    NvmlReading,
)
from tests.exporter.metrics.pages import held, holder, rendered, snapshot, values
from tests.exporter.worlds import START, at, gpu, mig_gpu, seen


def with_report(**fields: Any) -> Snapshot:
    what = snapshot(seen(gpu(1)))
    return msgspec.structs.replace(what, report=msgspec.structs.replace(what.report, **fields))


def known(uuid: str, presence: Any, reason: str = "", **fields: Any) -> GpuHealth:
    return GpuHealth(
        uuid=uuid, presence=presence, presence_since=START, presence_reason=reason, **fields
    )


def test_liveness_says_why_a_gpu_is_down_and_nothing_of_what_is_not_known() -> None:
    gpus = (
        known("GPU-1", "Present"),
        known("GPU-2", "Lost", "NotListed"),
        known("GPU-3", "Unknown", "Hung"),
        known("GPU-4", "Unknown", "NvmlCrashed"),
    )
    found = rendered(with_report(gpus=gpus))
    up = {
        labels["UUID"]: (value, labels.get("reason")) for labels, value in found["draguard_gpu_up"]
    }
    assert up == {"GPU-1": (1, None), "GPU-2": (0, "NotListed"), "GPU-3": (0, "Hung")}
    assert len(found["draguard_gpu_info"]) == 4


def test_xids_are_counted_with_time_and_sources_and_outlive_the_gpu() -> None:
    records = (
        XidRecord(
            code=94, count=3, first_seen=START, last_seen=at(9), gi=5, ci=0,
            sources=("kmsg", "nvml"), rate_limited=True,
        ),
        XidRecord(code=79, count=1, first_seen=START, last_seen=at(4), sources=("kmsg",)),
    )  # fmt: skip
    found = rendered(with_report(gpus=(known("GPU-9", "Lost", "GpuIsLost", xids=records),)))
    assert values(found["draguard_xid_errors_total"], "code") == {"94": 3, "79": 1}
    assert values(found["draguard_xid_last_seen_timestamp_seconds"], "code") == {
        "94": at(9).timestamp(),
        "79": at(4).timestamp(),
    }
    sources = [
        (labels["code"], labels["source"]) for labels, _ in found["draguard_xid_source_info"]
    ]
    assert sources == [("94", "kmsg"), ("94", "nvml"), ("79", "kmsg")]
    ((limited, _),) = found["draguard_xid_rate_limited"]
    assert (limited["code"], limited["gi"], limited["ci"]) == ("94", "5", "0")


def test_sxids_are_counted_by_switch_and_code() -> None:
    sxid = SxidRecord(code=12028, count=2, first_seen=START, last_seen=at(3), severity="NonFatal")
    switch = SwitchHealth(pci_bus_id="0000:c1:00.0", sxids=(sxid,))
    found = rendered(with_report(switches=(switch,)))
    ((labels, value),) = found["draguard_sxid_errors_total"]
    assert value == 2
    assert labels == {
        "pci_bus_id": "00000000:C1:00.0",
        "code": "12028",
        "fatal": "false",
        "Hostname": "node-a",
    }
    assert found["draguard_sxid_last_seen_timestamp_seconds"][0][1] == at(3).timestamp()


def test_memory_health_is_reported_as_far_as_it_could_be_read() -> None:
    reading = gpu(
        1, sbe_volatile=3, dbe_aggregate=1, remap_pending=True, sram_threshold=False,
        values={393: 2},
    )  # fmt: skip
    found = rendered(snapshot(seen(reading)))
    assert values(found["draguard_gpu_ecc_volatile_errors_total"], "severity") == {"corrected": 3}
    assert values(found["draguard_gpu_ecc_aggregate_errors_total"], "severity") == {
        "uncorrected": 1
    }
    assert values(found["draguard_gpu_remapped_rows_total"], "cause") == {"uncorrectable": 2}
    assert values(found["draguard_gpu_row_remap_pending"]) == {"GPU-1": 1}
    assert values(found["draguard_gpu_sram_threshold_exceeded"]) == {"GPU-1": 0}
    assert "draguard_gpu_row_remap_failure" not in found
    assert "draguard_gpu_retired_pages_pending" not in found


def test_throttling_is_reported_in_seconds() -> None:
    reading = gpu(1, values={1420: 2_500_000_000, 1423: 0})
    found = rendered(snapshot(seen(reading)))["draguard_gpu_clocks_event_seconds_total"]
    assert values(found, "reason") == {"sw_power_cap": 2.5, "hw_thermal": 0}


def test_links_and_fabric_are_reported() -> None:
    links = LinkReading(link=0, up=True, values={1527: 4}), LinkReading(link=1, up=False)
    fabric = FabricReading(state=3, status=0, health_summary=2, clique=7, cluster_uuid="c-1")
    found = rendered(snapshot(seen(gpu(1, links=links, fabric=fabric))))
    assert values(found["draguard_nvlink_up"], "link") == {"0": 1, "1": 0}
    ((labels, value),) = found["draguard_nvlink_errors_total"]
    assert (labels["link"], labels["kind"], value) == ("0", "replay", 4)
    assert values(found["draguard_fabric_state"]) == {"GPU-1": 3}
    assert values(found["draguard_fabric_health"]) == {"GPU-1": 2}
    ((labels, _),) = found["draguard_fabric_info"]
    assert (labels["cluster_uuid"], labels["clique"]) == ("c-1", "7")


def test_every_live_slice_is_listed_with_its_place() -> None:
    found = rendered(snapshot(seen(mig_gpu(2))))["draguard_mig_slice_info"]
    assert [(labels["GPU_I_ID"], labels["dra_mig_device_uuid"]) for labels, _ in found] == [
        ("3", "MIG-2-3"),
        ("5", "MIG-2-5"),
    ]


def test_expected_and_seen_gpus_are_reported_and_the_missing_are_named() -> None:
    inventory = Inventory(seen=6, on_bus=8, set_aside=1, published=7, missing=("0000:3b:00.0",))
    found = rendered(with_report(inventory=inventory))
    assert values(found["draguard_gpus_expected"], "source") == {"pci": 7, "resourceslices": 7}
    assert found["draguard_gpus_seen"] == [({}, 6.0)]
    assert found["draguard_gpu_missing"] == [({"device": "0000:3b:00.0"}, 1.0)]
    unknown = rendered(with_report(inventory=Inventory()))
    assert "draguard_gpus_expected" not in unknown
    assert "draguard_gpus_seen" not in unknown


def test_a_gpu_that_another_driver_has_is_reported_with_it() -> None:
    drivers = {"0000:3b:00.0": "nouveau", "0000:19:00.0": ""}
    assert rendered(snapshot(seen(), other_drivers=drivers))["draguard_gpu_other_driver"] == [
        ({"device": "0000:19:00.0", "driver": "none"}, 1.0),
        ({"device": "0000:3b:00.0", "driver": "nouveau"}, 1.0),
    ]


def test_every_holder_has_a_row_with_all_that_is_known_of_it() -> None:
    claim = ClaimDevice("x", "team", "gpu.nvidia.com", "node-a", "gpu-0", share_id="s-1")
    owner = holder(
        dra=claim, claim_uid="uid", request="gpu", device_class="shared", admin=False,
        pod_uid="p", pod_group="gang",
    )  # fmt: skip
    watcher = holder("monitor", admin=True)
    what = snapshot(seen(gpu(1)), holders=held(GPU_1=(owner, watcher)))
    rows = rendered(what)["draguard_device_allocation_info"]
    assert [labels["admin"] for labels, _ in rows] == ["false", "true"]
    assert {
        "UUID": "GPU-1",
        "pod": "train-0",
        "dra_claim_uid": "uid",
        "dra_request_name": "gpu",
        "dra_device_class": "shared",
        "dra_share_id": "s-1",
        "pod_uid": "p",
        "pod_group": "gang",
    }.items() <= rows[0][0].items()


def test_devices_that_nvml_cannot_show_have_rows_too() -> None:
    claim = ClaimDevice("nic", "team", "net.example.com", "node-a", "nic-0")
    elsewhere = holder(dra=claim), holder("vm", bus_id="0000:3b:00.0")
    what = snapshot(seen(gpu(1)), holders=Holders(elsewhere=elsewhere))
    first, second = (labels for labels, _ in rendered(what)["draguard_device_allocation_info"])
    assert first["dra_driver_name"] == "net.example.com"
    assert "UUID" not in first
    assert second["pci_bus_id"] == "00000000:3B:00.0"


def test_a_holder_of_a_gpu_that_nvml_never_listed_still_has_its_row() -> None:
    what = snapshot(seen(gpu(1)), holders=held(GPU_7=(holder(),)))
    ((row, _),) = rendered(what)["draguard_device_allocation_info"]
    assert (row["UUID"], row["pod"]) == ("GPU-7", "train-0")


def test_sources_tell_whether_and_when_they_saw_something() -> None:
    sources = (
        SourceHealth(name="nvml", state="Down", reason="Hung", last_success=START),
        SourceHealth(name="kmsg", state="Up"),
    )
    found = rendered(with_report(sources=sources))
    assert ({"source": "nvml", "reason": "Hung"}, 0.0) in found["draguard_source_up"]
    assert found["draguard_source_last_success_timestamp_seconds"] == [
        ({"source": "nvml"}, START.timestamp())
    ]


def test_fields_that_dcgm_cannot_watch_are_named() -> None:
    what = snapshot(seen(gpu(1)), dcgm=DcgmReading(at=START, unsupported=(1001, 65000)))
    found = rendered(what)["draguard_dcgm_field_unsupported"]
    assert [labels["field"] for labels, _ in found] == ["DCGM_FI_PROF_GR_ENGINE_ACTIVE", "65000"]


def test_what_sampling_took_and_what_made_no_sense_is_reported() -> None:
    nvml = NvmlReading(at=START, gpus=(gpu(1),), refused=3, took=0.25)
    what = snapshot(seen(gpu(1)), nvml=nvml, dcgm=DcgmReading(at=START, took=0.5))
    found = rendered(what)
    assert values(found["draguard_sample_duration_seconds"], "source") == {
        "nvml": 0.25,
        "dcgm": 0.5,
    }
    assert found["draguard_nvml_answers_refused_total"] == [({}, 3.0)]


@pytest.mark.parametrize("seconds", [None, 0.0125])
def test_render_time_is_that_of_the_page_before(seconds: float | None) -> None:
    found = rendered(snapshot(seen(gpu(1)), render_seconds=seconds))
    assert found.get("draguard_render_duration_seconds") == (
        None if seconds is None else [({}, seconds)]
    )


def test_the_snapshots_time_is_the_observations() -> None:
    what = Snapshot(node="n", at=START + timedelta(seconds=5), report=NodeHealth())
    assert rendered(what)["draguard_snapshot_timestamp_seconds"] == [({}, START.timestamp() + 5)]
