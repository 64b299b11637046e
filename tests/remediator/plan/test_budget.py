"""What a budget holds back, what it says, and what it never touches."""

from datetime import timedelta

import msgspec
import pytest

from remediator.model.taint_rule import Effect
from remediator.plan.stages import Deferral, Granted, Wake
from remediator.plan.view import Fleet
from remediator.policy.limits import LIFTED, Cap, Caps, Limits, Rate
from remediator.policy.place import Area
from remediator.policy.windows import Once, Window
from tests.remediator.builders import at, policy, with_fields
from tests.remediator.plan.fleets import (
    NOW,
    an_incident,
    budget,
    desired,
    effects,
    gpu_of,
    grant,
    is_whole,
    place,
    places,
    rule,
    stored,
)

MINUTES_10 = timedelta(minutes=10)
CLASS = frozenset({"h100"})


def limits(evict: Caps | None = None, taint: Caps | None = None) -> Limits:
    return msgspec.structs.replace(LIFTED, evict=evict or Caps(), taint=taint or Caps())


class TestCaps:
    @pytest.mark.parametrize(
        ("caps", "reported"),
        [
            (Caps(node=Cap(1)), "evict.node=1 is used up (1/1 GPUs of node node-a)"),
            (Caps(pool=Cap(1)), "evict.pool=1 is used up (1/1 GPUs of pool gpu.nvidia.com/node-a)"),
            (
                Caps(device_class=Cap(1)),
                "evict.deviceClass=1 is used up (1/1 GPUs of DeviceClass h100)",
            ),
            (Caps(domain=Cap(1)), "evict.domain=1 is used up (1/1 GPUs of NVLink domain d/7)"),
            (Caps(cluster=Cap(1)), "evict.cluster=1 is used up (1/1 GPUs of the cluster)"),
            (Caps(cluster=Cap(25, percent=True)), "evict.cluster=25% is used up (1/1 GPUs"),
            (
                Caps(rate=Rate(1, MINUTES_10)),
                "evict.rate=1 in 10m is used up (1/1 GPUs lately)",
            ),
        ],
        ids=["node", "pool", "class", "domain", "cluster", "percent", "rate"],
    )
    def test_a_cap_that_is_used_up_holds_the_next_gpu_and_says_which_it_is(
        self, caps: Caps, reported: str
    ) -> None:
        fleet = Fleet(
            rules=stored(rule("a0", "NoExecute"), rule("a1", "NoSchedule")),
            places=places("a0", "a1", domain="d/7", classes=CLASS),
            totals={("cluster", ""): 7},
        )

        answer = grant(limits(evict=caps), fleet, desired("a1", "NoExecute"))["a1"]

        assert effects(answer) == ["NoSchedule"]
        assert answer.deferred_by == "Budget"
        assert answer.deferred.startswith(f"NoExecute deferred: budget {reported}")

    @pytest.mark.parametrize(
        "caps",
        [
            Caps(node=Cap(1)),
            Caps(pool=Cap(1)),
            Caps(device_class=Cap(1)),
            Caps(domain=Cap(1)),
        ],
        ids=["node", "pool", "class", "domain"],
    )
    def test_another_ground_is_another_budget(self, caps: Caps) -> None:
        fleet = Fleet(
            rules=stored(rule("a0", "NoExecute"), rule("b0", "NoSchedule")),
            places=places("a0", domain="d/7", classes=CLASS) | places("b0", domain="d/8"),
        )

        answer = grant(limits(evict=caps), fleet, desired("b0", "NoExecute"))["b0"]

        assert effects(answer) == ["NoExecute"]
        assert not answer.deferred

    @pytest.mark.parametrize(
        ("cap", "total", "most"),
        [
            (Cap(2), 100, 2),
            (Cap(0), 100, 0),
            (Cap(10, percent=True), 100, 10),
            (Cap(10, percent=True), 39, 3),
            (Cap(10, percent=True), 3, 1),
            (Cap(10, percent=True), 0, 1),
            (Cap(0, percent=True), 100, 0),
        ],
    )
    def test_a_part_is_rounded_down_but_any_part_is_at_least_one_gpu(
        self, cap: Cap, total: int, most: int
    ) -> None:
        assert cap.of(total) == most

    def test_slices_of_one_gpu_cost_one_gpu(self) -> None:
        one = limits(taint=Caps(cluster=Cap(1)))

        seven: list[Effect] = ["NoSchedule"] * 7

        answer = grant(one, Fleet(), desired("a0", *seven))["a0"]

        assert len(answer.rules) == 7

    def test_a_taint_on_one_more_slice_of_a_tainted_gpu_costs_nothing(self) -> None:
        none = limits(taint=Caps(cluster=Cap(0)))
        fleet = Fleet(rules=stored(rule("a0", "NoSchedule")))

        answer = grant(none, fleet, desired("a0", "NoSchedule", "NoSchedule"))["a0"]

        assert effects(answer) == ["NoSchedule", "NoSchedule"]

    def test_a_lowered_cap_takes_nothing_back(self) -> None:
        fleet = Fleet(rules=stored(rule("a0", "NoExecute"), rule("a1", "NoExecute")))
        all_desired = (desired("a0", "NoExecute", "NoExecute"), desired("a1", "NoExecute"))
        none = limits(evict=Caps(cluster=Cap(0)), taint=Caps(cluster=Cap(0)))

        answers = grant(none, fleet, *all_desired)

        assert [*map(effects, answers.values())] == [["NoExecute"] * 2, ["NoExecute"]]
        assert not any(answer.deferred for answer in answers.values())

    def test_a_none_rule_costs_nothing_and_passes_beside_a_taint_that_is_held(self) -> None:
        none = limits(taint=Caps(cluster=Cap(0)))

        dry = grant(none, Fleet(), desired("a0", "None"))["a0"]
        mixed = grant(none, Fleet(), desired("a0", "NoSchedule", "None"))["a0"]

        assert (effects(dry), dry.deferred) == (["None"], "")
        assert effects(mixed) == ["None"]
        assert "NoSchedule deferred" in mixed.deferred

    def test_a_taint_that_is_held_deletes_no_rule_that_stands(self) -> None:
        none = limits(taint=Caps(cluster=Cap(0)))
        standing = stored(rule("a0", "None"))

        answer = grant(none, Fleet(rules=standing), desired("a0", "NoSchedule", "NoSchedule"))["a0"]

        assert answer.rules == standing

    def test_one_node_cannot_taint_more_gpus_than_any_machine_has(self) -> None:
        invented = [desired(f"a{number}", "NoSchedule") for number in range(40)]

        answers = grant(Limits(), Fleet(), *invented)

        assert sum(bool(answer.rules) for answer in answers.values()) == 16

    def test_what_a_person_holds_is_reported_before_what_the_budget_holds(self) -> None:
        one = desired("a0", "NoExecute", deferrals=(Deferral("Human", "ann asked to wait"),))

        answer = grant(limits(evict=Caps(cluster=Cap(0))), Fleet(), one)["a0"]

        assert answer.deferred.startswith("ann asked to wait; NoExecute deferred")
        assert answer.deferred_by == "Human"

    @pytest.mark.parametrize("effect", ["Evict", "NoExecute"])
    def test_a_rule_keeps_its_words_while_more_is_held(self, effect: Effect) -> None:
        """Pods that tolerate one fault are not moved by the words of another one."""
        worn = rule("a0", "NoSchedule", fault="memory")
        requested = desired("a0", rules=(rule("a0", effect, fault="contained"),))

        held = grant(limits(Caps(cluster=Cap(0))), Fleet(rules=stored(worn)), requested)["a0"]

        assert [(rule.fault, rule.effect) for rule in held.rules] == [("memory", "NoSchedule")]


