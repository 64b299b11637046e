"""The same new cause on several nodes, or right after a change: nobody is moved for it yet."""

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from remediator.diagnose.fault import Unknown
from remediator.model.incident import Incident
from remediator.plan.correlation import cause_of, cause_since
from remediator.plan.stages import Wake
from remediator.plan.view import Changed, Fleet, Trust
from remediator.policy.limits import LIFTED, Correlation, Limits
from remediator.policy.place import Area, Place
from remediator.policy.table import Policy
from remediator.policy.windows import Exemption
from tests.remediator.builders import at, make_board, policy, with_fields
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

RULES = Correlation(nodes=3, within=timedelta(minutes=10), after_change=timedelta(minutes=30))
HOLD = msgspec.structs.replace(LIFTED, correlation=RULES)


def spares(node: str) -> Policy:
    """A policy that enforces everywhere but on one node."""
    exempt = (Exemption(name="exempt[0]", area=Area(nodes=(node,)), why="burn-in"),)
    return msgspec.structs.replace(policy(HOLD), exempt=exempt)


def held(
    *elsewhere: Incident,
    incident: Incident | None = None,
    now: float = 0,
    limits: Limits = HOLD,
    **fleet: object,
) -> str:
    """Return why the eviction of GPU `c0` waits, "" when it does not."""
    mine = incident or an_incident("c0")
    seen = Fleet(incidents=(*elsewhere, mine), rules=stored(rule("c0", "NoSchedule")))
    seen = with_fields(seen, **fleet)
    answer = grant(limits, seen, desired("c0", "NoExecute", incident=mine), now=at(now))["c0"]
    assert effects(answer) == (["NoSchedule"] if answer.deferred else ["NoExecute"])
    return answer.deferred


