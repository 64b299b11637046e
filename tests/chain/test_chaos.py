"""Servers die, hang and lie, and so does the remediator: no fault is lost, no healthy device hit.

`make chaos MINUTES=10` does the same for longer; CHAOS_SEED chooses what happens.
"""

import os
import random
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from kubeapi.client import ApiError, Client
from simulator.cluster.controlplane import ControlPlane
from simulator.cluster.nodes import NodePlayer
from simulator.cluster.workloads import gpu_request
from tests.chain import audit_log
from tests.chain.audit_log import AuditLog, Eviction, RuleWrite, Tenancy
from tests.chain.breaking import CLOCKS, GPUS, Episode, Fleet, History, Named
from tests.chain.chaos import Trouble, closing_line, wrongs
from tests.chain.conftest import install
from tests.chain.proxy import Proxy
from tests.chain.scene import Scene
from tests.lab.cluster import Cluster, await_true, install_classes
from tests.remediator.builders import T0, at

pytestmark = pytest.mark.verify

SECONDS = float(os.environ.get("CHAOS_SECONDS", "40"))
SEED = int(os.environ.get("CHAOS_SEED", "1"))
CALM = 180.0
"""Seconds in which the answer must be right once everything works again."""
REPLICAS = 8
"""Of ten GPUs: what is moved finds a place while no more than two are broken."""
POLICY = """
defaults: {mode: enforce, settle: 1s, soak: 3s, repeat: {count: 1000}}
budget:
  evict: {node: 8, deviceClass: 100%, cluster: 64, rate: none}
  correlation: {nodes: 64, after_change: 0s}
"""
"""A GPU may break again and again here without a person."""


@pytest.fixture
def own_scene(control_plane_built: None, tmp_path: Path) -> Iterator[Scene]:
    """A control plane that nobody shares, because its parts are killed."""
    forgetful = "--etcd-compaction-interval=1s"
    with ControlPlane(apiserver_flags=[forgetful, *audit_log.flags(tmp_path)]) as plane:
        client = Client(plane.endpoint())
        install_classes(client)
        install(plane, client)
        player = NodePlayer(client)
        player.start()
        scene = Scene(Cluster(plane, client, player), tmp_path)
        try:
            yield scene
            scene.close()
        finally:
            player.stop()
            client.close()


@pytest.mark.timeout(SECONDS + 560)
@pytest.mark.parametrize("replicas", [1, 2])
def test_under_chaos_no_fault_is_lost_and_no_healthy_device_is_touched(
    own_scene: Scene, replicas: int
) -> None:
    scene, dice = own_scene, random.Random(SEED + replicas)  # noqa: S311 - no secret
    log = AuditLog(scene.folder)
    scene.policy(POLICY)
    fleet = Fleet(scene)
    fleet.start()
    scene.train("train", REPLICAS, gpu_request())
    with Proxy(scene.cluster.plane.endpoint()) as proxy:
        remediators = [scene.remediator(server=proxy.url) for _ in range(replicas)]
        trouble = Trouble(scene, proxy, remediators, dice)
        end = time.monotonic() + SECONDS / 2
        while time.monotonic() < end:
            trouble.make(lambda: fleet.change_one(dice))
            fleet.report()
        trouble.end()
        calm_at = time.monotonic()
        await_right(scene, fleet, trouble)
        converged = time.monotonic() - calm_at
        for replica in remediators:
            replica.kill()  # a polite end waits for each watch behind this HTTP/1.0 proxy
    lists = sum(replica.logged().count("listing again") for replica in remediators)
    evictions = log.evictions()
    made = f"{dict(trouble.made)}; {dict(fleet.made)}"
    counts = (len(fleet.episodes), len(log.rules()), len(evictions), lists)
    print(f"\n{closing_line(SEED, replicas, made, counts, converged)}")  # noqa: T201 - of a long run
    found = wrongs(fleet, log.rules(), log.tenancies(), evictions, trouble.lag)
    assert not found, "\n".join(
        [*found, "", *what_happened(fleet.episodes, log.rules(), evictions)]
    )
    reported = Counter(incident["spec"]["uuid"] for incident in scene.incidents())
    assert reported <= Counter(episode.uuid for episode in fleet.episodes)
    if trouble.outlived:
        assert lists, "no watch was ever too old"


def what_happened(
    episodes: Iterable[Episode], rules: Iterable[RuleWrite], evictions: Iterable[Eviction]
) -> list[str]:
    """Return all faults and all that was done, a line each, in the order of time."""
    lines = [
        (episode.began, f"{episode.device} ({episode.uuid}) broken until {episode.ended}")
        for episode in episodes
    ]
    lines += [(write.at, f"{write.device} gets {write.effect or 'no taint'}") for write in rules]
    lines += [
        (eviction.at, f"pod {eviction.pod} evicted by {eviction.by}") for eviction in evictions
    ]
    return [f"{at:%H:%M:%S.%f} {stated}" for at, stated in sorted(lines)]


