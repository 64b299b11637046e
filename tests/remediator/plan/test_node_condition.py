"""When a Node is said to need a repair, and when it is taken back."""

from datetime import datetime
from pathlib import Path
from typing import Literal

import msgspec
import pytest

from exporter.model.device import Device
from kubeapi.types import ObjectMeta
from remediator.diagnose.fault import NEEDS, NODE_LEVEL, Need, Verdict
from remediator.model.claim import Claim, ClaimMeta
from remediator.model.incident_status import ScopeStatus, Target
from remediator.model.intent import IntentRecord
from remediator.model.node import NodeFacts
from remediator.model.taint_rule import Rule
from remediator.plan import words
from remediator.plan.board import Board
from remediator.plan.needs import NODE_REPAIRS
from remediator.plan.node_condition import (
    HELD,
    NOTHING_NEEDED,
    OFF,
    OTHER_REPAIR,
    SWITCHED_OFF,
    VERIFYING,
    WAITING,
    HandoverOptions,
    deadline_wake,
)
from remediator.plan.stages import Course, Planned, Record
from tests.remediator.builders import NODE, at, uuid, with_fields
from tests.remediator.plan.handover import (
    HEALTHY,
    ON,
    SICK,
    UNKNOWN,
    but,
    node,
    pair,
    pod,
    repair,
    reported,
    stored,
)
from tests.remediator.playing import claim


@pytest.mark.parametrize(
    ("needs", "reason"),
    [("node-reboot", "NodeRebootNeeded"), ("replacement", "ReplacementNeeded")],
)
def test_an_empty_node_with_a_gpu_that_needs_a_node_level_act_is_handed_over(
    needs: Need, reason: str
) -> None:
    found = repair(node(), pair(needs=needs))

    assert (found.status, found.reason) == ("True", reason)
    assert found.last_transition_time == at(60)
    for word in (uuid(0), f"{uuid(0).lower()}-1", "xid-79", needs):
        assert word in found.message


@pytest.mark.parametrize("needs", sorted({*NEEDS} - NODE_LEVEL))
def test_what_one_gpu_can_be_healed_of_alone_is_not_handed_over(needs: Need) -> None:
    assert reported(node(), pair(needs=needs)) == {}


def test_the_greatest_need_of_the_node_names_the_reason() -> None:
    found = repair(node(), pair(0), pair(1, "replacement"))

    assert found.reason == "ReplacementNeeded"
    assert uuid(0) in found.message
    assert uuid(1) in found.message


def recorded(decided: tuple[Board, Planned], needs: Need) -> tuple[Board, Planned]:
    """The same with another need in the stored incident."""
    board, planned = decided
    assert planned.incident is not None
    status = with_fields(planned.incident.status, needs=words.NEEDS[needs])
    if status.repair.request and needs in NODE_LEVEL:
        request = with_fields(status.repair.request, need=words.NEEDS[needs])
        status = with_fields(status, request=request)
    incident = msgspec.structs.replace(planned.incident, status=status)
    return board, but(planned, incident=incident)


def test_what_the_faults_of_a_sick_gpu_ask_for_now_counts_at_once() -> None:
    assert repair(node(), recorded(pair(needs="node-reboot"), "nothing")).status == "True"
    assert reported(node(), recorded(pair(needs="gpu-reset"), "node-reboot")) == {}


def test_what_an_unknown_gpu_needed_is_read_from_its_incident() -> None:
    unanswered = recorded(pair(needs="nothing", verdict=UNKNOWN), "node-reboot")

    assert reported(node(stored()), unanswered) == {}


def test_neighbours_with_pods_are_waited_for_by_name() -> None:
    found = repair(node(pods=(pod("train-0"),), claims=(claim("gpu-1"),)), pair())

    assert (found.status, found.reason) == ("False", "WaitingForNeighbours")
    assert "team/train-0" in found.message
    assert "2026-01-05T13:00:00Z at most" in found.message


def test_a_claim_that_is_reserved_counts_before_its_pod_was_listed() -> None:
    found = repair(node(claims=(claim("gpu-1"),)), pair())

    assert found.reason == "WaitingForNeighbours"
    assert "team/train-0" in found.message