class TestSameCause:
    def test_the_third_node_with_one_cause_holds_and_says_so(self) -> None:
        reported = held(an_incident("a0", opened=at(-500)), an_incident("b0", opened=at(-300)))

        assert reported == (
            "NoExecute deferred: xid-95 is new on 3 nodes or more within 10m, "
            "as if it were no fault of the GPUs"
        )

    def test_what_any_program_may_have_logged_is_no_source(self) -> None:
        forged = [an_incident(gpu, opened=at(-300)) for gpu in ("a0", "b0")]
        forged = [
            msgspec.structs.replace(
                incident, status=with_fields(incident.status, sources=("Syslog",))
            )
            for incident in forged
        ]

        assert not held(*forged)

    def test_the_first_two_nodes_go_on(self) -> None:
        assert not held(an_incident("a0", opened=at(-500)))

    def test_an_incident_that_is_about_to_be_opened_counts(self) -> None:
        others = (an_incident("a0"), an_incident("b0"))

        assert held(*others, incident=an_incident("c0", opened=None))

    def test_another_cause_is_another_incident(self) -> None:
        assert not held(an_incident("a0", "xid-48"), an_incident("b0", "xid-79"))

    def test_an_older_incident_of_the_same_cause_does_not_count(self) -> None:
        assert not held(an_incident("a0", opened=at(-601)), an_incident("b0"))

    def test_what_is_over_counts_as_long_as_if_it_stood(self) -> None:
        """A soak that is shorter than the window must hide no wave."""
        assert held(an_incident("a0", closed_at=at(-1)), an_incident("b0"))
        assert not held(an_incident("a0", opened=at(-601), closed_at=at(-1)), an_incident("b0"))

    def test_many_gpus_of_one_node_are_one_node(self) -> None:
        assert not held(*(an_incident(f"a{number}") for number in range(8)), an_incident("a9"))

    def test_a_gpu_that_evicts_already_goes_on(self) -> None:
        standing = stored(rule("c0", "NoExecute"))

        assert not held(an_incident("a0"), an_incident("b0"), rules=standing)

    def test_taints_go_on_meanwhile(self) -> None:
        others = tuple(an_incident(name) for name in ("a0", "b0", "c0", "d0"))

        answer = grant(HOLD, Fleet(incidents=others), desired("e0", "NoSchedule"))["e0"]

        assert effects(answer) == ["NoSchedule"]
        assert not answer.deferred

    def test_it_reopens_by_itself_when_no_further_node_joins(self) -> None:
        wave = (
            an_incident("a0", opened=at(-900)),
            an_incident("b0", opened=at(-800)),
            an_incident("d0", opened=at(-500)),
        )
        mine = an_incident("c0", opened=at(-850))

        assert held(*wave, incident=mine, now=99)
        assert not held(*wave, incident=mine, now=100)

    def test_it_says_when_that_will_be(self) -> None:
        fleet = Fleet(
            incidents=(an_incident("a0", opened=at(-50)), an_incident("b0", opened=at(-30)))
        )

        answer = grant(
            HOLD, fleet, desired("c0", "NoExecute", incident=an_incident("c0", opened=at(-20)))
        )

        assert answer["c0"].wake == Wake(at(580), answer["c0"].deferred)

    def test_a_node_that_is_part_of_it_cannot_prolong_it(self) -> None:
        wave = (an_incident("a0", opened=at(-599)), an_incident("b0", opened=at(-599)))
        liar = [an_incident(f"a{n}", opened=at(-n)) for n in range(1, 500, 20)]

        assert held(*wave, *liar, incident=an_incident("c0", opened=at(-599)))
        assert not held(*wave, *liar, incident=an_incident("c0", opened=at(-599)), now=1)

    def test_nor_can_it_when_its_part_is_long_ago(self) -> None:
        wave = [
            an_incident(name, opened=at(when))
            for name, when in (("a0", -700), ("b0", -600), ("d0", -100), ("a1", -50))
        ]
        mine = an_incident("c0", opened=at(-650))

        assert held(*wave, incident=mine, now=499)
        assert not held(*wave, incident=mine, now=500)

    def test_nodes_that_speak_far_apart_are_no_wave(self) -> None:
        alone = [an_incident(f"{name}0", opened=at(-400 * n)) for n, name in enumerate("abdefgh")]

        assert not held(*alone, incident=an_incident("c0", opened=at(-3000)))

    def test_one_node_that_lies_for_hours_holds_nobody(self) -> None:
        liar = [
            an_incident(f"a{n}", f"xid-{cause}", opened=at(-n * 10))
            for n, cause in enumerate([48, 79, 94, 95] * 250)
        ]

        assert not held(*liar)
        assert not held(*liar, an_incident("b0", opened=at(-601)))

    def test_zero_nodes_means_never(self) -> None:
        never = msgspec.structs.replace(HOLD, correlation=msgspec.structs.replace(RULES, nodes=0))

        assert not held(an_incident("a0"), an_incident("b0"), an_incident("d0"), limits=never)


class TestIncidentsThatAreOld:
    """Their cause is dated by itself: it may be much younger than the incident."""

    WEEKS = at(-2e6)

    def wave(self, **cause_since: float) -> list[Incident]:
        return [
            an_incident(name, opened=self.WEEKS, cause_since=at(since))
            for name, since in cause_since.items()
        ]

    def test_a_cause_that_is_new_on_three_nodes_is_held(self) -> None:
        *others, mine = self.wave(a0=-500, b0=-300, c0=0)

        assert held(*others, incident=mine).startswith("NoExecute deferred: xid-95 is new on 3 ")

    def test_a_cause_that_is_as_old_as_they_are_is_not(self) -> None:
        *others, mine = self.wave(a0=-2e6, b0=-2e6 + 3600, c0=-2e6 + 7200)

        assert not held(*others, incident=mine)

    def test_without_the_date_of_the_cause_the_opening_stands_for_it(self) -> None:
        others = (an_incident("a0", opened=self.WEEKS), an_incident("b0"))

        assert not held(*others)

    def test_a_cause_that_is_new_after_a_new_driver_is_held(self) -> None:
        (mine,) = self.wave(c0=-30)
        changes = {node_of("c0"): Changed(driver_at=at(-60))}

        assert held(incident=mine, changes=changes)
        assert not held(*self.wave(a0=0), incident=self.wave(c0=-130)[0], changes=changes)


WELL = make_board(Unknown("not looked at here"))


