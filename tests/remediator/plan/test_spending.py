"""What counts against a limit when dates and claims do not help: classes that pods have left."""

from datetime import timedelta
from typing import Any

import pytest

from remediator.model.incident_status import RuleRecord
from remediator.model.taint_rule import Rule
from remediator.plan.spending import Spending
from remediator.plan.stages import Wake
from remediator.plan.view import Fleet
from remediator.policy.limits import LIFTED, Cap, Caps, Limits, Rate
from remediator.policy.place import Area, Place
from remediator.policy.table import Policy
from remediator.policy.windows import Once, Window
from tests.remediator.builders import DRIVER, at, evictions, policy
from tests.remediator.plan.fleets import (
    an_incident,
    budget,
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

NAMES = [f"{node}0" for node in "abcdefgh"]


def evicting(caps: Caps) -> Limits:
    return Limits(evict=caps, taint=LIFTED.taint, correlation=LIFTED.correlation)


class TestClassesThatPodsHaveLeft:
    CLASS = frozenset({"h100"})
    NONE = frozenset[str]()
    QUARTER = evicting(Caps(device_class=Cap(25, percent=True)))

    def after_each_eviction(self, closed: bool) -> list[str]:
        """Evict from one GPU after another; each loses its claim with its pod."""
        claimed, rules, gone = set(NAMES), list[Rule](), list[str]()
        for name in NAMES:
            fleet = Fleet(
                rules=stored(*rules),
                incidents=tuple(
                    an_incident(
                        gpu_name,
                        device_classes=("h100",),
                        closed_at=at(-1) if closed and gpu_name in gone else None,
                    )
                    for gpu_name in NAMES
                ),
                places={
                    gpu_of(gpu_name): place(
                        gpu_name, classes=self.CLASS if gpu_name in claimed else self.NONE
                    )
                    for gpu_name in NAMES
                },
                totals={("class", "h100"): len(claimed)},
            )
            if effects(grant(self.QUARTER, fleet, desired(name, "NoExecute"))[name]) == [
                "NoExecute"
            ]:
                gone.append(name)
                claimed.discard(name)
                rules += [] if closed else [rule(name, "NoExecute")]
        return gone

    def test_a_class_is_not_refilled_by_the_pods_that_leave_it(self) -> None:
        assert self.after_each_eviction(closed=False) == NAMES[:2]

    def test_an_incident_that_is_over_counts_no_more(self) -> None:
        assert self.after_each_eviction(closed=True) == NAMES

    def test_nor_does_it_make_its_class_any_larger(self) -> None:
        over = [an_incident(name, device_classes=("h100",), closed_at=at(-1)) for name in NAMES]
        fleet = Fleet(
            rules=stored(rule("a0", "NoExecute")),
            incidents=tuple(over),
            places=places("a0", "b0", classes=self.CLASS),
            totals={("class", "h100"): 2},
        )

        assert grant(self.QUARTER, fleet, desired("b0", "NoExecute"))["b0"].deferred

    def test_a_class_that_is_remembered_and_claimed_counts_once(self) -> None:
        fleet = Fleet(
            incidents=(an_incident("a0", device_classes=("h100",)),),
            places=places("a0", "b0", classes=self.CLASS),
            totals={("class", "h100"): 7},
            rules=stored(rule("a0", "NoExecute")),
        )

        answer = grant(self.QUARTER, fleet, desired("b0", "NoExecute"))["b0"]

        assert "(1/1 GPUs of DeviceClass h100)" in answer.deferred


class TestRulesThatNobodyHasNoted:
    RATE = evicting(Caps(rate=Rate(2, timedelta(minutes=10))))

    @pytest.mark.parametrize("behind", [0, 900, 86400])
    def test_they_are_new_whatever_the_api_servers_clock_says(self, behind: float) -> None:
        fleet = Fleet(
            rules=stored(*(rule(name, "NoExecute", time_added=at(-behind)) for name in NAMES[:2])),
            incidents=tuple(an_incident(name) for name in NAMES[:2]),
        )

        answer = grant(self.RATE, fleet, desired("h0", "NoExecute"))["h0"]

        assert "(2/2 GPUs lately)" in answer.deferred
        assert answer.wake == Wake(at(600), answer.deferred)

    def test_once_noted_they_count_from_then(self) -> None:
        fleet = Fleet(
            rules=stored(*(rule(name, "NoExecute", time_added=at(-900)) for name in NAMES[:2])),
            incidents=tuple(an_incident(name, evicting_at=at(-601)) for name in NAMES[:2]),
        )

        assert not grant(self.RATE, fleet, desired("h0", "NoExecute"))["h0"].deferred


class TestPlacesForThePolicy:
    """A window by pool holds for a GPU of that pool also while it is published no more."""

    PAUSED: Policy = policy(LIFTED)

    def paused(self) -> Policy:
        window = Window(
            name="firmware",
            area=Area(pools=("rack-7",)),
            when=Once(start=at(-60), until=at(600)),
        )
        return Policy(rows=self.PAUSED.rows, limits=LIFTED, maintenance=(window,))

    def test_the_view_knows_it(self) -> None:
        seen = Place(node=node_of("a0"), pools=frozenset({("d", "rack-7")}))
        call = desired("a0", calls="node-reboot")

        (held,) = budget((call,), Fleet(), self.paused(), seen=seen, calling=True)
        (free,) = budget((call,), Fleet(), self.paused(), calling=True)

        assert held.deferred_by == "Maintenance"
        assert not free.deferred

    def test_a_rule_that_stands_knows_it(self) -> None:
        standing = rule("a0", "NoSchedule")
        device = type(standing.device)(DRIVER, "rack-7", "gpu-0")
        kept = Rule(
            device=device,
            effect="NoSchedule",
            fault="gpu",
            cause="xid-95",
            incident="a0-1",
            uuid=standing.uuid,
            gpu=standing.gpu,
            node=standing.node,
        )

        call, fleet = desired("a0", calls="node-reboot"), Fleet(rules=stored(kept))
        (held,) = budget((call,), fleet, self.paused(), calling=True)

        assert held.deferred_by == "Maintenance"


class TestRulesThatAreNotServed:
    """They may stand: what incidents record of them keeps its room."""

    def used(self, **fields: Any) -> tuple[int, int]:
        fleet = Fleet(incidents=(an_incident("a0", **fields),), rules_served=False)
        spending = Spending(fleet, at(0))
        return spending.count("taint", "cluster", ""), spending.count("evict", "cluster", "")

    @pytest.mark.parametrize(
        ("effect", "counted"),
        [("None", (0, 0)), ("NoSchedule", (1, 0)), ("Evict", (1, 1)), ("NoExecute", (1, 1))],
    )
    def test_count_as_they_are_recorded(self, effect: str, counted: tuple[int, int]) -> None:
        record = RuleRecord("r", "u1", f"{DRIVER}/node-a/gpu-0", effect)
        since = at(-60)

        assert self.used(rules=(record,), by_device=evictions(since)) == counted

    def test_count_for_no_eviction_once_the_gpu_is_drained(self) -> None:
        record = RuleRecord("r", "u1", f"{DRIVER}/node-a/gpu-0", "NoExecute")

        assert self.used(rules=(record,), drained_at=at(-60), empty_since=at(-60)) == (1, 0)

    def test_count_no_more_once_the_incident_is_closed(self) -> None:
        record = RuleRecord("r", "u1", f"{DRIVER}/node-a/gpu-0", "NoExecute")

        assert self.used(rules=(record,), closed_at=at(-1)) == (0, 0)

    def test_count_as_they_are_stored_where_rules_are_served(self) -> None:
        record = RuleRecord("r", "u1", f"{DRIVER}/node-a/gpu-0", "NoExecute")
        fleet = Fleet(incidents=(an_incident("a0", rules=(record,)),))

        assert Spending(fleet, at(0)).count("evict", "cluster", "") == 0
