"""What a node has changes while it runs: seen through the real pynvml and the kernel's folders."""

import os
from collections.abc import Iterator

import pytest

from exporter.sensor.kernel_log import cgroups, pci
from simulator.__main__ import main
from simulator.board import BoardError
from simulator.faults import FaultError
from simulator.gpu import Process
from simulator.node import SimulatedNode
from simulator.scenario import ScenarioError
from tests.simulator.nvml_client import NvmlClient

INVALID_ARGUMENT, NOT_SUPPORTED, NOT_FOUND, DRIVER_NOT_LOADED, GPU_IS_LOST = 2, 3, 6, 9, 15
LIB_RM_VERSION_MISMATCH = 18
POD = "7d0c1f2e-aaaa-4bbb-8ccc-000000000001"
UNBOUND, BOUND = 1, 2

SYSTEM_EVENTS = r"""
events = nvmlSystemEventSetCreate(nvmlSystemEventSetCreateRequest_v1)
nvmlSystemRegisterEvents(nvmlSystemRegisterEventRequest_v1, 3, events)
room = (c_nvmlSystemEventData_v1_t * 4)()
def wait(milliseconds):
    found = nvmlSystemEventSetWait(
        nvmlSystemEventSetWaitRequest_v1, events, milliseconds, room, len(room))
    return [(one["eventType"], one["gpuId"]) for one in found]
"""


@pytest.fixture
def watching(nvml: NvmlClient) -> Iterator[NvmlClient]:
    nvml.ask(f"exec({SYSTEM_EVENTS!r})")
    yield nvml
    nvml.ask("nvmlSystemEventSetFree(nvmlSystemEventSetFreeRequest_v1, events)")


def test_a_gpu_that_is_unbound_leaves_nvml_and_comes_back(
    node: SimulatedNode, watching: NvmlClient
) -> None:
    assert watching.ask("wait(1)") == []
    node.unbind(3)
    assert watching.ask("wait(5000)") == [[UNBOUND, 0x5D00]]
    assert watching.ask("nvmlDeviceGetCount()") == 7
    assert watching.error_of("nvmlDeviceGetUUID(g[3])") == GPU_IS_LOST
    node.bind(3)
    assert watching.ask("wait(5000)") == [[BOUND, 0x5D00]]
    assert watching.ask("nvmlDeviceGetUUID(nvmlDeviceGetHandleByIndex(3))") == node.gpu(3).uuid


def test_a_gpu_that_is_removed_is_unbound_and_no_more_listed(
    node: SimulatedNode, watching: NvmlClient
) -> None:
    node.remove_gpu(3)
    assert watching.ask("wait(5000)") == [[UNBOUND, 0x5D00]]
    assert watching.ask("nvmlDeviceGetCount()") == 7


def test_a_wait_takes_several_system_events_and_no_others(
    node: SimulatedNode, watching: NvmlClient
) -> None:
    watching.ask("s = nvmlEventSetCreate()")
    watching.ask("[nvmlDeviceRegisterEvents(h, 11, s) for h in g] and None")
    node.unbind(1)
    node.inject_xid(2, 79)
    with node.scenario.edit() as scenario:
        scenario.add_event(2, "dbe")  # has the number of "bind"
    node.bind(1)
    assert watching.ask("[kind for kind, _ in wait(5000)]") == [UNBOUND, BOUND]
    assert watching.ask("nvmlEventSetWait_v2(s, 60000).eventData") == 79
    assert watching.ask("nvmlEventSetWait_v2(s, 60000).eventType") == 2
    assert watching.error_of("nvmlEventSetWait_v2(s, 1)") == 10


def test_a_gpu_that_is_put_in_is_listed_last(node: SimulatedNode, watching: NvmlClient) -> None:
    assert node.add_gpu("H200") == 8
    assert watching.ask("[kind for kind, _ in wait(5000)]") == [BOUND]
    assert watching.ask("nvmlDeviceGetCount()") == 9
    assert watching.ask("nvmlDeviceGetName(nvmlDeviceGetHandleByIndex(8))") == "NVIDIA H200"
    assert len(pci.gpus(node.pci_devices_dir) or ()) == 9


def test_a_slice_made_again_has_the_ids_of_the_old_one_and_another_uuid(
    node: SimulatedNode, nvml: NvmlClient
) -> None:
    node.start_process(0, Process(pid=9, gi=5, ci=0))
    nvml.ask("m = nvmlDeviceGetMigDeviceHandleByIndex(g[0], 2)")
    before = nvml.ask("nvmlDeviceGetUUID(m)")
    made = [node.recreate_instance(0, 5) for _ in range(2)][-1]
    assert len({before, made.uuid, node.recreate_instance(0, 5).uuid}) == 3
    made = node.gpu(0).instances[-1]
    assert nvml.error_of("nvmlDeviceGetUUID(m)") == INVALID_ARGUMENT
    nvml.ask(f"new = nvmlDeviceGetHandleByUUID({made.uuid!r})")
    assert nvml.ask("nvmlDeviceGetGpuInstanceId(new)") == 5
    assert nvml.ask("nvmlDeviceGetComputeRunningProcesses(g[0])") == []


