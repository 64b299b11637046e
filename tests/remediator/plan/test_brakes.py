"""The table of brakes: what each defers, how much is left, and what else waits for it."""

from collections.abc import Iterable
from datetime import timedelta
from typing import get_args

import msgspec
import pytest

from exporter.model.device import Device
from remediator.model.taint_rule import EFFECTS, Effect, Rule
from remediator.plan.brakes import (
    CALL,
    FLEET,
    OWN,
    Beginning,
    Brake,
    Found,
    Question,
    least_brake,
    open_account,
)
from remediator.plan.grants import grant_all, put_brake
from remediator.plan.node_decision import decide_node
from remediator.plan.stages import DEFERRAL_REASONS, Deferral, DeferredBy, EvictionDemand, Granted
from remediator.plan.view import Fleet, GpuPlace
from remediator.policy.limits import LIFTED, Cap, Caps
from remediator.policy.place import Area
from remediator.policy.table import Policy
from remediator.policy.windows import Once, Window
from tests.remediator.builders import DRIVER, at, make_board, make_demanded, policy
from tests.remediator.plan.evict_first import START, begun, requested, rows, seen
from tests.remediator.plan.fleets import (
    NOT_LOOKED_AT,
    NOW,
    budget,
    desired,
    gpu_of,
    grant,
    rule,
    stored,
)
from tests.remediator.playing import pod, tick

DEVICE = rule("a0", "None").device


def question(
    *rules: Rule, standing: tuple[Rule, ...] = (), resumes: bool = False, calling: bool = False
) -> Question:
    """One GPU that these rules are demanded for, and evictions from each of their devices."""
    devices = tuple(each.device for each in rules)
    eviction = EvictionDemand(devices=devices, resumes=resumes)
    demanded = make_demanded(gpu_of("a0"), *rules, eviction=eviction)
    fleet, limits = Fleet(rules=standing), policy(LIFTED)
    return Question(
        board=make_board(NOT_LOOKED_AT, uuid=gpu_of("a0")),
        granted=Granted(demanded=demanded, rules=rules, evicts=devices),
        stored=standing,
        place=GpuPlace(node="node-a"),
        account=open_account(fleet, limits, NOW, calling=calling),
    )


def brake(
    most: Effect | None, by: DeferredBy = "Human", begins: Iterable[Beginning] = ("rule", "request")
) -> Brake:
    """One that applies wherever one of these begins."""
    return Brake(by, frozenset(begins), most, lambda _: Found("a test"))


def test_each_reason_says_what_else_waits_for_it() -> None:
    assert set(DEFERRAL_REASONS) == set(get_args(DeferredBy))


@pytest.mark.parametrize("place", [0, 1, 2])
def test_the_lowest_limit_applies_wherever_its_row_stands(place: int) -> None:
    group = [brake("NoSchedule"), brake("None")]
    group.insert(place, lowest := brake(None, "Maintenance"))

    found = least_brake(question(rule("a0", "NoExecute")), group)

    assert found is not None
    assert found[0] is lowest


def test_of_equal_limits_the_first_row_gives_the_reason() -> None:
    group = [brake("NoSchedule", "Budget"), brake("NoSchedule", "Human")]

    found = least_brake(question(rule("a0", "NoExecute")), group)

    assert found is not None
    assert found[0].by == "Budget"


LEVELS: tuple[Effect | None, ...] = (None, *EFFECTS)


@pytest.mark.parametrize("most", [None, "None", "NoSchedule"])
@pytest.mark.parametrize("has", LEVELS)
@pytest.mark.parametrize("wants", EFFECTS)
def test_a_device_keeps_what_it_has_and_rises_to_the_limit_at_most(
    most: Effect | None, has: Effect | None, wants: Effect
) -> None:
    standing = stored(rule("a0", has)) if has else ()
    asks = question(rule("a0", wants), standing=standing)

    left = put_brake(asks, brake(most), Found("a test")).rules

    ranks = LEVELS.index(has), LEVELS.index(wants), LEVELS.index(most)
    risen = max(ranks[0], ranks[2]) if ranks[1] > ranks[0] else ranks[1]
    expected = LEVELS[min(ranks[1], risen)]
    # A taint that is deferred leaves no rule of effect None behind: no user requested one.
    if most == "None" and wants != "None" and has is None:
        expected = None
    assert [each.effect for each in left] == ([expected] if expected else [])


