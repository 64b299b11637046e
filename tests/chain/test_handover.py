"""A node-level repair is handed over on a real Node, by what real claims and pods say."""

from datetime import datetime, timedelta
from typing import Any

import msgspec

from kubeapi import clock
from kubeapi.types import ObjectMeta
from remediator.controller.node_conditions import NodeConditions
from remediator.controller.node_pods import NodePods
from remediator.diagnose.fault import Fault, Healthy, Sick, Verdict
from remediator.model.claim import Claim
from remediator.model.incident import Incident, IncidentSpec
from remediator.model.node import HARDWARE_READY, REPAIR_NEEDED, NodeFacts
from remediator.plan.board import Board
from remediator.plan.node_condition import HandoverOptions, conditions
from remediator.plan.stages import Planned, Repair
from simulator.cluster.workloads import gpu_request
from tests.chain.scene import Scene
from tests.lab.cluster import NODES, await_true
from tests.remediator.builders import (
    at,
    gpu,
    make_board,
    make_granted,
    make_status,
    repair_request,
    uuid,
    view,
)

NODE = "node-a"
CLAIMS = "/apis/resource.k8s.io/v1/resourceclaims"
OPTIONS = HandoverOptions(
    enabled=True, deadline=timedelta(hours=1), accelerated_hardware_ready=True
)
SICK = Sick((Fault(fault_class="node", cause="xid-79", last_seen=at(0), evidence="XID 79"),))


class Handing:
    """The decision and the hand, over a real cluster; the test writes the incident."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._hand = NodeConditions(scene.cluster.client)

    def tick(
        self, now: datetime, verdict: Verdict = SICK, *, closing: bool = False
    ) -> dict[str, dict[str, Any]]:
        """Decide once, write what follows, and return the Node's conditions by type."""
        cluster = self._scene.cluster
        listed = msgspec.json.encode(cluster.items(CLAIMS))
        stored = self._hand.read(NODE)
        facts = NodeFacts(name=NODE, conditions=stored.conditions if stored else None)
        seen = view(
            gpu(0),
            gpu(1),
            claims=tuple(msgspec.json.decode(listed, type=list[Claim])),
            pods=NodePods(cluster.client).list_pods(NODE, live=True),
            facts=facts,
        )
        for write in conditions(seen, [_pair(verdict, closing=closing)], now, OPTIONS):
            self._hand.write(write.node, write.conditions)
        found = cluster.get(f"{NODES}/{NODE}")["status"]["conditions"]
        return {condition["type"]: condition for condition in found}


def _pair(verdict: Verdict, *, closing: bool) -> tuple[Board, Planned]:
    meta = ObjectMeta(name=f"{uuid(0).lower()}-1", uid="stored")
    status = make_status(
        fault_class="node",
        cause="xid-79",
        mode="Enforce",
        needs="NodeReboot",
        request=repair_request(BEGAN),
    )
    incident = Incident(meta, IncidentSpec(NODE, uuid(0)), status)
    board = make_board(verdict, incidents=(incident,))
    granted = make_granted(
        uuid(0),
        incident=incident,
        repair=Repair(
            needs="node-reboot",
            calls="node-reboot" if isinstance(verdict, Sick) else "nothing",
            insists="node-reboot",
        ),
        kind="closes" if closing else "stands",
    )
    return board, Planned(granted=granted)


BEGAN = clock.now()


def at_minute(number: int) -> datetime:
    return BEGAN + timedelta(minutes=number)


def stamp(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def test_the_node_is_handed_over_when_its_last_gpu_pod_left_and_taken_back_when_it_is_well(
    scene: Scene,
) -> None:
    scene.node(NODE, gpu(0), gpu(1))
    scene.train("train", 1, gpu_request())
    hand = Handing(scene)
    untouched = scene.cluster.get(f"{NODES}/{NODE}")["status"]["conditions"]

    waiting = hand.tick(at_minute(1))
    assert waiting[REPAIR_NEEDED]["status"] == "False"
    assert waiting[REPAIR_NEEDED]["reason"] == "WaitingForNeighbours"
    (pod,) = scene.cluster.running()
    assert f"default/{pod['metadata']['name']}" in waiting[REPAIR_NEEDED]["message"]
    assert HARDWARE_READY not in waiting

    scene.cluster.client.delete("/apis/apps/v1/namespaces/default/deployments/train")
    await_true("the pod is gone", lambda: not scene.cluster.pods())
    await_true("its claim is gone", lambda: not scene.cluster.items(CLAIMS))

    needed = hand.tick(at_minute(2))
    assert needed[REPAIR_NEEDED]["status"] == "True"
    assert needed[REPAIR_NEEDED]["reason"] == "NodeRebootNeeded"
    assert needed[REPAIR_NEEDED]["lastTransitionTime"] == stamp(at_minute(2))
    assert needed[HARDWARE_READY]["status"] == "False"
    assert needed[HARDWARE_READY]["reason"] == "NvidiaXID79Error"
    version = scene.cluster.get(f"{NODES}/{NODE}")["metadata"]["resourceVersion"]
    assert hand.tick(at_minute(3)) == needed
    again = scene.cluster.get(f"{NODES}/{NODE}")["metadata"]["resourceVersion"]
    assert again == version, "nothing is written while nothing changes"

    verifying = hand.tick(at_minute(4), Healthy(at_minute(4), "rebooted"))
    assert verifying[REPAIR_NEEDED]["reason"] == "RepairBeingVerified"
    done = hand.tick(at_minute(5), Healthy(at_minute(4), "rebooted"), closing=True)
    assert (done[REPAIR_NEEDED]["status"], done[REPAIR_NEEDED]["reason"]) == (
        "False",
        "NoRepairNeeded",
    )
    assert done[REPAIR_NEEDED]["lastTransitionTime"] == stamp(at_minute(4))
    assert (done[HARDWARE_READY]["status"], done[HARDWARE_READY]["reason"]) == (
        "True",
        "NoRepairNeeded",
    )
    assert [
        condition for kind, condition in done.items() if kind not in (REPAIR_NEEDED, HARDWARE_READY)
    ] == untouched


def test_after_the_deadline_the_node_is_handed_over_with_its_pods(scene: Scene) -> None:
    scene.node(NODE, gpu(0), gpu(1))
    scene.train("train", 1, gpu_request())
    hand = Handing(scene)
    assert hand.tick(at_minute(59))[REPAIR_NEEDED]["status"] == "False"

    found = hand.tick(at_minute(61))[REPAIR_NEEDED]

    assert (found["status"], found["reason"]) == ("True", "NodeRebootNeeded")
    assert "default/train" in found["message"]
