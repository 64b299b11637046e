"""What is under way, what began lately, and what stands: three things, each with its own limit."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remediator.model.incident import Incident
from remediator.model.incident_status import EVICTION_BLOCKED, Condition, RuleRecord
from remediator.model.taint_rule import Rule
from remediator.plan.node_decision import decide_node
from remediator.plan.spending import CALL_LASTS, usage
from remediator.plan.stages import Wake
from remediator.plan.view import Fleet, NodeView
from remediator.policy.limits import LIFTED, Cap, Caps, Correlation, Ground, Limits, Rate
from tests.remediator.builders import (
    Stored,
    at,
    dead,
    policy,
    repair_request,
    report_with,
    uuid,
    view,
    with_fields,
    xid,
)
from tests.remediator.plan.fleets import (
    NOW,
    an_incident,
    desired,
    effects,
    gpu_of,
    grant,
    node_of,
    place,
    places,
    rule,
    stored,
)

MINUTES_10 = timedelta(minutes=10)
DAY = 86400
EVICTED = [f"{node}0" for node in "abcdefghijklmnop"]
"""As many GPUs as may be evicted from at once in a large cluster, each on its own node."""


def evicting(caps: Caps) -> Limits:
    return msgspec.structs.replace(LIFTED, evict=caps)


def noted(*rules: Rule) -> tuple[RuleRecord, ...]:
    return tuple(RuleRecord(rule.name, rule.uid, str(rule.device), rule.effect) for rule in rules)


def drained(name: str, since: float = -DAY, **status: Any) -> tuple[Rule, Incident]:
    """A GPU that was emptied long ago and waits for its repair."""
    (mine,) = stored(rule(name, "NoExecute", time_added=at(since)))
    fields: dict[str, Any] = {
        "evicting_at": at(since),
        "drained_at": at(since + 30),
        "empty_since": at(since + 20),
        "rules": noted(mine),
        "mode": "enforce",
    }
    return mine, an_incident(name, opened=at(since), **(fields | status))


def fleet_of(*known: tuple[Rule, Incident], **fields: object) -> Fleet:
    return with_fields(
        Fleet(rules=tuple(rule for rule, _ in known), incidents=tuple(entry for _, entry in known)),
        **fields,
    )


class TestWhatStands:
    BUSY = Limits()

    def test_boards_that_wait_for_their_repair_stop_no_eviction(self) -> None:
        fleet = fleet_of(*map(drained, EVICTED), totals={("cluster", ""): 80_000})

        answer = grant(self.BUSY, fleet, desired("z0", "NoExecute"))["z0"]

        assert effects(answer) == ["NoExecute"]
        assert not answer.deferred

    def test_nor_do_nodes_that_were_taken_away(self) -> None:
        gone = (
            drained(name, drained_at=None, empty_since=None, node_gone_since=at(-60))
            for name in EVICTED
        )
        fleet = fleet_of(*gone, totals={("cluster", ""): 80_000})

        assert not grant(self.BUSY, fleet, desired("z0", "NoExecute"))["z0"].deferred

    def test_sixteen_that_are_not_empty_yet_do(self) -> None:
        busy = (drained(name, drained_at=None, empty_since=None) for name in EVICTED)
        fleet = fleet_of(*busy, totals={("cluster", ""): 80_000})

        answer = grant(self.BUSY, fleet, desired("z0", "NoExecute"))["z0"]

        assert "evict.cluster=5%, at least 4, at most 16 is used up (16/16" in answer.deferred

    @pytest.mark.parametrize(
        ("reason", "status", "deferred"),
        [
            ("PodsStay", "True", False),
            ("PodsStay", "False", True),
            ("DisruptionBudget", "True", True),  # under Evict: what is under NoExecute counts on
        ],
    )
    def test_nor_do_gpus_whose_pods_noexecute_does_not_remove(
        self, reason: str, status: Literal["True", "False"], deferred: bool
    ) -> None:
        blocked = (Condition(EVICTION_BLOCKED, status, reason, at(-600), "team/big"),)
        fields: dict[str, Any] = {"drained_at": None, "empty_since": None, "conditions": blocked}
        stuck = (drained(name, **fields) for name in EVICTED)
        fleet = fleet_of(*stuck, totals={("cluster", ""): 80_000})

        answer = grant(self.BUSY, fleet, desired("z0", "NoExecute"))["z0"]

        assert bool(answer.deferred) == deferred

    def test_a_drained_gpu_on_which_somebody_is_seen_again_counts_again(self) -> None:
        limits = evicting(Caps(cluster=Cap(1)))
        fleet = fleet_of(drained("a0", empty_since=None))

        assert grant(limits, fleet, desired("b0", "NoExecute"))["b0"].deferred

    def test_a_rule_that_its_incident_has_not_noted_counts(self) -> None:
        mine, old = drained("a0")
        (new,) = stored(rule("a0", "NoExecute", "gpu-0-part-1"))
        fleet = fleet_of((mine, old), (new, an_incident("z9")))
        limits = evicting(Caps(cluster=Cap(1)))
        assert grant(limits, fleet, desired("b0", "NoExecute"))["b0"].deferred

    def test_a_drained_gpu_asks_again_for_a_further_device_and_keeps_what_it_has(self) -> None:
        full = evicting(Caps(cluster=Cap(0)))

        same = grant(full, fleet_of(drained("a0")), desired("a0", "NoExecute"))["a0"]
        more = grant(full, fleet_of(drained("a0")), desired("a0", "NoExecute", "NoExecute"))["a0"]

        assert (effects(same), same.deferred) == (["NoExecute"], "")
        assert effects(more) == ["NoExecute", "NoSchedule"]

    def test_what_stands_tainted_counts_for_the_taints_drained_or_not(self) -> None:
        limits = msgspec.structs.replace(LIFTED, taint=Caps(cluster=Cap(2)))
        fleet = fleet_of(drained("a0"), drained("b0"))

        assert "taint.cluster=2 is used up (2/2" in (
            grant(limits, fleet, desired("z0", "NoSchedule"))["z0"].deferred
        )

    def test_what_stands_on_a_node_that_was_taken_away_is_no_capacity_lost(self) -> None:
        limits = msgspec.structs.replace(LIFTED, taint=Caps(cluster=Cap(2)))
        fleet = fleet_of(drained("a0"), drained("b0", node_gone_since=at(-60)))

        assert not grant(limits, fleet, desired("z0", "NoSchedule"))["z0"].deferred


class TestCalls:
    ONE = evicting(Caps(cluster=Cap(1)))

    def held(self, *known: Incident, mine: Incident | None = None) -> str:
        call = desired("z0", calls="node-reboot", incident=mine or an_incident("z0"))
        answer = grant(self.ONE, Fleet(incidents=known), call, calling=True)["z0"]
        return answer.call.why if answer.call else ""

    def called(self, seconds: float, **status: Any) -> Incident:
        return an_incident("a0", mode="Enforce", request=repair_request(at(seconds)), **status)

    def test_a_call_that_nobody_acted_on_stops_no_other_for_ever(self) -> None:
        lasts = CALL_LASTS.total_seconds()

        assert self.held(self.called(1 - lasts))
        assert not self.held(self.called(-lasts))

    def test_nor_does_one_of_a_node_that_reboots_again_and_again(self) -> None:
        request = repair_request(at(-60), first_time=at(-CALL_LASTS.total_seconds()))

        assert not self.held(an_incident("a0", mode="Enforce", request=request))

    def test_nor_does_one_whose_node_was_replaced(self) -> None:
        assert not self.held(self.called(-60, node_gone_since=at(-30)))

    def test_one_that_was_made_long_ago_is_made_and_asks_no_more(self) -> None:
        old = an_incident(
            "z0", mode="Enforce", request=repair_request(at(-DAY), node=node_of("z0"))
        )

        assert not self.held(self.called(-60), old, mine=old)


class TestOneNodeAndTheRate:
    RATE = evicting(Caps(node=Cap(2), rate=Rate(3, MINUTES_10)))

    def displaced(self, *seconds: float, node: str = "a") -> tuple[Incident, ...]:
        """Boards of one node that began so long ago and whose names belong to others by now."""
        return tuple(
            an_incident(f"{node}{n}", evicting_at=at(-ago)) for n, ago in enumerate(seconds)
        )

    def test_a_displaced_rule_keeps_its_place_in_its_nodes_cap_for_the_time_of_the_rate(
        self,
    ) -> None:
        fleet = Fleet(incidents=self.displaced(500, 100))

        held = grant(self.RATE, fleet, desired("a7", "NoExecute"))["a7"]

        assert held.deferred == (
            "NoExecute deferred: budget evict.node=2 is used up "
            "(2/2 GPUs of node node-a, 2 of them lately)"
        )
        assert held.wake == Wake(at(100), held.deferred)
        assert not grant(self.RATE, fleet, desired("a7", "NoExecute"), now=at(100))["a7"].deferred

    def test_a_board_that_is_evicted_from_again_takes_no_second_place(self) -> None:
        fleet = Fleet(incidents=self.displaced(500, 100))

        assert not grant(self.RATE, fleet, desired("a0", "NoExecute"))["a0"].deferred

    def test_of_one_node_no_more_than_its_cap_counts_for_the_rate(self) -> None:
        many = self.displaced(*range(10, 500, 10))

        answer = grant(self.RATE, Fleet(incidents=many), desired("b0", "NoExecute"))["b0"]
        assert not answer.deferred

    def test_two_nodes_use_it_up_and_the_youngest_say_when_it_reopens(self) -> None:
        both = (*self.displaced(500, 400, 300), *self.displaced(200, 100, node="b"))
        fleet = Fleet(incidents=both)

        held = grant(self.RATE, fleet, desired("c0", "NoExecute"))["c0"]

        assert "evict.rate=3 in 10m is used up (4/3 GPUs lately)" in held.deferred
        assert held.wake == Wake(at(300), held.deferred)
        assert not grant(self.RATE, fleet, desired("c0", "NoExecute"), now=at(300))["c0"].deferred

    def test_without_a_cap_of_its_node_each_counts(self) -> None:
        limits = evicting(Caps(rate=Rate(3, MINUTES_10)))

        assert grant(limits, Fleet(incidents=self.displaced(1, 2, 3)), desired("b0", "NoExecute"))[
            "b0"
        ].deferred


class TestANodeThatRepublishesItsBoards:
    """Whole decisions: `gpu-0` of node-a is a new dead board every 8 s, then one of node-b dies."""

    def decided(self, stored: Stored, seen: NodeView, seconds: float) -> None:
        for later in (0, 1, 5, 6):
            mine = with_fields(
                seen,
                rules=tuple(rule for rule in stored.rules.values() if rule.node == seen.node),
                incidents=tuple(s for s in stored.incidents.values() if s.node == seen.node),
                report=report_with(seen, observed_at=at(seconds + later)),
            )
            now = at(seconds + later)
            for step in decide_node(mine, stored.fleet(), policy(), now).steps:
                stored.take(step, now)

    def test_the_other_nodes_gpu_is_evicted_from_at_once(self) -> None:
        stored = Stored()
        for cycle in range(10):
            board = msgspec.structs.replace(
                dead(cycle), minor=0, xids=(xid(79, cycle * 8),), presence_since=at(cycle * 8)
            )
            seen = view(board)
            for part in seen.slices.inventory:
                stored.rules.pop(part.device, None)  # its name belongs to another board now
            self.decided(stored, seen, cycle * 8)
        lost = msgspec.structs.replace(
            dead(0), uuid=uuid(0, "node-b"), xids=(xid(79, 90),), presence_since=at(90)
        )

        self.decided(stored, view(lost, node="node-b"), 90)

        assert {rule.node: rule.effect for rule in stored.rules.values()} == {
            "node-a": "NoSchedule",
            "node-b": "NoExecute",
        }
        began = [
            entry.node for entry in stored.incidents.values() if entry.status.eviction.evicting_at
        ]
        assert began == ["node-a", "node-a", "node-b"]


class TestWavesOfTaints:
    """`correlation.taint`: also NoSchedule waits, once enough of a product is tainted."""

    SWITCHED = Limits(
        evict=Caps(), taint=Caps(), correlation=Correlation(taint=Cap(25, percent=True, least=2))
    )
    H100 = "H100 with driver 580"

    def answer(self, limits: Limits, *names: str, product: str = H100) -> tuple[list[str], str]:
        where = places(*names, product=self.H100) | places("z0", product=product)
        fleet = Fleet(
            rules=stored(*(rule(name, "NoSchedule") for name in names)),
            incidents=tuple(an_incident(name) for name in names),
            places=where,
            totals={("product", self.H100): 12, ("product", "B200"): 12},
        )
        given = grant(limits, fleet, desired("z0", "NoSchedule"))["z0"]
        return effects(given), given.deferred

    def test_a_wave_taints_so_many_of_a_product_and_no_more(self) -> None:
        assert self.answer(self.SWITCHED, "a0", "b0") == (["NoSchedule"], "")
        given, held = self.answer(self.SWITCHED, "a0", "b0", "c0")

        assert given == []
        assert "xid-95 is new on 3 nodes or more" in held
        assert "3 GPUs of H100 with driver 580 are tainted (budget correlation.taint=25%" in held

    def test_another_product_goes_on(self) -> None:
        assert self.answer(self.SWITCHED, "a0", "b0", "c0", product="B200")[0] == ["NoSchedule"]

    def test_many_that_are_no_wave_go_on(self) -> None:
        assert self.answer(self.SWITCHED, "a0", "a1", "a2", "a3")[0] == ["NoSchedule"]

    def test_as_shipped_a_wave_is_tainted_whole(self) -> None:
        assert self.answer(Limits(), "a0", "b0", "c0", "d0")[0] == ["NoSchedule"]


class TestSmallClusters:
    def test_a_cluster_of_eight_gpus_may_taint_all_and_evict_from_four_at_once(self) -> None:
        totals: dict[tuple[Ground, str], int] = {("cluster", ""): 8}
        names = [f"{node}0" for node in "abcdefgh"]

        taints = grant(
            Limits(), Fleet(totals=totals), *(desired(name, "NoSchedule") for name in names)
        )
        evictions = grant(
            Limits(), Fleet(totals=totals), *(desired(name, "NoExecute") for name in names)
        )

        assert sum(bool(taint.rules) for taint in taints.values()) == 8
        assert sum(effects(eviction) == ["NoExecute"] for eviction in evictions.values()) == 4

    def test_a_machine_that_fails_as_a_whole_leaves_room_for_others(self) -> None:
        fleet = Fleet(rules=stored(*(rule(f"a{number}", "NoSchedule") for number in range(16))))

        assert not grant(Limits(), fleet, desired("b0", "NoSchedule"))["b0"].deferred


NAMES = [f"a{number}" for number in range(12)]
ENDINGS: Mapping[str, Mapping[str, object]] = {
    "evicting": {"drained_at": None, "empty_since": None},
    "drained": {},
    "displaced": {},
    "closed": {"closed_at": NOW},
    "gone": {"node_gone_since": NOW},
}


@st.composite
def histories_of_one_node(draw: st.DrawFn) -> tuple[tuple[Rule, ...], tuple[Incident, ...]]:
    """Whatever one node's reports may have led to: any number of begins, however they ended."""
    rules, incidents = list[Rule](), list[Incident]()
    for name in draw(st.lists(st.sampled_from(NAMES), unique=True)):
        since = draw(st.integers(-3600, 0))
        mine, about = drained(name, since)
        ending = draw(st.sampled_from([*ENDINGS]))
        status = with_fields(about.status, **ENDINGS[ending])
        incidents.append(msgspec.structs.replace(about, status=status))
        rules += [] if ending in ("displaced", "closed") else [mine]
    return tuple(rules), tuple(incidents)