def test_slices_come_and_go(node: SimulatedNode, nvml: NvmlClient) -> None:
    for gi in (7, 6):
        node.destroy_instance(0, gi)
    with pytest.raises(BoardError, match=r"no room for another 3g\.40gb"):
        node.create_instance(0, "3g.40gb")
    made = node.create_instance(0, "2g.20gb", gi=21)
    assert (made.gi, made.start) == (21, 0)
    assert (
        nvml.ask("nvmlDeviceGetGpuInstanceId(nvmlDeviceGetMigDeviceHandleByIndex(g[0], 5))") == 21
    )
    node.destroy_instance(0, 5)
    with pytest.raises(ScenarioError, match="gi=21 is there twice"):
        node.create_instance(0, "1g.10gb", gi=21)
    with pytest.raises(FaultError, match="GPU 0 has no GPU instance 99; it has: "):
        node.destroy_instance(0, 99)


def test_mig_mode_is_switched_while_running(node: SimulatedNode, nvml: NvmlClient) -> None:
    node.set_mig(0, on=False)
    node.set_mig(1, on=True)
    assert nvml.ask("[nvmlDeviceGetMigMode(h)[0] for h in g[:2]]") == [0, 1]
    assert nvml.error_of("nvmlDeviceGetMigDeviceHandleByIndex(g[0], 0)") == NOT_FOUND
    node.create_instance(1, "7g.80gb")
    assert nvml.error_of("nvmlDeviceGetMigDeviceHandleByIndex(g[1], 0)") == 0


def test_each_change_of_mig_is_an_event(node: SimulatedNode, nvml: NvmlClient) -> None:
    nvml.ask("s = nvmlEventSetCreate()")
    nvml.ask("nvmlDeviceRegisterEvents(g[0], nvmlEventMigConfigChange, s)")
    node.recreate_instance(0, 5)
    assert nvml.ask("nvmlEventSetWait_v2(s, 60000).eventType") == 0x100


def test_an_unloaded_driver_answers_nothing_until_it_is_loaded(
    node: SimulatedNode, nvml: NvmlClient
) -> None:
    node.set_value(3, "ecc_dbe_volatile", 5)
    node.set_value(3, "ecc_dbe_aggregate", 5)
    node.unload_driver()
    assert nvml.error_of("nvmlDeviceGetCount()") == DRIVER_NOT_LOADED
    assert nvml.error_of("nvmlDeviceGetTemperature(g[3], 0)") == DRIVER_NOT_LOADED
    node.load_driver()
    assert nvml.ask("[nvmlDeviceGetTotalEccErrors(g[3], 1, age) for age in (0, 1)]") == [0, 5]


def test_after_an_upgrade_a_process_with_the_old_library_must_start_anew(
    node: SimulatedNode, nvml: NvmlClient
) -> None:
    node.load_driver("580.105.08")
    assert nvml.error_of("nvmlDeviceGetCount()") == LIB_RM_VERSION_MISMATCH
    nvml.ask("nvmlShutdown()")
    assert nvml.error_of("nvmlInit()") == LIB_RM_VERSION_MISMATCH
    with NvmlClient(node) as fresh:
        fresh.ask("nvmlInit()")
        assert fresh.ask("nvmlSystemGetDriverVersion()") == "580.105.08"


def test_the_kernel_lists_a_gpu_until_it_is_removed_there(
    node: SimulatedNode,
) -> None:
    everything = pci.gpus(node.pci_devices_dir) or ()
    assert everything == tuple(sorted(gpu.pci for gpu in node.scenario.load().gpus))
    node.lose(3)
    node.unbind(4)
    assert pci.gpus(node.pci_devices_dir) == everything
    assert not (node.pci_devices_dir / node.gpu(4).pci / "driver").is_symlink()
    link = node.pci_devices_dir / node.gpu(3).pci / "driver"
    assert os.path.basename(link.readlink()) == "nvidia"  # noqa: PTH119 it leads nowhere
    node.lose(3, gone=True)
    assert pci.gpus(node.pci_devices_dir) == everything
    node.remove_gpu(3)
    assert pci.gpus(node.pci_devices_dir) == tuple(
        address for address in everything if address != node.gpu(3).pci
    )
    node.bind(3)
    assert pci.gpus(node.pci_devices_dir) == everything


def test_a_process_is_found_in_its_pod(node: SimulatedNode) -> None:
    node.start_process(1, Process(pid=4711, memory_mib=5))
    known = cgroups.Cgroups(node.proc_dir)
    assert known.placements([4711, 4712]) == {4711: cgroups.Placement()}
    node.put_in_pod(4711, POD, "ab" * 32)
    assert known.placements([4711]) == {4711: cgroups.Placement(POD, "ab" * 32)}
    node.end_process(4711)
    assert known.placements([4711]) == {}
    with pytest.raises(FaultError, match="no process has the pid 4711"):
        node.put_in_pod(4711, POD)


