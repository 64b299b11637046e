"""How GPUs fail through the real pynvml: lost, gone, errors, slow, hung, crash, swapped."""

import signal
import time

import pytest

from simulator.gpu import Failure
from simulator.node import SimulatedNode
from simulator.scenario_file import ScenarioFile
from tests.simulator.nvml_client import NvmlClient

GPU_IS_LOST, INVALID_ARGUMENT, NOT_FOUND = 15, 2, 6


def test_a_lost_gpu_answers_lost_on_every_call_and_the_others_go_on(
    node: SimulatedNode, nvml: NvmlClient
) -> None:
    node.lose(3)
    for call in ("nvmlDeviceGetUUID(g[3])", "nvmlDeviceGetFieldValues(g[3], [230])",
                 "nvmlDeviceGetHandleByIndex(3)"):  # fmt: skip
        assert nvml.error_of(call) == GPU_IS_LOST
    assert nvml.ask("nvmlDeviceGetCount()") == 8
    assert nvml.ask("nvmlDeviceGetTemperature(g[4], 0)") == 31


def test_a_lost_mig_gpu_takes_its_slices_with_it(node: SimulatedNode, nvml: NvmlClient) -> None:
    nvml.ask("m = nvmlDeviceGetMigDeviceHandleByIndex(g[0], 0)")
    node.lose(0)
    assert nvml.error_of("nvmlDeviceGetUUID(m)") == GPU_IS_LOST


def test_a_gpu_that_is_gone_is_not_listed_and_the_next_take_its_index(
    node: SimulatedNode, nvml: NvmlClient
) -> None:
    node.lose(3, gone=True)
    assert nvml.ask("nvmlDeviceGetCount()") == 7
    assert nvml.ask("nvmlDeviceGetUUID(nvmlDeviceGetHandleByIndex(3))") == node.gpu(4).uuid
    assert nvml.error_of(f"nvmlDeviceGetHandleByUUID({node.gpu(3).uuid!r})") == NOT_FOUND
    assert nvml.error_of("nvmlDeviceGetUUID(g[3])") == GPU_IS_LOST
    node.heal(3)
    assert nvml.ask("nvmlDeviceGetCount()") == 8


def test_an_error_can_be_limited_to_one_call(node: SimulatedNode, nvml: NvmlClient) -> None:
    node.error(3, 999, "nvmlDeviceGetTemperature")
    assert nvml.error_of("nvmlDeviceGetTemperature(g[3], 0)") == 999
    assert nvml.error_of("nvmlDeviceGetTemperatureV(g[3], 0)") == 0
    assert nvml.error_of("nvmlDeviceGetTemperature(g[4], 0)") == 0


def test_a_call_is_named_with_or_without_its_version(node: SimulatedNode, nvml: NvmlClient) -> None:
    node.error(3, 7, "nvmlDeviceGetPciInfo")
    assert nvml.error_of("nvmlDeviceGetPciInfo(g[3])") == 7
    node.error(3, 8, "nvmlDeviceGetPciInfo_v3")
    assert nvml.error_of("nvmlDeviceGetPciInfo(g[3])") == 8


def test_a_hung_call_comes_back_when_the_gpu_is_healed(
    node: SimulatedNode, nvml: NvmlClient
) -> None:
    node.hang(3, "nvmlDeviceGetTemperature")
    assert nvml.ask("nvmlDeviceGetPowerUsage(g[3])") == 72_000
    nvml.begin("nvmlDeviceGetTemperature(g[3], 0)")
    assert not nvml.answers_within(0.1)
    node.heal(3)
    assert nvml.result() == 31


def test_a_gpu_hung_in_every_call_hangs_enumeration_but_not_the_wait_for_events(
    node: SimulatedNode, nvml: NvmlClient
) -> None:
    nvml.ask("s = nvmlEventSetCreate()")
    nvml.ask("[nvmlDeviceRegisterEvents(h, 8, s) for h in g]")
    node.hang(3)
    node.inject_xid(2, 48)
    assert nvml.ask("nvmlEventSetWait_v2(s, 60000).eventData") == 48
    nvml.begin("nvmlDeviceGetHandleByIndex(3) and 1")
    assert not nvml.answers_within(0.1)
    node.lose(3)
    assert nvml.error_of("nvmlDeviceGetUUID(g[4])") == GPU_IS_LOST  # the answer of the line before
    assert nvml.result() == node.gpu(4).uuid


def test_the_wait_for_events_hangs_when_it_is_named(node: SimulatedNode, nvml: NvmlClient) -> None:
    nvml.ask("s = nvmlEventSetCreate()")
    nvml.ask("[nvmlDeviceRegisterEvents(h, 8, s) for h in g]")
    node.hang(3, "nvmlEventSetWait")
    node.inject_xid(2, 48)
    nvml.begin("nvmlEventSetWait_v2(s, 10).eventData")
    assert not nvml.answers_within(0.1)
    node.heal(3)
    assert nvml.result() == 48


