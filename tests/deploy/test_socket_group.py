"""The agent, without root, reaches the sensor's socket by the pod's group, and a stranger does not.

Users, groups and capabilities are the rendered ones, and the folder is what the kubelet makes of an
emptyDir in a pod with an fsGroup: 0777, then the group's, with 0660, 0110 and setgid added
(Kubernetes 1.37, pkg/volume/emptydir and pkg/volume/volume_linux.go).
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from simulator.node import SimulatedNode
from tests.deploy import rendered
from tests.deploy.rendered import Json
from tests.exporter.robust.confined import Confined, rights_of
from tests.exporter.running import wait_for

pytestmark = pytest.mark.verify

SYSLOG, DAC_READ_SEARCH = 34, 2
"""Bits of linux/capability.h."""
OURS, STRANGER, OF_MANY_IMAGES = 65522, 65534, 65532
_CONNECT = """
import socket, sys
try:
    socket.socket(socket.AF_UNIX).connect(sys.argv[1])
except PermissionError:
    sys.exit("refused")
"""


@pytest.fixture(scope="module")
def pod(helm_built: Path) -> Json:
    (found,) = [manifest for manifest in rendered.objects() if manifest["kind"] == "DaemonSet"]
    spec: Json = found["spec"]["template"]["spec"]
    return spec


@pytest.fixture
def node() -> Iterator[SimulatedNode]:
    assert os.geteuid() == 0, "two users cannot be played by one: run this test as root"
    with (
        # Short paths: a unix socket's has 107 bytes at most.
        TemporaryDirectory(prefix="dg-") as root,
        SimulatedNode(Path(root), "node-a").create("2xH100") as one,
    ):
        one.root.chmod(0o755)
        yield one


@pytest.fixture
def socket(node: SimulatedNode, pod: Json) -> Path:
    folder = node.root / "socket"
    folder.mkdir()
    os.chown(folder, -1, pod["securityContext"]["fsGroup"])
    folder.chmod(0o777 | 0o660 | 0o110 | 0o2000)
    return folder / "sensor.sock"


def run_by(user: int, group: int, *groups: int, rights: tuple[str, ...] = ()) -> list[str]:
    """Return a command that runs another as this user, in these groups, with these rights."""
    tool = shutil.which("setpriv")
    assert tool, "setpriv of util-linux is needed"
    kept = rights if user == 0 else to_reach_the_interpreter()
    desired = ",".join(("-all", *(f"+{capability}" for capability in kept)))
    return [
        *(tool, f"--reuid={user}", f"--regid={group}", "--no-new-privs"),
        f"--groups={','.join(map(str, groups))}" if groups else "--clear-groups",
        *(f"--{which}={desired}" for which in ("inh-caps", "bounding-set")),
        *([f"--ambient-caps={desired}"] if user else []),
    ]


def to_reach_the_interpreter() -> tuple[str, ...]:
    """Where Python lies in a folder of root's own: to read, which connects to no socket."""
    above = Path(sys.executable).resolve().parents
    return () if all(path.stat().st_mode & 1 for path in above) else ("dac_read_search",)


def of_container(pod: Json, name: str) -> list[str]:
    """Return a command that runs another as the runtime would run one of the containers."""
    (spec,) = [
        container["securityContext"] for container in pod["containers"] if container["name"] == name
    ]
    assert spec["allowPrivilegeEscalation"] is False
    rights = [capability.lower() for capability in spec["capabilities"].get("add", ())]
    assert spec["capabilities"]["drop"] == ["ALL"]
    group = pod["securityContext"]["fsGroup"]
    return run_by(spec["runAsUser"], spec["runAsGroup"], group, rights=tuple(rights))


