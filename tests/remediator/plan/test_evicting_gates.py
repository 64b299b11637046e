"""What holds evictions by request back, restarts their time, or comes after it."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from remediator.model.incident_status import IncidentStatus
from remediator.plan.node_decision import NodeDecision, decide_node
from remediator.plan.steps import ChangeRule, EvictPod, WriteStatus
from remediator.plan.view import NodeView
from remediator.policy.limits import Cap, Caps, Limits
from remediator.policy.place import Area
from remediator.policy.table import Evict, Policy
from remediator.policy.windows import Once, Window
from tests.remediator.builders import (
    Stored,
    at,
    dead,
    evictions,
    policy,
    until,
    view,
)
from tests.remediator.plan import fleets
from tests.remediator.plan.evict_first import (
    REFUSED,
    START,
    WITHIN,
    begun,
    play,
    requested,
    rows,
    seen,
)
from tests.remediator.playing import claim, evicts_later, pod, tick


class TestGates:
    def test_a_hold_stops_the_requests_and_restarts_the_deadline(self) -> None:
        one, asks = seen(pod()), rows()
        stored = begun(one, asks)
        tick(stored, one, START, asks)
        stored.intend("Hold", until(400))

        held = play(stored, one, asks, 100, 395)
        assert not any(requested(each) for each in held)
        assert stored.incident.status.eviction.started_at is None
        after = play(stored, one, asks, 405, 405 + 595)

        assert all(requested(each) for each in after)
        assert stored.effects() == {"gpu-0": "Evict"}
        play(stored, one, asks, 405 + 600, 405 + 605)
        assert stored.effects() == {"gpu-0": "NoExecute"}

    @pytest.mark.parametrize("gate", ["stop", "window"])
    def test_a_stop_and_a_window_do_as_well(self, gate: str) -> None:
        one, asks = seen(pod()), rows()
        stored = begun(one, asks)
        tick(stored, one, START, asks)

        held = play(stored, one, _paused(asks, gate), START + 5, START + 700)

        assert not any(requested(each) for each in held)
        assert stored.incident.status.eviction.started_at is None
        assert stored.effects() == {"gpu-0": "Evict"}

    @pytest.mark.parametrize("fields", [{"blind": {"claims": "refused"}}, {"stale": "silent"}])
    def test_not_knowing_evicts_nobody_and_restarts_no_clock(self, fields: dict[str, Any]) -> None:
        one, asks = seen(pod()), rows()
        stored = begun(one, asks)
        tick(stored, one, START, asks)

        unseen = seen(pod(), **fields)
        decisions = play(stored, unseen, asks, START + 5, START + 900, every=60)

        assert not any(requested(each) for each in decisions)
        assert stored.effects() == {"gpu-0": "Evict"}
        assert stored.incident.status.eviction.started_at == at(START)

    @pytest.mark.parametrize("kind", ["claims", "slices", "rules"])
    def test_while_something_cannot_be_trusted_nothing_begins(self, kind: str) -> None:
        stored, asks = Stored(), rows()
        for second in (0.0, 0.5, 1.0):
            tick(stored, seen(pod()), second, evicts_later(asks))

        for second in (5.0, 6.0, 7.0):
            tick(stored, seen(pod(), blind={kind: "refused"}), second, asks)

        assert stored.effects() == {"gpu-0": "NoSchedule"}

    def test_the_api_server_is_queried_before_it_begins_and_before_each_new_clock(self) -> None:
        one, asks = seen(pod()), rows()
        stored, begins = Stored(), list[bool]()
        for second in (0.0, 0.5, 1.0, 5.0, START, START + 5):
            then = asks if second > 1 else evicts_later(asks)
            begins.append(bool(tick(stored, one, second, then).begins))

        assert begins == [False, False, False, True, True, False]

    def test_a_budget_of_nothing_lets_no_eviction_begin(self) -> None:
        one, stored = seen(pod()), Stored()
        asks = policy(Limits(evict=Caps(cluster=Cap(0))), evict=Evict())

        decisions = play(stored, one, asks, 0, 60)

        assert not any(requested(each) for each in decisions)
        assert stored.effects() == {"gpu-0": "NoSchedule"}
        assert "Evict deferred: budget evict.cluster=0" in stored.incident.status.message


def _paused(asks: Policy, gate: str) -> Policy:
    if gate == "stop":
        return msgspec.structs.replace(asks, stopped="ann: enough")
    window = Window(name="w", area=Area(nodes=("*",)), when=Once(at(0), at(9999)))
    return msgspec.structs.replace(asks, maintenance=(window,))


class TestExtendedResources:
    def test_they_are_evicted_as_the_others_are(self) -> None:
        one = seen(pod(), claims=(claim("gpu-0", extended=True),))

        assert requested(tick(begun(one, rows()), one, START, rows())) == ["train-0"]

    @pytest.mark.parametrize(("then", "deletes"), [("wait", False), ("delete", True)])
    def test_under_noexecute_they_wait_or_are_deleted(self, then: Any, deletes: bool) -> None:
        one = seen(pod(), claims=(claim("gpu-0", extended=True),))
        asks = policy(evict=Evict(within=WITHIN, extended_resources=then))
        stored = begun(one, asks)
        early = play(stored, one, asks, START, START + 590)
        assert not any(step.delete for step in _evictions(early))

        late = play(stored, one, asks, START + 600, START + 700)

        assert stored.effects() == {"gpu-0": "NoExecute"}
        (*_, last) = _evictions(late)
        assert last.delete == deletes

    def test_where_the_eviction_controller_deletes_them_nothing_is_evicted_twice(self) -> None:
        """kubernetes#141290 fixed: a pod goes as soon as NoExecute is stored."""
        one, asks = seen(pod(), claims=(claim("gpu-0", extended=True),)), policy()
        stored, evicted = Stored(), list[str]()

        for second in range(0, 60, 1):
            goes = "NoExecute" in stored.effects().values()
            now = seen(pod(terminating=goes), claims=(claim("gpu-0", extended=True),))
            evicted += requested(tick(stored, now if goes else one, float(second), asks))

        assert stored.effects() == {"gpu-0": "NoExecute"}
        assert evicted == []