def test_the_folders_are_true_after_an_edit_by_hand_and_an_opening(node: SimulatedNode) -> None:
    with node.scenario.edit() as scenario:
        scenario.gpus[2].processes = [Process(pid=12, pod=POD, container="cd" * 32)]
    assert (node.proc_dir / "12" / "cgroup").read_text(encoding="utf-8") == (
        "0::/kubepods.slice/kubepods-burstable.slice/"
        f"kubepods-burstable-pod{POD.replace('-', '_')}.slice/cri-containerd-{'cd' * 32}.scope\n"
    )
    (node.proc_dir / "13").mkdir()
    SimulatedNode(node.root, node.name).open().close()
    assert [path.name for path in node.proc_dir.iterdir()] == ["12"]


def test_use_of_processes_is_reported_for_whole_gpus_only(
    node: SimulatedNode, nvml: NvmlClient
) -> None:
    node.start_process(1, Process(pid=1, values={"sm_util": 40, "mem_util": 3}))
    node.start_process(1, Process(pid=2))
    (sample,) = nvml.ask("nvmlDeviceGetProcessUtilization(g[1], 0)")
    assert (sample["pid"], sample["smUtil"], sample["memUtil"]) == (1, 40, 3)
    assert nvml.error_of(f"nvmlDeviceGetProcessUtilization(g[1], {2**62})") == NOT_FOUND
    assert nvml.error_of("nvmlDeviceGetProcessUtilization(g[2], 0)") == NOT_FOUND
    assert nvml.error_of("nvmlDeviceGetProcessUtilization(g[0], 0)") == NOT_SUPPORTED


CHANGES = {
    "add-gpu A100-80GB": "GPU 8 is there",
    "unbind 3": "GPU 3 is unbound",
    "remove-gpu 3": "GPU 3 is removed",
    "bind 3": "GPU 3 is bound",
    "unload-driver": "The driver is unloaded",
    "load-driver 580.105.08": "Driver 580.105.08 is loaded",
    "mig 1 on": "GPU 1: MIG is on",
    "destroy-instance 0 7": "GPU 0: gi=7 is gone",
    "create-instance 0 1g.10gb --gi 30": "GPU 0: gi=30 is MIG-",
    "recreate-instance 0 30": "GPU 0: gi=30 is MIG-",
    "process 1 77 --memory-mib 5 --pod " + POD: "Process 77 runs on GPU 1",
    "end-process 77": "Process 77 has ended",
    "link 3 7 state=0 tx_kib=unsupported": "GPU 3: link 7 has state=0 tx_kib=unsupported",
    "miscount 9": "The count is 9",
    "miscount none": "The count is none",
    "show-uuid 3 GPU-x": "GPU 3 shows GPU-x",
    "show-uuid 3 none": "GPU 3 shows none",
}


def test_the_command_line_changes_a_node(
    node: SimulatedNode, capsys: pytest.CaptureFixture[str]
) -> None:
    for line, stated in CHANGES.items():
        assert main(["change", "--root", str(node.root), *line.split()]) == 0
        assert capsys.readouterr().out.startswith(stated)
    scenario = node.scenario.load()
    assert (len(scenario.gpus), scenario.driver, scenario.count) == (9, "580.105.08", None)
    assert scenario.gpus[3].links == {7: {"state": 0, "tx_kib": None}}
    assert [instance.gi for instance in scenario.gpus[0].instances] == [6, 5, 4, 3, 2, 1, 30]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("add-gpu B300", 'simulator: cannot read "B300"'),
        ("unbind 9", "simulator: there is no GPU 9; use a number from 0 to 7"),
        ("create-instance 1 9g.90gb", 'has no MIG profile "9g.90gb"'),
        ("create-instance 1 1g.10gb", "[gpu 1] has instances but MIG is off; set mig = on"),
        ("destroy-instance 1 1", "GPU 1 has no GPU instance 1; it has: none"),
        ("link 1 2 state", 'cannot read "state"; write a name and a number such as state=0'),
        ("link 1 2 speed=1", 'cannot read "speed"; write name=value with these names: state'),
        ("link 1 18 state=1", "link must be a whole number from 0 to 17"),
        ("miscount many", 'cannot read "many"; write a number, or none'),
    ],
)
def test_a_change_that_cannot_be_is_refused_in_a_sentence(
    node: SimulatedNode, capsys: pytest.CaptureFixture[str], line: str, message: str
) -> None:
    before = node.scenario.path.read_text(encoding="utf-8")
    assert main(["change", "--root", str(node.root), *line.split()]) == 1
    assert message in capsys.readouterr().err
    assert node.scenario.path.read_text(encoding="utf-8") == before