class TestSinceWhenACauseLeads:
    OLD = an_incident("c0", "xid-63", "memory", opened=at(-2e6))

    def since(self, *, old: dict[str, Any] | None = None, **found: Any) -> datetime | None:
        """Return the date to store now, at 0; the date that is stored is an hour ago."""
        stored = with_fields(
            self.OLD.status,
            **({"sources": ("Kmsg",), "evidence": ("XID 63 here",)} | (old or {})),
            cause_since=at(-3600),
        )
        incident = msgspec.structs.replace(self.OLD, status=stored)
        return cause_since(WELL, incident, with_fields(stored, **found).fault, at(0))

    def test_the_same_cause_leads_on(self) -> None:
        assert self.since() == at(-3600)
        assert self.since(sources=("Kmsg", "NvmlEvent")) == at(-3600)

    def test_a_worse_class_is_a_new_cause(self) -> None:
        assert self.since(fault_class="gpu", cause="xid-95") == at(0)
        assert self.since(fault_class="gpu") == at(0)

    @pytest.mark.parametrize(
        "seen",
        [
            {"evidence": ("XID 48 here", "XID 63 here")},
            {"sources": ("Kmsg", "MemoryCounters")},
        ],
    )
    def test_so_is_another_one_that_brings_an_xid_or_a_source(self, seen: dict[str, Any]) -> None:
        assert self.since(cause="xid-48", **seen) == at(0)

    def test_causes_that_alternate_are_new_once(self) -> None:
        both = {"evidence": ("XID 48 here", "XID 63 here")}

        assert self.since(old=both, cause="xid-48") == at(-3600)
        assert self.since(old=both | {"cause": "xid-48"}, cause="xid-63") == at(-3600)

    def test_what_says_no_more_than_its_class_is_one_cause(self) -> None:
        lost = {"fault_class": "lost", "cause": "xid-79"}

        assert self.since(old=lost, cause="gpu-lost", sources=("GpuLost", "Kmsg")) == at(-3600)

    def test_the_first_report_that_no_program_can_forge_is_new(self) -> None:
        forged = {"sources": ("Syslog",)}

        assert self.since(old=forged, sources=("Kmsg", "Syslog")) == at(0)

    def test_an_older_version_has_stored_no_date(self) -> None:
        assert cause_since(WELL, self.OLD, self.OLD.status.fault, at(0)) == at(-2e6)

    def test_an_incident_that_is_about_to_be_opened_begins_now(self) -> None:
        opened = an_incident("c0", opened=None)

        assert cause_since(WELL, opened, opened.status.fault, at(0)) == at(0)

    def test_a_date_is_moved_back_by_no_clock_that_is_wrong(self) -> None:
        """It would be as old as that clock is behind, and no wave would be seen."""
        ahead = with_fields(self.OLD.status, cause="xid-95", cause_since=at(60))
        incident = msgspec.structs.replace(self.OLD, status=ahead)
        wrong = make_board(Unknown("x"), trust=Trust({"clock": "our clock is wrong"}))

        assert cause_since(wrong, incident, ahead.fault, at(0)) == at(60)
        assert cause_since(WELL, incident, ahead.fault, at(0)) == at(0)


class TestCauses:
    @pytest.mark.parametrize(
        ("incident", "cause"),
        [
            (an_incident("a0", "xid-95"), "xid-95"),
            (an_incident("a0", "xid-79", "lost"), "class lost"),
            (an_incident("a0", "gpu-lost", "lost"), "class lost"),
            (an_incident("a0", "recovery-action-1", "gpu"), "class gpu"),
        ],
    )
    def test_what_tells_no_more_than_its_class_counts_by_its_class(
        self, incident: Incident, cause: str
    ) -> None:
        assert cause_of(incident) == cause