def test_a_pod_that_runs_on_an_extended_claim_counts() -> None:
    held = claim("gpu-1")
    assert held.status is not None
    unreserved = msgspec.structs.replace(
        held, status=msgspec.structs.replace(held.status, reserved_for=())
    )
    one = pod("train-0", claims=(), extended_claim="claim-of-train-0")

    assert repair(node(claims=(unreserved,), pods=(one,)), pair()).status == "False"
    assert repair(node(claims=(unreserved,)), pair()).status == "True"


@pytest.mark.parametrize("terminating", [True, False])
def test_a_finished_pod_is_gone_and_a_terminating_one_is_not(terminating: bool) -> None:
    one = pod("train-0", running=terminating, terminating=terminating)

    found = repair(node(pods=(one,), claims=(claim("gpu-1"),)), pair())

    assert found.status == ("False" if terminating else "True")


def test_pods_without_a_gpu_of_this_node_are_in_nobodys_way() -> None:
    other = pod("web-0", claims=("claim-of-web-0", "claim-of-cache"), plugin_resources=())
    nic = claim("nic-0", "web-0", driver="nic.example.com", pool="fabric")
    unallocated = Claim(ClaimMeta(name="claim-of-cache", namespace="team"))
    elsewhere = claim("gpu-1", pool="node-b")

    found = repair(node(pods=(other,), claims=(nic, unallocated, elsewhere)), pair())

    assert found.status == "True"


def test_the_pod_on_a_device_of_a_pool_that_was_once_in_scope_is_waited_for() -> None:
    lost = Device("gpu.example.com", "rack-7", "gpu-7")
    held = claim("gpu-8", driver="gpu.example.com", pool="rack-7")
    seen = node(pods=(), claims=(held,))
    board, planned = pair()
    assert planned.incident is not None
    scope = ScopeStatus("whole GPU", (Target("gpu.example.com", "rack-7", "gpu-7", uuid(0)),))
    found = msgspec.structs.replace(planned.incident.status, scope=scope)
    incident = msgspec.structs.replace(planned.incident, status=found)
    rule = Rule(
        device=lost,
        uuid=uuid(0),
        gpu=uuid(0),
        node=NODE,
        fault="gpu",
        cause="xid-79",
        effect="NoSchedule",
        incident="i",
    )

    assert repair(seen, pair()).status == "True", "nothing ties that pool to this node"
    in_scope = (board, but(planned, incident=incident))
    assert repair(seen, in_scope).reason == WAITING
    assert repair(with_fields(seen, rules=(rule,)), pair()).reason == WAITING


def test_a_pod_that_only_watches_by_admin_access_is_not_waited_for() -> None:
    held = claim("gpu-1", "dcgm-0")
    assert held.status is not None
    assert held.status.allocation is not None
    (result,) = held.status.allocation.devices.results
    admin = msgspec.structs.replace(result, admin_access=True)
    devices = msgspec.structs.replace(held.status.allocation.devices, results=(admin,))
    allocation = msgspec.structs.replace(held.status.allocation, devices=devices)
    status = msgspec.structs.replace(held.status, allocation=allocation)
    watching = msgspec.structs.replace(held, status=status)

    found = repair(node(pods=(pod("dcgm-0"),), claims=(watching,)), pair())

    assert found.status == "True"


def test_after_the_deadline_nobody_is_waited_for_and_who_is_left_is_named() -> None:
    seen = node(pods=(pod("train-0"),), claims=(claim("gpu-1"),))

    before, after = (repair(seen, pair(), seconds=age) for age in (3599, 3600))

    assert (before.status, after.status) == ("False", "True")
    assert after.reason == "NodeRebootNeeded"
    assert "team/train-0" in after.message
    assert "deadline" in after.message


