"""A control plane ends with its owner, however that ends."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kubeapi.endpoint import EndpointError
from simulator.cluster.controlplane import ControlPlane, ControlPlaneError
from simulator.cluster.supervise import SupervisorError
from tests.lab.cluster import await_true

pytestmark = pytest.mark.verify

ROOT = Path(__file__).parents[2]


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_is_left_when_the_owner_is_killed(
    control_plane_built: None, number: signal.Signals
) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "tests.lab.owner"], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        folder, *pids = owner.stdout.readline().split()
        processes = [int(pid) for pid in pids]
        assert len(processes) == 4
        assert all(is_alive(pid) for pid in processes)
        owner.send_signal(number)
        owner.wait(60)
    await_true("all processes ended", lambda: not any(is_alive(pid) for pid in processes))
    await_true("the folder is gone", lambda: not Path(folder).exists())


def test_parts_can_be_stopped_and_started_again_and_a_stop_leaves_nothing(
    control_plane_built: None,
) -> None:
    plane = ControlPlane(users={"agent": ("draguard:agents",)}, fsync=True)
    plane.start()
    try:
        assert "--unsafe-no-fsync" not in plane.etcd.argv
        assert all(part.running for part in plane.components)
        assert "system:masters" in plane.kubectl("auth", "whoami")
        stated = plane.kubectl("--context=agent", "auth", "whoami")
        assert "draguard:agents" in stated
        with pytest.raises(ControlPlaneError, match="Forbidden"):
            plane.kubectl("--context=agent", "get", "pods")
        with pytest.raises(EndpointError, match="no user 'nobody' here"):
            plane.endpoint("nobody")
        plane.scheduler.stop()
        assert not plane.scheduler.running
        plane.scheduler.start()
        assert plane.scheduler.running
        pids = [part.pid for part in plane.components]
    finally:
        plane.stop()
    assert not any(is_alive(pid) for pid in pids)
    assert not plane.layout.folder.exists()
    plane.stop()


def test_a_part_that_ends_at_once_is_reported_with_its_last_words(
    control_plane_built: None,
) -> None:
    plane = ControlPlane(apiserver_flags=["--no-such-flag"])
    with pytest.raises(
        ControlPlaneError, match=r"kube-apiserver ended at once:[\s\S]*no-such-flag"
    ):
        plane.start()
    assert not plane.layout.folder.exists()


def test_older_api_versions_are_served_under_emulation(control_plane_built: None) -> None:
    flags = [
        "--emulated-version=1.36",
        "--runtime-config=resource.k8s.io/v1beta2=true,resource.k8s.io/v1alpha3=true",
        "--feature-gates=DRADeviceTaintRules=true",
    ]
    with ControlPlane(apiserver_flags=flags) as plane:
        served = plane.kubectl("api-resources", "--api-group=resource.k8s.io")
    assert "resource.k8s.io/v1beta2" in next(
        line for line in served.splitlines() if line.startswith("devicetaintrules")
    )


def test_nothing_is_left_when_even_the_supervisor_is_killed(control_plane_built: None) -> None:
    with ControlPlane() as plane:
        keeper = int(Path(f"/proc/{plane.etcd.pid}/stat").read_text().rpartition(")")[2].split()[1])
        pids = [part.pid for part in plane.components]
        os.kill(keeper, signal.SIGKILL)
        await_true("the kernel ended all", lambda: not any(is_alive(pid) for pid in pids))
        with pytest.raises(SupervisorError, match="the supervising process is gone"):
            plane.apiserver.start()
    assert not plane.layout.folder.exists()
