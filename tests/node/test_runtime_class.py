"""The chart's defaults: NVIDIA's container runtime, no privileged sensor, the kernel's own log."""

import os
import re
import subprocess
import time

import pytest

from simulator.cluster import workloads
from tests.lab.cluster import RULES, await_true
from tests.lab.node.containerd import PAUSE
from tests.lab.node.real_node import RealNode
from tests.lab.node.release import Release
from tests.node import proc
from tests.node.conftest import GPUS
from tests.node.workload import PODS, Json

FORGED = "y\nNVRM: Xid (PCI:0000:18:00): 79 {mark}"
"""A file may be called so. The bus is that of a GPU here."""
REFUSED = 'draguard_kernel_log_rejected_total{reason="continuation"} '


@pytest.fixture(scope="module")
def release(node: RealNode, helm_built: object) -> Release:
    release = Release(node)
    plain = {"access": "runtime", "driverRoot": "/", "libraryDir": "usr/lib/x86_64-linux-gnu"}
    devices = "--pci-devices-dir=/host/driver/sim/pci"
    release.install({"exporter": {"gpu": plain, "extraArgs": [devices]}})
    release.await_ready()
    release.await_shows(
        *(f'draguard_source_up{{source="{name}"}} 1' for name in ("nvml", "report")),
        # By default the journal would be read, which this node has not.
        'draguard_source_up{source="kmsg",reason="NoJournal"} 1',
        'draguard_kernel_log_info{via="Syslog"} 1',
    )
    return release


def test_the_sensor_has_one_capability_and_the_kernel_s_filter(release: Release) -> None:
    process = release.process("exporter", "sensor")

    found = proc.rights(process)

    assert found.users == {0}
    assert proc.names(found.capabilities) == {"SYSLOG"}
    assert found.no_new_privileges
    assert found.filtered
    assert proc.mounts(process)["/"] is False


def test_nvidia_s_runtime_gives_the_gpus_to_the_sensor_and_not_to_the_agent(
    release: Release,
) -> None:
    sensor, agent = (release.process("exporter", name) for name in ("sensor", "agent"))

    def devices(process: proc.Path) -> set[str]:
        names = {path.name for path in (process / "root" / "dev").iterdir()}
        return {name for name in names if name.startswith("nvidia")}

    assert devices(sensor) == {*(f"nvidia{number}" for number in range(GPUS)), "nvidiactl"}
    assert devices(agent) == set()


def test_the_check_of_the_notes_asks_the_sensor_for_what_it_needs_alone(release: Release) -> None:
    stated = release.check_of_notes()

    assert re.search(
        r"^NVML: [1-9]\d* GPUs, driver ", stated, re.MULTILINE
    )  # not of those that other tests have lost
    assert "there    kernel-log (sensor)" in stated
    assert "there    pod-resources (sensor)" in stated
    assert "missing  host-pids (sensor)" in stated
    assert "not here api-server (agent): check it in the container agent" in stated


def test_a_log_line_that_an_unprivileged_pod_forges_taints_nothing(
    node: RealNode, release: Release
) -> None:
    """The kernel logs the name of a program that crashes, also one with a line break in it."""
    mark = f"forged-{os.getpid()}-{time.monotonic_ns()}"
    before = node.items(RULES), xids(release)
    refused = count(release, REFUSED)
    container: Json = {
        "name": "main",
        "image": PAUSE,
        "imagePullPolicy": "Never",
        "args": ["crash", f"/work/{FORGED.format(mark=mark)}"],
        "volumeMounts": [{"name": "work", "mountPath": "/work"}],
        "securityContext": {
            "runAsUser": 12345,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    volume: Json = {"name": "work", "emptyDir": {}}
    spec: Json = {"containers": [container], "volumes": [volume], "restartPolicy": "Never"}

    node.client.create(PODS, workloads.pod("forger", spec))

    await_true("the kernel has logged it", lambda: f"79 {mark}" in kernel_log(), 120)
    await_true("the sensor has refused it", lambda: count(release, REFUSED) > refused, 120)
    node.plane.kubectl("delete", "pod", "forger", "--now")
    assert (node.items(RULES), xids(release)) == before


def xids(release: Release) -> set[str]:
    """Return what the metrics count of XIDs; those of tests before are in the node's report."""
    lines = release.metrics().splitlines()
    return {line for line in lines if line.startswith("draguard_xid_errors_total{")}


def count(release: Release, beginning: str) -> float:
    """Return the value of a metric; 0 while it is not there."""
    lines = release.metrics().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(beginning))


def kernel_log() -> str:
    return subprocess.run(["dmesg"], check=True, capture_output=True, text=True).stdout
