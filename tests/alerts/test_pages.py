"""One page end to end, all of it real: kernel line, exporter, Prometheus, Alertmanager, webhook.

A GPU falls off the bus and a slice has a contained error, on one node, while a real remediator
taints both on a real control plane. The tests check what an engineer on call gets to see.
UPDATE_GOLDEN=1 records the page again, into tests/golden/alerts/.
"""

import json
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, cast

import pytest

from kubeapi.client import Client
from simulator.cluster.controlplane import ControlPlane
from simulator.cluster.workloads import gpu_request, mig_request
from simulator.node import SimulatedNode
from tests.chain.conftest import install
from tests.chain.scene import Scene
from tests.exporter.live.stage import connection
from tests.exporter.running import Exporter, free_port
from tests.lab.alertmanager import rendered
from tests.lab.cluster import Cluster, await_true
from tests.lab.kubelets import pods_on
from tests.lab.paging import TEMPLATE, Paging, Programs, Target, paging

pytestmark = pytest.mark.timeout(600)
MINUTE = 20.0
"""Seconds: `for: 1m` is twenty, enough for a remediator to taint and evict on a slow machine."""
POLICY = """
defaults: {mode: enforce, settle: 1s, soak: 10m}
classes: {lost: {ceiling: NoSchedule}}
"""
"""No pod is deleted from the lost GPU, so that the page can show the affected pod."""
GOLDEN = Path(__file__).parents[1] / "golden" / "alerts" / "page-xid-79.json"
NODE = "node-a"
SLICE_OF_GI_5 = "node-a/gpu-7-mig-1g10gb-19-2"
PATIENCE = 240.0
Json = dict[str, Any]


class Outcome(NamedTuple):
    """The state after both faults have fired."""

    gone: str
    """UUID of the GPU off the bus."""
    holder: str
    """Its pod."""
    sliced: str
    """UUID of the GPU with the slice at fault."""
    moved: str
    """The pod that held that slice."""
    page: Json
    ticket: Json
    inhibited: dict[tuple[str, str], set[str]]
    """The alerts that inhibit an alert, by its name and the GPU."""
    servers: Paging


@pytest.fixture(scope="module")
def programs(prometheus_built: Path, alertmanager_built: Path) -> Programs:
    return Programs(prometheus_built, alertmanager_built)


@pytest.fixture(scope="module")
def scene(
    control_plane: ControlPlane, client: Client, request: pytest.FixtureRequest
) -> Iterator[Scene]:
    install(control_plane, client)
    cluster = Cluster(control_plane, client, request.getfixturevalue("_player"))
    cluster.clean()
    one = Scene(cluster, request.getfixturevalue("tmp_path_factory").mktemp("scene"))
    one.policy(POLICY)
    yield one
    one.close()
    cluster.clean()


@pytest.fixture(scope="module")
def outcome(
    scene: Scene, programs: Programs, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Outcome]:
    with ExitStack() as stack:
        root = Path(stack.enter_context(TemporaryDirectory(prefix="dg-")))
        node = SimulatedNode(root, NODE).create("8xH100", mig={7: ["1g.10gb"] * 7})
        stack.enter_context(node)
        targets = watched(stack, scene, node)
        scene.train("train", 6, gpu_request())
        scene.train("infer", 7, mig_request("1g.10gb"))
        node.kubelet.set_pods(pods_on(scene.cluster, NODE))
        servers = stack.enter_context(
            paging(programs, tmp_path_factory.mktemp("paging"), targets, minute=MINUTE)
        )
        yield play(scene, node, servers)


def watched(stack: ExitStack, scene: Scene, node: SimulatedNode) -> dict[str, Target]:
    """Start what watches the node, and return its pages."""
    scene.cluster.player.add_node(NODE)
    scene.cluster.player.publish(NODE, node.slices())
    flags = (*connection(scene.cluster.plane.endpoint(), node.root), "--sample-deadline=20")
    exporter = Exporter(node, "run", *flags)
    stack.enter_context(exporter)
    exporter.wait_shows('draguard_source_up{source="nvml"} 1', "draguard_report_up 1")
    port = free_port()
    scene.remediator("--listen", f"127.0.0.1:{port}").await_saying("node-a: 8 healthy")
    return {
        "draguard-exporter": Target(f"127.0.0.1:{exporter.port}", {"node": NODE}),
        "draguard-remediator": Target(f"127.0.0.1:{port}", {}),
    }


def play(scene: Scene, node: SimulatedNode, servers: Paging) -> Outcome:
    pods = [pod["metadata"]["name"] for pod in scene.cluster.running()]
    holder = next(name for name in pods if name.startswith("train"))
    lost = int(scene.cluster.device_of(holder).rpartition("-")[2])
    gone, sliced = node.gpu(lost).uuid, node.gpu(7).uuid

    moved = next(name for name in pods if scene.cluster.device_of(name) == SLICE_OF_GI_5)

    node.lose(lost)
    node.inject_xid(lost, 79, nvml=False)
    node.inject_xid(7, 94, gi=5, reset=False, drain_reset=False, nvml_delay=0.2)

    page = await_true("a page", lambda: first(servers, "/draguard-page", UUID=gone), PATIENCE)
    ticket = await_true(
        "a ticket", lambda: first(servers, "/draguard-ticket", UUID=sliced), PATIENCE
    )
    kept_quiet = {("DraguardDeviceTainted", gone), ("DraguardSliceFault", sliced)}
    known = await_true("the inhibition", lambda: all_of(kept_quiet, servers), PATIENCE)
    return Outcome(gone, holder, sliced, moved, page, ticket, known, servers)