class TestRate:
    RATE = limits(evict=Caps(rate=Rate(2, MINUTES_10)))
    TAINTED = stored(*(rule(name, "NoSchedule") for name in ("b0", "b1")))

    def fleet(self, *evicting_since: float) -> Fleet:
        """GPUs that began to be emptied so many seconds before now."""
        begun = [
            an_incident(f"a{number}", evicting_at=at(-ago))
            for number, ago in enumerate(evicting_since)
        ]
        return Fleet(incidents=tuple(begun), rules=self.TAINTED)

    def test_a_rate_says_when_it_reopens_and_then_does(self) -> None:
        fleet = self.fleet(500, 100)

        held = grant(self.RATE, fleet, desired("b0", "NoExecute"))["b0"]
        assert effects(held) == ["NoSchedule"]
        assert held.wake == Wake(at(100), held.deferred)

        later = grant(self.RATE, fleet, desired("b0", "NoExecute"), now=at(100))["b0"]
        assert effects(later) == ["NoExecute"]

    def test_a_rate_that_was_lowered_reopens_when_enough_of_them_are_past(self) -> None:
        held = grant(self.RATE, self.fleet(500, 300, 100), desired("b0", "NoExecute"))["b0"]

        assert "(3/2 GPUs lately)" in held.deferred
        assert held.wake == Wake(at(300), held.deferred)

    def test_evictions_that_are_over_count_for_the_rate_while_the_window_lasts(self) -> None:
        closed = tuple(
            msgspec.structs.replace(incident, status=with_fields(incident.status, closed_at=at(-1)))
            for incident in self.fleet(500, 100).incidents
        )

        held = grant(self.RATE, Fleet(incidents=closed), desired("b0", "NoExecute"))["b0"]

        assert "evict.rate" in held.deferred

    def test_older_ones_do_not_count_and_a_tick_spends_what_it_grants(self) -> None:
        answers = grant(
            self.RATE, self.fleet(700, 100), desired("b0", "NoExecute"), desired("b1", "NoExecute")
        )

        assert [effects(answer) for answer in answers.values()] == [["NoExecute"], ["NoSchedule"]]

    def test_a_rule_that_its_incident_has_not_noted_counts_by_its_own_date(self) -> None:
        rules = (
            rule("a0", "NoExecute", time_added=at(-700)),
            rule("a1", "NoExecute", time_added=at(-100)),
            rule("a2", "NoExecute"),
        )
        fleet = Fleet(rules=stored(*rules))

        answer = grant(self.RATE, fleet, desired("b0", "NoExecute"))["b0"]

        assert "(2/2 GPUs lately)" in answer.deferred

    def test_a_gpu_whose_incident_and_rules_both_tell_counts_once(self) -> None:
        rules = (
            rule("a0", "NoExecute", time_added=at(-100)),
            rule("a0", "NoExecute", "s", time_added=at(-90)),
        )
        fleet = Fleet(rules=stored(*rules), incidents=(an_incident("a0", evicting_at=at(-95)),))

        assert effects(grant(self.RATE, fleet, desired("b0", "NoExecute"))["b0"]) == ["NoExecute"]

    def test_a_second_incident_counts_anew(self) -> None:
        fleet = Fleet(
            rules=stored(rule("a0", "NoExecute", incident="a0-2", time_added=at(-50))),
            incidents=(an_incident("a0", evicting_at=at(-9999)), an_incident("a0", number=2)),
        )
        once = limits(evict=Caps(rate=Rate(1, MINUTES_10)))

        assert effects(grant(once, fleet, desired("b0", "NoExecute"))["b0"]) == ["NoSchedule"]

    def test_a_rate_of_nothing_never_reopens_by_time(self) -> None:
        never = limits(evict=Caps(rate=Rate(0, MINUTES_10)))

        answer = grant(never, Fleet(), desired("a0", "NoExecute"))["a0"]

        assert answer.deferred
        assert answer.wake is None

    def test_taints_have_a_rate_of_their_own(self) -> None:
        slow = limits(taint=Caps(rate=Rate(1, MINUTES_10)))
        fleet = Fleet(
            rules=stored(rule("a0", "NoSchedule")),
            incidents=(an_incident("a0", tainted_at=at(-60)),),
        )

        answer = grant(slow, fleet, desired("b0", "NoSchedule"))["b0"]

        assert answer.rules == ()
        assert answer.wake == Wake(at(540), answer.deferred)


