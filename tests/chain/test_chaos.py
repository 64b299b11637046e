"""Servers die, hang and lie, and so does the remediator: no fault is lost, no healthy device hit.

`make chaos MINUTES=10` does the same for longer; CHAOS_SEED chooses what happens.
"""

import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from kubeapi.client import ApiError, Client
from remediator.model.node import REPAIR_NEEDED
from simulator.cluster.controlplane import ControlPlane
from simulator.cluster.nodes import NodePlayer
from simulator.cluster.workloads import GPU_CLASS, gpu_request
from tests.chain import audit_log
from tests.chain.acts import TOLERANT, TRAIN, Acts
from tests.chain.audit_log import AuditLog, Done, Eviction, RepairCall, RuleWrite, Tenancy
from tests.chain.breaking import BREAKING, SECOND_DRIVER, Boot, Episode, Fleet, History, Named
from tests.chain.chaos import DEADLINE, OVERRIDES, Trouble, closing_line, wrongs
from tests.chain.conftest import install
from tests.chain.proxy import Proxy
from tests.chain.scene import Scene
from tests.lab.cluster import NODES, Cluster, Json, await_true, install_classes
from tests.remediator.builders import DRIVER, T0, at, uuid

pytestmark = pytest.mark.verify

SECONDS = float(os.environ.get("CHAOS_SECONDS", "40"))
SEED = int(os.environ.get("CHAOS_SEED", "1"))
LONG = 120.0
"""Seconds of a run that has the time for what may take five minutes to be right."""
CALM = 360.0
"""Seconds in which the answer must be right once everything works again: a leader whose policy is
not that of the one before waits for five minutes."""
REPLICAS = 7
"""Of ten GPUs, beside a pod that tolerates NoExecute: what is moved finds a place while no more
than two are broken."""
EVICTING = 3
"""GPUs that may be evicted from at once."""
POLICY = f"""
defaults: {{settle: 1s, soak: 3s, repeat: {{count: 1000}}}}
overrides:
- {{match: {{pool: "node-*"}}, defaults: {{mode: enforce}}}}
budget:
  evict: {{node: 8, deviceClass: 100%, cluster: {EVICTING}, rate: none}}
  correlation: {{nodes: 64, after_change: 0s}}
"""
"""A GPU may break again and again here without a user. What the second driver publishes is only
observed, and that lowers nothing."""
FLAGS = (
    f"--gpu-drivers={DRIVER},{SECOND_DRIVER}",
    "--node-condition",
    f"--node-condition-deadline={DEADLINE}",
)
TOLERATING = {
    "name": "gpu",
    "exactly": {
        "deviceClassName": GPU_CLASS,
        "tolerations": [{"operator": "Exists", "effect": "NoExecute"}],
    },
}


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


@pytest.mark.timeout(SECONDS + 900)
@pytest.mark.parametrize("replicas", [1, 2])
def test_under_chaos_no_fault_is_lost_and_no_healthy_device_is_touched(
    own_scene: Scene, replicas: int
) -> None:
    scene, dice = own_scene, random.Random(SEED + replicas)  # noqa: S311 - no secret
    log = AuditLog(scene.folder)
    scene.policy(POLICY)
    fleet = Fleet(scene)
    acts = Acts(fleet, POLICY, dice, is_long=SECONDS > LONG)
    fleet.start()
    scene.train(TOLERANT, 1, TOLERATING, BREAKING[0])
    scene.train(TRAIN, REPLICAS, gpu_request())
    with Proxy(scene.cluster.plane.endpoint()) as proxy:
        remediators = [scene.remediator(*FLAGS, server=proxy.url) for _ in range(replicas)]
        trouble = Trouble(scene, proxy, remediators, dice)
        end = time.monotonic() + SECONDS / 2
        while time.monotonic() < end:
            trouble.make(acts.do_one)
            acts.go_on()
        trouble.end()
        acts.patience = 0.0
        calm_at = time.monotonic()
        await_right(scene, fleet, acts)
        converged = time.monotonic() - calm_at
        acts.end()
        await_clean(scene, acts)
        for replica in remediators:
            replica.kill()  # a polite end waits for each watch behind this HTTP/1.0 proxy
    lists = sum(replica.logged().count("listing again") for replica in remediators)
    done = log.done()
    made = f"{dict(trouble.made)}; {dict(acts.made)}"
    counts = (len(fleet.episodes), len(done.rules), len(done.evictions), lists)
    print(f"\n{closing_line(SEED, replicas, made, counts, converged)}")  # noqa: T201 - of a long run
    found = wrongs(fleet, done, trouble.lag)
    assert not found, "\n".join([*found, "", *what_happened(fleet.episodes, done)])
    assert Counter(incident["spec"]["uuid"] for incident in scene.incidents()) <= fleet.faults
    if trouble.outlived:
        assert lists, "no watch was ever too old"


