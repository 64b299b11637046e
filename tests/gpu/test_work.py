"""What a program does on a real GPU is what the page says, and it is its pod's: `make gpu`."""

import time
from collections.abc import Iterator
from pathlib import Path
from statistics import mean
from uuid import uuid4

import pytest

from simulator import holdings
from simulator.kubelet import Kubelet
from tests.exporter.running import Exporter, Page, wait_for
from tests.gpu.conftest import RealNode
from tests.gpu.real_gpu import Container, RealGpu, Work, queried, used_memory

pytestmark = pytest.mark.gpu

FIELDS = (
    *("DCGM_FI_PROF_PCIE_RX_BYTES", "DCGM_FI_PROF_PCIE_TX_BYTES", "DCGM_FI_PROF_DRAM_ACTIVE"),
    *("DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"),
)
MEGABYTES = {"spins": 512, "holds": 2048}
"""Of each pod, by its name."""
MEBI = 1 << 20
SM_TIME = "draguard_pod_sm_utilization_ratio"


@pytest.fixture(scope="module")
def work(gpu: RealGpu, tmp_path_factory: pytest.TempPathFactory) -> Work:
    return Work.built(tmp_path_factory.mktemp("work"), gpu)


@pytest.fixture
def exporter(node: RealNode) -> Iterator[Exporter]:
    counters = node.root / "counters.csv"
    counters.write_text("".join(f"{name}, gauge, {name}\n" for name in FIELDS), encoding="ascii")
    flags = ("--no-report", f"--collectors={counters}", f"--pod-log-dir={node.root / 'logs'}")
    with Exporter(node, "run", *flags) as exporter:
        exporter.wait_shows("DCGM_FI_PROF_DRAM_ACTIVE{")  # from the second pass on
        yield exporter


def value(page: Page, family: str) -> float:
    (found,) = page.series(family).values()
    return found


def during(exporter: Exporter, family: str) -> float:
    """Return the mean of a value over some passes that have begun by now."""
    time.sleep(1.5)
    found: list[float] = []
    for _ in range(10):
        found.append(value(exporter.page(), family))
        time.sleep(0.3)
    return mean(found)


@pytest.mark.parametrize(
    ("how", "busy", "quiet"),
    [("to_gpu", "RX", "TX"), ("from_gpu", "TX", "RX")],
)
def test_bytes_over_pcie_are_those_that_a_program_copied(
    exporter: Exporter, work: Work, how: str, busy: str, quiet: str
) -> None:
    with work.running(how) as program:
        over = during(exporter, f"DCGM_FI_PROF_PCIE_{busy}_BYTES")
        other = value(exporter.page(), f"DCGM_FI_PROF_PCIE_{quiet}_BYTES")
        copied = program.rate()
    # Headers come on top of what was copied, and the other way has requests and answers.
    assert copied * 0.95 < over < copied * 1.25
    assert other < copied * 0.2


def test_memory_that_is_copied_is_active(exporter: Exporter, work: Work) -> None:
    assert during(exporter, "DCGM_FI_PROF_DRAM_ACTIVE") < 0.01
    with work.running("on_gpu"):
        assert 0.6 < during(exporter, "DCGM_FI_PROF_DRAM_ACTIVE") <= 1


def test_memory_that_a_program_holds_is_used(exporter: Exporter, work: Work) -> None:
    before = value(exporter.page(), "DCGM_FI_DEV_FB_USED")
    with work.running("holds", megabytes=4096):
        time.sleep(1)
        used = value(exporter.page(), "DCGM_FI_DEV_FB_USED")
        (printed,) = map(float, queried("memory.used"))
    assert used == pytest.approx(printed, abs=1)
    assert 4096 <= used - before < 4096 + 1024  # MiB, and what CUDA itself takes


def test_energy_is_power_times_time(exporter: Exporter, work: Work) -> None:
    energy = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"
    with work.running("on_gpu"):
        time.sleep(1.5)
        before, began = value(exporter.page(), energy), time.monotonic()
        power = during(exporter, "DCGM_FI_DEV_POWER_USAGE")
        after, ended = value(exporter.page(), energy), time.monotonic()
    assert (after - before) / 1000 == pytest.approx(power * (ended - began), rel=0.2)  # mJ


@pytest.fixture
def containers(tmp_path: Path) -> Iterator[dict[str, Container]]:
    """Control groups as the kubelet makes them, of a pod each, and the folders of their logs."""
    uids = {name: str(uuid4()) for name in MEGABYTES}
    for name, uid in uids.items():
        (tmp_path / "logs" / f"ml_{name}_{uid}").mkdir(parents=True)
    made = {name: Container.made(uid) for name, uid in uids.items()}
    yield made
    for container in made.values():
        container.remove()


@pytest.fixture
def kubelet(node: RealNode, gpu: RealGpu) -> Iterator[Kubelet]:
    kubelet = Kubelet(node.root / "kubelet.sock")
    kubelet.start()
    shared = [
        holdings.plugin("nvidia.com/gpu", f"{gpu.uuid}::{replica}")
        for replica in range(len(MEGABYTES))
    ]
    pods = [
        holdings.pod(name, holdings.container(plugins=[part]))
        for name, part in zip(MEGABYTES, shared, strict=True)
    ]
    kubelet.set_pods(pods)
    yield kubelet
    kubelet.stop()


def test_pods_that_share_the_gpu_have_what_their_own_processes_use(
    kubelet: Kubelet, containers: dict[str, Container], exporter: Exporter, work: Work
) -> None:
    def of_pod(family: str, pod: str) -> float | None:
        found = exporter.series(family).items()
        return next((number for labels, number in found if f'pod="{pod}"' in labels), None)

    def agrees(pod: str, pid: int) -> bool:
        used = of_pod("draguard_pod_memory_used_bytes", pod)
        return used is not None and used / MEBI == pytest.approx(used_memory()[pid], abs=1)

    with (
        work.running("spins", MEGABYTES["spins"], containers["spins"]) as spins,
        work.running("holds", MEGABYTES["holds"], containers["holds"]) as holds,
    ):
        for pod, program in (("spins", spins), ("holds", holds)):
            wait_for(lambda at=(pod, program.pid): agrees(*at), what=f"nvidia-smi's of {pod}")
            assert (of_pod("draguard_pod_memory_used_bytes", pod) or 0) / MEBI >= MEGABYTES[pod]
        wait_for(lambda: (of_pod(SM_TIME, "spins") or 0) > 0.9, what="work")
        wait_for(lambda: of_pod(SM_TIME, "holds") == 0, what="no work")
    # Then both hold the GPU and use nothing of it.
    wait_for(lambda: of_pod("draguard_pod_memory_used_bytes", "holds") == 0, what="nothing used")


def test_nothing_of_the_tests_is_left_on_the_gpu() -> None:
    wait_for(lambda: used_memory() == {}, what="the GPU is free")
