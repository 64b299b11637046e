"""A GPU that tells nonsense, counts that lie, and two boards with one identity."""

import math

import pytest

from simulator.node import SimulatedNode
from tests.simulator.nvml_client import NvmlClient
from tests.simulator.nvml_readings import READINGS, teach

INVALID_ARGUMENT = 2
COUNTED = ("len(", "round(", "gpm(", "nvmlDeviceGetP2PStatus(g[4]")
"""Lines that read no number of this GPU as it is."""


@pytest.fixture
def taught(nvml: NvmlClient) -> NvmlClient:
    teach(nvml)
    return nvml


def test_every_number_of_a_gpu_can_be_nonsense(node: SimulatedNode, taught: NvmlClient) -> None:
    """Huge where a number has no sign, minus one where it has; one byte of the fabric is 255."""
    lines = [line for line in READINGS if not line.startswith(COUNTED) and "BAR1" not in line]
    node.garbage(3)
    read = {abs(taught.ask(f"int({line})")) for line in lines}
    assert len(lines) > 100
    assert read == {1, 2**8 - 1, 2**32 - 1, 2**64 - 1, (2**64 - 1) // 2**20}
    assert taught.ask("nvmlDeviceGetTemperature(g[4], 0)") == 31


def test_metrics_are_nan(node: SimulatedNode, taught: NvmlClient) -> None:
    node.garbage(3)
    for metric in (1, 5, 20, 60):
        assert math.isnan(taught.ask(f"gpm(g[3], {metric})"))


def test_texts_are_no_text(node: SimulatedNode, nvml: NvmlClient) -> None:
    nvml.ask("raw = create_string_buffer(96)")
    node.garbage(3, "nvmlDeviceGetName")
    assert nvml.ask("p.nvmlLib.nvmlDeviceGetName(g[3], raw, 96)") == 0
    reported = nvml.ask("list(raw.value)")
    with pytest.raises(UnicodeDecodeError):
        bytes(reported).decode()
    assert nvml.ask("nvmlDeviceGetUUID(g[3])") == node.gpu(3).uuid
    node.garbage(3)
    nvml.ask("p.nvmlLib.nvmlDeviceGetUUID(g[3], raw, 96)")
    assert nvml.ask("list(raw.value)") == reported


def test_memory_and_processes_are_nonsense_too(node: SimulatedNode, nvml: NvmlClient) -> None:
    with node.scenario.edit() as scenario:
        scenario.gpus[3].values["utilization"] = 5
    node.garbage(3)
    reported = nvml.ask("nvmlDeviceGetMemoryInfo(g[3], nvmlMemory_v2)")
    assert reported["used"] == reported["free"] == reported["total"] == 2**64 - 1


def test_a_value_type_that_does_not_exist_is_reported(
    node: SimulatedNode, nvml: NvmlClient
) -> None:
    node.garbage(3)
    read = nvml.ask("[v.valueType for v in nvmlDeviceGetFieldValues(g[3], [82, 83, 230, 74])]")
    assert read == [1, 77, 1, 77]


@pytest.mark.parametrize("count", [0, 5, 20])
def test_the_count_can_differ_from_what_is_there(
    node: SimulatedNode, nvml: NvmlClient, count: int
) -> None:
    node.miscount(count)
    assert nvml.ask("nvmlDeviceGetCount()") == count
    assert nvml.error_of("nvmlDeviceGetHandleByIndex(7)") == 0
    assert nvml.error_of("nvmlDeviceGetHandleByIndex(8)") == INVALID_ARGUMENT
    node.miscount(None)
    assert nvml.ask("nvmlDeviceGetCount()") == 8


def test_two_gpus_can_show_one_uuid(node: SimulatedNode, nvml: NvmlClient) -> None:
    node.show_uuid(5, node.gpu(2).uuid)
    assert nvml.ask("nvmlDeviceGetUUID(g[5]) == nvmlDeviceGetUUID(g[2])") is True
    pair = "[nvmlDeviceGetPciInfo(h).bus for h in (g[2], g[5])]"
    assert len(set(nvml.ask(pair))) == 2
    assert nvml.ask(f"nvmlDeviceGetIndex(nvmlDeviceGetHandleByUUID({node.gpu(2).uuid!r}))") == 2
