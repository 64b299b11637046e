"""Events through the real NVML child: XIDs, changes of what there is, and of who may hold it."""

import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from simulator.gpu import Failure
from simulator.node import SimulatedNode
from tests.exporter.sensor.nvml.child_run import NvmlChild


@pytest.fixture
def node() -> Iterator[SimulatedNode]:
    with (
        TemporaryDirectory(prefix="dg-") as root,
        SimulatedNode(Path(root), "node-a").create("3xH100", mig={2: ["1g.10gb"] * 2}) as node,
    ):
        yield node


def test_an_xid_names_its_gpu_and_its_slice(node: SimulatedNode) -> None:
    with NvmlChild(node) as child:
        child.sample()
        node.inject_xid(1, 79)
        received = child.wait_signal("xid")
        assert (received.code, received.uuid, received.gi) == (79, node.gpu(1).uuid, None)
        node.inject_xid(2, 94, gi=node.gpu(2).instances[0].gi, ci=0)
        received = child.wait_signal("xid")
    assert (received.code, received.gi, received.ci) == (94, node.gpu(2).instances[0].gi, 0)


def test_an_event_of_another_type_is_no_xid(node: SimulatedNode) -> None:
    with NvmlChild(node) as child:
        child.sample()
        with node.scenario.edit() as scenario:
            scenario.add_event(0, "sbe", 1)
            scenario.add_event(0, "dbe", 2)
        node.inject_xid(1, 48)
        received = child.wait_signal("xid")
        assert (received.code, received.uuid) == (48, node.gpu(1).uuid)
        assert child.signals == []


def test_a_lost_gpu_still_has_a_name_in_its_events(node: SimulatedNode) -> None:
    with NvmlChild(node) as child:
        child.sample()
        node.lose(0)
        node.inject_xid(0, 79)
        assert child.wait_signal("xid").uuid == node.gpu(0).uuid


def test_a_changed_recovery_action_is_reported(node: SimulatedNode) -> None:
    with NvmlChild(node) as child:
        child.sample()
        node.set_recovery_action(1, 1)
        assert child.wait_signal("recovery").uuid == node.gpu(1).uuid
        assert child.gpu(1).recovery_action == 1


def test_a_gpu_that_is_cut_otherwise_is_reported(node: SimulatedNode) -> None:
    with NvmlChild(node) as child:
        child.sample()
        node.create_instance(2, "1g.10gb")
        assert child.wait_signal("topology").uuid == node.gpu(2).uuid
        assert len(child.gpu(2).instances or ()) == 3


def test_a_gpu_that_cannot_be_used_asks_for_a_look(node: SimulatedNode) -> None:
    with NvmlChild(node) as child:
        child.sample()
        with node.scenario.edit() as scenario:
            scenario.add_event(0, "unavailable")
        assert child.wait_signal("recovery").uuid == node.gpu(0).uuid


def test_a_wait_that_goes_on_failing_asks_for_one_look(node: SimulatedNode) -> None:
    with NvmlChild(node) as child:
        child.sample()
        node.set_failure(1, Failure("error", 15, "nvmlEventSetWait_v2"))
        child.wait_signal("recovery")
        for _ in range(7):
            time.sleep(0.5)
            child.sample()
        assert child.signals == []


def test_a_gpu_that_is_unbound_is_let_go_at_once(node: SimulatedNode) -> None:
    with NvmlChild(node) as child:
        assert len(child.sample().gpus) == 3
        node.unbind(1)
        failed = child.wait_failure()
        assert [signal.kind for signal in child.signals] == ["topology"]
    assert failed.reason == "Unbound"
    with NvmlChild(node) as child:
        assert [gpu.uuid for gpu in child.sample().gpus] == [node.gpu(0).uuid, node.gpu(2).uuid]
        node.bind(1)
        assert child.wait_failure().reason == "Bound"
    with NvmlChild(node) as child:
        assert len(child.sample().gpus) == 3


def test_a_new_gpu_is_seen(node: SimulatedNode) -> None:
    with NvmlChild(node) as child:
        child.sample()
        number = node.add_gpu()
        assert child.wait_failure().reason == "Bound"
    with NvmlChild(node) as child:
        assert child.gpu(3).uuid == node.gpu(number).uuid


def test_a_gpu_that_is_bound_during_the_first_pass_is_seen(node: SimulatedNode) -> None:
    node.hang(0)
    with NvmlChild(node) as child:
        child.ask()
        child.await_call(0)
        node.add_gpu()
        assert child.wait_failure().reason == "Bound"


def test_without_system_events_xids_are_received_all_the_same(node: SimulatedNode) -> None:
    node.set_node_failure(Failure("error", 3, "nvmlSystemEventSetCreate"))
    with NvmlChild(node) as child:
        child.sample()
        node.inject_xid(1, 48)
        assert child.wait_signal("xid").code == 48
        assert child.process.poll() is None


def test_a_gpu_without_events_does_not_silence_the_others(node: SimulatedNode) -> None:
    node.error(0, 3, "nvmlDeviceRegisterEvents")
    with NvmlChild(node) as child:
        assert [gpu.without_events for gpu in child.sample().gpus] == [True, False, False]
        node.inject_xid(1, 48)
        assert child.wait_signal("xid").uuid == node.gpu(1).uuid
        node.heal(0)
        assert not any(gpu.without_events for gpu in child.sample().gpus)


def test_a_swapped_board_is_named_by_its_own_uuid(node: SimulatedNode) -> None:
    with NvmlChild(node) as child:
        child.sample()
        node.swap(0, "GPU-00000000-0000-5000-8000-00000000beef")
        child.sample()
        node.inject_xid(0, 13)
        assert child.wait_signal("xid").uuid == "GPU-00000000-0000-5000-8000-00000000beef"
        child.sample()
        assert not [signal for signal in child.signals if signal.kind == "xid"], "reported twice"
