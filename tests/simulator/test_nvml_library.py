"""The simulated library through the real pynvml: symbols, identities, readings."""

import os
import subprocess
import sys

import pytest

from simulator import build, grammar
from simulator.gpu import Process
from simulator.node import SimulatedNode
from tests.simulator.nvml_client import NvmlClient
from tests.simulator.nvml_readings import READINGS, teach

NOT_SUPPORTED, NOT_FOUND, INVALID_ARGUMENT, UNINITIALIZED = 3, 6, 2, 1


def test_every_symbol_that_pynvml_looks_up_is_there(nvml: NvmlClient) -> None:
    names = sorted(build.looked_up_calls())
    assert len(names) > 300
    missing = nvml.ask(f"[n for n in {names!r} if not hasattr(p.nvmlLib, n)]")
    assert missing == []


def test_what_is_not_simulated_answers_not_supported(nvml: NvmlClient) -> None:
    stubs = sorted(build.looked_up_calls() - build.simulated_calls())
    answers = nvml.ask(f"sorted(set(getattr(p.nvmlLib, n)() for n in {stubs!r}))")
    assert answers == [NOT_SUPPORTED]
    assert nvml.error_of("nvmlDeviceGetFanSpeed(g[0])") == NOT_SUPPORTED


def test_a_call_before_init_and_after_shutdown_says_uninitialized(node: SimulatedNode) -> None:
    with NvmlClient(node) as client:
        client.ask("p._LoadNvmlLibrary()")
        assert client.error_of("nvmlDeviceGetCount()") == UNINITIALIZED
        client.ask("nvmlInit()")
        assert client.ask("nvmlDeviceGetCount()") == 8
        client.ask("nvmlShutdown()")
        assert client.error_of("nvmlDeviceGetCount()") == UNINITIALIZED
        assert client.error_of("nvmlShutdown()") == UNINITIALIZED


def test_driver_nvml_and_cuda_versions_are_those_of_the_scenario(nvml: NvmlClient) -> None:
    assert nvml.ask("nvmlSystemGetDriverVersion()") == "580.95.05"
    assert nvml.ask("nvmlSystemGetNVMLVersion()") == "13.580.95.05"
    assert nvml.ask("nvmlSystemGetCudaDriverVersion()") == 13000
    assert nvml.ask("nvmlSystemGetCudaDriverVersion_v2()") == 13000


def test_a_gpu_tells_who_it_is(node: SimulatedNode, nvml: NvmlClient) -> None:
    gpu = node.gpu(3)
    assert nvml.ask("nvmlDeviceGetName(g[3])") == "NVIDIA H100 80GB HBM3"
    assert nvml.ask("nvmlDeviceGetUUID(g[3])") == gpu.uuid
    assert nvml.ask("nvmlDeviceGetSerial(g[3])") == gpu.serial
    assert nvml.ask("nvmlDeviceGetMinorNumber(g[3])") == 3
    assert nvml.ask("nvmlDeviceGetIndex(g[3])") == 3
    assert nvml.ask("nvmlDeviceGetCudaComputeCapability(g[3])") == [9, 0]
    assert nvml.ask("nvmlDeviceGetArchitecture(g[3])") == 9
    assert nvml.ask("nvmlDeviceGetBrand(g[3])") == 14
    pci = nvml.ask("nvmlDeviceGetPciInfo(g[3])")
    assert pci["busId"] == "00000000:5D:00.0"
    assert pci["busIdLegacy"] == "0000:5D:00.0"
    assert (pci["domain"], pci["bus"], pci["device"]) == (0, 0x5D, 0)
    assert pci["pciDeviceId"] == 0x233010DE


@pytest.mark.parametrize("spelling", ["0000:5d:00.0", "00000000:5D:00.0", "0000:5D:00"])
def test_a_gpu_is_found_by_bus_id_however_it_is_spelled(nvml: NvmlClient, spelling: str) -> None:
    assert nvml.ask(f"nvmlDeviceGetIndex(nvmlDeviceGetHandleByPciBusId({spelling!r}))") == 3


def test_a_gpu_is_found_by_uuid_and_by_serial(node: SimulatedNode, nvml: NvmlClient) -> None:
    gpu = node.gpu(5)
    assert nvml.ask(f"nvmlDeviceGetIndex(nvmlDeviceGetHandleByUUID({gpu.uuid!r}))") == 5
    assert nvml.ask(f"nvmlDeviceGetIndex(nvmlDeviceGetHandleBySerial({gpu.serial!r}))") == 5
    assert nvml.error_of("nvmlDeviceGetHandleByUUID('GPU-0')") == NOT_FOUND
    assert nvml.error_of("nvmlDeviceGetHandleByIndex(8)") == INVALID_ARGUMENT


def test_the_same_gpu_has_the_same_handle(nvml: NvmlClient) -> None:
    line = "addressof(g[3].contents) == addressof(nvmlDeviceGetHandleByIndex(3).contents)"
    assert nvml.ask(line) is True


def test_every_number_of_the_scenario_can_be_read(node: SimulatedNode, newer: NvmlClient) -> None:
    others = {"gpm_whole_gpu_with_mig", "nvlink_disabled"}
    assert set(READINGS.values()) | others == set(grammar.VALUE_NAMES)
    numbers = {
        value.name: min(value.largest, 11 + count) for count, value in enumerate(grammar.VALUES)
    }
    with node.scenario.edit() as scenario:
        scenario.gpus[3].values = dict(numbers)
    teach(newer)
    read = {line: newer.ask(line) for line in READINGS}
    assert read == {line: numbers[name] for line, name in READINGS.items()}


