"""A node that changes while the NVML child runs: GPUs and slices come and go, drivers reload."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from exporter.sensor.nvml.table import TABLE
from simulator.gpu import Failure
from simulator.node import SimulatedNode
from tests.exporter.sensor.nvml.child_run import NvmlChild


@pytest.fixture
def node() -> Iterator[SimulatedNode]:
    with (
        TemporaryDirectory(prefix="dg-") as root,
        SimulatedNode(Path(root), "node-a").create("3xH100", mig={2: ["1g.10gb"] * 3}) as node,
    ):
        yield node


def test_a_gpu_that_is_lost_keeps_its_name_and_the_others_go_on(node: SimulatedNode) -> None:
    with NvmlChild(node) as child:
        before = child.sample(TABLE).gpus
        node.lose(1)
        after = child.sample(TABLE).gpus
        assert [gpu.lost for gpu in after] == [False, True, False]
        assert (after[1].uuid, after[1].bus_id) == (before[1].uuid, before[1].bus_id)
        assert after[1].values == {}
        assert (after[0].values, after[2].instances) == (before[0].values, before[2].instances)
        node.heal(1)
        assert not child.gpu(1).lost


def test_a_gpu_that_goes_shifts_the_indices_and_no_names(node: SimulatedNode) -> None:
    with NvmlChild(node) as child:
        child.sample()
        node.lose(0, gone=True)
        gpus = child.sample((54,)).gpus
        assert [gpu.uuid for gpu in gpus] == [node.gpu(1).uuid, node.gpu(2).uuid]
        assert [gpu.values[54] for gpu in gpus] == [gpu.uuid for gpu in gpus]
        assert [gpu.bus_id for gpu in gpus] == [node.gpu(1).pci, node.gpu(2).pci]
        assert len(gpus[1].instances or ()) == 3
        node.heal(0)
        assert child.gpu(0).uuid == node.gpu(0).uuid


def test_a_board_that_was_swapped_is_another_gpu(node: SimulatedNode) -> None:
    with NvmlChild(node) as child:
        child.sample()
        node.swap(0, "GPU-00000000-0000-5000-8000-00000000beef", "1650111111111")
        gpu = child.gpu(0)
    assert (gpu.uuid, gpu.serial) == ("GPU-00000000-0000-5000-8000-00000000beef", "1650111111111")


def test_a_gpu_that_went_between_the_count_and_the_look_is_not_reported_twice(
    node: SimulatedNode,
) -> None:
    with NvmlChild(node) as child:
        child.sample()
        node.lose(0, gone=True)
        node.miscount(3)
        gpus = child.sample().gpus
    assert [gpu.uuid for gpu in gpus] == [node.gpu(1).uuid, node.gpu(2).uuid]


def test_a_silent_gpu_is_not_called_by_the_name_of_one_that_went(node: SimulatedNode) -> None:
    with NvmlChild(node) as child:
        child.sample()
        node.lose(0, gone=True)
        node.error(1, 999, "nvmlDeviceGetUUID")
        assert [gpu.uuid for gpu in child.sample().gpus] == [node.gpu(2).uuid]


def test_a_count_that_is_too_small_or_huge_is_no_crash(node: SimulatedNode) -> None:
    with NvmlChild(node) as child:
        child.sample()
        node.miscount(1)
        assert [gpu.uuid for gpu in child.sample().gpus] == [node.gpu(0).uuid]
        node.miscount(64)
        assert len(child.sample().gpus) == 3


def test_a_gpu_that_never_reported_its_name_is_left_out(node: SimulatedNode) -> None:
    node.error(1, 999, "nvmlDeviceGetUUID")
    with NvmlChild(node) as child:
        assert [gpu.index for gpu in child.sample().gpus] == [0, 2]


@pytest.mark.parametrize(
    ("call", "field"),
    [
        ("nvmlDeviceGetPciInfo_v3", "bus_id"),
        ("nvmlDeviceGetSerial", "serial"),
        ("nvmlDeviceGetMinorNumber", "minor"),
        ("nvmlDeviceGetName", "product"),
        ("nvmlDeviceGetP2PStatus", "peers"),
        ("nvmlDeviceGetFieldValues", "links"),
    ],
)
def test_what_could_not_be_read_at_first_is_read_later(
    node: SimulatedNode, call: str, field: str
) -> None:
    with NvmlChild(node) as child:
        whole = getattr(child.gpu(0), field)
    assert whole not in ("", None, ())
    node.error(0, 999, call)
    with NvmlChild(node) as child:
        assert getattr(child.gpu(0), field) != whole
        node.heal(0)
        child.sample()
        assert getattr(child.gpu(0), field) == whole


def test_what_was_reported_once_stays_while_the_rest_is_queried_again(node: SimulatedNode) -> None:
    node.error(0, 999, "nvmlDeviceGetSerial")
    with NvmlChild(node) as child:
        child.sample()
        node.error(0, 999, "nvmlDeviceGetPciInfo_v3")
        gpu = child.gpu(0)
    assert (gpu.serial, gpu.bus_id) == (node.gpu(0).serial, node.gpu(0).pci)


def test_a_bus_id_that_was_reported_late_is_in_the_events(node: SimulatedNode) -> None:
    node.error(0, 999, "nvmlDeviceGetPciInfo_v3")
    with NvmlChild(node) as child:
        child.sample()
        node.heal(0)
        child.sample()
        node.inject_xid(0, 48)
        assert child.wait_signal("xid").bus_id == node.gpu(0).pci
        child.sample()
        assert not [signal for signal in child.signals if signal.kind == "xid"], "reported twice"


def test_two_gpus_with_one_uuid_are_both_doubted(node: SimulatedNode) -> None:
    node.show_uuid(1, node.gpu(0).uuid)
    with NvmlChild(node) as child:
        first, second, third = child.sample().gpus
    assert first.uuid == second.uuid
    assert all("2 GPUs say the UUID" in gpu.error for gpu in (first, second))
    assert (first.bus_id, second.bus_id) == (node.gpu(0).pci, node.gpu(1).pci)
    assert third.error == ""


def test_gpus_with_one_uuid_do_not_share_what_is_remembered(node: SimulatedNode) -> None:
    node.show_uuid(1, node.gpu(0).uuid)
    with NvmlChild(node) as child:
        assert [gpu.values for gpu in child.sample((449,)).gpus] == [{}, {}, {}]
        node.set_link(1, 0, tx_kib=1_000_000, rx_kib=0)
        first, second, _ = child.sample((449,)).gpus
    assert first.values[449] == 0
    assert second.values[449] != 0


@pytest.mark.parametrize("product", ["A100", "A100-80GB", "H100", "H200", "B200", "GB200"])
def test_every_product_tells_its_slices_by_profile_and_place(product: str) -> None:
    with (
        TemporaryDirectory(prefix="dg-") as root,
        SimulatedNode(Path(root), "node-a").create(f"1x{product}") as node,
    ):
        profiles = node.gpu(0).product.profiles
        for profile in profiles:
            node.set_mig(0, on=True)
            instance = node.create_instance(0, profile.name)
            with NvmlChild(node) as child:
                gpu = child.gpu(0, (250, 50))
            [found] = list(gpu.instances or ())
            assert (found.uuid, found.gi, found.ci) == (instance.uuid, instance.gi, instance.ci)
            assert (found.profile, found.gi_profile_id) == (profile.name, profile.profile_id)
            assert (found.placement_start, found.placement_size) == (instance.start, profile.size)
            assert found.values[250] == profile.memory_mib
            assert gpu.product == node.gpu(0).product.name
            node.destroy_instance(0, instance.gi)


def test_slices_come_and_go_without_a_restart(node: SimulatedNode) -> None:
    with NvmlChild(node) as child:
        assert len(child.gpu(2).instances or ()) == 3
        first = node.gpu(2).instances[0]
        node.destroy_instance(2, first.gi)
        assert first.uuid not in {part.uuid for part in child.gpu(2).instances or ()}
        made = node.create_instance(2, "2g.20gb")
        found = next(part for part in child.gpu(2).instances or () if part.uuid == made.uuid)
        assert (found.profile, found.gi) == ("2g.20gb", made.gi)


def test_a_slice_made_again_with_the_same_number_has_its_new_name(node: SimulatedNode) -> None:
    old = node.gpu(2).instances[1]
    with NvmlChild(node) as child:
        child.sample()
        new = node.recreate_instance(2, old.gi)
        found = [part for part in child.gpu(2).instances or () if part.gi == old.gi]
    assert new.uuid != old.uuid
    assert [part.uuid for part in found] == [new.uuid]


def test_a_number_used_again_by_another_profile_is_not_reported_by_the_old_one(
    node: SimulatedNode,
) -> None:
    with NvmlChild(node) as child:
        child.sample()
        for instance in list(node.gpu(2).instances):
            node.destroy_instance(2, instance.gi)
        made = node.create_instance(2, "3g.40gb")
        [found] = list(child.gpu(2).instances or ())
    assert (found.uuid, found.gi, found.profile) == (made.uuid, made.gi, "3g.40gb")


def test_a_slice_that_goes_while_it_is_read_is_left_out_and_no_error(node: SimulatedNode) -> None:
    node.error(2, 6, "nvmlDeviceGetGpuInstanceId")
    with NvmlChild(node) as child:
        gpu = child.gpu(2)
    assert (gpu.instances, gpu.error, gpu.lost) == ((), "", False)


def test_a_slice_without_a_name_yet_is_queried_again(node: SimulatedNode) -> None:
    node.error(2, 999, "nvmlDeviceGetName")
    with NvmlChild(node) as child:
        assert [part.profile for part in child.gpu(2).instances or ()] == [""] * 3
        node.heal(2)
        assert [part.profile for part in child.gpu(2).instances or ()] == ["1g.10gb"] * 3


def test_mig_mode_is_switched_while_running(node: SimulatedNode) -> None:
    with NvmlChild(node) as child:
        gpu = child.gpu(1, (203, 1001))
        assert (gpu.mig, gpu.instances, gpu.values[203]) == (False, None, 0)
        node.set_mig(1, on=True)
        gpu = child.gpu(1, (203,))
        assert (gpu.mig, gpu.instances, gpu.values) == (True, (), {})
        node.create_instance(1, "7g.80gb")
        assert len(child.gpu(1).instances or ()) == 1
        node.destroy_instance(1, node.gpu(1).instances[0].gi)
        node.set_mig(1, on=False)
        # What the GPU lacked in MIG mode is queried again at once.
        gpu = child.gpu(1, (203,))
        assert (gpu.mig, gpu.instances, gpu.values) == (False, None, {203: 0})


def test_what_a_gpu_lacks_is_queried_again_after_a_while(node: SimulatedNode) -> None:
    node.set_value(0, "memory_temperature_c", None)
    with NvmlChild(node) as child:
        assert child.gpu(0, (140,)).values == {}
        node.set_value(0, "memory_temperature_c", 55)
        passes = [child.gpu(0, (140,)).values for _ in range(20)]
    assert passes[0] == {}, "not queried in each pass"
    assert passes[-1] == {140: 55}


def test_a_driver_of_another_version_ends_the_child_with_a_reason(node: SimulatedNode) -> None:
    with NvmlChild(node) as child:
        assert child.sample().driver_version == "580.95.05"
        node.load_driver("590.48.01")
        child.ask()
        assert child.wait_failure().reason == "VersionMismatch"
    with NvmlChild(node) as child:
        assert child.sample().driver_version == "590.48.01"


def test_a_driver_that_was_loaded_again_ends_the_child(node: SimulatedNode) -> None:
    with NvmlChild(node) as child:
        child.sample()
        node.error(0, 1, "nvmlDeviceGetMigMode")
        child.ask()
        assert child.wait_failure().reason == "DriverReloaded"


def test_a_driver_that_is_not_there_any_more_ends_the_child(node: SimulatedNode) -> None:
    with NvmlChild(node) as child:
        child.sample()
        node.unload_driver()
        child.ask()
        assert child.wait_failure().reason == "DriverNotLoaded"


def test_a_library_of_another_version_than_the_driver_is_logged_at_the_start(
    node: SimulatedNode,
) -> None:
    node.set_node_failure(Failure("error", 18, "nvmlInitWithFlags"))
    with NvmlChild(node) as child:
        child.ask()
        failed = child.wait_failure()
    assert failed.reason == "VersionMismatch"
    assert "reboot" in failed.message
