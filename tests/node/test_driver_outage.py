"""The DRA driver is away: its slices go, pods run on, and their devices keep their labels.

The clock that decides is the kubelet's: 30 seconds after the end of a driver it deletes the slices.
Nothing of the exporter's reckons with how long they are gone, so an outage of an hour is one that
has begun. The policy taints nothing, so that the pod on a lost GPU runs on.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kubeapi.client import ApiError
from simulator.cluster.workloads import mig_request
from tests.conftest import printer
from tests.lab import leftovers
from tests.lab.cluster import await_true
from tests.lab.node.gpus import SCENARIO
from tests.lab.node.real_node import RealNode
from tests.lab.node.release import LABEL, Release, values
from tests.node.conftest import SOURCES, Pods
from tests.node.workload import driver_away

GPUS, SLICED = 5, 2
"""The GPU that is in seven slices; the others are whole."""
HELD = "draguard_device_allocation_info{"
OTHER = "GPU-0b0a4d00-0000-4000-8000-000000000000"
TAINT_NOTHING = "defaults: {mode: incident-only}\n"
BOOT_ID = str(Path(SCENARIO).parent / "boot_id")
UNKNOWN = 'draguard_join_misses{{reason="not_published"}} {count}'


@pytest.fixture(scope="module")
def node(
    control_plane_built: None, real_node_built: None, pytestconfig: pytest.Config
) -> Iterator[RealNode]:
    """A node of its own: after a change of policy no pod is evicted for a while."""
    slices = {SLICED: ["1g.10gb"] * 7}
    with leftovers.kept(), RealNode(f"{GPUS}xH100", mig=slices, say=printer(pytestconfig)) as real:
        yield real


@pytest.fixture(scope="module")
def fresh() -> Iterator[int]:
    return iter([number for number in range(GPUS) if number != SLICED])


@pytest.fixture(scope="module")
def release(node: RealNode, helm_built: object) -> Release:
    """Draguard that taints nothing, with an exporter that looks every two seconds."""
    release = Release(node)
    flags = values(node)["exporter"]["extraArgs"]
    changed = {
        "remediator": {"policy": {"text": TAINT_NOTHING}},
        "exporter": {"interval": 2, "extraArgs": [*flags, f"--boot-id-file={BOOT_ID}"]},
    }
    release.install(changed)
    release.await_rolled_out()
    release.await_shows(*(f'draguard_source_up{{source="{name}"}} 1' for name in SOURCES))
    return release


def holders(release: Release) -> dict[str, str]:
    """Return the UUID of each pod's device, of a slice its own."""
    rows = [line for line in release.metrics().splitlines() if line.startswith(HELD)]
    labels = [dict(LABEL.findall(row)) for row in rows]
    return {row["pod"]: row.get("dra_mig_device_uuid") or row["UUID"] for row in labels}


def test_a_driver_outage_takes_no_label_of_a_running_pod_and_invents_none(
    node: RealNode, release: Release, pods: Pods
) -> None:
    running = {
        "sound": pods.on_gpu("outage-sound"),
        "lost": pods.on_gpu("outage-lost"),
        "part": pods("outage-part", mig_request("1g.10gb")),
    }
    numbers = {name: _number(running[name].device()) for name in ("sound", "lost")}
    uuids = {running[name].name: node.gpus.gpu(n).uuid for name, n in numbers.items()}
    start = int(running["part"].device().rpartition("-")[2])
    (part,) = [found for found in node.gpus.gpu(SLICED).instances if found.start == start]
    uuids[running["part"].name] = part.uuid
    await_true(f"the metrics name {uuids}", lambda: holders(release) == uuids)

    with driver_away(node):
        release.await_shows('draguard_gpus_expected{source="resourceslices"} 0')
        assert holders(release) == uuids

        node.gpus.lose(numbers["lost"])
        lost = node.gpus.gpu(numbers["lost"]).uuid
        await_true("the GPU is lost", lambda: f'UUID="{lost}"' in _lost(release))
        assert holders(release) == uuids
        assert not any(pod.is_evicted() for pod in running.values())

        again = node.gpus.recreate_instance(SLICED, part.gi)
        await_true("the new slice is seen", lambda: again.uuid in release.metrics())
        del uuids[running["part"].name]
        await_true("the new slice has no pod", lambda: holders(release) == uuids)
        release.await_shows(UNKNOWN.format(count=1))

        node.kill(release.process("exporter", "agent"))
        await_true("a new agent knows the names", _shown(release, UNKNOWN.format(count=1)))
        await_true("and whose they are", lambda: holders(release) == uuids)

    running["part"].remove()
    await_true(f"the metrics name {uuids}", lambda: holders(release) == uuids)


def test_in_a_driver_outage_another_board_and_another_boot_get_no_label_of_before(
    node: RealNode, release: Release, pods: Pods
) -> None:
    running = [pods.on_gpu(f"outage-{what}") for what in ("other-board", "other-boot")]
    slots = [_number(pod.device()) for pod in running]
    uuids = {pod.name: node.gpus.gpu(at).uuid for pod, at in zip(running, slots, strict=True)}
    await_true(f"the metrics name {uuids}", lambda: holders(release) == uuids)

    with driver_away(node):
        node.gpus.swap(slots[0], OTHER)
        await_true("the other board is seen", lambda: OTHER in release.metrics())
        del uuids[running[0].name]
        await_true("the other board has no pod", lambda: holders(release) == uuids)
        release.await_shows(UNKNOWN.format(count=1))

        node.gpus.reboot()
        await_true("no name is known after a boot", _shown(release, UNKNOWN.format(count=2)))
        assert holders(release) == {}

    uuids[running[0].name] = OTHER
    await_true(f"the metrics name {uuids}", lambda: holders(release) == uuids)


def _number(device: str) -> int:
    return int(device.removeprefix("gpu-"))


def _lost(release: Release) -> str:
    return "".join(line for line in release.metrics().splitlines() if 'reason="GpuIsLost"' in line)


def _shown(release: Release, line: str) -> Callable[[], bool]:
    def shown() -> bool:
        try:
            return line in release.metrics().splitlines()
        except ApiError:
            return False

    return shown