class TestStopped:
    STOP = Fleet(stopped="ann: why")

    def test_an_emergency_stop_allows_no_new_rule_and_no_stronger_one(self) -> None:
        standing = stored(rule("a1", "NoSchedule"))
        fleet = with_fields(self.STOP, rules=standing)

        answers = grant(
            LIFTED, fleet, desired("a0", "NoSchedule", "None"), desired("a1", "NoExecute")
        )

        assert answers["a0"].rules == ()
        assert answers["a1"].rules == standing
        assert {answer.deferred for answer in answers.values()} == {
            "new actions deferred: emergency stop: ann: why"
        }
        assert {answer.deferred_by for answer in answers.values()} == {"EmergencyStop"}

    def test_healing_goes_on_under_it(self) -> None:
        standing = stored(rule("a0", "NoExecute"), rule("a0", "NoSchedule", "part"))
        fleet = with_fields(self.STOP, rules=standing)
        lowered = desired("a0", "None")
        closing = desired("a0", kind="closes", calls="node-reboot")

        for answer in (lowered, closing):
            assert is_whole(grant(LIFTED, fleet, answer)["a0"])

    def test_a_key_that_other_pods_tolerate_is_new_harm(self) -> None:
        standing = stored(rule("a0", "NoExecute"))
        fleet = with_fields(self.STOP, rules=standing)
        worse = desired("a0", rules=(rule("a0", "NoExecute", fault="lost"),))

        answer = grant(LIFTED, fleet, worse)["a0"]

        assert answer.rules == standing
        assert answer.deferred

    def test_a_call_for_repair_of_the_node_is_held_too(self) -> None:
        answer = grant(LIFTED, self.STOP, desired("a0", calls="node-reboot"), calling=True)["a0"]

        assert answer.deferred_by == "EmergencyStop"

    def test_nothing_that_asks_for_nothing_is_reported_as_held(self) -> None:
        answer = grant(LIFTED, self.STOP, desired("a0"))["a0"]

        assert not answer.deferred

    def test_the_stop_of_the_policy_file_is_the_same(self) -> None:
        stopped = msgspec.structs.replace(policy(LIFTED), stopped="bob: here")

        (answer,) = budget((desired("a0", "NoSchedule"),), Fleet(), stopped, NOW)

        assert answer.deferred == "new actions deferred: emergency stop: bob: here"

    def test_it_is_reported_before_everything_else(self) -> None:
        none = limits(evict=Caps(cluster=Cap(0)), taint=Caps(cluster=Cap(0)))

        answer = grant(none, self.STOP, desired("a0", "NoExecute"))["a0"]

        assert answer.deferred_by == "EmergencyStop"