def all_of(kept_quiet: set[tuple[str, str]], servers: Paging) -> dict[tuple[str, str], set[str]]:
    """Return what inhibits each alert, {} before each of these is inhibited."""
    found = inhibited(servers)
    return found if all(found.get(key) for key in kept_quiet) else {}


def first(servers: Paging, path: str, **labels: str) -> Json:
    """Return the first notification of a group, {} before there is one."""
    taken = servers.pager.taken(path)
    return next(
        (
            notification
            for notification in taken
            if labels.items() <= notification["groupLabels"].items()
        ),
        Json(),
    )


def inhibited(servers: Paging) -> dict[tuple[str, str], set[str]]:
    alerts = servers.alertmanager.alerts()
    names = {alert["fingerprint"]: alert["labels"]["alertname"] for alert in alerts}
    return {
        (alert["labels"]["alertname"], alert["labels"].get("UUID", "")): {
            # An alert that arrived meanwhile can inhibit and not be in the list: next time.
            names[by]
            for by in alert["status"]["inhibitedBy"]
            if by in names
        }
        for alert in alerts
    }


def masked(page: Json, reported: Outcome) -> str:
    """Return a notification without what differs between runs."""
    text = (
        json.dumps(page, indent=1, sort_keys=True)
        .replace(reported.gone, "GPU-1")
        .replace(reported.gone.lower(), "gpu-1")
    )
    for pattern, instead in (
        (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)? \+0000 UTC", "2026-07-30 18:00:00 +0000 UTC"),
        (r"\d{4}-\d\d-\d\dT[\d:.]+Z", "2026-07-30T18:01:00Z"),
        (r"train-[a-z0-9-]+", "train-0"),
        (r"PCI [0-9A-F:.]+", "PCI 00000000:2A:00.0"),
        (r'"fingerprint": "\w+"', '"fingerprint": "0"'),
        (r"http://[\w.-]+:\d+/graph", "http://prometheus.example.com/graph"),
    ):
        text = re.sub(pattern, instead, text)
    return text


def test_a_gpu_off_the_bus_is_one_page_with_its_identity_and_nothing_else(outcome: Outcome) -> None:
    identity = {"cluster": "lab", "node": NODE, "UUID": outcome.gone}

    assert outcome.page["groupLabels"] == identity
    assert [alert["labels"] for alert in outcome.page["alerts"]] == [
        {**identity, "alertname": "DraguardGpuGone", "severity": "critical"}
    ]
    assert len(outcome.servers.pager.taken("/draguard-page")) == 1


def test_the_page_says_what_failed_who_is_hit_what_was_done_and_what_is_next(
    outcome: Outcome,
) -> None:
    stated = outcome.page["alerts"][0]["annotations"]

    assert "XID 79" in stated["description"]
    assert outcome.gone in stated["gpu"]
    assert NODE in stated["gpu"]
    assert f"pod {outcome.holder}" in stated["hit"]
    assert "is Tainted. Taint rules: 1 NoSchedule." in stated["done"]
    assert stated["next"]
    assert stated["runbook_url"].endswith("/DraguardGpuGone.md")
    assert f"var-uuid={outcome.gone}" in stated["dashboard_url"]


def test_the_taint_of_that_gpu_makes_no_ticket_beside_the_page(outcome: Outcome) -> None:
    assert outcome.inhibited["DraguardDeviceTainted", outcome.gone] == {"DraguardGpuGone"}
    assert outcome.inhibited["DraguardGpuGone", outcome.gone] == set()
    assert first(outcome.servers, "/draguard-ticket", UUID=outcome.gone) == {}


def test_a_slice_fault_is_one_ticket_that_says_it_is_tainted(outcome: Outcome) -> None:
    assert outcome.inhibited["DraguardSliceFault", outcome.sliced] == {"DraguardDeviceTainted"}
    assert [alert["labels"]["alertname"] for alert in outcome.ticket["alerts"]] == [
        "DraguardDeviceTainted"
    ]
    stated = outcome.ticket["alerts"][0]["annotations"]
    assert "xid-94" in stated["description"]
    assert "1 of 7 slices" in stated["description"]
    assert "1 NoExecute" in stated["done"]
    assert outcome.moved in stated["hit"]
    assert stated["hit"].count("pod ") == 1
    assert first(outcome.servers, "/draguard-page", UUID=outcome.sliced) == {}


def test_what_slack_gets_is_what_amtool_renders_of_the_same_notification(
    outcome: Outcome, alertmanager_built: Path, tmp_path: Path
) -> None:
    (posted,) = outcome.servers.pager.taken("/slack/draguard-page")
    (attachment,) = posted["attachments"]

    for field, template in (("title", "draguard.title"), ("text", "draguard.slack.text")):
        assert attachment[field] == rendered(
            alertmanager_built, TEMPLATE, template, outcome.page, tmp_path
        )


def test_the_recorded_page_is_what_is_sent(outcome: Outcome) -> None:
    """The goldens of the texts are rendered from the recorded page."""
    page = masked(outcome.page, outcome)
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text(f"{page}\n", encoding="utf-8")
    recorded = json.loads(GOLDEN.read_text(encoding="utf-8"))

    assert shape(json.loads(page)) == shape(recorded)
    assert json.loads(page)["alerts"][0]["labels"] == recorded["alerts"][0]["labels"]


def shape(value: Any) -> Any:
    """Return which keys there are; texts of alerts may change without a new recording."""
    if isinstance(value, dict):
        return {key: shape(member) for key, member in cast("Json", value).items()}
    return type(value).__name__
