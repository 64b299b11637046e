"""What is made of a cluster's objects, without a cluster: who is believed, what is counted."""

from datetime import datetime, timedelta
from typing import TypeVar

import msgspec
import pytest

from draguard.cluster.decide import Deciding
from draguard.cluster.fleet_status import Rules, Status, UnknownGpu, fleet_status, modes_in_words
from draguard.cluster.installation import Installation, PolicyInForce
from draguard.cluster.objects import Objects
from draguard.render.plain import plain
from draguard.render.status_page import MOST, status_page
from exporter.model.node_health import GpuHealth, NodeDeviceHealth, SourceHealth
from exporter.model.resource_slices import ResourceSlice
from kubeapi.lease import Lease, LeaseMeta, LeaseSpec
from kubeapi.types import ObjectMeta
from remediator.controller.agents import AGENT_LEASE_PREFIX, LEASE_NAME
from remediator.model.incident import Incident, IncidentSpec
from remediator.model.node import RawNode
from remediator.policy.load import read
from remediator.settings import Settings
from tests.chain.scene import resource_slice
from tests.draguard.fleet import T0
from tests.draguard.test_cli_terminal import letters
from tests.remediator.builders import dead, gpu, published, report, uuid, with_fields

T = TypeVar("T")
ENFORCE = read("defaults: {mode: enforce}")
LATE = T0 + timedelta(minutes=5)
DOWN = SourceHealth(name="kmsg", state="Down", reason="PermissionDenied")


def lease(name: str, at: datetime, holder: str = "x") -> Lease:
    return Lease(LeaseMeta(name=name), LeaseSpec(holder_identity=holder, renew_time=at))


def slices(*gpus: GpuHealth, node: str = "node-a") -> tuple[ResourceSlice, ...]:
    devices = [device for board in gpus for device in published(board, node)]
    return (msgspec.convert(resource_slice(node, devices), ResourceSlice),)


def objects(*gpus: GpuHealth, at: datetime = T0, **fields: object) -> Objects:
    reported = report(*gpus, sources=(DOWN,))
    standard = Objects(
        server="s",
        at=at,
        dra_version="v1",
        rule_version="v1",
        reports=(NodeDeviceHealth(ObjectMeta(name="node-a"), reported),),
        slices=slices(*gpus),
        leases=(lease(LEASE_NAME, T0),),
    )
    return with_fields(standard, **fields)


def looked_at(found: Objects) -> Status:
    return fleet_status(found, Installation(policy=PolicyInForce(policy=ENFORCE, source="p")))


def known(value: T | None) -> T:
    assert value is not None
    return value


def shown_words(found: Status, now: datetime = T0) -> str:
    return letters(str(list(status_page(found, now))))


def test_a_silent_agents_word_counts_for_nothing() -> None:
    fresh, stale = looked_at(objects(gpu(0))), looked_at(objects(gpu(0), at=LATE))

    assert (
        known(fresh.gpus).healthy,
        known(fresh.gpus).unknown,
        len(known(fresh.sources_down)),
    ) == (1, 0, 1)
    assert (
        known(stale.gpus).healthy,
        known(stale.gpus).unknown,
        len(known(stale.sources_down)),
    ) == (0, 1, 0)
    assert (known(stale.nodes).reporting, known(stale.nodes).stale) == (0, ("node-a",))


def test_a_lease_keeps_an_old_report_believed() -> None:
    alive = (lease(f"{AGENT_LEASE_PREFIX}node-a", LATE),)

    assert known(looked_at(objects(gpu(0), at=LATE, leases=alive)).gpus).healthy == 1


def test_gpus_of_a_node_that_never_reported_are_unknown_and_not_none() -> None:
    found = looked_at(objects(gpu(0), reports=()))

    assert (known(found.gpus).healthy, known(found.gpus).unknown) == (0, 1)
    assert known(found.nodes).unwatched == ("node-a",)


def test_the_emergency_stop_holds_what_would_be_done() -> None:
    lost = objects(dead(0))

    def held(seen: Objects) -> str:
        deciding = Deciding(seen, 150)
        (decision,) = deciding.decisions(["node-a"], ENFORCE, lambda _: ())
        ((_, planned),) = decision.pairs
        return planned.granted.deferred

    assert held(lost) == ""
    assert "ana" in held(msgspec.structs.replace(lost, stopped="ana: roll-out"))


def test_a_sick_gpu_without_an_incident_is_talked_of() -> None:
    assert Deciding(objects(dead(0)), 150).affected_nodes() == ["node-a"]
    assert Deciding(objects(gpu(0)), 150).affected_nodes() == []