def test_every_number_can_be_unsupported(node: SimulatedNode, newer: NvmlClient) -> None:
    with node.scenario.edit() as scenario:
        scenario.gpus[3].values = dict.fromkeys(grammar.VALUE_NAMES)
    teach(newer)
    assert {line: newer.error_of(line) for line in READINGS} == dict.fromkeys(
        READINGS, NOT_SUPPORTED
    )


def test_the_recovery_action_is_field_230_with_an_answer_of_its_own(
    node: SimulatedNode, nvml: NvmlClient
) -> None:
    node.set_recovery_action(3, 4)
    read = nvml.ask("list(nvmlDeviceGetFieldValues(g[3], [230, 9999]))")
    assert [(reading["fieldId"], reading["nvmlReturn"]) for reading in read] == [
        (230, 0),
        (9999, INVALID_ARGUMENT),
    ]
    assert nvml.ask("nvmlDeviceGetFieldValues(g[3], [230])[0].value.uiVal") == 4


CODES = "[f.nvmlReturn for f in nvmlDeviceGetFieldValues(g[3], [0, 274, 301, 303, 308])]"


def test_a_field_that_the_driver_does_not_know_is_an_invalid_argument(nvml: NvmlClient) -> None:
    unknown = INVALID_ARGUMENT
    assert nvml.ask(CODES) == [unknown, unknown, 0, unknown, unknown]


def test_a_newer_driver_knows_more_fields(newer: NvmlClient) -> None:
    unknown = INVALID_ARGUMENT
    assert newer.ask(CODES) == [unknown, NOT_SUPPORTED, 0, NOT_SUPPORTED, unknown]


def test_a_field_of_32_bits_begins_anew_above_them(node: SimulatedNode, nvml: NvmlClient) -> None:
    node.set_value(3, "pcie_tx_bytes", (1 << 32) + 5)
    nvml.ask("sent = nvmlDeviceGetFieldValues(g[3], [NVML_FI_DEV_PCIE_COUNT_TX_BYTES])[0]")
    assert nvml.ask("(sent.valueType, sent.value.ullVal)") == [1, 5]


def test_a_gpu_tells_its_module_and_how_it_addresses_memory(nvml: NvmlClient) -> None:
    assert nvml.ask("[nvmlDeviceGetModuleId(h) for h in g]") == list(range(8))
    assert nvml.ask("nvmlDeviceGetAddressingMode(g[3])") == 0


def test_memory_adds_up_in_both_versions(node: SimulatedNode, nvml: NvmlClient) -> None:
    node.set_value(3, "memory_used_mib", 1000)
    two = nvml.ask("nvmlDeviceGetMemoryInfo(g[3], nvmlMemory_v2)")
    assert two["total"] == 81559 * 2**20 == two["used"] + two["free"] + two["reserved"]
    one = nvml.ask("nvmlDeviceGetMemoryInfo(g[3])")
    assert one["used"] == two["used"] + two["reserved"]
    assert one["free"] == two["free"]


def test_a_wrong_struct_version_is_refused(nvml: NvmlClient) -> None:
    assert nvml.error_of("nvmlDeviceGetMemoryInfo(g[3], 0x01000028)") == 25


def test_processes_are_listed_where_they_run(node: SimulatedNode, nvml: NvmlClient) -> None:
    with node.scenario.edit() as scenario:
        scenario.gpus[0].processes = [
            Process(pid=100, memory_mib=10, gi=5, ci=0),
            Process(pid=200, memory_mib=20, gi=6, ci=0),
        ]
        scenario.gpus[1].processes = [
            Process(pid=300, memory_mib=30),
            Process(pid=4, graphics=True),
            Process(pid=5, mps=True),
        ]
    listed = nvml.ask("nvmlDeviceGetComputeRunningProcesses(g[0])")
    assert [(process["pid"], process["gpuInstanceId"]) for process in listed] == [
        (100, 5),
        (200, 6),
    ]
    nvml.ask("mig = nvmlDeviceGetMigDeviceHandleByIndex(g[0], 2)")
    listed = nvml.ask("nvmlDeviceGetComputeRunningProcesses(mig)")
    assert [(process["pid"], process["usedGpuMemory"]) for process in listed] == [(100, 10 * 2**20)]
    assert nvml.ask("nvmlDeviceGetMemoryInfo(mig).used") == 10 * 2**20
    (full,) = nvml.ask("nvmlDeviceGetComputeRunningProcesses(g[1])")
    assert (full["pid"], full["gpuInstanceId"]) == (300, 0xFFFFFFFF)
    assert nvml.ask("[one.pid for one in nvmlDeviceGetGraphicsRunningProcesses(g[1])]") == [4]
    call = "nvmlDeviceGetMPSComputeRunningProcesses_v3"
    assert nvml.ask(f"[one.pid for one in {call}(g[1])]") == [5]
    assert nvml.ask(f"{call}(g[0])") == []


def test_without_a_scenario_init_fails_and_says_what_to_set(node: SimulatedNode) -> None:
    environment = {**os.environ, **node.environment()}
    del environment["DRAGUARD_SIM_SCENARIO"]
    done = subprocess.run(
        [sys.executable, "-c", "import pynvml; pynvml.nvmlInit()"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "DRAGUARD_SIM_SCENARIO is not set; point it at a scenario.ini" in done.stderr
    assert "NVMLError_DriverNotLoaded" in done.stderr
