"""GPM metrics through the real pynvml: of a GPU, of a slice, and who has none."""

from pathlib import Path

import pytest

from simulator.node import SimulatedNode
from tests.simulator.nvml_client import NvmlClient
from tests.simulator.nvml_readings import RATIOS, teach

INVALID_ARGUMENT, NOT_SUPPORTED = 2, 3


@pytest.fixture
def taught(nvml: NvmlClient) -> NvmlClient:
    teach(nvml)
    return nvml


@pytest.mark.parametrize(
    ("word", "supported"),
    [("A100", 0), ("A100-80GB", 0), ("H100", 1), ("H200", 1), ("B200", 1), ("GB200", 1)],
)
def test_hopper_and_newer_have_metrics(tmp_path: Path, word: str, supported: int) -> None:
    with SimulatedNode(tmp_path, "n").create(f"1x{word}") as node, NvmlClient(node) as nvml:
        nvml.ask("nvmlInit()")
        nvml.ask("h = nvmlDeviceGetHandleByIndex(0)")
        teach(nvml)
        reported = nvml.ask("nvmlGpmQueryDeviceSupport(h).isSupportedDevice")
        assert reported == supported
        assert nvml.error_of("gpm(h, 1)") == (0 if supported else NOT_SUPPORTED)


def test_a_ratio_is_reported_in_percent_with_its_fraction(
    node: SimulatedNode, taught: NvmlClient
) -> None:
    node.set_value(3, "gpm_tensor", 123_456)
    assert taught.ask("gpm(g[3], NVML_GPM_METRIC_ANY_TENSOR_UTIL)") == pytest.approx(12.3456)
    assert taught.ask("gpm(g[4], NVML_GPM_METRIC_ANY_TENSOR_UTIL)") == 0


def test_each_metric_has_its_own_answer(node: SimulatedNode, taught: NvmlClient) -> None:
    node.set_value(3, "gpm_fp64", None)
    taught.ask("r = c_nvmlGpmMetricsGet_t()")
    taught.ask("r.version = NVML_GPM_METRICS_GET_VERSION")
    taught.ask("r.sample1, r.sample2, r.numMetrics = nvmlGpmSampleAlloc(), nvmlGpmSampleAlloc(), 4")
    taught.ask("[nvmlGpmSampleGet(g[3], s) for s in (r.sample1, r.sample2)] and None")
    for place, metric in enumerate((1, 11, 170, 0)):
        taught.ask(f"r.metrics[{place}].metricId = {metric}")
    taught.ask("nvmlGpmMetricsGet(r) and None")
    answers = taught.ask("[r.metrics[i].nvmlReturn for i in range(4)]")
    assert answers == [0, NOT_SUPPORTED, 0, INVALID_ARGUMENT]
    assert taught.ask("r.metrics[0].metricInfo.unit") == "%"


def test_what_a_gpu_does_not_have_is_answered_with_0(
    node: SimulatedNode, taught: NvmlClient
) -> None:
    node.set_value(3, "nvlink_disabled", 1)
    for metric in ("NVLINK_L0_TX_PER_SEC", "C2C_TOTAL_TX_PER_SEC", "HOSTMEM_CACHE_HIT"):
        assert taught.ask(f"gpm(g[3], NVML_GPM_METRIC_{metric})") == 0
    assert taught.ask("gpm(g[0], NVML_GPM_METRIC_NVDEC_7_UTIL, 5)") == 0


def test_totals_came_after_r580(taught: NvmlClient) -> None:
    total = "gpm(g[3], NVML_GPM_METRIC_SM_CYCLES_ELAPSED)"
    assert taught.error_of(total) == INVALID_ARGUMENT


def test_a_newer_driver_has_totals(newer: NvmlClient) -> None:
    teach(newer)
    assert newer.ask("gpm(g[3], NVML_GPM_METRIC_SM_CYCLES_ELAPSED)") == 0
    assert newer.error_of("gpm(g[3], 333)") == INVALID_ARGUMENT


def test_two_samples_of_the_same_thing_are_needed(taught: NvmlClient) -> None:
    taught.ask("r = c_nvmlGpmMetricsGet_t()")
    taught.ask("r.version, r.numMetrics = NVML_GPM_METRICS_GET_VERSION, 1")
    taught.ask("r.sample1, r.sample2 = nvmlGpmSampleAlloc(), nvmlGpmSampleAlloc()")
    taught.ask("nvmlGpmSampleGet(g[3], r.sample1) and None")
    assert taught.error_of("nvmlGpmMetricsGet(r)") == INVALID_ARGUMENT
    taught.ask("nvmlGpmSampleGet(g[4], r.sample2) and None")
    assert taught.error_of("nvmlGpmMetricsGet(r)") == INVALID_ARGUMENT
    taught.ask("nvmlGpmSampleGet(g[3], r.sample2) and None")
    assert taught.error_of("nvmlGpmMetricsGet(r)") == 0
    taught.ask("nvmlGpmMigSampleGet(g[0], 5, r.sample1) and None")
    taught.ask("nvmlGpmMigSampleGet(g[0], 6, r.sample2) and None")
    assert taught.error_of("nvmlGpmMetricsGet(r)") == INVALID_ARGUMENT
    taught.ask("r.version = 9")
    assert taught.error_of("nvmlGpmMetricsGet(r)") == 25


def test_a_slice_tells_its_own_metrics(node: SimulatedNode, taught: NvmlClient) -> None:
    with node.scenario.edit() as scenario:
        for count, name in enumerate(RATIOS):
            scenario.gpus[0].instances[2].values[name] = 10_000 * (count + 1)
    numbers = [taught.ask(f"gpm(g[0], {metric}, 5)") for metric in RATIOS.values()]
    assert numbers == pytest.approx([count + 1 for count in range(len(RATIOS))])
    assert taught.ask("gpm(g[0], 2, 6)") == 0
    assert taught.error_of("gpm(g[0], NVML_GPM_METRIC_PCIE_TX_PER_SEC, 5)") == NOT_SUPPORTED


def test_an_instance_that_is_not_there_has_no_sample(taught: NvmlClient) -> None:
    assert taught.error_of("gpm(g[0], 2, 99)") == INVALID_ARGUMENT
    assert taught.error_of("gpm(g[3], 2, 1)") == NOT_SUPPORTED


def test_whether_a_mig_gpu_as_a_whole_tells_is_a_value(
    node: SimulatedNode, taught: NvmlClient
) -> None:
    assert taught.error_of("gpm(g[0], 2)") == 0
    node.set_value(0, "gpm_whole_gpu_with_mig", 0)
    assert taught.error_of("gpm(g[0], 2)") == NOT_SUPPORTED
    assert taught.error_of("gpm(g[0], 2, 5)") == 0