def test_a_leader_that_is_silent_or_not_there_is_bad() -> None:
    assert letters("ago, and no other replica has taken over") in shown_words(
        looked_at(objects(gpu(0))), LATE
    )
    nobody = looked_at(objects(gpu(0), leases=()))
    assert letters("no remediator leads: nothing is tainted or untainted") in shown_words(nobody)


def test_objects_that_cannot_be_read_are_reported() -> None:
    assert letters("cannot read them: 2 claims") in shown_words(
        looked_at(objects(gpu(0), unreadable=("2 claims",)))
    )


def test_modes_are_listed_from_the_strongest() -> None:
    assert modes_in_words({"a": "off", "b": "off"}) == "off: every class"
    assert modes_in_words({"a": "dry-run", "b": "enforce", "c": "off", "d": "off"}) == (
        "enforce: b; dry-run: a; off: all others"
    )


def test_a_cluster_without_gpus_is_not_green() -> None:
    empty = looked_at(objects(reports=(), slices=()))

    assert letters("0 healthy, 0 sick, 0 unknown', tone='warn'") in shown_words(empty)


def rules(**effects: int) -> Rules:
    return Rules(served="v1", ours=effects, maintenance=0, others=0)


@pytest.mark.parametrize(
    ("standing", "words"),
    [
        (rules(none=0, NoSchedule=2, NoExecute=0), "2 NoSchedule"),
        (rules(NoSchedule=2, NoExecute=1), "2 NoSchedule, 1 NoExecute"),
        (rules(NoSchedule=0), "0 from Draguard"),
        (msgspec.structs.replace(rules(), maintenance=1), "0 from Draguard; 1 for maintenance"),
        (msgspec.structs.replace(rules(), others=3), "0 from Draguard; 3 from others"),
    ],
)
def test_rules_that_do_not_stand_are_not_counted_out(standing: Rules, words: str) -> None:
    found = with_fields(looked_at(objects(gpu(0))), rules=standing)

    assert f"\nrules      {words}\n" in plain(status_page(found, T0))


def test_the_name_of_the_cluster_is_in_the_title_beside_its_server() -> None:
    named = Installation(
        settings=Settings(cluster_name="east-1"), policy=PolicyInForce(policy=ENFORCE, source="p")
    )
    found = fleet_status(objects(gpu(0)), named)

    assert "Draguard in east-1 (s)" in plain(status_page(found, T0))
    assert "Draguard in s\n" in plain(status_page(looked_at(objects(gpu(0))), T0))


@pytest.mark.parametrize(
    ("more", "words"), [(1, "1 more unknown GPU: "), (2, "2 more unknown GPUs: ")]
)
def test_what_is_left_out_is_counted_in_the_right_number(more: int, words: str) -> None:
    unknown = (UnknownGpu("node-a", "GPU-x", "it is silent"),) * (MOST + more)
    found = msgspec.structs.replace(looked_at(objects(gpu(0))), unknown=unknown)

    assert f"{words}draguard status --all-rows" in plain(status_page(found, T0))


def nodes(*names: str) -> tuple[RawNode, ...]:
    return tuple(RawNode(ObjectMeta(name=name)) for name in names)


def test_a_report_that_outlived_its_node_is_reported_and_its_gpus_are_nobodys() -> None:
    found = looked_at(objects(gpu(0), at=LATE, nodes=nodes("node-b")))

    assert (known(found.nodes).stale, known(found.nodes).gone) == ((), ("node-a",))
    assert (known(found.gpus).unknown, found.unknown) == (0, ())
    assert "0 reporting, 1 deleted, with a report left (node-a)" in plain(status_page(found, LATE))


def test_a_node_that_reports_is_not_gone_and_where_nodes_are_not_seen_none_is() -> None:
    fresh = looked_at(objects(gpu(0), nodes=nodes("node-b")))
    blind = looked_at(objects(gpu(0), at=LATE, missing=frozenset({"nodes"})))

    assert (known(fresh.gpus).healthy, known(fresh.nodes).gone) == (1, ())
    assert (known(blind.gpus).unknown, known(blind.nodes).stale) == (1, ("node-a",))


def test_a_gpu_of_a_node_that_is_gone_is_counted_while_its_incident_is_open() -> None:
    incident = Incident(ObjectMeta(name="gpu-x-1"), IncidentSpec(node="node-a", uuid=uuid(0)))
    found = looked_at(objects(gpu(0), at=LATE, nodes=nodes("node-b"), incidents=(incident,)))

    assert known(found.gpus).unknown == 1
