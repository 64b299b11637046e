"""Profiling fields through GPM: GPUs, slices, and those that have none."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from exporter.sensor.nvml.engines import NVDEC, NVJPG, NVOFA
from exporter.sensor.nvml.gpm import METRICS, NOT_OF_SLICES
from simulator.gpu import Failure
from simulator.node import SimulatedNode
from tests.exporter.sensor.nvml.child_run import NvmlChild

RATIOS = {
    1001: ("gpm_graphics", 500_000, 0.5),
    1002: ("gpm_sm", 250_000, 0.25),
    1003: ("gpm_occupancy", 125_000, 0.125),
    1004: ("gpm_tensor", 750_000, 0.75),
    1005: ("gpm_dram", 625_000, 0.625),
    1006: ("gpm_fp64", 62_500, 0.0625),
    1007: ("gpm_fp32", 31_250, 0.03125),
    1008: ("gpm_fp16", 15_625, 0.015625),
    1009: ("gpm_pcie_tx_mib", 3, 3 << 20),
    1010: ("gpm_pcie_rx_mib", 5, 5 << 20),
    1011: ("gpm_nvlink_tx_mib", 7, 7 << 20),
    1012: ("gpm_nvlink_rx_mib", 9, 9 << 20),
    1013: ("gpm_imma", 100_000, 0.1),
    1014: ("gpm_hmma", 200_000, 0.2),
    1015: ("gpm_dfma", 300_000, 0.3),
    1016: ("gpm_integer", 400_000, 0.4),
    1017: ("gpm_nvdec", 600_000, 0.6),
    1025: ("gpm_nvjpg", 700_000, 0.7),
    1033: ("gpm_nvofa", 800_000, 0.8),
    1084: ("gpm_sm_cycles_elapsed", 1 << 50, 1 << 50),
    1085: ("gpm_sm_cycles_active", 101, 101),
    1086: ("gpm_mma_cycles", 102, 102),
    1087: ("gpm_dmma_cycles", 103, 103),
    1088: ("gpm_hmma_cycles", 104, 104),
    1089: ("gpm_imma_cycles", 105, 105),
    1090: ("gpm_dfma_cycles", 106, 106),
    1091: ("gpm_pcie_tx_bytes", 107, 107),
    1092: ("gpm_pcie_rx_bytes", 108, 108),
    1093: ("gpm_integer_cycles", 109, 109),
    1094: ("gpm_fp64_cycles", 110, 110),
    1095: ("gpm_fp32_cycles", 111, 111),
    1096: ("gpm_fp16_cycles", 112, 112),
}


PASSES = 20
"""After which what a GPU lacked is requested again."""
ENGINES = (*NVDEC, *NVJPG, *NVOFA)
LANES, C2C, ALL_LINKS = range(1040, 1076), range(1076, 1080), (1011, 1012)


def _node(root: str, gpus: str, mig: dict[int, list[str]] | None = None) -> SimulatedNode:
    node = SimulatedNode(Path(root), "node-a").create(gpus, mig=mig)
    with node.scenario.edit() as scenario:
        # The first that has the totals.
        scenario.driver = "595.45.04"
    return node


def test_profiling_fields_are_ratios_and_bytes_a_second() -> None:
    with TemporaryDirectory(prefix="dg-") as root, _node(root, "2xH100") as node:
        with node.scenario.edit() as scenario:
            scenario.gpus[1].values |= {name: message for name, message, _ in RATIOS.values()}
        with NvmlChild(node) as child:
            assert child.gpu(1, METRICS).values == {}, "nothing happened between two samples yet"
            values = child.gpu(1, METRICS).values
    assert {number: values[number] for number in RATIOS} == {
        number: pytest.approx(shown) for number, (_, _, shown) in RATIOS.items()
    }
    whole = {*NOT_OF_SLICES, *range(1084, 1097)}
    assert all(isinstance(values[number], float) == (number not in whole) for number in RATIOS)


def test_only_what_is_requested_is_computed() -> None:
    with (
        TemporaryDirectory(prefix="dg-") as root,
        _node(root, "1xH100") as node,
        NvmlChild(node) as child,
    ):
        child.sample((1001,))
        assert set(child.gpu(0, (1001, 1004)).values) == {1001, 1004}
        child.sample(())
        # Nobody looked in between: the next one is a first sample again.
        assert child.gpu(0, (1001,)).values == {}


def test_only_wires_that_the_gpu_has_are_reported() -> None:
    with TemporaryDirectory(prefix="dg-") as root, _node(root, "2xH100,1xGB200") as node:
        node.set_value(1, "nvlink_disabled", 1)
        with NvmlChild(node) as child:
            child.sample(METRICS)
            gpus = child.sample(METRICS).gpus
    # GPM answers 0 for all of them on every GPU.
    wired = [set(gpu.values) & {*LANES, *C2C} for gpu in gpus]
    assert wired == [{*LANES}, set(), {*LANES, *C2C}]
    assert all(gpu.values.keys() >= {*ALL_LINKS} for gpu in gpus)
    # What decides is not shown by itself.
    assert all(285 not in gpu.values for gpu in gpus)


def test_only_engines_that_a_gpu_or_slice_has_are_reported() -> None:
    layout = {1: ["3g.40gb", "1g.10gb"]}
    with (
        TemporaryDirectory(prefix="dg-") as root,
        _node(root, "2xH100", layout) as node,
        NvmlChild(node) as child,
    ):
        child.sample(ENGINES)
        whole, cut = child.sample(ENGINES).gpus
    # 7 decoders, 7 JPEG engines and 1 for optical flow; GPM answers 0 for the others, too.
    engines_of_h100 = {*NVDEC[:7], *NVJPG[:7], *NVOFA[:1]}
    assert whole.values.keys() == engines_of_h100
    assert cut.values.keys() == engines_of_h100
    engines = {part.profile: part.values.keys() for part in cut.instances or ()}
    assert engines == {
        "3g.40gb": {*NVDEC[:3], *NVJPG[:3]},
        "1g.10gb": {*NVDEC[:1], *NVJPG[:1]},
    }


@pytest.mark.parametrize("answer", [3, 999])
def test_all_engines_are_reported_for_a_gpu_that_does_not_say_how_many_it_has(answer: int) -> None:
    """It has no such call, or the call fails."""
    with TemporaryDirectory(prefix="dg-") as root, _node(root, "1xH100") as node:
        node.set_failure(0, Failure("error", answer, "nvmlDeviceGetGpuInstanceProfileInfoV"))
        with NvmlChild(node) as child:
            child.sample(ENGINES)
            assert child.gpu(0, ENGINES).values.keys() == {*ENGINES}


def test_a_gpu_in_mig_mode_has_no_links() -> None:
    with (
        TemporaryDirectory(prefix="dg-") as root,
        _node(root, "1xH100", {0: ["1g.10gb"]}) as node,
        NvmlChild(node) as child,
    ):
        child.sample(METRICS)
        assert set(child.gpu(0, METRICS).values) & {*LANES, *ALL_LINKS} == {*ALL_LINKS}


def test_links_that_a_gpu_says_later_that_it_has_are_reported() -> None:
    """A GPU may answer "not supported" while it is in MIG mode, or for a while."""
    with TemporaryDirectory(prefix="dg-") as root, _node(root, "1xH100") as node:
        node.set_value(0, "nvlink_disabled", 1)
        with NvmlChild(node) as child:
            assert child.gpu(0, METRICS).links == ()
            node.set_value(0, "nvlink_disabled", 0)
            for _ in range(PASSES):
                child.sample(METRICS)
            assert len(child.gpu(0, METRICS).links) == 18


def test_no_number_is_left_out_and_is_no_fault() -> None:
    with TemporaryDirectory(prefix="dg-") as root, _node(root, "1xH100") as node:
        # NaN, as when two samples are very close.
        node.garbage(0, "nvmlGpmSampleGet")
        with NvmlChild(node) as child:
            child.sample(RATIOS)
            reading = child.sample(RATIOS)
    assert reading.gpus[0].values == {}
    assert (reading.refused, reading.gpus[0].error) == (0, "")


def test_a_gpu_before_hopper_leaves_them_to_dcgm() -> None:
    with (
        TemporaryDirectory(prefix="dg-") as root,
        _node(root, "1xA100") as node,
        NvmlChild(node) as child,
    ):
        child.sample(METRICS)
        gpu = child.gpu(0, METRICS)
    assert (gpu.values, gpu.error) == ({}, "")


def test_each_slice_has_its_own_numbers_and_none_of_the_gpus_wires() -> None:
    layout = {0: ["3g.40gb", "1g.10gb"]}
    with TemporaryDirectory(prefix="dg-") as root, _node(root, "1xH100", layout) as node:
        with node.scenario.edit() as scenario:
            for number, instance in enumerate(scenario.gpus[0].instances, 1):
                instance.values |= {"gpm_sm": 100_000 * number, "gpm_pcie_tx_mib": 5}
        with NvmlChild(node) as child:
            child.sample(METRICS)
            slices = child.gpu(0, METRICS).instances or ()
    assert [part.values[1002] for part in slices] == [pytest.approx(0.1), pytest.approx(0.2)]
    assert all(not part.values.keys() & NOT_OF_SLICES for part in slices)


def test_a_slice_that_was_made_again_begins_anew() -> None:
    with (
        TemporaryDirectory(prefix="dg-") as root,
        _node(root, "1xH100", {0: ["1g.10gb"] * 2}) as node,
        NvmlChild(node) as child,
    ):
        child.sample((1002,))
        with node.scenario.edit() as scenario:
            scenario.gpus[0].instances[0].uuid = "MIG-00000000-0000-5000-8000-000000000001"
        slices = child.gpu(0, (1002,)).instances or ()
        assert [1002 in part.values for part in slices] == [False, True]
        assert all(1002 in part.values for part in child.gpu(0, (1002,)).instances or ())
