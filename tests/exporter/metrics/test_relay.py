"""Without NVML, DCGM's own GPUs make the DCGM_* series, and nothing else."""

from typing import Any

import msgspec
import pytest

from exporter.agent.report import gpu_state, ledger
from exporter.metrics import relay
from exporter.metrics.render import page
from exporter.metrics.snapshot import Snapshot
from exporter.model.node_health import GpuHealth, SourceHealth
from exporter.model.readings import (
    STARTING,
    DcgmEntity,
    DcgmGpu,
    DcgmPart,
    DcgmReading,
    Hang,
    HealthFinding,
    NvmlReading,
    Observation,
)
from tests.exporter.metrics.pages import Series, rendered, shown, snapshot
from tests.exporter.worlds import DOWN, START, UP, at, gpu, seen

TEMPERATURE, POWER = "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_POWER_USAGE"
XID, HEALTH = "DCGM_FI_DEV_XID_ERRORS", "DCGM_EXP_GPU_HEALTH_STATUS"
INDEX, USED = "DCGM_FI_DEV_NVML_INDEX", "DCGM_FI_DEV_FB_USED"
COUNT = "DCGM_EXP_XID_ERRORS_COUNT"
REMAPPED = "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS"
SHOWN = shown(
    *(f"{name},gauge,x" for name in (TEMPERATURE, POWER, XID, HEALTH, INDEX, USED, COUNT, REMAPPED))
)
NO_LIBRARY = SourceHealth(name="nvml", state="Down", reason="LibraryNotFound")
DCGM_UP = SourceHealth(name="dcgm", state="Up")


def dcgm_gpu(number: int, uuid: str, *parts: DcgmPart) -> DcgmGpu:
    return DcgmGpu(
        id=number, uuid=uuid, bus_id=f"0000:{number:02x}:00.0", product="NVIDIA B200", parts=parts
    )


GPUS = (dcgm_gpu(5, "GPU-1"), dcgm_gpu(6, "GPU-2"))


def reading(*entities: DcgmEntity, gpus: tuple[DcgmGpu, ...] = GPUS, **more: Any) -> DcgmReading:
    found = entities or tuple(
        DcgmEntity(uuid=gpu.uuid, values={150: 40 + gpu.id, 393: 2}) for gpu in gpus
    )
    uuids = tuple(gpu.uuid for gpu in gpus)
    return DcgmReading(at=START, entities=found, gpus=uuids, identities=gpus, **more)


def received(dcgm: DcgmReading | None, **more: Any) -> Observation:
    usual: dict[str, Any] = {"sources": (NO_LIBRARY, DCGM_UP), "dcgm": dcgm}
    return Observation(at=at(1), **(usual | more))


def without_nvml(observation: Observation, before: Observation | None = None) -> Snapshot:
    """Return what an agent shows of it, which may have seen the GPUs by NVML before."""
    report = ledger.begin("boot-1", "1", START)
    if before is not None:
        report = ledger.observe(report, before)
    report = ledger.observe(report, observation)
    found = relay.relayed(observation, report.gpus)
    return snapshot(observation, report=report, relayed=found, shown=SHOWN)


def by_uuid(series: Series) -> dict[str, float]:
    return {labels["UUID"]: value for labels, value in series}


def test_a_host_engine_alone_gives_the_series_that_dcgm_exporter_would_show() -> None:
    found = rendered(without_nvml(received(reading())))
    assert found[TEMPERATURE] == [
        (
            {
                "gpu": str(number),
                "UUID": uuid,
                "pci_bus_id": f"00000000:{number:02X}:00.0",
                "device": f"nvidia{number}",
                "modelName": "NVIDIA B200",
                "Hostname": "node-a",
            },
            40 + number,
        )
        for number, uuid in ((5, "GPU-1"), (6, "GPU-2"))
    ]


def test_a_slice_has_the_ids_of_nvml_and_the_profile_that_dcgm_names() -> None:
    parts = DcgmPart(3, None, "1g.23gb"), DcgmPart(3, 0), DcgmPart(4, None, "2g.45gb")
    values = (
        DcgmEntity(uuid="GPU-1", gi=3, values={252: 7}),
        DcgmEntity(uuid="GPU-1", gi=4, values={252: 8}),
    )
    found = rendered(without_nvml(received(reading(*values, gpus=(dcgm_gpu(5, "GPU-1", *parts),)))))
    reported = {
        (labels["GPU_I_PROFILE"], labels["GPU_I_ID"], labels["gpu"]): value
        for labels, value in found[USED]
    }
    assert reported == {("1g.23gb", "3", "5"): 7, ("2g.45gb", "4", "5"): 8}


@pytest.mark.parametrize("before", [None, seen(gpu(1), gpu(2))])
def test_no_family_of_ours_says_a_word_more_than_without_dcgm(before: Observation | None) -> None:
    with_dcgm = without_nvml(received(reading()), before)
    alone = without_nvml(received(None), before)
    assert with_dcgm.report == alone.report
    ours, unanswered = rendered(with_dcgm), rendered(alone)
    assert {
        name: series
        for name, series in ours.items()
        if name.startswith("draguard_") and name != "draguard_source_up"
    } == {
        name: series
        for name, series in unanswered.items()
        if name.startswith("draguard_") and name != "draguard_source_up"
    }
    assert by_uuid(ours[REMAPPED]) == {"GPU-1": 2, "GPU-2": 2}


