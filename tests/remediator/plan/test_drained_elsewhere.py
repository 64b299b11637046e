"""Pods of a Slinky NodeSet: their device keeps NoSchedule until Slurm has drained them."""

from typing import Any

import msgspec
import pytest

from remediator.controller.debug_plan import node_plan
from remediator.model.claim import (
    ADMIN,
    EXTENDED_RESOURCE,
    POD_GROUPS,
    Claim,
    ConsumerReference,
)
from remediator.model.incident_status import Condition
from remediator.model.pod import PodFacts
from remediator.model.taint_rule import Rule
from remediator.plan.board import Board
from remediator.plan.events import POD_PLANNED
from remediator.plan.evictions import to_evict
from remediator.plan.grants import grant_all
from remediator.plan.needs import due_gpus
from remediator.plan.node_condition import WAITING
from remediator.plan.stages import Course, Deferral, DeferredBy, Demanded, Granted, Planned
from remediator.plan.view import Fleet, NodeView
from remediator.policy.limits import LIFTED, Cap, Caps
from remediator.policy.table import Evict, Mode, Policy
from tests.remediator.builders import (
    RESET,
    Stored,
    at,
    dead,
    gpu,
    make_granted,
    mig_gpu,
    policy,
    uuid,
    view,
    with_fields,
)
from tests.remediator.plan import evict_first
from tests.remediator.plan.handover import pair, reconciled
from tests.remediator.plan.test_affected_pods import board, hold, rule
from tests.remediator.playing import ENFORCE, claim, pod, settle, tick

SLURM = "NodeSet.slinky.slurm.net"


def slurmd(name: str = "worker-0", **fields: Any) -> PodFacts:
    return pod(name, **{"owner": "NodeSet/worker", "owner_kind": SLURM, **fields})


def busy(*pods: PodFacts) -> NodeView:
    """A dead GPU that pods hold, each by a claim of its own."""
    return evict_first.seen(*pods)


def played(seen: NodeView, rows: Policy = ENFORCE, until: float = 60) -> Stored:
    stored = Stored()
    for second in (1.0, 5.0, 10.0, until):
        settle(stored, seen, second, rows)
    return stored


def deferral(stored: Stored) -> Condition:
    found = stored.incident.status.conditions
    return next(condition for condition in found if condition.type == "Deferred")


def test_a_device_of_a_nodeset_pod_keeps_noschedule_and_nothing_is_evicted() -> None:
    stored = played(busy(slurmd()))

    assert stored.effects() == {"gpu-0": "NoSchedule"}
    assert stored.evicted == []
    assert stored.incident.status.phase == "Tainted"


def test_the_incident_says_which_pod_it_is_and_what_to_do() -> None:
    stored = played(busy(slurmd()))

    stated = deferral(stored)
    assert (stated.status, stated.reason) == ("True", "PodOwner")
    assert stated.message.startswith("NoExecute deferred: team/worker-0: pod of a Slinky NodeSet")
    assert "scontrol update nodename=NODE state=drain" in stated.message
    assert "nodeset.slinky.slurm.net/pod-cordon=true" in stated.message
    assert stored.incident.status.message == stated.message


def test_the_plan_and_an_event_say_it_too_and_no_pod_is_warned() -> None:
    stored, seen = Stored(), busy(slurmd())
    decisions = [tick(stored, seen, second) for second in (1, 1, 1, 5, 5, 5)]

    (shown,) = node_plan(decisions[-1], everything=False).gpus
    assert shown.deferred.startswith("PodOwner: NoExecute deferred: team/worker-0")
    stated = [event for decision in decisions for event in decision.events]
    assert {event.reason for event in stated if "Slinky" in event.message} == {"ActionDeferred"}
    assert not any(event.kind == "Pod" for event in stated)


@pytest.mark.parametrize("mode", ["dry-run", "incident-only"])
def test_a_milder_mode_says_that_enforce_would_wait(mode: Mode) -> None:
    stored = played(busy(slurmd()), policy(mode=mode))

    stated = stored.incident.status.message
    begins = f"{mode}: enforce would go up to NoExecute; it would be deferred: team/worker-0: pod"
    assert stated.startswith(begins)
    assert "scontrol update" in stated
    settle(stored, view(dead(), pods=()), 70, policy(mode=mode))
    assert stored.incident.status.message == f"{mode}: enforce would go up to NoExecute"


@pytest.mark.parametrize("facts", [slurmd(owner_kind="Job.batch"), slurmd(running=False)])
def test_a_milder_mode_says_nothing_of_pods_that_keep_nothing_back(facts: PodFacts) -> None:
    stored = played(busy(facts), policy(mode="dry-run"))

    assert stored.incident.status.message == "dry-run: enforce would go up to NoExecute"