def _evictions(decisions: Iterable[NodeDecision]) -> list[EvictPod]:
    return [step for each in decisions for step in each.steps if isinstance(step, EvictPod)]


def statuses(decisions: Iterable[NodeDecision]) -> list[IncidentStatus]:
    found = (step for each in decisions for step in each.steps)
    return [step.status for step in found if isinstance(step, WriteStatus)]


def test_nothing_is_written_again_while_a_refusal_stays_the_same() -> None:
    one, asks = seen(pod(), refusals={"u-train-0": REFUSED}), rows("wait")
    stored = begun(one, asks)
    play(stored, one, asks, START, START + 700)

    again = play(stored, one, asks, START + 705, START + 1400)

    assert statuses(again) == []
    changed = [step for each in again for step in each.steps if isinstance(step, ChangeRule)]
    assert changed == []


def test_a_wave_of_one_cause_stops_the_step_to_noexecute_and_no_eviction_that_goes_on() -> None:
    one, asks = seen(pod()), rows()
    stored = begun(one, asks)
    play(stored, one, asks, START, START + 595)

    changed = msgspec.structs.replace(stored.fleet(), policy_changed_at=at(START + 590))
    decision = decide_node(stored.over(one), changed, asks, at(START + 605))

    assert not [step for step in decision.steps if isinstance(step, ChangeRule)]
    assert requested(decision) == ["train-0"]
    ((_, planned),) = decision.pairs
    assert planned.granted.deferred.startswith("NoExecute deferred: ")
    assert [entry.start_time for entry in planned.evictions] == [at(START)]


def test_who_joins_a_drained_gpu_is_evicted_only_where_the_budget_has_room() -> None:
    one_at_once = Limits(evict=Caps(cluster=Cap(1)))
    asks = policy(one_at_once, evict=Evict(within=timedelta(hours=9)))
    both = (claim("gpu-0", "a"), claim("gpu-1", "b"))
    stored = Stored()

    def on(*names: str) -> NodeView:
        held = tuple(shared for shared in both if shared.consumers[0].name in names)
        return view(dead(0), dead(1), claims=held, pods=tuple(pod(name) for name in names))

    play(stored, on("b"), asks, 0, 60)
    assert set(stored.effects().values()) == {"Evict"}, "the first one was empty at once"
    joined = play(stored, on("a", "b"), asks, 65, 100)
    assert {name for each in joined for name in requested(each)} == {"b"}

    after = play(stored, on("a"), asks, 105, 140)
    assert {name for each in after for name in requested(each)} == {"a"}


@pytest.mark.parametrize(("silent_for", "asks_again"), [(300.0, False), (700.0, True)])
def test_evictions_that_were_interrupted_for_long_need_a_budget_again(
    silent_for: float, *, asks_again: bool
) -> None:
    """Meanwhile they fill none, so another GPU was evicted from in their place."""
    one, asks = seen(pod()), rows(limits=Limits(evict=Caps(cluster=Cap(1))))
    stored = begun(one, asks)
    tick(stored, one, START, asks)
    play(stored, seen(pod(), stale="silent"), asks, START + 5, START + silent_for, every=60)
    other = fleets.stored(fleets.rule("b0", "Evict"))
    goes_on = fleets.an_incident("b0", evicting_at=at(0), by_device=evictions(at(0)))

    fleet = stored.fleet()
    fleet = msgspec.structs.replace(
        fleet, rules=(*fleet.rules, *other), incidents=(*fleet.incidents, goes_on)
    )
    decision = decide_node(stored.over(one), fleet, asks, at(START + silent_for + 5))

    ((_, planned),) = decision.pairs
    assert requested(decision) == ([] if asks_again else ["train-0"])
    assert ("budget" in planned.granted.deferred) == asks_again
