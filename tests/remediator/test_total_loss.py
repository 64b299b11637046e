"""Every incident and every rule is lost, and the node's report still tells of an old error.

Nothing says any more that it was handled. So its slice is restricted for a whole soak time once
more, and nobody is evicted who came after the error.
"""

from datetime import datetime

import msgspec
import pytest

from remediator.model.claim import ADMIN
from remediator.model.incident_status import IncidentStatus
from remediator.model.node import NodeFacts
from remediator.model.pod import PodFacts, RawPod, facts_of
from remediator.plan.node_decision import decide_node
from remediator.plan.steps import EvictPod, WriteNodeConditions
from remediator.plan.view import NodeView
from remediator.policy.table import Evict
from tests.remediator.builders import (
    NODE,
    SLICE_5,
    Stored,
    action,
    at,
    mig_gpu,
    policy,
    report_with,
    uuid,
    view,
    with_fields,
    xid,
)
from tests.remediator.plan.handover import ON
from tests.remediator.playing import ENFORCE, claim, pod

SOAK = 600
WAYS = ("everything", "statuses and rules")
ASKING = policy(evict=Evict())
OLD = pod("old", started=at(-1000))


def seen(seconds: float, *pods: PodFacts) -> NodeView:
    """The error of T0 on one slice, which these pods hold; the driver wants nothing done."""
    one = mig_gpu(0, xid(94, 0, 5), recovery_action=action(0, -3600, seconds))
    names = [holder.name for holder in pods]
    shown = view(
        one,
        claims=tuple(claim(SLICE_5, name) for name in names),
        pods=pods,
        facts=NodeFacts(name=NODE, uid="n", conditions=()),
        nodes_known=True,
    )
    return with_fields(shown, report=report_with(shown, observed_at=at(seconds)))


def play(stored: Stored, shown: NodeView, seconds: float, *, evict_first: bool = False) -> None:
    for _ in range(8):
        rows, now = ASKING if evict_first else ENFORCE, at(seconds)
        decision = decide_node(stored.over(shown), stored.fleet(), rows, now, ON)
        for step in decision.steps:
            stored.take(step, now)
        if not decision.steps or all(isinstance(step, EvictPod) for step in decision.steps):
            return
    raise AssertionError(f"never settles: {stored.taken[-3:]}")


def handled(until: float) -> Stored:
    """The incident of the error up to a moment: its pod is evicted, and its slice stays empty."""
    stored = Stored()
    for seconds in (1, 5):
        play(stored, seen(seconds, OLD), seconds)
    assert stored.effects() == {SLICE_5: "NoExecute"}
    for seconds in range(10, int(until), 20):
        play(stored, seen(seconds), seconds)
    return stored


def lost(stored: Stored, what: str) -> Stored:
    """Lose everything, or all but the empty incidents, as a restore of a backup may."""
    left = Stored()
    if what != WAYS[0]:
        left.incidents = {
            name: msgspec.structs.replace(incident, status=IncidentStatus())
            for name, incident in stored.incidents.items()
        }
    return left


@pytest.mark.parametrize("evict_first", [False, True], ids=["NoExecute", "Evict"])
@pytest.mark.parametrize("what", WAYS)
@pytest.mark.parametrize("when", [30, 200, 299, 301, 590])
def test_an_old_error_restricts_its_slice_for_one_soak_and_disrupts_nobody(
    when: float,
    what: str,
    evict_first: bool,
) -> None:
    left = lost(handled(when), what)
    newcomer = pod("new", started=at(when - 1))
    effects: set[str] = set()
    for seconds in range(int(when), int(when) + SOAK + 40, 7):
        play(left, seen(seconds, newcomer), seconds, evict_first=evict_first)
        effects |= {rule.effect for rule in left.rules.values()}

    assert effects == {"NoSchedule"}
    assert left.rules == {}, "it ends after the soak time"
    assert not [step for step in left.taken if isinstance(step, EvictPod | WriteNodeConditions)]
    assert (left.incident.status.phase, left.incident.status.history.recurrence) == ("Recovered", 1)
    assert {rule.effect for rule in left.rules.values()} <= {"NoSchedule"}
    assert left.incident.spec.uuid == uuid(0)


@pytest.mark.parametrize("what", WAYS)
def test_after_its_soak_time_an_old_error_restricts_nothing(what: str) -> None:
    left = lost(handled(300), what)
    for seconds in (SOAK + 1, SOAK + 100):
        play(left, seen(seconds, pod("new", started=at(400))), seconds)
    assert left.rules == {}
    assert not any(incident.open for incident in left.incidents.values())


@pytest.mark.parametrize("evict_first", [False, True], ids=["NoExecute", "Evict"])
@pytest.mark.parametrize("started", [at(-1000), at(0)], ids=["before", "that very second"])
def test_who_was_there_is_evicted_for_a_fresh_error(started: datetime, evict_first: bool) -> None:
    stored, newcomer = Stored(), pod("new", started=at(1))
    for seconds in (1, 5, 9):
        shown = seen(seconds, newcomer, pod("old", started=started))
        play(stored, shown, seconds, evict_first=evict_first)
    assert stored.effects() == {SLICE_5: "Evict" if evict_first else "NoExecute"}


@pytest.mark.parametrize("evict_first", [False, True], ids=["NoExecute", "Evict"])
def test_a_pod_that_has_ended_was_not_there_for_who_came_later(evict_first: bool) -> None:
    """As a failed pod of a PodGroup, for which its claim is reserved as long as it exists."""
    stored = Stored()
    ended, new = pod("old", running=False, started=at(-500)), pod("new", started=at(50))
    for seconds in (100, 110, 120):
        play(stored, seen(seconds, ended, new), seconds, evict_first=evict_first)
    assert stored.effects() == {SLICE_5: "NoSchedule"}


def test_admin_access_that_was_there_evicts_nobody_who_came_later() -> None:
    stored, pods = Stored(), (pod("new", started=at(50)), pod("monitor", started=at(-1000)))
    for seconds in (100, 110):
        shown = seen(seconds, *pods)
        new, _ = shown.usage.claims
        monitor = claim(SLICE_5, "monitor", admin_access=True)
        play(stored, with_fields(shown, claims=(new, monitor)), seconds)
    assert ADMIN in {affected.via for affected in stored.incident.status.scope.affected}
    assert stored.effects() == {SLICE_5: "NoSchedule"}


def test_a_pod_that_has_not_started_was_not_there_however_old_it_is() -> None:
    stored = {"metadata": {"name": "a", "uid": "u", "creationTimestamp": "2026-01-05T12:00:00Z"}}
    waiting = facts_of(msgspec.convert(stored, RawPod))
    begun = {**stored, "status": {"startTime": "2026-01-05T12:01:00Z"}}
    assert waiting.started is None
    assert facts_of(msgspec.convert(begun, RawPod)).started == at(60)