def test_a_milder_mode_says_nothing_where_no_pod_would_be_evicted() -> None:
    stored = played(busy(slurmd()), policy(mode="dry-run", ceiling="NoSchedule"))

    assert stored.incident.status.message == "dry-run: enforce would go up to NoSchedule"


def test_it_goes_on_by_itself_when_the_pod_is_gone() -> None:
    stored = played(busy(slurmd()))
    settle(stored, busy(slurmd(terminating=True)), 70)
    assert stored.effects() == {"gpu-0": "NoSchedule"}, "its jobs may still end"

    settle(stored, view(dead(), pods=()), 80)

    assert stored.effects() == {"gpu-0": "NoExecute"}
    assert deferral(stored).status == "False"


def test_a_pod_that_has_ended_and_is_still_named_by_its_claim_is_gone() -> None:
    assert played(busy(slurmd(running=False))).effects() == {"gpu-0": "NoExecute"}


def test_it_is_looked_at_again_while_slurm_drains() -> None:
    stored, seen = played(busy(slurmd())), busy(slurmd())

    assert tick(stored, seen, 100).wake_at == at(160)


@pytest.mark.parametrize(
    "kind", ["", "NodeSet", "NodeSet.slurm.nebius.ai", "Job.batch", "nodeset.slinky.slurm.net"]
)
def test_pods_of_others_are_evicted_as_before(kind: str) -> None:
    assert played(busy(slurmd(owner_kind=kind))).effects() == {"gpu-0": "NoExecute"}


def grant_one(one: Board, demanded: Demanded, fleet: Fleet | None = None) -> Granted:
    (answer,) = grant_all([(one, demanded)], fleet or Fleet(), policy(LIFTED), at(0))
    return answer


def demand(*rules: Rule, deferrals: tuple[Deferral, ...] = ()) -> Demanded:
    course = Course(kind="stands", reason="a test")
    return Demanded(uuid=uuid(0), course=course, rules=rules, deferrals=deferrals)


@pytest.mark.parametrize("via", ["", EXTENDED_RESOURCE, ADMIN])
def test_it_counts_however_the_pod_holds_the_device(via: str) -> None:
    one = board(stored=(), holders=(hold("worker-0", via),), pods=(slurmd(),))

    (kept,) = grant_one(one, demand(rule())).rules
    assert kept.effect == "NoSchedule"


def test_other_slices_of_the_gpu_are_emptied_meanwhile() -> None:
    slices = ("gpu-0-mig-1g10gb-19-0", "gpu-0-mig-1g10gb-19-1")
    held = (claim(slices[0], "worker-0"), claim(slices[1], "train-0"))
    broken = msgspec.structs.replace(mig_gpu(0, slices=2), recovery_action=RESET)
    stored = played(view(broken, claims=held, pods=(slurmd(), pod())))

    assert stored.effects() == {slices[0]: "NoSchedule", slices[1]: "NoExecute"}


def test_a_pod_beside_it_on_the_same_device_stays_too() -> None:
    stored = played(busy(slurmd(), pod()))

    assert stored.effects() == {"gpu-0": "NoSchedule"}
    assert "team/worker-0: " in deferral(stored).message


def reserved(group: str) -> Claim:
    """The claim of a GPU that is reserved for a PodGroup."""
    one = claim("gpu-0", group)
    assert one.status is not None
    consumer = ConsumerReference(group, POD_GROUPS, f"u-{group}")
    return Claim(one.metadata, msgspec.structs.replace(one.status, reserved_for=(consumer,)))