def what_happened(episodes: Iterable[Episode], done: Done) -> list[str]:
    """Return all faults and all that was done, a line each, in the order of time."""
    lines = [
        (episode.began, f"{episode.device} ({episode.uuid}) broken until {episode.ended}")
        for episode in episodes
    ]
    lines += [(it.at, f"{it.device} gets {it.effect or 'no taint'}") for it in done.rules]
    lines += [(it.at, f"pod {it.pod} evicted by {it.by}") for it in done.evictions]
    lines += [(it.at, f"{it.node} is to be repaired: {it.message}") for it in done.calls]
    return [f"{at:%H:%M:%S.%f} {stated}" for at, stated in sorted(lines)]


def await_right(scene: Scene, fleet: Fleet, acts: Acts) -> None:
    """Wait until exactly what is broken is tainted, reported and empty, or says what defers it."""

    def right() -> bool:
        acts.go_on()
        incidents, rules = scene.open_incidents(), scene.rules()
        full = len(kept_devices(scene)) >= EVICTING
        deferred = {it["spec"]["uuid"] for it in incidents if full and waits_for_budget(it)}
        evicting = {device for device, effect in rules.items() if effect == "NoExecute"}
        return (
            rules.keys() == fleet.due.keys()
            and all(fleet.due[device] in deferred for device in rules.keys() - evicting)
            and sorted(it["spec"]["uuid"] for it in incidents) == sorted(fleet.sick)
            and not set(scene.holders(TRAIN).values()) & evicting
        )

    await_seen(lambda: f"{fleet.due} are tainted, of {fleet.sick}", scene, right)


def await_clean(scene: Scene, acts: Acts) -> None:
    """Wait until nothing is left of all that was repaired, and everything runs."""

    def clean() -> bool:
        acts.go_on()
        conditions = (
            it for node in scene.cluster.items(NODES) for it in node["status"]["conditions"]
        )
        running = len(scene.holders(TRAIN)), len(scene.holders(TOLERANT))
        return not (
            scene.rules()
            or scene.open_incidents()
            or any((it["type"], it["status"]) == (REPAIR_NEEDED, "True") for it in conditions)
            or running != (REPLICAS, 1)
        )

    await_seen(lambda: "nothing is left", scene, clean)


def await_seen(what: Callable[[], str], scene: Scene, look: Callable[[], bool]) -> None:
    """Wait through an API server that has just come back; say what is there when it fails."""

    def seen() -> bool:
        with suppress(ApiError):
            return look()
        return False

    try:
        await_true(what(), seen, CALM)
    except AssertionError as error:
        stated = [
            (it["spec"]["uuid"], it.get("status", {}).get("message"))
            for it in scene.open_incidents()
        ]
        raise AssertionError(
            f"{error}: {scene.rules()}, {stated}, {scene.holders()}, kept {kept_devices(scene)}"
        ) from None


def called_nodes(scene: Scene) -> list[str]:
    """Return the nodes that are to be repaired."""
    return [
        node["metadata"]["name"]
        for node in scene.cluster.items(NODES)
        for it in node["status"]["conditions"]
        if (it["type"], it["status"]) == (REPAIR_NEEDED, "True")
    ]


def waits_for_budget(incident: Json) -> bool:
    """Whether an incident says that the eviction of its GPU waits for those of others."""
    conditions = incident.get("status", {}).get("conditions", [])
    stated = {it["type"]: (it["status"], it["reason"]) for it in conditions}
    return stated.get("Deferred") == ("True", "Budget")


def kept_devices(scene: Scene) -> set[str]:
    """Return the devices of pods that do not end, or that tolerate that they should."""
    devices = scene.cluster.devices()
    return {
        devices.get(meta["name"], "")
        for meta in (pod["metadata"] for pod in scene.cluster.pods())
        if "deletionTimestamp" in meta or meta["name"].startswith(TOLERANT)
    }