def test_the_number_that_dcgm_gives_a_gpu_is_not_shown_as_nvmls() -> None:
    assert INDEX not in rendered(without_nvml(received(reading())))


def test_nothing_of_dcgms_own_ids_while_nvml_tells_of_gpus() -> None:
    observation = msgspec.structs.replace(seen(gpu(1)), dcgm=reading())
    assert relay.relayed(observation, ()) is None
    whole = snapshot(observation, shown=SHOWN, relayed=NvmlReading(at=START, gpus=(gpu(2),)))
    assert set(by_uuid(rendered(whole)[TEMPERATURE])) == {"GPU-1"}


@pytest.mark.parametrize("reason", [STARTING, gpu_state.RELEASED])
def test_nvml_that_begins_or_was_sent_away_is_no_outage(reason: str) -> None:
    source = SourceHealth(name="nvml", state="Down", reason=reason)
    assert relay.relayed(received(reading(), sources=(source,)), ()) is None
    assert relay.relayed(received(reading(), sources=(UP,)), ()) is None
    assert relay.relayed(received(reading()), ()) is not None


@pytest.mark.parametrize("silence", [{"lost": True}, {"released": True}])
def test_a_gpu_that_nvml_took_from_the_page_does_not_come_back_by_dcgm(
    silence: dict[str, Any],
) -> None:
    found = rendered(without_nvml(received(reading()), seen(gpu(1, **silence), gpu(2))))
    assert by_uuid(found[TEMPERATURE]) == {"GPU-2": 46}


@pytest.mark.parametrize(
    "reason",
    [
        gpu_state.HUNG,
        gpu_state.NOT_LISTED,
        gpu_state.SET_ASIDE,
        gpu_state.NOT_ON_BUS,
        gpu_state.NOT_PUBLISHED,
        gpu_state.UNPUBLISHED_LATER,
        gpu_state.DUPLICATE_UUID,
    ],
)
def test_nor_does_one_that_the_report_knows_to_be_away(reason: str) -> None:
    away = GpuHealth(uuid="GPU-1", presence="Unknown", presence_reason=reason, presence_since=START)
    found = relay.relayed(received(reading()), (away,))
    assert found is not None
    assert [gpu.uuid for gpu in found.gpus] == ["GPU-2"]


def test_a_gpu_that_hangs_or_is_detached_is_not_shown_and_with_an_unknown_one_none_is() -> None:
    def shown_with(hang: Hang | None, **more: Any) -> list[str]:
        found = relay.relayed(received(reading(**more), hang=hang), ())
        return [gpu.uuid for gpu in found.gpus] if found else []

    assert shown_with(Hang("nvmlDeviceGetPowerUsage", 0, "GPU-1")) == ["GPU-2"]
    assert shown_with(Hang("nvmlInit_v2")) == []
    assert shown_with(None, detached=("GPU-2",)) == ["GPU-1"]


def test_a_gpu_that_hung_stays_away_when_nvml_then_ends_for_another_reason() -> None:
    kept = relay.silent(seen(gpu(1, hung_call="nvmlDeviceGetPowerUsage"), gpu(2)), frozenset())
    ended = received(reading(), sources=(DOWN, DCGM_UP))
    kept = relay.silent(ended, kept)
    found = relay.relayed(ended, (), kept)
    assert found is not None
    assert [shown.uuid for shown in found.gpus] == ["GPU-2"]
    hung = received(reading(), hang=Hang("nvmlDeviceGetPowerUsage", 0, "GPU-2"))
    assert relay.silent(hung, kept) == {"GPU-1", "GPU-2"}
    assert relay.silent(seen(gpu(1), gpu(2)), kept) == frozenset()


def test_the_last_xid_is_the_one_that_dcgm_remembers_and_none_is_no_zero() -> None:
    entities = (
        DcgmEntity(uuid="GPU-1", values={150: 1, 230: 79}),
        DcgmEntity(uuid="GPU-2", values={150: 1}),
    )
    found = rendered(without_nvml(received(reading(*entities))))
    assert [(labels["UUID"], labels["err_code"], value) for labels, value in found[XID]] == [
        ("GPU-1", "79", 79)
    ]


def test_dcgms_health_is_shown_of_its_own_gpus() -> None:
    finding = HealthFinding(
        uuid="GPU-1",
        watch="THERMAL",
        health=20,
        error_code="DCGM_FR_THERMAL_VIOLATIONS",
        severity="MONITOR",
        category="HARDWARE_THERMAL",
    )
    found = rendered(without_nvml(received(reading(health=(finding,)))))
    bad = [(labels["UUID"], labels["health_watch"]) for labels, value in found[HEALTH] if value]
    assert bad == [("GPU-1", "THERMAL")]
    assert {labels["UUID"] for labels, _ in found[HEALTH]} == {"GPU-1", "GPU-2"}


def test_the_page_and_the_log_connect_the_two_sources() -> None:
    observation = received(reading())
    what = without_nvml(observation)
    up = {
        labels["source"]: (labels["reason"], value)
        for labels, value in rendered(what)["draguard_source_up"]
    }
    assert up == {"nvml": ("LibraryNotFound", 0), "dcgm": (relay.REASON, 1)}
    assert what.relayed is not None
    message = relay.sentence(what.relayed, observation)
    assert "(LibraryNotFound)" in message
    assert "2 GPUs" in message
    whole = snapshot(seen(gpu(1)), shown=SHOWN)
    assert f'reason="{relay.REASON}"' not in page(whole).text.decode()
