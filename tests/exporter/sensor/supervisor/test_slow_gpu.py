"""GPUs whose every call comes back, but late: they are named and left out, the others go on."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from exporter.sensor.nvml.budget import Budget
from exporter.sensor.nvml.library import NO_GPU, NvmlError
from simulator.node import SimulatedNode
from tests.exporter.running import Exporter, wait_for

TEMPERATURE = "DCGM_FI_DEV_GPU_TEMP"


@pytest.fixture
def nine() -> Iterator[SimulatedNode]:
    with (
        TemporaryDirectory(prefix="dg-") as root,
        SimulatedNode(Path(root), "node-a").create("9xH100") as node,
    ):
        yield node


def temperatures(exporter: Exporter) -> dict[int, float]:
    """Return what is shown, by the number of the GPU."""
    found = exporter.series(TEMPERATURE).items()
    return {int(labels.split('gpu="')[1].split('"')[0]): value for labels, value in found}


def test_a_slow_gpu_is_named_and_the_others_are_read_on(node: SimulatedNode) -> None:
    slow = node.gpu(1).uuid
    with Exporter(node, "run", "--no-report") as exporter:
        exporter.wait_shows(TEMPERATURE)
        child = exporter.nvml_child()
        node.slow(1, 700)
        wait_for(lambda: "GPU 1 took too long in" in exporter.get("/debug")[1], what="its name")
        page = exporter.wait_shows('presence="Unknown",reason="Hung"')
        hung = page.series("draguard_gpu_info")
        assert [slow in series for series in hung if 'reason="Hung"' in series] == [True]
        for value in (95, 96):
            node.set_value(0, "temperature_c", value)
            wait_for(lambda v=value: temperatures(exporter).get(0) == v, what="a fresh value")
        assert 1 not in temperatures(exporter)
        exporter.wait_logged("GPU 1 took")
        assert exporter.nvml_child() == child, "nothing hung, so nothing was killed"
        node.heal(1)
        wait_for(lambda: 1 in temperatures(exporter), what="the GPU again")


def test_many_slow_gpus_show_nothing_old_and_are_left_out_one_by_one(nine: SimulatedNode) -> None:
    # All of them take longer than a pass may (six deadlines and the start's); no single call does.
    flags = ("--no-report", "--sample-deadline=3", "--start-deadline=1", "--hang-retry=60")
    with Exporter(nine, "run", *flags) as exporter:
        exporter.wait_shows(TEMPERATURE)
        for gpu in range(1, 9):
            nine.slow(gpu, 2600)
        nine.slow(0, 300, "nvmlDeviceGetTemperature")
        slow = 'draguard_source_up{source="nvml",reason="Slow"} 0'
        wait_for(lambda: exporter.shows(slow) or "hangs in" in exporter.logged(), what="Slow")
        wait_for(lambda: not temperatures(exporter), what="no old values")
        wait_for(lambda: list(temperatures(exporter)) == [0], 180.0, "the GPU that is well")
        before, _, ended = exporter.logged().partition("needs more than")
        # On a loaded machine a single call may be over the deadline first.
        if "hangs in" not in before:
            assert "has not finished a sample" in before, "the process might still have answered"
            assert "it is at GPU" in ended


def test_a_gpu_that_used_up_its_time_is_not_queried_any_more() -> None:
    requested: list[tuple[int, str]] = []

    def call(gpu: int, name: str, *_: Any) -> str:
        requested.append((gpu, name))
        return name

    seconds = itertools.count()
    budget = Budget(call, clock=lambda: float(next(seconds)))
    budget.begin(0.5)
    budget(NO_GPU, "nvmlDeviceGetCount")
    budget(NO_GPU, "nvmlDeviceGetCount")
    budget(3, "nvmlDeviceGetUUID")
    with pytest.raises(NvmlError, match="not called"):
        budget(3, "nvmlDeviceGetName")
    budget(4, "nvmlDeviceGetUUID")
    assert [gpu for gpu, _ in requested] == [NO_GPU, NO_GPU, 3, 4]
    assert [(note.gpu, note.call) for note in budget.overdue.values()] == [
        (3, "nvmlDeviceGetUUID"),
        (4, "nvmlDeviceGetUUID"),
    ]
    budget.begin(None)
    assert budget(3, "nvmlDeviceGetName") == budget(3, "nvmlDeviceGetName")