def test_a_rule_of_another_key_waits_too_because_other_pods_tolerate_it() -> None:
    standing = stored(rule("a0", "NoExecute", fault="contained"))
    asks = question(rule("a0", "NoExecute", fault="gpu"), standing=standing)

    assert asks.beginnings >= {"rule", "disruption"}
    assert put_brake(asks, brake("NoSchedule"), Found("a test")).rules == standing


def test_a_brake_on_one_device_leaves_the_others_of_the_gpu() -> None:
    other = rule("a0", "NoExecute", device="gpu-0-part-1")
    asks = question(rule("a0", "NoExecute"), other, resumes=True)

    left = put_brake(asks, brake("NoSchedule"), Found("a test", devices=frozenset({DEVICE})))

    assert [each.effect for each in left.rules] == ["NoSchedule", "NoExecute"]
    assert left.evicts == (other.device,)


def test_a_brake_on_disruptions_leaves_evictions_by_request_that_resume() -> None:
    asks = question(rule("a0", "NoExecute"), resumes=True)

    left = put_brake(asks, brake("NoSchedule", "PodOwner", ["disruption"]), Found("a test"))

    assert left.evicts == (DEVICE,)


ALWAYS = Window(name="w", area=Area(nodes=("*",)), when=Once(at(-60), at(600)))


@pytest.mark.parametrize(
    ("stopped", "windows", "text"),
    [
        ("ann: fire", (ALWAYS,), "emergency stop: ann: fire (behind it: Maintenance)"),
        ("ann: fire", (), "emergency stop: ann: fire"),
    ],
)
def test_what_would_defer_it_next_is_named(
    stopped: str, windows: tuple[Window, ...], text: str
) -> None:
    """A user who ends the stop is to know that nothing begins all the same."""
    rows = msgspec.structs.replace(policy(LIFTED), stopped=stopped, maintenance=windows)

    (answer,) = budget([desired("a0", "NoSchedule")], Fleet(), rows)

    assert answer.deferred == f"new actions deferred: {text}"


class TestABoardThatWasMoved:
    """It is in node-b now, and its rule on the device of node-a still stands."""

    MOVED = make_board(NOT_LOOKED_AT, uuid=gpu_of("z0"), node="node-b")
    KEPT = rule("z0", "NoSchedule", device="gpu-a")

    def grant(self, fleet: Fleet, rows: Policy) -> Granted:
        here = rule("z0", "NoExecute", node="node-b", device="gpu-9")
        here = msgspec.structs.replace(here, device=Device(DRIVER, "node-b", "gpu-9"))
        left = msgspec.structs.replace(self.KEPT, device=Device(DRIVER, "node-a", "gpu-a"))
        demanded = make_demanded(gpu_of("z0"), left, here)
        fleet = msgspec.structs.replace(fleet, rules=(*fleet.rules, *stored(left)))
        (answer,) = grant_all([(self.MOVED, demanded)], fleet, rows, NOW)
        return answer

    @pytest.mark.parametrize(("node", "defers"), [("node-b", True), ("node-a", False)])
    def test_waits_in_the_window_of_the_node_that_it_is_in(self, node: str, defers: bool) -> None:
        window = Window(name="w", area=Area(nodes=(node,)), when=Once(at(-60), at(600)))
        paused = msgspec.structs.replace(policy(LIFTED), maintenance=(window,))

        assert bool(self.grant(Fleet(), paused).deferred) == defers

    def test_counts_in_the_budget_of_the_node_that_it_is_in(self) -> None:
        one = policy(msgspec.structs.replace(LIFTED, evict=Caps(node=Cap(1))))
        fleet = Fleet(rules=stored(rule("b0", "NoExecute")))

        assert "evict.node=1 is used up (1/1 GPUs of node node-b" in self.grant(fleet, one).deferred


