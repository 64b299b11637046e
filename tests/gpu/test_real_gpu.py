"""On a real GPU, which no other program uses meanwhile: `make gpu`.

Its settings stay as they are; programs crash on it, which costs nothing else.
"""

import signal
import time

import pytest

from kubeapi import clock
from simulator import driver_messages
from simulator.kernel_log import KernelLog
from tests.exporter.running import Exporter, send, wait_for
from tests.gpu.conftest import NODE, RealNode, Watched
from tests.gpu.real_gpu import Crashes, holds_gpu, queried
from tests.lab.cluster import await_true

pytestmark = pytest.mark.gpu
LATER = 3.0
"""Seconds in which a late line or event would have come."""


def value(exporter: Exporter, family: str) -> float:
    (found,) = exporter.series(family).values()
    return found


def refused(exporter: Exporter) -> float:
    return exporter.series("draguard_kernel_log_rejected_total").get('reason="user_space"', 0.0)


def test_the_page_says_what_nvidia_smi_says(watched: Watched) -> None:
    page = watched.exporter
    total, used, temperature, power, limit = map(
        float,
        queried("memory.total", "memory.used", "temperature.gpu", "power.draw", "power.limit"),
    )
    assert value(page, "DCGM_FI_DEV_FB_FREE") == pytest.approx(total - used, rel=0.01)
    assert value(page, "DCGM_FI_DEV_GPU_TEMP") == pytest.approx(temperature, abs=3)
    assert 0 < value(page, "DCGM_FI_DEV_POWER_USAGE") <= limit * 1.2
    assert value(page, "DCGM_FI_DEV_POWER_USAGE") == pytest.approx(power, rel=0.3)
    assert value(page, "draguard_nvml_answers_refused_total") == 0


@pytest.mark.parametrize("blocks", [1, 2000])
@pytest.mark.parametrize(("how", "code"), [("nowhere", 31), ("misaligned", 13), ("trap", 43)])
def test_a_crash_is_one_error_of_the_application_and_taints_nothing(
    watched: Watched, crashes: Crashes, how: str, code: int, blocks: int
) -> None:
    before = watched.counts()
    began = clock.now()
    crashes.run(how, blocks)
    await_true("it is reported", lambda: watched.counts() != before)
    time.sleep(LATER)
    assert watched.counts() == before | {code: before.get(code, 0) + 1}
    record = watched.xids()[code]
    assert record.event_at is not None
    assert record.event_at >= began
    assert (record.pid, record.process) == (crashes.pid, "crash")
    assert record.message
    assert watched.scene.rules() == {}
    assert watched.scene.incidents() == []


def test_a_program_that_is_killed_leaves_no_error(watched: Watched, crashes: Crashes) -> None:
    before = watched.counts()
    crashes.run("killed")
    time.sleep(LATER)
    assert watched.counts() == before


def test_a_line_that_a_program_wrote_into_the_kernel_log_is_refused(watched: Watched) -> None:
    line = driver_messages.xid(watched.gpu.bus_id, 79)
    before = refused(watched.exporter)
    with open("/dev/kmsg", "w", encoding="ascii") as log:  # noqa: PTH123 - a device takes no new file
        log.write(f"{line}\n")  # a record without an end is shown with the next one
    wait_for(lambda: refused(watched.exporter) == before + 1, what="the line is refused")
    assert 79 not in watched.counts()
    assert watched.scene.rules() == {}


@pytest.fixture
def own_log(node: RealNode) -> KernelLog:
    log = KernelLog(node.root / "kmsg")
    log.reboot()
    node.kernel_log = log.path
    return log


def test_a_fault_in_the_log_taints_the_published_device(
    own_log: KernelLog, watched: Watched
) -> None:
    own_log.write(driver_messages.xid(watched.gpu.bus_id, 95))
    watched.scene.await_rules({f"{NODE}/gpu-0": "NoSchedule"})
    await_true("it has an incident", watched.scene.incidents)
    assert watched.gpu.uuid in str(watched.scene.incident())


def test_the_gpu_is_let_go_on_demand_and_watched_again(node: RealNode, watched: Watched) -> None:
    exporter = watched.exporter
    assert holds_gpu(exporter.nvml_child())
    node.release_file.touch()
    wait_for(lambda: not any(map(holds_gpu, exporter.descendants())), what="the GPU is let go")
    node.release_file.unlink()
    wait_for(lambda: any(map(holds_gpu, exporter.descendants())), what="the GPU is held again")
    exporter.wait_shows('draguard_source_up{source="nvml"} 1', "DCGM_FI_DEV_GPU_TEMP")
    assert watched.scene.rules() == {}


def test_nvml_is_back_after_its_process_was_killed(watched: Watched, crashes: Crashes) -> None:
    exporter = watched.exporter
    child = exporter.nvml_child()
    send(child, signal.SIGKILL)
    wait_for(lambda: exporter.nvml_child() != child, what="another process reads the GPU")
    exporter.wait_shows('draguard_source_up{source="nvml"} 1')
    began = clock.now()
    crashes.run("nowhere")

    def reported() -> bool:
        found = watched.xids().get(31)
        return found is not None and found.event_at is not None and found.event_at >= began

    await_true("its event is reported", reported)