def await_right(scene: Scene, fleet: Fleet, trouble: Trouble) -> None:
    """Wait until exactly the broken GPUs are tainted, reported, and empty."""
    expected = dict.fromkeys(fleet.broken, "NoExecute")

    def right() -> bool:
        fleet.report()
        open_ones = [
            incident
            for incident in scene.incidents()
            if "closedTime" not in incident.get("status", {}).get("history", {})
        ]
        holders = scene.holders()
        return (
            scene.rules() == expected
            and len(open_ones) == len(expected)
            and len(holders) == min(REPLICAS, len(CLOCKS) * GPUS - len(expected))
            and not set(holders.values()) & set(expected)
        )

    def seen_right() -> bool:
        with suppress(ApiError):  # an API server that has just come back
            return right()
        return False

    await_true(f"rules are {expected} after {dict(trouble.made)}", seen_right, CALM)


HISTORY = History(
    [Episode("node-a/gpu-0", at(100), at(200), "a0")],
    [
        Named(at(0), "node-a/gpu-0", "a0"),
        Named(at(0), "node-a/gpu-1", "a1"),
        Named(at(210), "node-a/gpu-0", "a1"),
        Named(at(210), "node-a/gpu-1", "a0"),
    ],
)
THERE = {
    "p": Tenancy(at(0), "node-a/gpu-0"),
    "q": Tenancy(at(150), "node-a/gpu-0"),
    "late": Tenancy(at(215), "node-a/gpu-0"),
}
TAINTED = [
    RuleWrite(at(101), "node-a/gpu-0", "NoSchedule", "a0"),
    RuleWrite(at(103), "node-a/gpu-0", "NoExecute", "a0"),
    RuleWrite(at(210), "node-a/gpu-0", "", "a0"),
]
K8S = "kube-controller-manager/v1.37.1"
DELETED = {
    "verb": "delete",
    "stageTimestamp": f"{T0:%Y-%m-%dT%H:%M:%S.%fZ}",
    "objectRef": {"resource": "pods", "name": "p"},
    "responseStatus": {"code": 200},
    "requestObject": {},
    "responseObject": {"metadata": {"uid": "p"}},
}


@pytest.mark.parametrize(
    ("rules", "evictions", "problem"),
    [
        (
            [RuleWrite(at(101), "node-a/gpu-0", "NoSchedule", "a0")],
            [Eviction(at(103), "p", "")],
            "",
        ),
        (
            [RuleWrite(at(101), "node-a/gpu-1", "NoSchedule", "a1")],
            [],
            "was healthy and got NoSchedule",
        ),
        (
            [RuleWrite(at(300), "node-a/gpu-0", "NoExecute", "a0")],
            [],
            "was healthy and got NoExecute",
        ),
        ([RuleWrite(at(150), "node-a/gpu-0", "", "a0")], [], "was sick and was released"),
        (
            [
                RuleWrite(at(101 + n), "node-a/gpu-0", ("NoSchedule", "")[n % 2], "a0")
                for n in range(3)
            ],
            [],
            "was tainted 2 times",
        ),
        ([TAINTED[0], RuleWrite(at(211), "node-a/gpu-1", "NoSchedule", "a0")], [], ""),
        ([TAINTED[0], RuleWrite(at(211), "node-a/gpu-1", "NoExecute", "a0")], [], "was healthy"),
        ([RuleWrite(at(211), "node-a/gpu-1", "NoSchedule", "a0")], [], ""),
        ([RuleWrite(at(211), "node-a/gpu-1", "NoExecute", "a0")], [], "was healthy"),
        ([TAINTED[0], RuleWrite(at(151), "node-a/gpu-1", "NoSchedule", "a0")], [], "another name"),
        ([RuleWrite(at(151), "node-a/gpu-0", "NoSchedule", "a1")], [], "another name"),
        ([], [Eviction(at(50), "p", "")], "for nothing"),
        ([], [Eviction(at(103), "stranger", "")], "for nothing"),
        ([], [Eviction(at(103), "p", ""), Eviction(at(160), "q", "")], "2 evictions for one fault"),
        ([], [Eviction(at(103), "p", ""), Eviction(at(104), "p", "")], "evicted 2 times"),
        (TAINTED, [Eviction(at(103), "p", K8S), Eviction(at(160), "q", K8S)], ""),
        (TAINTED, [Eviction(at(103), "p", K8S), Eviction(at(160), "q", "")], "2 evictions"),
        (TAINTED, [Eviction(at(103), "p", K8S), Eviction(at(291), "late", K8S)], "for nothing"),
        (TAINTED, [Eviction(at(103), "p", K8S), Eviction(at(279), "late", K8S)], ""),
    ],
)
def test_the_judge_of_the_chaos_sees_each_wrong(
    rules: list[RuleWrite], evictions: list[Eviction], problem: str
) -> None:
    found = "; ".join(wrongs(HISTORY, rules, THERE, evictions))
    assert problem in found if problem else not found


def test_a_replica_too_many_was_evicted_by_nobody(tmp_path: Path) -> None:
    by = [f"{K8S}/device-taint-eviction-controller", f"{K8S}/replicaset-controller"]
    lines = [msgspec.json.encode({**DELETED, "userAgent": agent}) for agent in by]
    (tmp_path / "audit.log").write_bytes(b"\n".join(lines))

    assert [eviction.by for eviction in AuditLog(tmp_path).evictions()] == by[:1]