def test_a_slow_call_takes_its_time(node: SimulatedNode, nvml: NvmlClient) -> None:
    node.slow(3, 150)
    begun = time.monotonic()
    assert nvml.ask("nvmlDeviceGetTemperature(g[3], 0)") == 31
    assert time.monotonic() - begun >= 0.15


@pytest.mark.parametrize("call", ["", "nvmlDeviceGetFieldValues"])
def test_a_segfault_kills_the_process_with_its_signal(
    node: SimulatedNode, nvml: NvmlClient, call: str
) -> None:
    node.segfault(3, call)
    assert nvml.ask("nvmlDeviceGetTemperature(g[4], 0)") == 31
    assert nvml.killed_by("nvmlDeviceGetFieldValues(g[3], [230])") == signal.SIGSEGV


def test_the_library_itself_can_fail_at_init(node: SimulatedNode) -> None:
    node.set_node_failure(Failure("error", 9, "nvmlInitWithFlags"))
    with NvmlClient(node) as client:
        assert client.error_of("nvmlInit()") == 9
        node.set_node_failure(Failure())
        assert client.error_of("nvmlInit()") == 0


def test_a_swapped_board_makes_the_old_handle_invalid(
    node: SimulatedNode, nvml: NvmlClient
) -> None:
    node.swap(3, "GPU-00000000-0000-0000-0000-00000000beef")
    assert nvml.error_of("nvmlDeviceGetUUID(g[3])") == INVALID_ARGUMENT
    uuid = nvml.ask("nvmlDeviceGetUUID(nvmlDeviceGetHandleByIndex(3))")
    assert uuid == "GPU-00000000-0000-0000-0000-00000000beef"


def test_a_bad_scenario_keeps_the_last_good_one_and_is_reported_once(
    node: SimulatedNode, nvml: NvmlClient
) -> None:
    node.set_value(3, "temperature_c", 77)
    assert nvml.ask("nvmlDeviceGetTemperature(g[3], 0)") == 77
    good = node.scenario.path.read_text(encoding="utf-8")
    node.scenario.save_text(good.replace("temperature_c = 77", "temperature_c = hot"))
    line = good.splitlines().index("temperature_c = 77") + 1
    for _ in range(3):
        assert nvml.ask("nvmlDeviceGetTemperature(g[3], 0)") == 77
    node.scenario.save_text(good.replace("temperature_c = 77", "temperature_c = 55"))
    assert nvml.ask("nvmlDeviceGetTemperature(g[3], 0)") == 55
    assert nvml.stderr_after_end() == (
        f"{node.scenario.path}:{line}: temperature_c must be a whole number from 0 to 200 or "
        '"unsupported", not "hot"\n'
    )


def test_a_scenario_that_was_removed_keeps_the_last_good_one(
    node: SimulatedNode, nvml: NvmlClient
) -> None:
    text = node.scenario.path.read_text(encoding="utf-8")
    node.scenario.path.unlink()
    assert nvml.ask("nvmlDeviceGetCount()") == 8
    ScenarioFile(node.scenario.path).save_text(text.replace("[gpu 7]", "# [gpu 7]\n[gpu 7]"))
    assert nvml.ask("nvmlDeviceGetCount()") == 8
    assert "cannot be read: No such file or directory" in nvml.stderr_after_end()


def test_two_threads_may_wait_and_read_at_once(node: SimulatedNode, nvml: NvmlClient) -> None:
    """As the exporter does: one thread waits for events, one samples, while the file changes."""
    nvml.ask("s = nvmlEventSetCreate()")
    nvml.ask("[nvmlDeviceRegisterEvents(h, 8, s) for h in g]")
    nvml.ask("import threading; seen = []; codes = []")
    nvml.ask(
        "def wait(): [codes.append(nvmlEventSetWait_v2(s, 60000).eventData) for _ in range(50)]"
    )
    nvml.ask("def read(): [seen.append(nvmlDeviceGetTemperature(g[3], 0)) for _ in range(5000)]")
    nvml.ask("both = [threading.Thread(target=f) for f in (wait, read)]")
    node.set_value(3, "temperature_c", 0)
    nvml.begin("[t.start() for t in both] and [t.join() for t in both] and None")
    for code in range(50):
        with node.scenario.edit() as scenario:
            scenario.gpus[3].values["temperature_c"] = code
            scenario.add_event(code % 8, "xid", code)
    nvml.result(120)
    assert nvml.ask("codes") == list(range(50))
    assert nvml.ask("len(seen) == 5000 and seen == sorted(seen)") is True
