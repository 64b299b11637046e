"""Servers die, hang and lie, and so does the remediator: no fault is lost, no healthy device hit.

`make chaos MINUTES=10` does the same for longer.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubeapi.client import Client
from simulator.cluster.controlplane import ControlPlane
from simulator.cluster.nodes import NodePlayer
from simulator.cluster.workloads import gpu_request
from tests.chain.chaos import NODES, Fleet, Trouble, Watch, insistently
from tests.chain.conftest import install
from tests.chain.proxy import Proxy
from tests.chain.scene import Scene
from tests.lab.cluster import Cluster, await_true, install_classes

SECONDS = float(os.environ.get("CHAOS_SECONDS", "40"))
SEED = int(os.environ.get("CHAOS_SEED", "1"))
CALM = 90.0
"""Seconds in which the answer must be right once everything works again."""
ONE_BY_ONE = """
defaults: {mode: enforce, settle: 1s, soak: 3s}
budget: {evict: {node: 8, cluster: 64}, correlation: {nodes: 64, after_change: 0s}}
"""


@pytest.fixture
def own_scene(control_plane_built: None, tmp_path: Path) -> Iterator[Scene]:
    """A control plane that nobody shares, because its parts are killed."""
    with ControlPlane() as plane:
        client = Client(plane.endpoint())
        install_classes(client)
        install(plane, client)
        player = NodePlayer(client)
        player.start()
        scene = Scene(Cluster(plane, client, player), tmp_path)
        yield scene
        scene.close()
        player.stop()
        client.close()


@pytest.mark.timeout(SECONDS + 300)
def test_under_chaos_no_fault_is_lost_and_no_healthy_device_is_touched(own_scene: Scene) -> None:
    scene = own_scene
    scene.policy(ONE_BY_ONE)
    fleet = Fleet(scene)
    fleet.start()
    scene.train("train", 4, gpu_request())
    with Proxy(scene.cluster.plane.endpoint()) as proxy, Watch(scene, fleet) as watch:
        remediator = scene.remediator(server=proxy.url)
        trouble = Trouble(scene, proxy, remediator, SEED)
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            trouble.pick(fleet)
            trouble.make()
            fleet.report()
        expected = {f"{node}/gpu-{index}": "NoExecute" for node, index in fleet.broken}

        def right() -> bool:
            insistently(fleet.report)
            return scene.rules() == expected

        await_true(f"rules are {expected} after {trouble.made}", right, CALM)
    assert watch.looks > SECONDS
    assert not watch.tainted_healthy
    assert not watch.lost_pods
    untouched = [one for one in NODES if not any(node == one for node, _ in fleet.ever_broken)]
    assert untouched, "the seed left no node alone"
