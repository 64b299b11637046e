"""MIG through the real pynvml: modes, slices, profiles, instances."""

from pathlib import Path

import pytest

from simulator import grammar
from simulator.board import instances_of
from simulator.node import SimulatedNode
from simulator.product import H100, SHORT_NAMES
from tests.simulator.nvml_client import NvmlClient
from tests.simulator.nvml_readings import READINGS, teach

NOT_SUPPORTED, NOT_FOUND, INVALID_ARGUMENT, INSUFFICIENT_SIZE = 3, 6, 2, 7
LAYOUT = ["3g.40gb", "2g.20gb", "1g.20gb"]


@pytest.fixture
def sliced(node: SimulatedNode) -> SimulatedNode:
    """GPU 1 with three different slices beside GPU 0 with seven equal ones."""
    with node.scenario.edit() as scenario:
        scenario.gpus[1].mig = True
        scenario.gpus[1].instances = instances_of(scenario.gpus[1], LAYOUT)
    return node


def test_mig_mode_is_on_only_where_the_scenario_says_so(nvml: NvmlClient) -> None:
    assert nvml.ask("nvmlDeviceGetMigMode(g[0])") == [1, 1]
    assert nvml.ask("nvmlDeviceGetMigMode(g[1])") == [0, 0]
    assert nvml.ask("[nvmlDeviceGetMaxMigDeviceCount(h) for h in g[:2]]") == [7, 0]
    assert nvml.error_of("nvmlDeviceGetMigDeviceHandleByIndex(g[1], 0)") == NOT_FOUND


def test_a_mig_device_tells_what_it_is_and_where(node: SimulatedNode, nvml: NvmlClient) -> None:
    desired = node.gpu(0).instances[2]
    nvml.ask("m = nvmlDeviceGetMigDeviceHandleByIndex(g[0], 2)")
    assert nvml.ask("nvmlDeviceGetUUID(m)") == desired.uuid
    assert nvml.ask("nvmlDeviceGetName(m)") == "NVIDIA H100 80GB HBM3 MIG 1g.10gb"
    assert nvml.ask("nvmlDeviceGetGpuInstanceId(m)") == desired.gi == 5
    assert nvml.ask("nvmlDeviceGetComputeInstanceId(m)") == 0
    assert nvml.ask("nvmlDeviceIsMigDeviceHandle(m)") == 1
    assert nvml.ask("nvmlDeviceIsMigDeviceHandle(g[0])") == 0
    parent = "nvmlDeviceGetIndex(nvmlDeviceGetDeviceHandleFromMigDeviceHandle(m))"
    assert nvml.ask(parent) == 0
    attributes = nvml.ask("nvmlDeviceGetAttributes(m)")
    assert attributes["multiprocessorCount"] == 16
    assert attributes["gpuInstanceSliceCount"] == 1
    assert attributes["memorySizeMB"] == 9984
    assert nvml.ask("nvmlDeviceGetMemoryInfo(m).total") == 9984 * 2**20
    same = f"addressof(nvmlDeviceGetHandleByUUID({desired.uuid!r}).contents)"
    assert nvml.ask(f"{same} == addressof(m.contents)") is True


def test_slices_end_with_not_found_and_an_index_above_the_maximum_is_invalid(
    sliced: SimulatedNode, nvml: NvmlClient
) -> None:
    assert nvml.error_of("nvmlDeviceGetMigDeviceHandleByIndex(g[1], 2)") == 0
    assert nvml.error_of("nvmlDeviceGetMigDeviceHandleByIndex(g[1], 3)") == NOT_FOUND
    assert nvml.error_of("nvmlDeviceGetMigDeviceHandleByIndex(g[1], 7)") == INVALID_ARGUMENT


@pytest.mark.parametrize(
    "call",
    [
        "nvmlDeviceGetUtilizationRates(m)",
        "nvmlDeviceGetTemperature(m, 0)",
        "nvmlDeviceGetPowerUsage(m)",
        "nvmlDeviceGetPciInfo(m)",
        "nvmlDeviceGetFieldValues(m, [230])",
        "nvmlDeviceGetUtilizationRates(g[0])",
        "nvmlDeviceGetRemappedRows(g[0])",
    ],
)
def test_what_mig_hides_is_not_supported(nvml: NvmlClient, call: str) -> None:
    nvml.ask("m = nvmlDeviceGetMigDeviceHandleByIndex(g[0], 0)")
    assert nvml.error_of(call) == NOT_SUPPORTED


