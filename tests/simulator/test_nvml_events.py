"""Event sets through the real pynvml."""

from simulator import grammar
from simulator.node import SimulatedNode
from tests.simulator.nvml_client import NvmlClient

XID, RECOVERY, ANY = 0x8, 0x8000, 0xFFFFFFFF
TIMEOUT, NOT_SUPPORTED, GPU_IS_LOST = 10, 3, 15
WAIT = "nvmlEventSetWait_v2(s, 60000)"


def watch(nvml: NvmlClient, types: int = XID | RECOVERY) -> None:
    nvml.ask("s = nvmlEventSetCreate()")
    nvml.ask(f"[nvmlDeviceRegisterEvents(h, {types}, s) for h in g]")


def test_an_xid_arrives_with_code_and_device_and_names_no_instance(
    node: SimulatedNode, nvml: NvmlClient
) -> None:
    watch(nvml)
    node.inject_xid(3, 79)
    nvml.ask(f"e = {WAIT}")
    assert nvml.ask("(e.eventType, e.eventData)") == [XID, 79]
    assert nvml.ask("(e.gpuInstanceId, e.computeInstanceId)") == [ANY, ANY]
    assert nvml.ask("addressof(e.device.contents) == addressof(g[3].contents)") is True


def test_a_contained_xid_arrives_on_the_physical_gpu_with_its_instance(
    node: SimulatedNode, nvml: NvmlClient
) -> None:
    watch(nvml)
    node.inject_xid(0, 94, gi=5, ci=0)
    event = nvml.ask(WAIT)
    assert (event["eventData"], event["gpuInstanceId"], event["computeInstanceId"]) == (94, 5, 0)


def test_a_changed_recovery_action_is_an_event_with_the_new_value(
    node: SimulatedNode, nvml: NvmlClient
) -> None:
    watch(nvml)
    node.set_recovery_action(2, 1)
    event = nvml.ask(WAIT)
    assert (event["eventType"], event["eventData"]) == (RECOVERY, 1)


def test_events_come_in_order_and_once_and_old_ones_never(
    node: SimulatedNode, nvml: NvmlClient
) -> None:
    node.inject_xid(1, 62)
    watch(nvml)
    for code in (13, 31, 43):
        node.inject_xid(code % 8, code)
    assert [nvml.ask(f"{WAIT}.eventData") for _ in range(3)] == [13, 31, 43]
    assert nvml.error_of("nvmlEventSetWait_v2(s, 20)") == TIMEOUT


def test_each_set_gets_each_event_and_only_of_the_kinds_and_gpus_it_requested(
    node: SimulatedNode, nvml: NvmlClient
) -> None:
    watch(nvml, XID)
    nvml.ask("only = nvmlEventSetCreate()")
    nvml.ask(f"nvmlDeviceRegisterEvents(g[4], {RECOVERY}, only)")
    node.set_recovery_action(5, 1)
    node.inject_xid(4, 48)
    node.set_recovery_action(4, 1)
    assert nvml.ask(f"{WAIT}.eventData") == 48
    assert nvml.ask("nvmlEventSetWait_v2(only, 60000).eventType") == RECOVERY
    assert nvml.error_of("nvmlEventSetWait_v2(s, 20)") == TIMEOUT
    assert nvml.error_of("nvmlEventSetWait_v2(only, 20)") == TIMEOUT


def test_a_wait_that_began_before_the_event_wakes_up(node: SimulatedNode, nvml: NvmlClient) -> None:
    watch(nvml)
    nvml.begin("nvmlEventSetWait_v2(s, 60000).eventData")
    assert not nvml.answers_within(0.05)
    node.inject_xid(6, 119)
    assert nvml.result() == 119


def test_version_3_tells_the_uuid(node: SimulatedNode, nvml: NvmlClient) -> None:
    watch(nvml)
    node.inject_xid(0, 94, gi=3, ci=0)
    nvml.ask("w = c_nvmlEventSetWait_v3_t(timeoutMs=60000)")
    nvml.ask("nvmlEventSetWait_v3(s, w)")
    event = nvml.ask("w")
    assert event["uuid"] == node.gpu(0).uuid
    assert (event["eventType"], event["eventData"]) == (XID, 94)
    assert (event["gpuInstanceId"], event["computeInstanceId"]) == (3, 0)
    assert (event["dataType"], event["timeoutMs"]) == (0, 60000)
    assert event["timestampUsec"] > 1_700_000_000_000_000


def test_the_oldest_form_writes_no_instance_beyond_its_struct(
    node: SimulatedNode, nvml: NvmlClient
) -> None:
    watch(nvml)
    node.inject_xid(0, 94, gi=3, ci=0)
    nvml.ask("data = c_nvmlEventData_t(gpuInstanceId=77, computeInstanceId=88)")
    assert nvml.ask("p.nvmlLib.nvmlEventSetWait(s, byref(data), 60000)") == 0
    assert nvml.ask("(data.eventData, data.gpuInstanceId, data.computeInstanceId)") == [94, 77, 88]


def test_a_gpu_without_recovery_action_refuses_that_event(
    node: SimulatedNode, nvml: NvmlClient
) -> None:
    node.set_recovery_action(3, None)
    nvml.ask("s = nvmlEventSetCreate()")
    assert nvml.ask("nvmlDeviceGetSupportedEventTypes(g[3])") & RECOVERY == 0
    assert nvml.error_of(f"nvmlDeviceRegisterEvents(g[3], {RECOVERY}, s)") == NOT_SUPPORTED
    assert nvml.error_of(f"nvmlDeviceRegisterEvents(g[3], {XID}, s)") == 0


def test_the_event_of_a_lost_gpu_arrives_but_its_handle_tells_no_uuid(
    node: SimulatedNode, nvml: NvmlClient
) -> None:
    watch(nvml)
    node.lose(3)
    node.inject_xid(3, 79)
    nvml.ask(f"e = {WAIT}")
    assert nvml.ask("e.eventData") == 79
    assert nvml.error_of("nvmlDeviceGetUUID(e.device)") == GPU_IS_LOST


def test_a_burst_longer_than_the_file_keeps_is_delivered_in_parts(
    node: SimulatedNode, nvml: NvmlClient
) -> None:
    watch(nvml)
    for first in (0, 1000):
        with node.scenario.edit() as scenario:
            for number in range(grammar.MAX_EVENTS):
                scenario.add_event(number % 8, "xid", first + number)
        read = f"[nvmlEventSetWait_v2(s, 60000).eventData for _ in range({grammar.MAX_EVENTS})]"
        assert nvml.ask(read) == list(range(first, first + grammar.MAX_EVENTS))
    assert len(node.scenario.load().events) == grammar.MAX_EVENTS
