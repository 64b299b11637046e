"""The table of DCGM fields, and that old and new names lead to the same number."""

import pytest

from exporter.metrics import fields


@pytest.mark.parametrize(
    ("old", "new", "number"),
    [
        ("DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_XID_ERROR", 230),
        ("DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_GPU_TEMP_CELSIUS", 150),
        ("DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_BOARD_POWER_WATTS", 155),
        ("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_GPU_UTIL_RATIO", 203),
        ("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "DCGM_FI_DEV_NVLINK_THROUGHPUT_TOTAL", 449),
        ("DCGM_FI_DEV_ROW_REMAP_FAILURE", "DCGM_FI_DEV_ROW_REMAP_FAILED", 395),
        ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO", 1001),
        ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "DCGM_FI_PROF_TENSOR_UTIL_RATIO", 1004),
        ("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", "DCGM_FI_DEV_CLOCKS_EVENT_REASONS", 112),
        ("DCGM_FI_DEV_GET_GPU_RECOVERY_ACTION", "DCGM_FI_DEV_GPU_RECOVERY_ACTION", 1523),
        ("DCGM_FI_DRIVER_VERSION", "DCGM_FI_SYSTEM_DRIVER_VERSION", 1),
        (
            "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_L17",
            "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_L17_TOTAL",
            489,
        ),
    ],
)
def test_the_old_and_the_new_name_are_one_field(old: str, new: str, number: int) -> None:
    field = fields.by_name(old)
    assert field is not None
    assert field.id == number
    assert fields.by_name(new) == field
    assert fields.by_id(number) == field


def test_no_name_is_given_twice_and_each_leads_back_to_its_field() -> None:
    named = [
        (name, field)
        for field in fields.table().values()
        for name in (field.name, field.renamed, *field.also)
        if name
    ]
    assert len({name for name, _ in named}) == len(named)
    assert all(fields.by_name(name) is field for name, field in named)


def test_numbers_are_in_order_and_there_are_hundreds() -> None:
    assert list(fields.table()) == sorted(fields.table())
    assert len(fields.table()) > 600


def test_an_unknown_name_and_the_names_of_version_1_are_no_field() -> None:
    assert fields.by_name("DCGM_FI_DEV_NO_SUCH_FIELD") is None
    assert fields.by_name("dcgm_gpu_temp") is None
    assert fields.by_id(0) is None


def test_the_computed_families_have_numbers_above_dcgms() -> None:
    computed = [field for field in fields.table().values() if field.computed]
    assert [field.name for field in computed] == [
        "DCGM_EXP_XID_ERRORS_COUNT",
        "DCGM_EXP_CLOCK_EVENTS_COUNT",
        "DCGM_EXP_GPU_HEALTH_STATUS",
        "DCGM_EXP_P2P_STATUS",
        "DCGM_EXP_XID_ERRORS_TOTAL",
        "DCGM_EXP_CLOCK_EVENTS_TOTAL",
    ]
    assert {field.id for field in computed} == fields.COMPUTED


def test_profiling_fields_are_those_of_the_profiling_groups() -> None:
    names = {field.name for field in fields.table().values() if field.profiling}
    assert all(name.startswith("DCGM_FI_PROF_") for name in names)
    assert "DCGM_FI_PROF_DRAM_ACTIVE" in names


def test_memory_is_of_instances_and_temperature_of_the_whole_gpu() -> None:
    levels = {
        name: field.level
        for name in ("DCGM_FI_DEV_FB_USED", "DCGM_FI_PROF_DRAM_ACTIVE", "DCGM_FI_DEV_GPU_TEMP")
        if (field := fields.by_name(name))
    }
    assert levels == {
        "DCGM_FI_DEV_FB_USED": "ci",
        "DCGM_FI_PROF_DRAM_ACTIVE": "gi",
        "DCGM_FI_DEV_GPU_TEMP": "gpu",
    }
