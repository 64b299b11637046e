"""From the kept chart to the present one and back, while a taint stands.

Both charts run the present images: what is tried is the charts, with their roles, policies and
CRDs, under a real kubelet.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.lab.cluster import RULES, await_true
from tests.lab.node.real_node import RealNode
from tests.lab.node.release import Release
from tests.node.conftest import Pods
from tests.node.workload import await_end, lose, tainted
from tools.kept_release import KEPT, chart_of

INCIDENTS = "/apis/draguard.dev/v1alpha1/deviceincidents"
OLD = chart_of(sorted(KEPT.iterdir())[-1])
Json = dict[str, Any]
NEW_PODS = {"example.com/release": "present"}
"""Makes every pod anew, also right after a chart was kept, when no template differs yet."""


class Kept(NamedTuple):
    """What an upgrade must leave of a taint and its incident."""

    rule: str
    """UID: another one if it was ever away."""
    spec: int
    """Generation: another one if it ever said something else."""
    incident: str
    timeline: tuple[str, ...]


def kept(node: RealNode, device: str) -> Kept:
    (rule,) = [
        item for item in node.items(RULES) if item["spec"]["deviceSelector"]["device"] == device
    ]
    name = rule["metadata"]["labels"]["draguard.dev/incident"]
    (incident,) = [item for item in node.items(INCIDENTS) if item["metadata"]["name"] == name]
    return Kept(
        rule["metadata"]["uid"],
        rule["metadata"]["generation"],
        incident["metadata"]["uid"],
        tuple(entry["text"] for entry in incident["status"]["timeline"]),
    )


def grew(before: Kept, after: Kept) -> bool:
    """Whether nothing is other than before, but for newer entries of the history."""
    same = after[:3] == before[:3]
    return same and after.timeline[: len(before.timeline)] == before.timeline


def names(release: Release) -> set[str]:
    return {pod["metadata"]["name"] for pod in release.pods()}


def await_led(release: Release, before: set[str]) -> None:
    """Wait until all pods are new and one of them leads."""
    release.await_rolled_out()
    assert not names(release) & before
    await_true("a new pod leads", release.leader)


@pytest.fixture
def old(node: RealNode, helm_built: Path) -> Iterator[Release]:
    """The kept chart; nothing is installed afterwards."""
    release = Release(node)
    release.remove()
    release.install(chart=OLD)
    release.await_ready()
    yield release
    release.remove()


def test_an_upgrade_and_a_rollback_keep_taint_and_incident_and_go_on_tainting(
    node: RealNode, old: Release, pods: Pods
) -> None:
    release = old
    sick = pods.on_gpu("before-upgrade")
    device, process, first = sick.device(), sick.process(), names(release)
    lose(node, device)
    await_end(process)
    await_true("the pod is gone", lambda: sick.phase() == "gone")
    before = kept(node, device)
    assert before.timeline

    release.install({part: {"podAnnotations": NEW_PODS} for part in ("exporter", "remediator")})
    await_led(release, first)

    assert grew(before, upgraded := kept(node, device))
    _still_taints(node, pods.on_gpu("after-upgrade"))
    second = names(release)

    release.helm("rollback", "draguard", "1")
    await_led(release, second)

    assert grew(upgraded, kept(node, device))
    _still_taints(node, pods.on_gpu("after-rollback"))


def _still_taints(node: RealNode, workload: Any) -> None:
    device, process = workload.device(), workload.process()
    lose(node, device)
    await_end(process, 120)
    assert tainted(node)[device] == "NoExecute"