class TestMaintenance:
    WEEKEND = Window(
        name="weekend", area=Area(pools=("node-a",)), when=Once(start=at(-60), until=at(600))
    )

    def at_weekend(self, name: str) -> Granted:
        paused = msgspec.structs.replace(policy(LIFTED), maintenance=(self.WEEKEND,))
        fleet = Fleet(places=places("a0", "b0"))
        (answer,) = budget((desired(name, "NoSchedule"),), fleet, paused, NOW)
        return answer

    def test_a_window_holds_new_harm_at_its_places_until_it_closes(self) -> None:
        held = self.at_weekend("a0")

        assert held.rules == ()
        assert held.deferred_by == "Maintenance"
        assert held.deferred.startswith("new actions deferred: maintenance window 'weekend'")
        assert held.wake == Wake(at(600), held.deferred)

    def test_a_window_elsewhere_holds_nothing_here(self) -> None:
        assert not self.at_weekend("b0").deferred


class TestPlaces:
    def test_a_gpu_of_unknown_place_still_counts_on_its_node_and_in_the_cluster(self) -> None:
        fleet = Fleet(rules=stored(rule("a0", "NoExecute")))

        for caps in (Caps(node=Cap(1)), Caps(cluster=Cap(1))):
            assert effects(grant(limits(evict=caps), fleet, desired("a1", "NoExecute"))["a1"]) == [
                "NoSchedule"
            ]

    def test_a_node_that_publishes_anothers_gpu_does_not_move_what_it_costs(self) -> None:
        fleet = Fleet(
            rules=stored(rule("b0", "NoExecute")),
            places={gpu_of("b0"): place("a9")} | places("b1"),
        )

        answer = grant(limits(evict=Caps(node=Cap(1))), fleet, desired("b1", "NoExecute"))["b1"]

        assert effects(answer) == ["NoSchedule"]