class TestNotLookedAt:
    def test_noexecute_waits_while_the_pods_cannot_be_listed(self) -> None:
        seen = with_fields(busy(pod()), pods=None)
        stored = played(seen)

        assert stored.effects() == {"gpu-0": "NoSchedule"}
        assert deferral(stored).reason == "PodsUnknown", "it may be none of Slurm's"
        assert "team/train-0: its owner is not known" in deferral(stored).message
        assert "cannot be listed. What to do: the remediator's log" in deferral(stored).message
        settle(stored, busy(pod()), 70)
        assert stored.effects() == {"gpu-0": "NoExecute"}, "it goes on by itself"

    def test_the_reason_is_slurm_where_one_of_its_pods_is_there_too(self) -> None:
        held = (claim("gpu-0", "train-0"), claim("gpu-0", "worker-0"))
        stored = played(view(dead(), claims=held, pods=(slurmd(),)))

        assert deferral(stored).reason == "PodOwner"
        assert "team/train-0: its owner is not known" in deferral(stored).message

    def test_noexecute_waits_for_a_list_that_has_every_pod(self) -> None:
        held = (claim("gpu-0", "train-0"), claim("gpu-0", "worker-0"))
        early = view(dead(), claims=held, pods=(pod(),))
        stored = played(early)

        assert stored.effects() == {"gpu-0": "NoSchedule"}
        assert "team/worker-0: its owner is not known" in deferral(stored).message
        assert "if no such pod exists any more: NoExecute follows" in deferral(stored).message
        assert tick(stored, early, 100).wake_at == at(105)

    def test_a_reservation_of_a_pod_that_is_gone_keeps_nothing_back(self) -> None:
        held = (claim("gpu-0", "train-0"), claim("gpu-0", "ghost"), reserved("old"))
        gone = frozenset({"u-ghost", "u-old"})
        seen = view(dead(), claims=held, pods=(pod(),), pods_gone=gone)
        assert played(seen).effects() == {"gpu-0": "NoExecute"}

        early = with_fields(seen, pods=())
        assert played(early).effects() == {"gpu-0": "NoSchedule"}, "another one is not listed yet"
        refused = view(dead(), claims=held[1:], pods_gone=gone)
        assert played(refused).effects() == {"gpu-0": "NoSchedule"}, "it may have come by now"

    @pytest.mark.parametrize("pods", [None, (), (pod(),)])
    def test_noexecute_waits_for_a_group_of_pods_of_which_none_is_listed(
        self, pods: tuple[PodFacts, ...] | None
    ) -> None:
        held = (reserved("slurm-0"), claim("gpu-0"))
        stored = played(view(dead(), claims=held, pods=pods))

        assert stored.effects() == {"gpu-0": "NoSchedule"}
        stated = "team/slurm-0: PodGroup, the owner of its pods is not known"
        assert stated in deferral(stored).message

    def test_one_listed_pod_of_the_group_shows_whose_they_are(self) -> None:
        member = slurmd("worker-7", pod_group="slurm-0")
        stored = played(view(dead(), claims=(reserved("slurm-0"),), pods=(member,)))
        assert stored.effects() == {"gpu-0": "NoSchedule"}
        assert "team/worker-7: pod of a Slinky NodeSet" in deferral(stored).message
        assert "not known" not in deferral(stored).message

        plain = msgspec.structs.replace(member, owner_kind="Job.batch")
        stored = played(view(dead(), claims=(reserved("slurm-0"),), pods=(plain,)))
        assert stored.effects() == {"gpu-0": "NoExecute"}

    def test_a_claim_that_no_pod_uses_keeps_nothing_back(self) -> None:
        one = claim("gpu-0")
        assert one.status is not None
        unused = Claim(one.metadata, msgspec.structs.replace(one.status, reserved_for=()))

        stored = played(view(dead(), claims=(unused,), pods=()))
        assert stored.effects() == {"gpu-0": "NoExecute"}


class TestEvictionApi:
    def test_no_eviction_of_it_is_requested_and_evictions_do_not_begin(self) -> None:
        stored = played(busy(slurmd()), policy(evict=Evict(within=evict_first.WITHIN)), until=3000)

        assert stored.effects() == {"gpu-0": "NoSchedule"}
        assert stored.evicted == []
        assert deferral(stored).message.startswith("Evict deferred: team/worker-0")

    def test_one_that_joins_a_claim_later_is_passed_by_and_never_deleted(self) -> None:
        both, alone = evict_first.shared("train-0", "worker-0"), evict_first.shared("train-0")
        joined = with_fields(both[0], pods=(pod(), slurmd()))
        rows = evict_first.rows()
        stored = evict_first.begun(alone[0], rows)

        decisions = evict_first.play(stored, joined, rows, 10, 900, every=30)

        requested = {name for made in decisions for name in evict_first.requested(made)}
        assert requested == {"train-0"}
        assert stored.effects() == {"gpu-0": "Evict"}
        assert "NoExecute deferred: team/worker-0" in deferral(stored).message

    def test_one_that_a_noexecute_in_force_does_not_reach_is_left_alone(self) -> None:
        planned = Planned(granted=make_granted(uuid(0), rule(), evicts=(rule().device,)))
        beside = (hold("worker-0"), hold("nb-0"))
        one = board(holders=beside, pods=(slurmd(), pod("nb-0")))

        assert to_evict(one, planned, at(0)) == (hold("nb-0"),)