ANSWERED_FOR_A_SLICE = {
    "nvmlDeviceGetTotalEccErrors(g[3], 1, 0)",
    "nvmlDeviceGetMemoryInfo(g[3], nvmlMemory_v2).used // 2**20",
    "nvmlDeviceGetBAR1MemoryInfo(g[3]).bar1Used // 2**20",
}
HIDDEN_WITH_INSTANCES = (
    *("UtilizationRates", "EncoderUtilization", "DecoderUtilization", "JpgUtilization"),
    *("OfaUtilization", "RemappedRows", "RowRemapperHistogram", "NVML_FI_DEV_REMAPPED"),
)
UNSUPPORTED_ANYWAY = {v.name for v in grammar.VALUES if v.default is None} - H100.values.keys()


def test_a_slice_tells_its_memory_and_its_errors_and_nothing_else(nvml: NvmlClient) -> None:
    teach(nvml)
    nvml.ask("g[3] = nvmlDeviceGetMigDeviceHandleByIndex(g[0], 2)")
    codes = {line: nvml.error_of(line) for line in READINGS}
    assert {line for line, code in codes.items() if code == 0} == ANSWERED_FOR_A_SLICE
    assert set(codes.values()) == {0, NOT_SUPPORTED}


def test_a_gpu_with_instances_hides_its_use_and_its_remapped_rows(nvml: NvmlClient) -> None:
    teach(nvml)
    nvml.ask("g[3] = g[0]")
    hidden = {line for line in READINGS if nvml.error_of(line) == NOT_SUPPORTED}
    expected = {line for line in READINGS if any(word in line for word in HIDDEN_WITH_INSTANCES)}
    without = {line for line, name in READINGS.items() if name in UNSUPPORTED_ANYWAY}
    assert hidden == expected | without


def test_row_remaps_of_a_mig_gpu_are_hidden_but_its_recovery_action_is_not(
    node: SimulatedNode, nvml: NvmlClient
) -> None:
    node.set_recovery_action(0, 1)
    read = nvml.ask("list(nvmlDeviceGetFieldValues(g[0], [142, 145, 230]))")
    assert [reading["nvmlReturn"] for reading in read] == [3, 3, 0]


def test_the_gpu_instances_tell_profile_id_and_placement(
    sliced: SimulatedNode, nvml: NvmlClient
) -> None:
    nvml.ask("slots, count = (c_nvmlGpuInstance_t * 8)(), c_uint()")
    found: dict[str, tuple[int, int, int]] = {}
    for profile in H100.profiles:
        nvml.ask(f"nvmlDeviceGetGpuInstances(g[1], {profile.profile_id}, slots, byref(count))")
        for index in range(nvml.ask("count")):
            info = nvml.ask(f"nvmlGpuInstanceGetInfo(slots[{index}])")
            assert info["profileId"] == profile.profile_id
            place = info["placement"]
            found[profile.name] = (info["id"], place["start"], place["size"])
    assert found == {"3g.40gb": (7, 0, 4), "2g.20gb": (3, 4, 2), "1g.20gb": (1, 6, 2)}


def test_a_gpu_instance_is_found_by_id_and_holds_one_compute_instance(
    sliced: SimulatedNode, nvml: NvmlClient
) -> None:
    nvml.ask("gi = nvmlDeviceGetGpuInstanceById(g[1], 3)")
    assert nvml.error_of("nvmlDeviceGetGpuInstanceById(g[1], 9)") == NOT_FOUND
    nvml.ask("slots, count = (c_nvmlComputeInstance_t * 8)(), c_uint()")
    nvml.ask("nvmlGpuInstanceGetComputeInstances(gi, 1, slots, byref(count))")
    assert nvml.ask("count") == 1
    info = nvml.ask("nvmlComputeInstanceGetInfo(slots[0])")
    assert (info["id"], info["profileId"], info["placement"]) == (0, 1, {"start": 0, "size": 2})
    nvml.ask("ci = nvmlGpuInstanceGetComputeInstanceById(gi, 0)")
    assert nvml.ask("nvmlComputeInstanceGetInfo(ci).id") == 0
    assert nvml.error_of("nvmlGpuInstanceGetComputeInstanceById(gi, 1)") == NOT_FOUND