def connects(socket: Path, by: list[str]) -> str:
    """Return "" where this user gets a connection, else what it says."""
    done = subprocess.run(
        [*by, sys.executable, "-c", _CONNECT, str(socket)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return done.stderr.strip()


def test_the_agent_as_rendered_hears_the_sensor_as_rendered(
    node: SimulatedNode, socket: Path, pod: Json
) -> None:
    at = f"--sensor-socket={socket}"
    with (
        Confined(node, "sensor", at, by=of_container(pod, "sensor")) as sensor,
        Confined(node, "agent", at, by=of_container(pod, "agent")) as agent,
    ):
        agent.wait_shows(
            'draguard_source_up{source="nvml"} 1',
            'draguard_source_up{source="kmsg"} 1',
            'draguard_source_up{source="podresources"} 1',
        )
        wait_for(lambda: len(agent.series("DCGM_FI_DEV_GPU_TEMP")) == 2, what="two GPUs")
        node.inject_xid(0, 79)
        agent.wait_count(79, 1)

        assert rights_of(sensor.pid) == 1 << SYSLOG
        assert rights_of(agent.pid) & ~(1 << DAC_READ_SEARCH) == 0
        assert [Path(f"/proc/{part.pid}").stat().st_uid for part in (sensor, agent)] == [0, OURS]


WHO = {
    "another user with the pod's group": ((STRANGER, STRANGER, OURS), ""),
    "the agent's user, outside of the group": ((OURS, STRANGER), "refused"),
    "a stranger": ((STRANGER, STRANGER), "refused"),
    "a stranger with root's group": ((STRANGER, 0), "refused"),
}


@pytest.mark.parametrize("who", WHO)
def test_the_group_opens_the_socket_and_nothing_else_does(
    node: SimulatedNode, socket: Path, pod: Json, who: str
) -> None:
    ids, answer = WHO[who]
    with Confined(node, "sensor", f"--sensor-socket={socket}", by=of_container(pod, "sensor")):
        wait_for(lambda: connects(socket, run_by(0, 0)) == "", what="a listening sensor")

        assert connects(socket, run_by(*ids)) == answer


@contextmanager
def of_another_pod(user: int, *rights: str) -> Generator[int]:
    """Run what another container on the node may be; gives its process id."""
    process = subprocess.Popen(
        [*run_by(user, user, rights=rights), "sleep", "600"],
        env={"PATH": os.environ["PATH"], "TOKEN": "secret"},
    )
    try:
        wait_for(lambda: b"sleep" in Path(f"/proc/{process.pid}/cmdline").read_bytes()[:5])
        yield process.pid
    finally:
        process.kill()
        process.wait()


def reads_environment(by: list[str], process: int) -> bool:
    script = "import sys; sys.exit(b'secret' not in open(sys.argv[1], 'rb').read())"
    done = subprocess.run(
        [*by, sys.executable, "-c", script, f"/proc/{process}/environ"],
        capture_output=True,
        check=False,
        timeout=60,
    )
    return done.returncode == 0


def test_an_agent_that_sees_the_nodes_processes_sees_into_none(pod: Json) -> None:
    """With hostPID it shares them; Linux lets a user look into its own, in whatever container."""
    agent = of_container(pod, "agent")
    with of_another_pod(OURS) as own:
        assert reads_environment(agent, own), "what a shared user would mean"
    for other in (OF_MANY_IMAGES, STRANGER, 0):
        with of_another_pod(other) as process:
            assert not reads_environment(agent, process)


def test_a_sensor_that_sees_the_nodes_processes_reads_those_of_root_that_dropped_all(
    pod: Json,
) -> None:
    """What exporter.podShares costs: a root container that drops all capabilities is open to it."""
    sensor = of_container(pod, "sensor")
    with of_another_pod(0) as well_kept:
        assert reads_environment(sensor, well_kept)
    with of_another_pod(0, "chown") as with_more:
        assert not reads_environment(sensor, with_more)


def may_end(by: list[str], process: int) -> bool:
    """Ask as `kill -0` does, which ends nothing."""
    script = "import os, sys; os.kill(int(sys.argv[1]), 0)"
    done = subprocess.run(
        [*by, sys.executable, "-c", script, str(process)],
        capture_output=True,
        check=False,
        timeout=60,
    )
    return done.returncode == 0


def test_a_sensor_that_sees_the_nodes_processes_could_end_those_of_root_and_no_others(
    pod: Json,
) -> None:
    """A signal asks for the user and for no capability: what hostPID costs, besides looking."""
    ends: dict[int, bool] = {}
    for user in (0, OURS, OF_MANY_IMAGES):
        with of_another_pod(user) as process:
            ends[user] = may_end(of_container(pod, "sensor"), process)

    assert ends == {0: True, OURS: False, OF_MANY_IMAGES: False}
