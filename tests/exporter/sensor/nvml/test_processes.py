"""Who uses a GPU: processes, their memory, and their share of the SMs."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import cast

import pytest

from exporter.model.device import NO_INSTANCE_ID
from exporter.model.readings import ProcessReading
from exporter.sensor.nvml.fields import Fields
from exporter.sensor.nvml.processes import ProcessShares
from simulator.gpu import Process
from simulator.node import SimulatedNode
from tests.exporter.sensor.nvml.child_run import NvmlChild


@pytest.fixture
def node() -> Iterator[SimulatedNode]:
    with (
        TemporaryDirectory(prefix="dg-") as root,
        SimulatedNode(Path(root), "node-a").create("2xH100", mig={1: ["1g.10gb"] * 2}) as node,
    ):
        yield node


def _run(node: SimulatedNode, gpu: int, *processes: Process) -> None:
    with node.scenario.edit() as scenario:
        scenario.gpus[gpu].processes = list(processes)


def test_a_process_is_reported_with_its_memory_and_its_slice(node: SimulatedNode) -> None:
    _run(node, 0, Process(pid=11, memory_mib=5), Process(pid=12, memory_mib=7, graphics=True))
    _run(node, 1, Process(pid=13, memory_mib=9, gi=node.gpu(1).instances[1].gi, ci=0))
    with NvmlChild(node) as child:
        first, second = child.sample().gpus
    assert first.processes == (
        ProcessReading(pid=11, memory=5 << 20),
        ProcessReading(pid=12, memory=7 << 20),
    )
    gi = node.gpu(1).instances[1].gi
    assert second.processes == (ProcessReading(pid=13, gi=gi, ci=0, memory=9 << 20),)


def test_a_share_is_known_from_the_second_pass_on_and_an_idle_process_has_0(
    node: SimulatedNode,
) -> None:
    busy, idle = Process(pid=21, values={"sm_util": 60}), Process(pid=22, values={"sm_util": 0})
    _run(node, 0, busy, idle)
    with NvmlChild(node) as child:
        assert [process.sm_util for process in child.gpu(0).processes or ()] == [None, None]
        assert [process.sm_util for process in child.gpu(0).processes or ()] == [60, 0]


def test_a_process_has_0_also_when_nobody_ran(node: SimulatedNode) -> None:
    _run(node, 0, Process(pid=25))
    with NvmlChild(node) as child:
        child.sample()
        gpu = child.gpu(0)
    assert [process.sm_util for process in gpu.processes or ()] == [0]
    assert gpu.error == ""


def test_a_process_in_a_slice_has_no_share(node: SimulatedNode) -> None:
    gi = node.gpu(1).instances[0].gi
    _run(node, 1, Process(pid=31, gi=gi, ci=0, values={"sm_util": 60}))
    with NvmlChild(node) as child:
        child.sample()
        assert [process.sm_util for process in child.gpu(1).processes or ()] == [None]


def test_processes_are_not_read_when_nobody_wants_them(node: SimulatedNode) -> None:
    _run(node, 0, Process(pid=41))
    with NvmlChild(node) as child:
        assert child.sample(processes=False).gpus[0].processes is None
        assert len(child.gpu(0).processes or ()) == 1


def test_a_list_that_cannot_be_read_makes_all_unknown(node: SimulatedNode) -> None:
    _run(node, 0, Process(pid=51), Process(pid=52, graphics=True))
    node.error(0, 999, "nvmlDeviceGetComputeRunningProcesses")
    with NvmlChild(node) as child:
        gpu = child.gpu(0)
        assert gpu.processes is None
        assert "nvmlDeviceGetComputeRunningProcesses_v3" in gpu.error
        node.heal(0)
        assert [process.pid for process in child.gpu(0).processes or ()] == [51, 52]


def test_a_list_that_the_gpu_does_not_have_holds_nobody(node: SimulatedNode) -> None:
    _run(node, 0, Process(pid=61), Process(pid=62, graphics=True))
    node.error(0, 3, "nvmlDeviceGetGraphicsRunningProcesses")
    with NvmlChild(node) as child:
        assert [process.pid for process in child.gpu(0).processes or ()] == [61]


class Reported:
    """One GPU's answers, as `Fields` gives them."""

    def __init__(self, pid: int = 7, sm_util: int = 50) -> None:
        self._pid = pid
        self._sm_util = sm_util

    def get(self, name: str, *arguments: int) -> list[SimpleNamespace]:
        if name == "nvmlDeviceGetProcessUtilization":
            stamp = arguments[0] + 100
            return [SimpleNamespace(pid=self._pid, timeStamp=stamp, smUtil=self._sm_util)]
        if name != "nvmlDeviceGetComputeRunningProcesses_v3":
            return []
        none = NO_INSTANCE_ID
        process = SimpleNamespace(
            pid=self._pid, gpuInstanceId=none, computeInstanceId=none, usedGpuMemory=1 << 30
        )
        return [process]

    def lacks(self, _: str) -> bool:
        return False


def _twice(reported: Reported) -> tuple[ProcessReading, ...] | None:
    shares, fields = ProcessShares(), cast("Fields", reported)
    shares.read("gpu", fields, mig=False)
    return shares.read("gpu", fields, mig=False)


def test_a_process_without_a_number_here_makes_all_unknown() -> None:
    assert _twice(Reported(pid=0)) is None


def test_a_share_that_makes_no_sense_is_unknown_and_not_0() -> None:
    assert _twice(Reported()) == (ProcessReading(pid=7, memory=1 << 30, sm_util=50),)
    assert _twice(Reported(sm_util=3212)) == (ProcessReading(pid=7, memory=1 << 30),)