class TestDomains:
    NAMES = ("a0", "b0", "c0", "d0")

    def lost(self, cause: str = "gpu-lost", fault: str = "lost") -> list[Incident]:
        return [an_incident(name, cause, fault) for name in self.NAMES]

    def test_one_fabric_that_takes_all_its_nodes_along_is_one_cause(self) -> None:
        *others, _ = incidents = self.lost()

        assert not held(*others, incident=incidents[2], places=places(*self.NAMES, domain="d/1"))

    def test_lost_gpus_of_several_domains_are_several(self) -> None:
        where = {gpu_of(name): place(name, domain=f"d/{name[0]}") for name in self.NAMES}

        assert held(*self.lost(), incident=self.lost()[2], places=where)

    def test_a_cause_that_no_link_carries_counts_by_node(self) -> None:
        incidents = self.lost("xid-119", "gpu")

        assert held(*incidents, incident=incidents[2], places=places(*self.NAMES, domain="d/1"))

    def test_a_node_that_claims_many_domains_has_one_voice(self) -> None:
        liar = [an_incident(f"a{number}", "gpu-lost", "lost") for number in range(8)]
        where = {gpu_of(f"a{n}"): place(f"a{n}", domain=f"d/{n}") for n in range(8)}

        assert not held(*liar, incident=an_incident("c0", "gpu-lost", "lost"), places=where)


class TestAfterAChange:
    NODE = node_of("c0")

    @pytest.mark.parametrize(
        ("changed", "what"),
        [
            (Changed(driver_at=at(-60)), "driver of node-c"),
            (Changed(agent_at=at(-60)), "agent of node-c"),
        ],
    )
    def test_a_fault_right_after_a_new_driver_or_agent_is_held_for_a_time(
        self, changed: Changed, what: str
    ) -> None:
        changes = {self.NODE: changed}

        reported = held(changes=changes)
        assert reported.startswith(
            f"NoExecute deferred: the {what} changed less than 30m ago (until "
        )
        assert held(changes=changes, now=1739)
        assert not held(changes=changes, now=1740)

    def test_a_change_of_another_node_holds_nothing_here(self) -> None:
        assert not held(changes={"node-a": Changed(driver_at=at(-60))})

    def test_an_incident_that_was_there_before_the_new_driver_goes_on(self) -> None:
        old = an_incident("c0", opened=at(-200))

        assert not held(incident=old, changes={self.NODE: Changed(driver_at=at(-60))})

    def test_a_date_of_the_api_server_may_be_a_little_before_ours(self) -> None:
        same_second = an_incident("c0", opened=at(-61))

        assert held(incident=same_second, changes={self.NODE: Changed(driver_at=at(-60))})

    def test_a_change_of_the_policy_holds_also_what_stood_for_weeks(self) -> None:
        weeks = an_incident("c0", opened=at(-2e6))

        assert held(incident=weeks, policy_changed_at=at(-1799)) == (
            "NoExecute deferred: the policy changed less than 30m ago (until 2026-01-05T12:00:01Z)"
        )
        assert not held(incident=weeks, policy_changed_at=at(-1800))

    @pytest.mark.parametrize(
        ("before", "waits"),
        [
            pytest.param(policy(mode="incident-only"), True, id="what was switched on waits"),
            pytest.param(policy(HOLD), False, id="what was so before goes on"),
            pytest.param(policy(ceiling="NoSchedule"), True, id="a higher ceiling"),
            pytest.param(policy(soak=timedelta(seconds=9)), False, id="a longer soak"),
            pytest.param(spares("node-c"), True, id="the end of its own exemption"),
            pytest.param(spares("node-a"), False, id="the end of another GPU's exemption"),
            pytest.param(None, True, id="nothing is known of before"),
        ],
    )
    def test_a_change_of_the_policy_holds_only_where_it_permits_more(
        self, before: Policy | None, *, waits: bool
    ) -> None:
        here = Place(node=self.NODE)
        weeks = an_incident("c0", opened=at(-2e6))
        fleet = Fleet(policy_changed_at=at(-60), policies_before=before and (before,))
        demand = desired("c0", "NoExecute", incident=weeks)

        (answer,) = budget([demand], fleet, policy(HOLD), seen=here)

        assert bool(answer.deferred) == waits

    def test_no_time_after_a_change_means_never(self) -> None:
        never = msgspec.structs.replace(
            HOLD, correlation=msgspec.structs.replace(RULES, after_change=timedelta())
        )

        assert not held(limits=never, policy_changed_at=at(0))