def test_a_noexecute_that_stands_is_not_taken_back() -> None:
    stored = played(busy(pod()))
    late = view(dead(), claims=(claim("gpu-0", "worker-0"),), pods=(slurmd(),))
    events = [event for _ in range(3) for event in tick(stored, late, 70).events]

    assert stored.effects() == {"gpu-0": "NoExecute"}
    (warned,) = [event for event in events if event.name == "worker-0"]
    assert (warned.kind, warned.reason) == ("Pod", POD_PLANNED), "Kubernetes deletes it"


def test_a_late_one_that_requests_by_resource_name_is_reached_by_nothing_and_not_warned() -> None:
    stored = played(busy(pod()))
    late = slurmd(extended_claim="claim-of-worker-0")
    seen = view(dead(), claims=(claim("gpu-0", "worker-0"),), pods=(late,))
    events = [event for _ in range(3) for event in tick(stored, seen, 70).events]

    assert [affected.via for affected in stored.incident.status.scope.affected] == [
        EXTENDED_RESOURCE
    ]
    assert not any(event.name == "worker-0" for event in events)


@pytest.mark.parametrize("where", ["gpu-0", "gpu-1"])
@pytest.mark.parametrize("owner_kind", ["Job.batch", SLURM])
def test_the_node_is_repaired_after_the_deadline_as_over_any_pod(
    where: str, owner_kind: str
) -> None:
    """Who creates a pod can name any owner: that keeps no node from repair."""
    facts = slurmd(claims=("claim-of-worker-0",), owner_kind=owner_kind)
    seen = view(dead(0), gpu(1), claims=(claim(where, "worker-0"),), pods=(facts,))
    stored = Stored()
    for second in (1, 5, 10, 3590):
        assert reconciled(stored, seen, second)[:2] == ("False", WAITING)

    status, reason, message = reconciled(stored, seen, 3610)
    assert (status, reason) == ("True", "NodeRebootNeeded")
    assert "team/worker-0; waited until the deadline" in message
    ours = "NoExecute" if owner_kind != SLURM or where != "gpu-0" else "NoSchedule"
    assert stored.effects() == {"gpu-0": ours}


def waiting(by: DeferredBy = "PodOwner", index: int = 0) -> tuple[Board, Planned]:
    one, planned = pair(index)
    deferred = msgspec.structs.replace(planned.granted, deferrals=(Deferral(by, "drain it"),))
    return one, Planned(granted=deferred)


@pytest.mark.parametrize(
    ("by", "deferred"), [("PodOwner", ""), ("PodsUnknown", ""), ("Correlation", "drain it")]
)
def test_what_else_defers_the_repair_of_the_node_still_does(by: DeferredBy, deferred: str) -> None:
    (due_gpu,) = due_gpus([waiting(by)])

    assert due_gpu.deferred == deferred


def test_a_gpu_whose_request_waits_for_a_budget_joins_that_of_another_of_its_node() -> None:
    """Whether or not a pod of a NodeSet is on either: their node is repaired once for both."""
    rows = policy(msgspec.structs.replace(LIFTED, evict=Caps(node=Cap(1))))
    both = [(one, planned.demanded) for one, planned in (pair(0), pair(1))]
    answers = grant_all(both, Fleet(), rows, at(0), calling=True)
    assert [each.call for each in answers] == [None, None]

    one, planned = waiting()
    capped = msgspec.structs.replace(planned.granted, call=Deferral("Budget", "is used up"))
    (due_gpu,) = due_gpus([(one, Planned(granted=capped))])
    assert (due_gpu.joins, due_gpu.deferred) == (True, "is used up")


def test_what_defers_more_gives_the_reason() -> None:
    """Under a reason of its own, evictions that go on would be requested during a hold."""
    held = demand(rule(), deferrals=(Deferral("Human", "on hold"),))
    one: Board = board(stored=(), holders=(hold("worker-0"),), pods=(slurmd(),))

    assert grant_one(one, held).deferred_by == "Human"


def test_what_defers_more_after_it_gives_the_reason_too() -> None:
    one: Board = board(stored=(), holders=(hold("worker-0"),), pods=(slurmd(),))

    stopped = grant_one(one, demand(rule()), Fleet(stopped="by hand"))
    assert (stopped.deferred_by, stopped.held_back) == ("EmergencyStop", True)
    assert stopped.deferred.startswith("NoExecute deferred: team/worker-0: pod of a Slinky")
    assert stopped.deferred.endswith("; new actions deferred: emergency stop: by hand")


def test_pods_beyond_the_third_are_counted() -> None:
    names = [f"worker-{index}" for index in range(5)]
    stored = played(busy(*map(slurmd, names)))

    expected = "NoExecute deferred: team/worker-0, team/worker-1, team/worker-2 and 2 more: pod"
    assert deferral(stored).message.startswith(expected)
