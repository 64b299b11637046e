"""Memory health through the real pynvml: ECC by place, SRAM, retired pages, repairs, slices."""

from pathlib import Path

import pytest

from simulator.node import SimulatedNode
from tests.simulator.nvml_client import NvmlClient
from tests.simulator.nvml_readings import teach

INVALID_ARGUMENT, NOT_SUPPORTED = 2, 3
DRAM, SRAM = "NVML_MEMORY_LOCATION_DRAM", "NVML_MEMORY_LOCATION_SRAM"


@pytest.fixture
def taught(nvml: NvmlClient) -> NvmlClient:
    teach(nvml)
    return nvml


def test_what_is_not_sram_is_dram(node: SimulatedNode, taught: NvmlClient) -> None:
    with node.scenario.edit() as scenario:
        scenario.gpus[3].values |= {
            "ecc_dbe_volatile": 10,
            "sram_parity_volatile": 1,
            "sram_secded_volatile": 2,
            "ecc_sbe_aggregate": 7,
            "sram_corrected_aggregate": 9,
        }
    counter = "nvmlDeviceGetMemoryErrorCounter(g[3], {}, {}, {})"
    assert taught.ask(counter.format(1, 0, SRAM)) == 3
    assert taught.ask(counter.format(1, 0, DRAM)) == 7
    assert taught.ask(counter.format(0, 1, SRAM)) == 9
    assert taught.ask(counter.format(0, 1, DRAM)) == 0
    assert taught.error_of(counter.format(0, 0, 0)) == NOT_SUPPORTED
    assert taught.error_of(counter.format(0, 0, 8)) == INVALID_ARGUMENT


@pytest.mark.parametrize(
    "line",
    [
        "field(g[3], 4)",
        "nvmlDeviceGetMemoryErrorCounter(g[3], 1, 0, NVML_MEMORY_LOCATION_DRAM)",
        "sram(g[3])",
        "nvmlDeviceGetTotalEccErrors(g[3], 1, 0)",
    ],
)
def test_without_ecc_no_errors_are_reported(
    node: SimulatedNode, taught: NvmlClient, line: str
) -> None:
    assert taught.error_of(line) == 0
    node.set_value(3, "ecc_mode", 0)
    assert taught.error_of(line) == NOT_SUPPORTED


def test_retired_pages_come_with_addresses_and_times(
    node: SimulatedNode, taught: NvmlClient
) -> None:
    assert taught.error_of("nvmlDeviceGetRetiredPages(g[3], 0)") == NOT_SUPPORTED
    with node.scenario.edit() as scenario:
        scenario.gpus[3].values |= {"retired_sbe": 2, "retired_dbe": 1}
    corrected = taught.ask("nvmlDeviceGetRetiredPages(g[3], 0)")
    pages = taught.ask("nvmlDeviceGetRetiredPages_v2(g[3], 1)")
    assert len({*corrected, *(page["address"] for page in pages)}) == 3
    assert pages[0]["timestamp"] == 1767571200


def test_an_sram_status_of_another_version_is_refused(nvml: NvmlClient) -> None:
    nvml.ask("s = c_nvmlEccSramErrorStatus_v1_t()")
    nvml.ask("s.version = 5")
    assert nvml.error_of("nvmlDeviceGetSramEccErrorStatus(g[3], byref(s))") == 25


def test_boards_since_hopper_can_be_repaired(tmp_path: Path) -> None:
    node = SimulatedNode(tmp_path, "n").create("1xA100,1xH100")
    with node, NvmlClient(node) as nvml:
        nvml.ask("nvmlInit()")
        nvml.ask("g = [nvmlDeviceGetHandleByIndex(i) for i in (0, 1)]")
        node.set_value(1, "repair_tpc_pending", 1)
        assert nvml.error_of("nvmlDeviceGetRepairStatus(g[0])") == NOT_SUPPORTED
        assert nvml.ask("nvmlDeviceGetRepairStatus(g[1])") == [0, 1]


def test_a_slice_tells_its_uncorrected_sram_errors_and_no_others(
    node: SimulatedNode, nvml: NvmlClient
) -> None:
    with node.scenario.edit() as scenario:
        scenario.gpus[0].instances[2].values = {"sram_dbe": 4}
    nvml.ask("m = nvmlDeviceGetMigDeviceHandleByIndex(g[0], 2)")
    counter = "nvmlDeviceGetMemoryErrorCounter(m, {}, {}, {})"
    assert nvml.ask(counter.format(1, 0, SRAM)) == 4
    assert nvml.ask("nvmlDeviceGetTotalEccErrors(m, 1, 0)") == 4
    for error, age, place in ((1, 0, DRAM), (0, 0, SRAM), (1, 1, SRAM)):
        assert nvml.error_of(counter.format(error, age, place)) == NOT_SUPPORTED


@pytest.mark.parametrize(
    "line", ["nvmlDeviceGetRowRemapperHistogram(g[0])", "nvmlDeviceGetRemappedRows(g[0])"]
)
def test_remapping_is_hidden_while_a_gpu_has_instances(
    node: SimulatedNode, nvml: NvmlClient, line: str
) -> None:
    assert nvml.error_of(line) == NOT_SUPPORTED
    with node.scenario.edit() as scenario:
        scenario.gpus[0].instances = []
    assert nvml.error_of(line) == 0