@given(
    histories_of_one_node(),
    st.integers(1, 4),
    st.integers(1, 4),
    st.lists(st.sampled_from(NAMES), unique=True),
)
def test_no_history_of_one_node_makes_another_nodes_first_eviction_wait_for_a_rate(
    history: tuple[tuple[Rule, ...], tuple[Incident, ...]], node: int, more: int, asks: list[str]
) -> None:
    """For every rate above the cap of one node, whatever the node has begun and asks for now."""
    caps = Caps(node=Cap(node), rate=Rate(node + more, MINUTES_10))
    limits = Limits(evict=caps, taint=caps, correlation=LIFTED.correlation)
    fleet = Fleet(rules=history[0], incidents=history[1])
    given = grant(limits, fleet, *(desired(name, "NoExecute") for name in asks))
    new = stored(*(taint_rule for answer in given.values() for taint_rule in answer.rules))
    requested = {gpu_of(name) for name in asks}
    others = tuple(taint_rule for taint_rule in fleet.rules if taint_rule.gpu not in requested)
    fleet = with_fields(fleet, rules=(*others, *new))

    answer = grant(limits, fleet, desired("b0", "NoExecute"))["b0"]

    assert effects(answer) == ["NoExecute"]


@given(histories_of_one_node(), st.integers(0, 4), st.lists(st.sampled_from(NAMES), unique=True))
def test_one_node_begins_no_more_within_the_time_of_a_rate_than_its_cap(
    history: tuple[tuple[Rule, ...], tuple[Incident, ...]], cap: int, asks: list[str]
) -> None:
    limits = evicting(Caps(node=Cap(cap), rate=Rate(99, MINUTES_10)))
    fleet = Fleet(rules=history[0], incidents=history[1])
    lately = {
        incident.spec.uuid
        for incident in fleet.incidents
        if incident.status.eviction.evicting_at
        and NOW - incident.status.eviction.evicting_at < MINUTES_10
    }
    standing = {taint_rule.gpu for taint_rule in fleet.rules}

    given = grant(limits, fleet, *(desired(name, "NoExecute") for name in asks))

    began = {answer.uuid for answer in given.values() if "NoExecute" in effects(answer)} - standing
    assert not began - lately or len(began | lately) <= max(cap, len(lately))


class TestUsage:
    def test_it_says_of_each_limit_how_full_it_is_and_of_a_ground_the_fullest(self) -> None:
        fleet = Fleet(
            rules=stored(
                rule("a0", "NoExecute"), rule("a1", "NoExecute"), rule("b0", "NoSchedule")
            ),
            incidents=(
                an_incident("a0", evicting_at=at(-60)),
                an_incident("a1", evicting_at=at(-6000)),
            ),
            places=places("a0", "a1", "b0") | {gpu_of("b0"): place("b0", domain="d/1")},
            totals={("cluster", ""): 400, ("node", "node-a"): 8, ("node", "node-b"): 8},
        )

        assert {
            (row.budget, row.ground): (row.used, row.limit) for row in usage(fleet, Limits(), NOW)
        } == {
            ("evict", "node"): (2, 2),
            ("evict", "cluster"): (2, 16),
            ("evict", "rate"): (1, 8),
            ("taint", "node"): (2, 16),
            ("taint", "cluster"): (3, 40),
        }

    def test_without_caps_there_is_nothing_to_say(self) -> None:
        assert usage(Fleet(), LIFTED, NOW) == ()