@pytest.mark.parametrize("word", SHORT_NAMES)
def test_profiles_are_requested_by_index_and_answer_with_the_id(tmp_path: Path, word: str) -> None:
    product = SHORT_NAMES[word]
    with SimulatedNode(tmp_path, "n").create(f"1x{word}") as node, NvmlClient(node) as nvml:
        nvml.ask("nvmlInit()")
        nvml.ask("h = nvmlDeviceGetHandleByIndex(0)")
        for profile in product.profiles:
            info = nvml.ask(f"nvmlDeviceGetGpuInstanceProfileInfo(h, {profile.index})")
            assert (info["id"], info["name"]) == (profile.profile_id, f"MIG {profile.name}")
            assert info["memorySizeMB"] == profile.memory_mib
            assert info["multiprocessorCount"] == profile.multiprocessors
            assert info["ofaCount"] == profile.ofa_engines
            one = nvml.ask(f"nvmlDeviceGetGpuInstanceProfileInfo(h, {profile.index}, version=1)")
            assert one == {key: info[key] for key in one}
            by_id = f"nvmlDeviceGetGpuInstanceProfileInfoById(h, {profile.profile_id})"
            assert nvml.ask(by_id) == info
        assert nvml.error_of("nvmlDeviceGetGpuInstanceProfileInfo(h, 5)") == NOT_SUPPORTED


def test_a_whole_gpu_has_no_instance_id(nvml: NvmlClient) -> None:
    for call in ("nvmlDeviceGetGpuInstanceId(g[0])", "nvmlDeviceGetComputeInstanceId(g[0])"):
        assert nvml.error_of(call) == INVALID_ARGUMENT


def test_a_profile_that_the_driver_does_not_know_is_an_invalid_argument(nvml: NvmlClient) -> None:
    call = "nvmlDeviceGetGpuInstanceProfileInfo(g[0], {})"
    assert nvml.error_of(call.format(16)) == NOT_SUPPORTED
    assert nvml.error_of(call.format(17)) == INVALID_ARGUMENT


def test_a_gpu_instance_says_which_compute_instances_fit_into_it(
    sliced: SimulatedNode, nvml: NvmlClient
) -> None:
    nvml.ask("gi = nvmlDeviceGetGpuInstanceById(g[1], 7)")
    call = "nvmlGpuInstanceGetComputeInstanceProfileInfo(gi, {}, 0)"
    found = [nvml.ask(call.format(profile)) for profile in range(3)]
    assert [(p["id"], p["name"], p["sliceCount"], p["instanceCount"]) for p in found] == [
        (0, "MIG 1c.3g.40gb", 1, 3),
        (1, "MIG 2c.3g.40gb", 2, 1),
        (2, "MIG 3g.40gb", 3, 1),
    ]
    assert [p["multiprocessorCount"] for p in found] == [20, 40, 60]
    assert {p["sharedDecoderCount"] for p in found} == {3}
    older = nvml.ask("nvmlGpuInstanceGetComputeInstanceProfileInfo(gi, 1, 0, version=1)")
    assert older == {name: found[1][name] for name in older}
    assert [nvml.error_of(call.format(n)) for n in (3, 4, 8)] == [NOT_SUPPORTED] * 3
    assert nvml.error_of(call.format(9)) == INVALID_ARGUMENT
    another = "nvmlGpuInstanceGetComputeInstanceProfileInfo(gi, 0, 1)"
    assert nvml.error_of(another) == INVALID_ARGUMENT


def test_possible_placements_are_those_of_the_profile(nvml: NvmlClient) -> None:
    nvml.ask("places, count = (c_nvmlGpuInstancePlacement_t * 8)(), c_uint(8)")
    call = "nvmlDeviceGetGpuInstancePossiblePlacements(g[0], 14, places, byref(count))"
    nvml.ask(call)
    assert nvml.ask("[(x.start, x.size) for x in places[:count.value]]") == [[0, 2], [2, 2], [4, 2]]
    nvml.ask("count = c_uint(1)")
    assert nvml.error_of(call) == INSUFFICIENT_SIZE


def test_a_slice_that_is_destroyed_makes_its_handle_invalid(
    node: SimulatedNode, nvml: NvmlClient
) -> None:
    nvml.ask("m = nvmlDeviceGetMigDeviceHandleByIndex(g[0], 6)")
    with node.scenario.edit() as scenario:
        del scenario.gpus[0].instances[6]
    assert nvml.error_of("nvmlDeviceGetUUID(m)") == INVALID_ARGUMENT
    assert nvml.error_of("nvmlDeviceGetMigDeviceHandleByIndex(g[0], 6)") == NOT_FOUND