def test_what_is_on_hold_takes_no_room_from_the_calls_of_others() -> None:
    hold = Deferral("Human", "new actions deferred: hold by ana")
    held = desired("a0", calls="node-reboot", deferrals=(hold,))
    one = msgspec.structs.replace(LIFTED, evict=Caps(cluster=Cap(1)))

    answers = grant(one, Fleet(), held, desired("b0", calls="node-reboot"), calling=True)

    assert [answer.call for answer in answers.values()] == [None, None]


def test_evictions_that_go_on_are_left_to_the_reach_of_the_reason() -> None:
    asks = question(rule("a0", "NoExecute"))

    assert put_brake(asks, brake("NoSchedule"), Found("a test")).evicts == (DEVICE,)


def test_no_brake_applies_where_nothing_begins() -> None:
    standing = stored(rule("a0", "NoExecute"))
    asks = question(*standing, standing=standing)

    assert asks.beginnings == frozenset()
    assert [least_brake(asks, group) for group in (OWN, FLEET, CALL)] == [None, None, None]


def test_a_stop_reports_no_call_where_repairs_are_not_called_for() -> None:
    call, stop = desired("a0", calls="node-reboot"), Fleet(stopped="ann: why")

    (off,) = budget((call,), stop, policy(LIFTED))
    (on,) = budget((call,), stop, policy(LIFTED), calling=True)

    assert (off.deferred, on.deferred_by) == ("", "EmergencyStop")


@pytest.mark.parametrize("group", [OWN, FLEET, CALL])
def test_no_row_hides_one_below_it_that_stops_evictions_that_go_on(
    group: tuple[Brake, ...],
) -> None:
    """Of equal limits the first applies, and its reason says what else waits."""
    for number, first in enumerate(group):
        for second in group[number + 1 :]:
            alike = first.most == second.most and first.begins & second.begins
            stops = (DEFERRAL_REASONS[row.by].ongoing for row in (first, second))
            assert not alike or tuple(stops) != (False, True)


@pytest.mark.parametrize("reason", get_args(DeferredBy))
def test_a_reason_that_stops_what_goes_on_gives_the_reason(reason: DeferredBy) -> None:
    several = [by for by in DEFERRAL_REASONS if DEFERRAL_REASONS[by].ongoing]

    assert not DEFERRAL_REASONS[reason].ongoing or several.index(reason) == list(
        DEFERRAL_REASONS
    ).index(reason)


def test_a_wave_stops_no_eviction_by_request_that_goes_on() -> None:
    """It keeps the clock as well: pods get the whole time of `within`, and no more."""
    one, asks = seen(pod()), rows()
    store = begun(one, asks)
    tick(store, one, START, asks)
    changed = msgspec.structs.replace(store.fleet(), policy_changed_at=at(START + 1))

    decision = decide_node(store.over(one), changed, asks, at(START + 30))

    assert requested(decision) == ["train-0"]
    ((_, planned),) = decision.pairs
    assert [entry.start_time for entry in planned.evictions] == [at(START)]


def test_a_call_for_repair_waits_for_a_wave_and_costs_nothing_then() -> None:
    calls = [desired(name, calls="node-reboot") for name in ("a0", "a1")]
    changed = Fleet(policy_changed_at=at(-60))

    answers = grant(policy().limits, changed, *calls, calling=True)

    assert [answer.call and answer.call.by for answer in answers.values()] == ["Correlation"] * 2
    ends = at(-60) + timedelta(minutes=30)
    assert [answer.wake and answer.wake.at for answer in answers.values()] == [ends] * 2