@pytest.mark.parametrize(
    ("seconds", "pairs", "options", "expected"),
    [
        (60, (pair(since=at(0)),), ON, at(3600)),
        (60, (pair(0, since=at(30)), pair(1, since=at(9))), ON, at(3609)),
        (3600, (pair(0, since=at(0)), pair(1, since=at(30))), ON, at(3630)),
        (3600, (pair(since=at(0)),), ON, None),
        (60, (pair(insists=False),), ON, None),
        (60, (pair(verdict=HEALTHY),), ON, None),
        (60, (pair(),), OFF, None),
    ],
)
def test_the_node_is_looked_at_again_when_the_next_deadline_passes(
    seconds: float,
    pairs: tuple[tuple[Board, Planned], ...],
    options: HandoverOptions,
    expected: datetime | None,
) -> None:
    wake = deadline_wake(pairs, at(seconds), options)

    assert (wake.at if wake else None) == expected


def test_an_incident_that_does_not_say_since_when_has_no_deadline() -> None:
    seen = node(pods=(pod("train-0"),), claims=(claim("gpu-1"),))

    assert repair(seen, pair(since=None), seconds=1e6).status == "False"


def test_pods_that_cannot_be_listed_are_not_gone_but_the_deadline_still_ends_the_wait() -> None:
    blind = node(pods=None)

    assert repair(blind, pair()).reason == "WaitingForNeighbours"
    assert repair(blind, pair(), seconds=3600).status == "True"


def test_pods_that_cannot_be_listed_take_nothing_back() -> None:
    assert repair(node(stored(), pods=None), pair()).status == "True"


def test_a_pod_that_arrives_before_the_deadline_takes_it_back() -> None:
    busy = node(stored(), pods=(pod("train-0"),), claims=(claim("gpu-1"),))

    assert repair(busy, pair()).reason == "WaitingForNeighbours"


@pytest.mark.parametrize("mode", ["Off", "IncidentOnly", "DryRun", "OfTheFuture"])
def test_below_enforce_nothing_is_reported_and_what_was_reported_is_taken_back(mode: str) -> None:
    assert reported(node(), pair(mode=mode)) == {}

    for verdict in (SICK, HEALTHY, UNKNOWN):
        found = repair(node(stored()), pair(mode=mode, verdict=verdict))
        assert (found.status, found.reason) == ("False", "NoRepairNeeded")


def test_an_incident_that_is_not_stored_is_not_reported() -> None:
    board, planned = pair()
    assert planned.incident is not None
    fresh = msgspec.structs.replace(
        planned.incident, metadata=ObjectMeta(name=planned.incident.name)
    )

    assert reported(node(), (board, but(planned, incident=fresh))) == {}


@pytest.mark.parametrize("verdict", [SICK, HEALTHY, UNKNOWN])
def test_verified_recovery_takes_it_back(verdict: Verdict) -> None:
    found = repair(node(stored()), pair(verdict=verdict, closing=True))

    assert (found.status, found.reason) == ("False", "NoRepairNeeded")
    assert found.last_transition_time == at(60)


@pytest.mark.parametrize("needs", ["node-reboot", "nothing"])
@pytest.mark.parametrize("reason", ["NodeRebootNeeded", "WaitingForNeighbours", VERIFYING, HELD])
def test_while_the_repair_is_verified_no_other_repair_is_requested(
    needs: Need, reason: str
) -> None:
    found = repair(node(stored(reason=reason)), pair(needs=needs, verdict=HEALTHY))

    assert (found.status, found.reason) == ("False", "RepairBeingVerified")
    assert uuid(0) in found.message


def test_the_soak_of_what_never_stopped_the_node_is_not_reported_on_it() -> None:
    over = stored("False", reason=NOTHING_NEEDED)

    assert repair(node(over), pair(verdict=HEALTHY)).reason == NOTHING_NEEDED


def test_an_incident_that_ends_or_that_a_person_ignores_asks_for_nothing() -> None:
    board, planned = pair()
    stated = IntentRecord(
        kind="Ignore", by="ana", reason="a test board", state="InForce", seen_time=at(0)
    )
    expired = msgspec.structs.replace(stated, state="Expired")

    assert (
        repair(
            node(stored()),
            (board, but(planned, course=Course(kind="ends", reason="another board"))),
        ).reason
        == NOTHING_NEEDED
    )
    assert (
        repair(node(stored()), (board, but(planned, record=Record(intents=(stated,))))).reason
        == NOTHING_NEEDED
    )
    again = but(planned, record=Record(intents=(expired,)))
    assert repair(node(), (board, again)).status == "True"


