"""Watches that are refused, silent or behind: nobody is evicted for what is no longer so."""

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from exporter.model.node_health import REPORT_HASH, GpuHealth
from kubeapi import clock
from kubeapi.client import Client
from kubeapi.endpoint import Endpoint
from remediator.controller.agents import AGENT_LEASE_PREFIX
from remediator.controller.cluster_metrics import cluster_rows
from remediator.controller.observe import Cluster
from remediator.controller.rate_limit import Pace
from remediator.plan.board import RENEWALS_NEEDED
from remediator.plan.node_decision import NodeDecision
from remediator.plan.view import WatchedKind
from remediator.reconcile import Reconciler, StepsFailedError
from tests.chain.scene import resource_slice
from tests.lab.cluster import await_true
from tests.remediator.builders import NODE, dead, gpu, policy, published, report, uuid
from tests.remediator.controller.api import (
    CLAIMS,
    INCIDENTS,
    LEASES,
    PODS,
    REPORTS,
    RULES,
    SLICES,
    Api,
    serving,
)

SETTLED = timedelta(seconds=4)
COLLECTIONS: dict[WatchedKind, str] = {
    "reports": REPORTS,
    "leases": LEASES,
    "slices": SLICES,
    "claims": CLAIMS,
    "rules": RULES,
    "incidents": INCIDENTS,
}


