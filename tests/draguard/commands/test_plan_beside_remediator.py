"""`draguard plan` says what a real remediator beside it says, and asks it by --url."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from remediator.controller.debug_plan import Page
from simulator.cluster.ports import free_port
from tests.chain.scene import Scene, fresh
from tests.chain.test_taint_and_move import now, off_the_bus, with_xids
from tests.draguard.printed import printed
from tests.lab.cluster import Cluster, Json, await_true
from tests.remediator.builders import gpu

Tell = Callable[..., Json]
POLICY = """
defaults: {mode: enforce, settle: 1s, soak: 10m}
"""


@pytest.fixture
def scene(crds: None, cluster: Cluster, tmp_path: Path) -> Iterator[Scene]:
    one = Scene(cluster, tmp_path)
    yield one
    one.close()


@pytest.fixture
def tell(scene: Scene, capsys: pytest.CaptureFixture[str]) -> Tell:
    def run(*arguments: str) -> Json:
        where = ("--kubeconfig", str(scene.cluster.plane.kubeconfig), "-o", "json")
        return msgspec.json.decode(printed(capsys, "plan", *arguments, *where))

    return run


def gist(page: Json) -> dict[str, tuple[object, ...]]:
    """Return what is decided about each GPU, without the moments."""
    read = msgspec.convert(page, Page)
    return {
        gpu.uuid: (
            gpu.verdict,
            gpu.incident,
            gpu.phase,
            gpu.desired,
            gpu.stored,
            gpu.deferred,
            gpu.needs,
        )
        for node in read.nodes
        for gpu in node.gpus
    }


def test_it_decides_as_the_remediator_does(scene: Scene, tell: Tell) -> None:
    lost, sick, well = gpu(0), gpu(1), gpu(2, node="node-b")
    scene.policy(POLICY)
    scene.node("node-a", lost, sick)
    scene.node("node-b", well)
    address = f"127.0.0.1:{free_port()}"
    scene.remediator("--listen", address)
    scene.report("node-a", off_the_bus(lost), with_xids(sick, now(95), recovery_action=fresh(1)))
    scene.await_rules({"node-a/gpu-0": "NoExecute", "node-a/gpu-1": "NoExecute"})
    policy = ("--policy", str(scene.policy_file))

    def settled() -> bool:
        return all(incident["status"].get("phase") == "Drained" for incident in scene.incidents())

    await_true("both are drained", settled)
    # It hears of what it has written itself a moment after everybody else.
    with suppress(AssertionError):
        await_true("it has observed it", lambda: alike(tell, address, *policy))
    theirs = tell("--url", f"http://{address}")
    ours = tell(*policy)

    assert gist(ours["page"]) == gist(theirs["page"])
    assert len(gist(ours["page"])) == 2
    assert theirs["page"]["role"].startswith("leader (remediator-0)")
    requested = tell("--url", f"http://{address}", "--node", "node-b")
    assert gist(requested["page"]) == gist(tell(*policy, "--node", "node-b")["page"])


def alike(tell: Tell, address: str, *policy: str) -> bool:
    theirs, ours = tell("--url", f"http://{address}"), tell(*policy)
    return gist(ours["page"]) == gist(theirs["page"])
