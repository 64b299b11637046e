"""From a line in the kernel log to a moved pod: real exporter, real remediator, real scheduler."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest

from exporter.model.node_health import NodeDeviceHealth
from simulator.cluster.nodes import NodePlayer
from simulator.cluster.workloads import gpu_request, mig_request
from simulator.node import SimulatedNode
from tests.chain.scene import REPORTS, Remediator, Scene
from tests.exporter.running import Exporter
from tests.lab.cluster import await_true

POLICY = "defaults: {mode: enforce, settle: 1s, soak: 1h}"
"""What was tainted stays so while a test looks at it, also where the fault passes by itself."""
GIVEN_BACK = "defaults: {mode: enforce, settle: 1s, soak: 4s}"
EIGHT = "8xH100"
SLICE_OF_GI_5 = "node-a/gpu-7-mig-1g10gb-19-2"


class Chain:
    """A node with eight GPUs, the last in seven slices; its exporter; the remediator."""

    def __init__(self, scene: Scene, node: SimulatedNode, exporter: Exporter) -> None:
        self.scene = scene
        self.node = node
        self.exporter = exporter
        self.remediator: Remediator | None = None

    def xids(self, index: int) -> dict[tuple[int, int | None], int]:
        """Return the reported counts of a GPU, by code and GPU instance."""
        body = self.scene.cluster.client.get(f"{REPORTS}/node-a")
        report = msgspec.json.decode(body, type=NodeDeviceHealth).status
        desired = self.node.gpu(index).uuid
        return {
            (record.code, record.gi): record.count
            for gpu in report.gpus
            if gpu.uuid == desired
            for record in gpu.xids
        }


def connection(scene: Scene, folder: Path) -> list[str]:
    endpoint = scene.cluster.plane.endpoint()
    token = folder / "token"
    token.write_text(endpoint.token or "", encoding="ascii")
    return [
        f"--kube-server={endpoint.server}",
        f"--kube-token-file={token}",
        f"--kube-ca-file={endpoint.ca_file}",
    ]


@pytest.fixture
def chain(scene: Scene) -> Iterator[Chain]:
    scene.policy(POLICY)
    player: NodePlayer = scene.cluster.player
    with (
        TemporaryDirectory(prefix="dg-") as root,
        SimulatedNode(Path(root), "node-a").create(EIGHT, mig={7: ["1g.10gb"] * 7}) as node,
    ):
        player.add_node("node-a")
        player.publish("node-a", node.slices())
        with Exporter(node, "run", *connection(scene, Path(root))) as exporter:
            exporter.wait_shows('draguard_source_up{source="nvml"} 1', "draguard_report_up 1")
            one = Chain(scene, node, exporter)
            one.remediator = scene.remediator()
            one.remediator.await_saying("node-a: 8 healthy")
            yield one
            if "PYTEST_CURRENT_TEST" in os.environ:
                print(exporter.logged()[-4000:])  # noqa: T201 - shown when the test failed


def test_a_kernel_line_of_xid_79_taints_that_gpu_and_moves_its_pod(chain: Chain) -> None:
    scene = chain.scene
    scene.train("train", 6, gpu_request())
    before = dict(scene.holders())
    victim = next(device for device in before.values())
    index = int(victim.rpartition("-")[2])

    chain.node.lose(index)
    chain.node.inject_xid(index, 79, nvml=False)

    scene.await_rules({victim: "NoExecute"})

    def elsewhere() -> Mapping[str, str]:
        found = scene.holders()
        return found if len(found) == 6 and victim not in found.values() else {}

    after = await_true("the pod runs elsewhere", elsewhere)
    assert {device for uid, device in before.items() if uid not in after} == {victim}
    assert len(set(before) & set(after)) == 5


def test_a_contained_error_whose_slice_only_the_nvml_event_names(chain: Chain) -> None:
    scene = chain.scene
    scene.train("infer", 7, mig_request("1g.10gb"))
    before = dict(scene.holders())

    chain.node.inject_xid(7, 94, gi=5, reset=False, drain_reset=False, nvml_delay=0.2)

    scene.await_rules({SLICE_OF_GI_5: "NoExecute"})
    await_true("its pod is gone", lambda: len(scene.holders()) == 6)
    assert set(before.items()) - set(scene.holders().items()) == {
        (uid, device) for uid, device in before.items() if device == SLICE_OF_GI_5
    }
    assert chain.xids(7) == {(94, 5): 1}


def test_a_contained_error_with_the_instance_in_the_line(chain: Chain) -> None:
    chain.node.inject_xid(7, 94, gi=5, reset=False, drain_reset=False, kernel_instance=True)

    chain.scene.await_rules({SLICE_OF_GI_5: "NoExecute"})


def test_a_contained_error_that_only_the_kernel_log_tells_of_moves_nobody(chain: Chain) -> None:
    chain.node.inject_xid(
        7, 94, gi=5, reset=False, drain_reset=False, kernel_instance=True, nvml=False
    )

    chain.scene.await_rules({SLICE_OF_GI_5: "NoSchedule"})
    chain.scene.holds_for(
        2, "no pod is evicted", lambda: "NoExecute" not in chain.scene.rules().values()
    )


def test_a_burst_of_application_xids_is_counted_on_its_gpu_and_harms_nobody(chain: Chain) -> None:
    for code in (13, 31, 43, 45):
        for _ in range(25):
            chain.node.inject_xid(2, code, nvml=False)

    await_true(
        "all are counted on GPU 2",
        lambda: chain.xids(2) == {(code, None): 25 for code in (13, 31, 43, 45)},
    )
    assert chain.remediator is not None
    chain.remediator.await_saying("node-a: 8 healthy")
    chain.node.lose(3)
    chain.node.inject_xid(3, 79, nvml=False)
    chain.scene.await_rules({"node-a/gpu-3": "NoExecute"})
    assert len(chain.scene.incidents()) == 1


def test_an_uncontained_error_is_tainted_emptied_repaired_and_released(chain: Chain) -> None:
    scene = chain.scene
    chain.node.set_recovery_action(7, 1)
    chain.node.inject_xid(7, 95, reset=True)
    everything = {f"node-a/gpu-7-mig-1g10gb-19-{start}": "NoExecute" for start in range(7)}
    scene.await_rules(everything)
    scene.await_phase("Drained")

    chain.node.heal(7)

    scene.await_phase("Verifying")
    scene.policy(GIVEN_BACK)
    scene.await_rules({})
    scene.await_phase("Recovered")


def test_an_agent_killed_in_the_middle_loses_nothing_and_counts_nothing_twice(
    chain: Chain,
) -> None:
    chain.node.inject_xid(7, 94, gi=5, reset=False, drain_reset=False, nvml_delay=0.2)
    chain.scene.await_rules({SLICE_OF_GI_5: "NoExecute"})

    chain.exporter.kill()
    chain.node.inject_xid(2, 31, nvml=False)
    chain.exporter.start()

    await_true("what came meanwhile is counted", lambda: chain.xids(2) == {(31, None): 1})
    assert chain.xids(7) == {(94, 5): 1}
    chain.scene.holds_for(2, "the scope stays", lambda: set(chain.scene.rules()) <= {SLICE_OF_GI_5})