def test_the_order_of_observation_does_not_matter() -> None:
    both = (pair(0), pair(1))

    assert reported(node(), *both) == reported(node(), *both[::-1])


def test_a_healthy_node_never_gets_a_condition() -> None:
    assert reported(node()) == {}
    assert reported(node(), pair(verdict=HEALTHY)) == {}


@pytest.mark.parametrize("status", ["True", "False"])
def test_an_unknown_gpu_changes_nothing(status: Literal["True", "False"]) -> None:
    assert reported(node(stored(status)), pair(verdict=UNKNOWN)) == {}
    assert reported(node(), pair(verdict=UNKNOWN)) == {}


@pytest.mark.parametrize("stopped", ["", "drill"])
@pytest.mark.parametrize("others", [(), (pair(1, verdict=UNKNOWN),)])
@pytest.mark.parametrize("mine", [pair(), pair(deferred="no"), pair(verdict=UNKNOWN)])
def test_a_pod_that_arrives_takes_it_back_whatever_is_held_or_unknown(
    mine: tuple[Board, Planned], others: tuple[tuple[Board, Planned], ...], stopped: str
) -> None:
    busy = node(stored(), pods=(pod("train-0"),), claims=(claim("gpu-1"),))

    taken_back = repair(busy, mine, *others, stopped=stopped)
    assert (taken_back.status, taken_back.reason in {WAITING, HELD}) == ("False", True)
    after_the_deadline = reported(busy, mine, *others, seconds=3600, stopped=stopped)
    assert all(condition.status == "True" for condition in after_the_deadline.values())


def test_a_sick_gpu_is_handed_over_whatever_is_unknown_beside_it() -> None:
    assert repair(node(), pair(0), pair(1, verdict=UNKNOWN)).status == "True"


def test_a_node_whose_conditions_were_not_read_is_left_alone() -> None:
    unread = msgspec.structs.replace(node(), facts=NodeFacts(name=NODE))

    assert reported(unread, pair()) == {}
    assert reported(msgspec.structs.replace(node(), facts=None), pair()) == {}


def test_what_is_held_is_not_handed_over_and_says_why() -> None:
    found = repair(node(), pair(deferred="evict_gpus_per_node=2 is used up"))

    assert (found.status, found.reason) == ("False", "Deferred")
    assert "evict_gpus_per_node=2" in found.message


def test_the_emergency_stop_holds_every_gpu_of_the_node() -> None:
    found = repair(node(), pair(), stopped="stopped by ana: drill")

    assert found.reason == "Deferred"
    assert "stopped by ana: drill" in found.message


def test_a_hold_freezes_what_was_reported_before() -> None:
    assert reported(node(stored()), pair(deferred="no")) == {}
    assert reported(node(stored()), pair(), stopped="drill") == {}


def test_one_gpu_that_is_not_held_is_enough() -> None:
    assert repair(node(), pair(0, deferred="no"), pair(1)).status == "True"


def test_what_is_held_has_no_deadline_of_its_own() -> None:
    seen = node(pods=(pod("train-0"),), claims=(claim("gpu-1"),))

    found = repair(seen, pair(0, deferred="no"), pair(1, since=at(3000)), seconds=3700)

    assert found.reason == "WaitingForNeighbours"


def test_the_time_of_the_last_transition_changes_with_the_status_only() -> None:
    again = repair(node(stored()), pair())
    other = repair(node(stored("False")), pair())

    assert again.last_transition_time == at(-500)
    assert other.last_transition_time == at(60)


def test_every_reason_is_explained_to_the_reader() -> None:
    page = (Path(__file__).parents[3] / "docs" / "handover.md").read_text(encoding="utf-8")
    rows = {
        line.split("`")[1] for line in page.splitlines() if line.startswith(("| True", "| False"))
    }

    reasons_while_false = {WAITING, HELD, VERIFYING, OTHER_REPAIR, NOTHING_NEEDED, SWITCHED_OFF}
    assert rows == {*NODE_REPAIRS.values(), *reasons_while_false}
    assert NODE_REPAIRS.keys() == NODE_LEVEL