class Room:
    """A cluster on an API server in memory, and the reconciler before it."""

    def __init__(self, api: Api, cluster: Cluster) -> None:
        self.api, self.cluster = api, cluster
        self.ahead = timedelta()
        self.reconciler = Reconciler(cluster, policy)

    def publish(self, *gpus: GpuHealth) -> None:
        devices = [device for health in gpus for device in published(health)]
        self.api.put(SLICES, "slice-a", spec=resource_slice(NODE, devices)["spec"])

    def report(self, *gpus: GpuHealth, content_hash: str = "h1") -> None:
        status = msgspec.structs.replace(
            report(*gpus), observed_at=clock.now(), content_hash=content_hash
        )
        self.api.put(REPORTS, NODE, status=msgspec.to_builtins(status))

    def hold(self, device: str, pod: str = "train-0") -> None:
        result = {"request": "r", "driver": "gpu.nvidia.com", "pool": NODE, "device": device}
        status = {
            "allocation": {"devices": {"results": [result]}},
            "reservedFor": [{"resource": "pods", "name": pod, "uid": f"u-{pod}"}],
        }
        self.api.put(CLAIMS, f"claim-{pod}", spec={"devices": {}}, status=status)
        meta = {"namespace": "team", "uid": f"u-{pod}"}
        self.api.put(PODS, pod, metadata=meta, spec={"nodeName": NODE}, status={"phase": "Running"})

    def renew(self, content_hash: str = "h1") -> None:
        self.api.put(
            LEASES,
            f"{AGENT_LEASE_PREFIX}{NODE}",
            metadata={"namespace": "draguard-system", "annotations": {REPORT_HASH: content_hash}},
            spec={"renewTime": clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")},
        )

    def decide(self, times: int = 6) -> NodeDecision:
        """Reconcile until nothing more follows from it."""
        now = clock.now() + self.ahead
        return [self.reconciler.reconcile(NODE, now) for _ in range(times)][-1]

    def seen(self, what: str, condition: Callable[[], object]) -> None:
        await_true(what, condition)

    def blind(self) -> set[str]:
        return set(self.cluster.peek(NODE).blind)

    def message(self) -> str:
        (one,) = self.api.stored[INCIDENTS].values()
        return str(one["status"]["message"])


@contextmanager
def leader(
    api: Api, endpoint: Endpoint, elapsed: Callable[[], float] = time.monotonic
) -> Generator[Room]:
    """Give a process that decides, with its caches and its memory."""
    cluster = Cluster(
        Client(endpoint, timeout=60.0),
        mark=lambda _: None,
        urgent=lambda _: None,
        leading=lambda: True,
        pace=Pace(1000, 2000, has_urgent=lambda: False),
        lease_namespace="draguard-system",
        stale_after=600.0,
        now=clock.now,
        elapsed=elapsed,
    )
    cluster.start()
    cluster.probe()
    try:
        assert cluster.informers.wait_synced(60)
        yield Room(api, cluster)
    finally:
        cluster.stop()


@pytest.fixture
def room() -> Generator[Room]:
    with serving() as served, leader(*served) as room:
        yield room


def renumbered(room: Room) -> None:
    """Board 0, which is sick, was gpu-0 and is gpu-1 after a reboot; board 1 is gpu-0."""
    room.report(dead_at(1), gpu(1, minor=0))
    room.publish(dead_at(1), gpu(1, minor=0))


def dead_at(minor: int) -> GpuHealth:
    return msgspec.structs.replace(dead(0), minor=minor)


def set_up(room: Room) -> None:
    room.publish(gpu(0), gpu(1))
    room.report(gpu(0), gpu(1))
    room.hold("gpu-0", "train-on-b")
    room.seen("all is known", lambda: len(room.cluster.peek(NODE).slices.inventory) == 2)
    room.seen("the claim too", lambda: room.cluster.peek(NODE).usage.claims)
    room.seen("and the report", lambda: room.cluster.peek(NODE).agent.report)


def test_the_refused_watch_of_slices_evicts_nobody_after_a_renumbering(room: Room) -> None:
    set_up(room)
    room.api.refuse(SLICES)
    room.seen("it is noticed", lambda: room.blind() == {"slices"})
    renumbered(room)
    room.seen("the report is observed", lambda: presence(room) == "Lost")

    room.decide()
    room.ahead = SETTLED
    room.decide()
    assert room.api.effects() == {}, "the sick board is not known by any name"

    room.api.allow(SLICES)
    room.seen("it sees again", lambda: not room.blind())
    room.ahead = timedelta()
    room.decide()
    assert room.api.effects() == {"gpu-1": "NoSchedule"}


def presence(room: Room) -> str:
    seen = room.cluster.peek(NODE).agent.report
    return seen.gpus[0].presence if seen and seen.gpus else ""


def test_a_watch_of_slices_that_lags_evicts_nobody_because_of_the_last_look(room: Room) -> None:
    """Nothing tells of a dead connection for a while. The taint may be on the wrong device then,
    but no pod is evicted before the API server was queried once more."""
    set_up(room)
    room.api.frozen.add(SLICES)
    renumbered(room)
    room.seen("the report is observed", lambda: presence(room) == "Lost")

    room.decide()
    assert room.api.effects() == {"gpu-0": "NoSchedule"}
    room.ahead = SETTLED
    decision = room.decide()
    assert room.api.effects() == {"gpu-0": "NoSchedule"}
    assert "other devices than the watch reported" in decision.unconfirmed
    assert "other devices than the watch reported" in room.message()

    room.api.frozen.clear()
    room.seen("it hears", lambda: room.cluster.peek(NODE).slices.inventory[0].uuid == uuid(1))
    room.decide()
    assert room.api.effects() == {"gpu-1": "NoSchedule"}
    room.ahead = 2 * SETTLED
    room.decide()
    assert room.api.effects() == {"gpu-1": "NoExecute"}


@pytest.mark.parametrize("kind", COLLECTIONS)
def test_a_collection_that_is_refused_stops_what_rests_on_it_and_goes_on_by_itself(
    room: Room, kind: WatchedKind
) -> None:
    set_up(room)
    room.report(dead(0), gpu(1))
    room.seen("the report is observed", lambda: presence(room) == "Lost")
    room.api.refuse(COLLECTIONS[kind])
    room.seen("it is noticed", lambda: room.blind() == {kind})
    room.decide()
    room.ahead = SETTLED
    room.decide()
    assert room.api.effects() == ({"gpu-0": "NoSchedule"} if kind == "claims" else {})

    room.api.allow(COLLECTIONS[kind])
    room.seen("it sees again", lambda: not room.blind())
    room.decide()
    room.ahead = 3 * SETTLED
    room.decide()
    assert room.api.effects() == {"gpu-0": "NoExecute"}


def test_a_node_that_is_not_blind_costs_no_look(room: Room) -> None:
    set_up(room)
    before = len(room.api.reads)
    room.decide()
    assert [path for path in room.api.reads[before:] if "watch" not in path] == []


def test_a_slice_that_cannot_be_read_stops_its_node_only(room: Room) -> None:
    set_up(room)
    spec: Any = resource_slice("node-b", list(published(gpu(0, node="node-b"), "node-b")))["spec"]
    room.api.put(SLICES, "slice-b", spec=spec)
    room.seen("b is known", lambda: room.cluster.peek("node-b").slices.inventory)
    room.api.put(SLICES, "slice-b", spec={**spec, "pool": {"name": 7}})
    room.seen("it is noticed", lambda: "slices" in room.cluster.peek("node-b").blind)
    assert "slice-b cannot be read" in room.cluster.peek("node-b").blind["slices"]
    assert not room.blind()


def test_slices_that_cannot_be_read_are_counted(room: Room) -> None:
    def unread() -> float:
        kinds = room.cluster.informers.unread_counts()
        return cluster_rows(room.cluster.cache, {}, unread=kinds)["unread_objects"]["slices",]

    set_up(room)
    assert unread() == 0
    room.api.put(SLICES, "odd", spec={"pool": {"name": 7}})
    room.seen("it is counted", lambda: unread() == 1)
    room.api.drop(SLICES, "odd")
    room.seen("it is gone", lambda: unread() == 0)


def test_no_device_is_free_while_a_claim_cannot_be_read(room: Room) -> None:
    def states() -> set[str]:
        unread = room.cluster.informers.unread_counts()
        return {key[4] for key in cluster_rows(room.cluster.cache, {}, unread=unread)["devices"]}

    set_up(room)
    room.hold("gpu-0")
    room.seen("one is held", lambda: states() == {"allocated", "free"})
    room.api.put(CLAIMS, "odd", spec={"devices": {"requests": 7}})
    room.seen("the other is unknown", lambda: states() == {"allocated", "unknown"})
    room.api.drop(CLAIMS, "odd")
    room.seen("it is free", lambda: states() == {"allocated", "free"})


def test_where_rules_stop_being_served_incidents_go_on_and_nothing_is_frozen(room: Room) -> None:
    set_up(room)
    room.report(dead(0), gpu(1))
    room.seen("the report is observed", lambda: presence(room) == "Lost")
    room.decide()
    room.ahead = SETTLED
    room.decide()
    assert room.api.effects() == {"gpu-0": "NoExecute"}

    room.api.unserved.add(RULES)
    room.cluster.probe()
    room.decide()
    (one,) = room.api.stored[INCIDENTS].values()
    assert not room.blind()
    assert not room.cluster.fleet().rules_served
    assert one["status"]["phase"] == "Suspected"
    assert one["status"]["policy"]["mode"] == "Enforce"
    assert "NoExecute deferred: DeviceTaintRules are not served" in one["status"]["message"]
    assert [rule["effect"] for rule in one["status"]["scope"]["rules"]] == ["NoExecute"]
    assert room.api.effects() == {"gpu-0": "NoExecute"}, "nobody could delete it"

    room.api.unserved.clear()
    room.cluster.probe()
    room.seen("rules are listed", lambda: room.cluster.peek(NODE).stored.rules and not room.blind())
    room.decide()
    (one,) = room.api.stored[INCIDENTS].values()
    assert [rule["device"] for rule in one["status"]["scope"]["rules"]] == [
        f"gpu.nvidia.com/{NODE}/gpu-0"
    ]


def test_after_a_restore_of_etcd_what_is_listed_counts_though_versions_fell(room: Room) -> None:
    set_up(room)
    room.report(dead(0), gpu(1))
    room.seen("the report is observed", lambda: presence(room) == "Lost")
    room.decide()
    with room.api.changed:
        for name, stored in room.api.stored[INCIDENTS].items():
            status = {
                **stored["status"],
                "fault": {**stored["status"]["fault"], "cause": "restored"},
            }
            meta = {**stored["metadata"], "resourceVersion": "3"}
            room.api.stored[INCIDENTS][name] = {**stored, "status": status, "metadata": meta}
    before = len(room.api.reads)
    room.api.refuse(INCIDENTS, 410)
    room.seen("it is refused", lambda: any(INCIDENTS in path for path in room.api.reads[before:]))
    room.api.allow(INCIDENTS)
    room.seen(
        "the restored one is known",
        lambda: (
            [incident.status.fault.cause for incident in room.cluster.cache.incidents()]
            == ["restored"]
        ),
    )


def test_a_lease_renewal_confirms_the_report_that_is_stored_and_no_other(room: Room) -> None:
    set_up(room)
    room.renew("h0")
    room.seen("it is observed", lambda: LEASES and room.cluster.informers.agents.leases.items())
    for number in range(1, RENEWALS_NEEDED + 1):
        room.renew("h1")
        room.seen("it counts", lambda: len(room.cluster.peek(NODE).agent.renewals) == number)  # noqa: B023
    room.report(gpu(0), gpu(1), content_hash="h2")
    room.seen("the new report has none", lambda: not room.cluster.peek(NODE).agent.renewals)
    room.renew("h2")
    room.seen("now it has", lambda: len(room.cluster.peek(NODE).agent.renewals) == RENEWALS_NEEDED)


def test_where_incidents_may_not_be_written_nothing_new_is_done_and_it_goes_on(room: Room) -> None:
    """That is found by the first write; the taint before it keeps new pods away and no more."""
    set_up(room)
    room.api.read_only.add(INCIDENTS)
    room.report(dead(0), gpu(1))
    room.seen("the report is observed", lambda: presence(room) == "Lost")
    with pytest.raises(StepsFailedError, match="403"):
        room.decide(1)
    assert room.api.effects() == {"gpu-0": "NoSchedule"}
    assert room.blind() == {"incidents"}

    room.report(dead(0), msgspec.structs.replace(dead(1), minor=1))
    room.seen("the second too", lambda: len(_lost(room)) == 2)
    room.ahead = SETTLED
    for _ in range(3):
        with suppress(StepsFailedError):  # the rule without an incident goes on asking for one
            room.decide(1)
    assert room.api.effects() == {"gpu-0": "NoSchedule"}

    room.api.read_only.clear()
    room.cluster.probe()
    assert not room.blind()
    room.decide()
    assert room.api.effects() == {"gpu-0": "NoSchedule", "gpu-1": "NoSchedule"}


def test_one_incident_that_is_refused_stops_no_other(room: Room) -> None:
    rights = room.cluster.writer.incident_rights
    rights.look()
    assert not rights.refused
    room.api.read_only.add(INCIDENTS)
    rights.look()
    assert "refuses to write deviceincidents (403)" in rights.refused


def _lost(room: Room) -> list[str]:
    seen = room.cluster.peek(NODE).agent.report
    return [health.uuid for health in (seen.gpus if seen else ()) if health.presence == "Lost"]