HISTORY = History(
    [Episode("node-a/gpu-0", at(100), at(200), "a0")],
    [
        Named(at(0), "node-a/gpu-0", "a0"),
        Named(at(0), "node-a/gpu-1", "a1"),
        Named(at(210), "node-a/gpu-0", "a1"),
        Named(at(210), "node-a/gpu-1", "a0"),
        Named(at(210), "node-b/gpu-0", "a0"),
    ],
)
THERE = {
    "p": Tenancy(at(0), "node-a/gpu-0"),
    "q": Tenancy(at(150), "node-a/gpu-0"),
    "late": Tenancy(at(215), "node-a/gpu-0"),
    "stays": Tenancy(at(0), "node-a/gpu-0", tolerates=True),
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
        ([*TAINTED, RuleWrite(at(215), "node-b/gpu-0", "NoSchedule", "a0")], [], ""),
        ([*TAINTED, RuleWrite(at(235), "node-a/gpu-1", "NoSchedule", "a0")], [], "tainted 2 times"),
        ([RuleWrite(at(211), "node-a/gpu-1", "NoSchedule", "a0")], [], "never tainted"),
        ([RuleWrite(at(145), "node-a/gpu-0", "NoSchedule", "a0")], [], "never tainted"),
        ([RuleWrite(at(211), "node-a/gpu-1", "NoExecute", "a0")], [], "was healthy"),
        ([TAINTED[0], RuleWrite(at(151), "node-a/gpu-1", "NoSchedule", "a0")], [], "another name"),
        ([RuleWrite(at(151), "node-a/gpu-0", "NoSchedule", "a1")], [], "another name"),
        ([], [Eviction(at(50), "p", "")], "for nothing"),
        ([], [Eviction(at(103), "stranger", "")], "for nothing"),
        ([], [Eviction(at(103), "p", ""), Eviction(at(160), "q", "")], "2 evictions for one fault"),
        ([], [Eviction(at(103), "p", ""), Eviction(at(104), "p", "")], "evicted 2 times"),
        (TAINTED, [Eviction(at(103), "p", K8S), Eviction(at(160), "q", K8S)], ""),
        (TAINTED, [Eviction(at(103), "stays", K8S)], "tolerates NoExecute"),
        (TAINTED, [Eviction(at(103), "p", K8S), Eviction(at(160), "q", "")], "2 evictions"),
        (TAINTED, [Eviction(at(103), "p", K8S), Eviction(at(291), "late", K8S)], "for nothing"),
        (TAINTED, [Eviction(at(103), "p", K8S), Eviction(at(279), "late", K8S)], ""),
    ],
)
def test_the_judge_of_the_chaos_sees_each_wrong(
    rules: list[RuleWrite], evictions: list[Eviction], problem: str
) -> None:
    found = "; ".join(wrongs(HISTORY, Done(rules, THERE, evictions)))
    assert problem in found if problem else not found


CALLED = History(
    [Episode("node-a/gpu-0", at(100), at(200), uuid(0))],
    [Named(at(0), "node-a/gpu-0", uuid(0))],
    boots=[Boot(at(0), "node-a"), Boot(at(195), "node-a")],
)
NEEDED = f"node-reboot needed by {uuid(0)} (xid-79, incident x-1); "


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (RepairCall(at(101), "node-a", f"{NEEDED}no pod holds a GPU"), ""),
        (RepairCall(at(112), "node-a", f"{NEEDED}pods: x; {OVERRIDES}"), ""),
        (RepairCall(at(197), "node-a", f"{NEEDED}pods: x; {OVERRIDES}"), "just booted"),
        (RepairCall(at(300), "node-a", f"{NEEDED}no pod holds a GPU"), "to be repaired"),
        (RepairCall(at(101), "node-b", f"{NEEDED}no pod holds a GPU"), "to be repaired"),
    ],
)
def test_the_judge_sees_calls_for_another_machine_and_over_new_pods(
    call: RepairCall, problem: str
) -> None:
    rules = [RuleWrite(at(101), "node-a/gpu-0", "NoSchedule", uuid(0))]
    found = "; ".join(wrongs(CALLED, Done(rules, calls=[call])))
    assert problem in found if problem else not found


def test_a_replica_too_many_was_evicted_by_nobody(tmp_path: Path) -> None:
    by = [f"{K8S}/device-taint-eviction-controller", f"{K8S}/replicaset-controller"]
    lines = [msgspec.json.encode({**DELETED, "userAgent": agent}) for agent in by]
    (tmp_path / "audit.log").write_bytes(b"\n".join(lines))

    assert [eviction.by for eviction in AuditLog(tmp_path).evictions()] == by[:1]
