"""An object of a shape that nobody thought of costs its own GPU the decision, and no other one."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from kubeapi.store import Store
from remediator.diagnose.fault import Unknown
from remediator.model.incident import Incident
from remediator.model.incident_status import TimelineEntry
from remediator.model.node import REPAIR_NEEDED, NodeCondition, NodeFacts
from remediator.plan.node_condition import HandoverOptions
from remediator.plan.node_decision import NodeDecision, decide_node
from remediator.plan.steps import (
    DeleteIncident,
    OpenIncident,
    Step,
    WriteNodeConditions,
    WriteStatus,
    gpu_of,
)
from remediator.plan.view import Fleet, NodeView
from remediator.policy.limits import LIFTED, Cap, Caps, Correlation, Limits, Rate
from tests.remediator.builders import (
    NODE,
    RESET,
    Stored,
    action,
    at,
    dead,
    gpu,
    policy,
    repair_request,
    uuid,
    view,
    with_fields,
    xid,
)
from tests.remediator.playing import ENFORCE, EVICTS_LATER, claim, settle, tick

LAST = datetime.max.replace(tzinfo=UTC)
FIRST = datetime.min.replace(tzinfo=UTC)
STRANGE: Any = None
"""Where no decoded object has it."""


class StrangePod:
    """Has of a pod what tells who holds a device, and not whether it goes."""

    namespace, name, uid, owner, pod_group = "team", "train-0", "u-train-0", "", ""
    running, extended_claim, claims = True, "claim-of-train-0", ()


def tainted(*others: Any, index: int = 0, seconds: float = 5) -> Stored:
    """A cluster in which one dead GPU is tainted for good and its incident is open."""
    stored = Stored()
    for second in (1.0, seconds):
        settle(stored, view(dead(index), *others), second)
    return stored


def about(decision: NodeDecision, index: int) -> list[Step]:
    return [step for step in decision.steps if gpu_of(step) == uuid(index)]


def is_unknown_for_a_bug(decision: NodeDecision, index: int = 0) -> bool:
    (verdict,) = [case.verdict for case, _ in decision.pairs if case.uuid == uuid(index)]
    listed = [bug for bug in decision.bugs if bug.uuid == uuid(index)]
    return isinstance(verdict, Unknown) and bool(verdict.bug) and len(listed) == 1


def poisoned(kind: str, stored: Stored, seen: NodeView) -> NodeView:
    """Put something strange where only gpu-0 is concerned."""
    if kind == "case":
        return with_fields(seen, claims=(claim("gpu-0", tolerations=(STRANGE,)),))
    if kind == "moving":
        strange: Any = StrangePod()
        return with_fields(seen, claims=(claim("gpu-0"),), pods=(strange,))
    incident = stored.incidents[f"{uuid(0).lower()}-1"]
    status = with_fields(incident.status, evicted=(STRANGE,))
    stored.incidents[incident.name] = msgspec.structs.replace(incident, status=status)
    return seen


KINDS = ("case", "moving", "status")


@pytest.mark.parametrize("kind", KINDS)
def test_a_gpu_on_which_we_fail_stays_tainted_and_its_neighbour_gets_its_taint(kind: str) -> None:
    stored = tainted(gpu(1))
    before = dict(stored.rules)
    seen = poisoned(kind, stored, view(dead(0), dead(1)))

    decision = tick(stored, seen, 20)
    assert is_unknown_for_a_bug(decision)
    assert all(isinstance(step, WriteStatus) for step in about(decision, 0))
    (planned,) = [planned for _, planned in decision.pairs if planned.uuid == uuid(0)]
    assert planned.rules == tuple(before.values())
    for second in (25, 30):
        settle(stored, seen, second)

    assert stored.effects() == dict.fromkeys(["gpu-0", "gpu-1"], "NoExecute")
    assert [stored.rules[device] for device in before] == list(before.values())
    reported = stored.incidents[f"{uuid(0).lower()}-1"].status
    assert "a bug of Draguard" in reported.message
    assert reported.phase == "Evicting"
    assert "a bug of Draguard" in decision.sentence
    assert stored.evicted == []


@pytest.mark.parametrize("kind", ["case", "status"])
def test_a_gpu_on_which_we_fail_is_not_healed_and_its_soak_begins_anew(kind: str) -> None:
    stored = tainted()
    mended = gpu(0, xid(79), epoch_started=at(100), recovery_action=action(0, 101, 101))
    settle(stored, view(mended), 110)
    name = stored.incident.name
    assert stored.incident.status.recovery.healthy_since == at(110)
    good = stored.incident
    seen = poisoned(kind, stored, view(mended))

    decision = settle(stored, seen, 5000)

    assert is_unknown_for_a_bug(decision)
    assert stored.effects() == {"gpu-0": "NoExecute"}
    assert stored.incident.status.recovery.healthy_since is None

    cured = with_fields(stored.incident.status, evicted=good.status.eviction.evicted)
    stored.incidents[name] = msgspec.structs.replace(stored.incident, status=cured)
    settle(stored, view(mended), 5010)
    assert stored.effects() == {"gpu-0": "NoExecute"}
    for second in (5620.0, 5630.0):
        settle(stored, view(mended), second)
    assert stored.effects() == {}


def test_a_healthy_gpu_of_a_node_with_a_strange_pod_is_healthy() -> None:
    strange: Any = StrangePod()

    decision = settle(Stored(), view(gpu(0), gpu(1), pods=(strange,)), 1)

    assert decision.bugs == ()
    assert "2 healthy" in decision.sentence


@pytest.mark.parametrize("kind", KINDS)
def test_a_gpu_on_which_we_fail_frees_no_budget(kind: str) -> None:
    limits = msgspec.structs.replace(LIFTED, taint=Caps(node=Cap(1)))
    stored = tainted(gpu(1))
    seen = poisoned(kind, stored, view(dead(0), dead(1)))

    settle(stored, seen, 20, policy(limits))

    assert stored.effects() == {"gpu-0": "NoExecute"}
    held = stored.incidents[f"{uuid(1).lower()}-1"].status
    assert "budget taint.node=1 is used up (1/1 GPUs" in held.message


def elsewhere(**status: Any) -> Incident:
    """An open incident of another node, with a date that somebody wrote by hand."""
    stored = Stored()
    other = view(gpu(0, xid(95), node="node-b", recovery_action=RESET), node="node-b")
    settle(stored, other, 1)
    one = stored.incident
    return msgspec.structs.replace(one, status=with_fields(one.status, **status))


ODD = (
    {"timeline": (TimelineEntry(LAST, "Suspected", "by hand"),)},
    {"timeline": (TimelineEntry(FIRST, "Suspected", "by hand"),)},
    {"tainted_at": LAST, "evicting_at": LAST},
    {"tainted_at": FIRST, "evicting_at": FIRST},
    {"request": repair_request(LAST), "mode": "Enforce"},
    {"request": repair_request(FIRST), "mode": "Enforce"},
)
WATCHFUL = Limits(
    evict=Caps(rate=Rate(5, timedelta(minutes=10))),
    taint=Caps(rate=Rate(5, timedelta(minutes=10))),
    correlation=Correlation(nodes=3, within=timedelta(minutes=10)),
)
FULL = Limits(
    evict=Caps(rate=Rate(1, timedelta(minutes=10))),
    taint=Caps(rate=Rate(1, timedelta(minutes=10))),
    correlation=Correlation(nodes=0),
)


def ran(stored: Stored, incident: Incident, limits: Limits) -> list[NodeDecision]:
    sick = view(gpu(0, xid(95), recovery_action=RESET))
    found: list[NodeDecision] = []
    options = HandoverOptions(enabled=True)
    for second in (10, 11, 20, 21, 30):
        fleet = with_fields(stored.fleet(), incidents=(incident, *stored.incidents.values()))
        now = at(second)
        found.append(decide_node(stored.over(sick), fleet, policy(limits), now, options))
        for step in found[-1].steps:
            stored.take(step, now)
    return found


@pytest.mark.parametrize("status", ODD, ids=range(len(ODD)))
@pytest.mark.parametrize("limits", [WATCHFUL, FULL], ids=["free", "full"])
def test_an_odd_date_in_an_incident_of_another_node_breaks_no_count(
    status: dict[str, Any], limits: Limits
) -> None:
    stored = Stored()

    assert [decision.bugs for decision in ran(stored, elsewhere(**status), limits)] == [()] * 5

    if limits is WATCHFUL:
        assert stored.effects() == {"gpu-0": "NoExecute"}


def test_an_incident_of_the_time_to_come_goes_on_to_count_against_a_rate() -> None:
    stored = Stored()

    ran(stored, elsewhere(tainted_at=LAST), FULL)

    assert stored.effects() == {}
    assert "budget taint.rate=1 in 10m is used up" in stored.incident.status.message


def test_an_incident_of_the_time_to_come_ends_no_wave() -> None:
    stored, sick = Stored(), view(dead(0))
    settle(stored, sick, 1, EVICTS_LATER)
    mine = stored.incident
    begun = (TimelineEntry(at(1), "Suspected", "seen"), TimelineEntry(LAST, "Suspected", "seen"))
    wave = [
        msgspec.structs.replace(
            mine,
            metadata=msgspec.structs.replace(mine.metadata, name=f"other-{index}"),
            spec=msgspec.structs.replace(mine.spec, node=f"node-{index}", uuid=uuid(index)),
            status=with_fields(mine.status, node=f"node-{index}", timeline=(begun[index == 4],)),
        )
        for index in (2, 3, 4)
    ]
    fleet = with_fields(stored.fleet(), incidents=(mine, *wave))

    for second in (5, 9):
        steps = decide_node(stored.over(sick), fleet, policy(WATCHFUL), at(second)).steps
        for step in steps:
            stored.take(step, at(second))

    assert stored.effects() == {"gpu-0": "NoSchedule"}
    assert "lost is new on 3 nodes or more" in stored.incident.status.message


def test_a_call_since_the_time_to_come_can_be_reckoned_with() -> None:
    stored = tainted()
    odd = with_fields(stored.incident.status, request=repair_request(LAST))
    name = stored.incident.name
    stored.incidents[name] = msgspec.structs.replace(stored.incident, status=odd)
    facts = NodeFacts(name=NODE, uid="n", conditions=())
    seen = view(dead(0), facts=facts, nodes_known=True, pods=(), claims=(claim("gpu-0"),))
    options = HandoverOptions(enabled=True)

    decision = decide_node(stored.over(seen), stored.fleet(), ENFORCE, at(9), options)

    assert decision.bugs == ()
    (step,) = [
        candidate for candidate in decision.steps if isinstance(candidate, WriteNodeConditions)
    ]
    assert "waiting until 2026-01-05T13:00:09Z" in step.conditions[0].message


class StrangePlace(msgspec.Struct, frozen=True):
    """Says nothing of what budgets ask."""

    node: str = NODE


def test_a_gpu_that_cannot_be_counted_gets_no_new_harm_and_its_neighbour_does() -> None:
    stored = Stored()
    strange: Any = StrangePlace()
    limits = msgspec.structs.replace(LIFTED, taint=Caps(pool=Cap(8)))
    seen = view(dead(0), dead(1))
    fleet = Fleet(places={uuid(0): strange})

    decision = decide_node(stored.over(seen), fleet, policy(limits), at(1))

    assert is_unknown_for_a_bug(decision)
    assert about(decision, 0) == []
    assert {gpu_of(step) for step in decision.steps} == {uuid(1)}


def test_a_call_for_repair_is_not_taken_back_while_nothing_can_be_decided() -> None:
    stored = tainted()
    why = f"node-reboot needed by {uuid(0)}"
    stated = NodeCondition(
        type=REPAIR_NEEDED, status="True", reason="NodeRebootNeeded", message=why
    )
    facts = NodeFacts(name=NODE, uid="n", conditions=(stated,))
    options = HandoverOptions(enabled=True)
    seen = view(gpu(0), facts=facts, nodes_known=True, pods=())
    blind = with_fields(seen, claims=(claim("gpu-0", tolerations=(STRANGE,)),))

    def conditions(node_view: NodeView) -> list[Step]:
        decision = decide_node(stored.over(node_view), stored.fleet(), ENFORCE, at(50), options)
        return [step for step in decision.steps if isinstance(step, WriteNodeConditions)]

    assert conditions(blind) == []
    assert conditions(seen) != []


def year_0(stored: Stored) -> frozenset[str]:
    """Return the names of incidents that cannot be read once somebody wrote the year 0."""
    store, one = Store(Incident), stored.incident
    raw = msgspec.json.encode(one)
    store.put(msgspec.Raw(raw))
    odd = raw.replace(b'"taintedTime":"2026', b'"taintedTime":"0000')
    meta = b'"resourceVersion":"' + one.metadata.resource_version.encode()
    assert odd != raw
    assert store.put(msgspec.Raw(odd.replace(meta, meta + b"1"))) == []
    assert store.items()[one.name] == one
    return store.unreadable


def of_schema_1(stored: Stored, **fields: Any) -> frozenset[str]:
    """Return the names of incidents that cannot be read where an older release wrote them."""
    store, one = Store(Incident), stored.incident
    status = {"schemaVersion": 1, "phase": "Tainted", **fields}
    store.put(msgspec.Raw(msgspec.json.encode({**msgspec.to_builtins(one), "status": status})))
    return store.unreadable


def of_schema_1_as_it_was(stored: Stored) -> frozenset[str]:
    """As that release wrote it; above, what the present CRD has left of it."""
    return of_schema_1(stored, fault="lost", cause="xid-79")


@pytest.mark.parametrize("unreadable", [year_0, of_schema_1, of_schema_1_as_it_was])
@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("state", ["sick", "healthy"])
def test_a_taint_whose_incident_cannot_be_read_stays_as_it_is_and_is_reported(
    state: str, restarted: bool, unreadable: Callable[[Stored], frozenset[str]]
) -> None:
    stored = tainted(gpu(1))
    unread, effects = unreadable(stored), stored.effects()
    assert unread == {f"{uuid(0).lower()}-1"}
    if restarted:
        stored.incidents.clear()
    one = dead(0) if state == "sick" else gpu(0, epoch_started=at(100))

    for second in (200, 5000, 9000):
        seen = view(one, dead(1), unread=unread)
        decision = settle(stored, seen, second)
        assert f"{uuid(0).lower()}-1 cannot be read" in decision.sentence
        assert decision.bugs == ()

    assert stored.effects() == effects | {"gpu-1": "NoExecute"}
    touched = [step for step in stored.taken if gpu_of(step) == uuid(0)]
    late = [step for step in touched if isinstance(step, OpenIncident)]
    assert len(late) == 1


def test_an_incident_that_cannot_be_read_is_not_pruned() -> None:
    stored = tainted()
    one = stored.incident
    closed = with_fields(one.status, closed_at=at(6), handled_through=at(6))
    stored.incidents[one.name] = msgspec.structs.replace(one, status=closed)
    stored.rules.clear()
    later = 400 * 86400.0
    there = gpu(0, xid(79), epoch_started=at(7), recovery_action=action(0, 8, 8))

    def pruned(**fields: Any) -> bool:
        seen = stored.over(view(there, **fields))
        steps = decide_node(seen, stored.fleet(), ENFORCE, at(later)).steps
        return any(isinstance(step, DeleteIncident) for step in steps)

    assert pruned()
    assert not pruned(unread=frozenset({one.name}))
