"""Incidents that were written to hurt a healthy device, to free a sick one, or to lose a signal."""

import msgspec

from exporter.model.node_health import FabricHealth, MemoryHealth
from remediator.diagnose.fault import faults_of
from remediator.diagnose.verdict import verdict
from remediator.plan.spending import begins
from remediator.plan.steps import ChangeRule
from remediator.plan.view import Fleet
from tests.remediator.builders import (
    ALL_SEVEN,
    LASTS,
    NO_ACTION_FIELD,
    RESET,
    SLICE_5,
    Stored,
    action,
    at,
    dead,
    gpu,
    mig_gpu,
    policy,
    report,
    uuid,
    view,
    xid,
)
from tests.remediator.plan.fleets import an_incident
from tests.remediator.playing import EVICTS_LATER, claim, effect_of, settle, tick

CALM = action(0, -3600, 0.1)


class TestSiblingsOfASickSlice:
    def test_are_not_tainted_for_a_fault_of_the_gpu_that_is_over_when_it_is_first_seen(
        self,
    ) -> None:
        stored = Stored()
        settle(stored, view(mig_gpu(0, xid(94, gi=5), recovery_action=CALM)), 1)
        settle(stored, view(mig_gpu(0, xid(94, gi=5), recovery_action=CALM)), 5)

        answered = action(0, -3600, 101)
        both = mig_gpu(0, xid(94, gi=5), xid(119, seen=100), recovery_action=answered)
        for second in (102, 110, 200):
            settle(stored, view(both), second)

        assert set(stored.effects()) == {SLICE_5}
        assert stored.incident.status.fault.fault_class == "contained"

    def test_are_not_tainted_when_both_are_news_in_one_report(self) -> None:
        stored = Stored()
        both = mig_gpu(0, xid(94, gi=5), xid(119), recovery_action=CALM)

        settle(stored, view(both), 1)
        settle(stored, view(both), 5)

        assert stored.effects() == {SLICE_5: "NoExecute"}

    def test_stay_tainted_after_a_fault_of_the_gpu_that_had_stood(self) -> None:
        stored = Stored()
        settle(stored, view(mig_gpu(0, xid(95), recovery_action=RESET)), 2)
        over = mig_gpu(0, xid(95), recovery_action=action(0, 50, 50))

        settle(stored, view(over), 51)

        assert set(stored.effects()) == ALL_SEVEN
        assert stored.incident.status.fault.fault_class == "gpu"


class TestTheSoak:
    def test_begins_anew_with_a_signal_of_a_node_whose_clock_is_ahead(self) -> None:
        stored = Stored()
        ahead = 3600.0
        first = mig_gpu(0, xid(94, seen=ahead, gi=5), recovery_action=action(0, -9, ahead + 0.1))
        settle(stored, view(first, report=report(first, observed_at=at(ahead + 1))), 1)
        again = mig_gpu(
            0, xid(94, seen=ahead + 599, gi=5), recovery_action=action(0, -9, ahead + 600)
        )
        seen = view(again, report=report(again, observed_at=at(ahead + 600)))

        settle(stored, seen, 599)
        settle(stored, seen, 602)

        assert SLICE_5 in stored.effects()
        assert stored.incident.open
        settle(stored, seen, 1190)
        assert SLICE_5 in stored.effects()
        settle(stored, seen, 1200)
        assert stored.effects() == {}

    def test_does_not_end_in_the_tick_that_brings_a_signal(self) -> None:
        stored = Stored()
        first = mig_gpu(0, xid(94, seen=0, gi=5), recovery_action=action(0, -9, 0.1))
        settle(stored, view(first), 1)
        ahead = mig_gpu(0, xid(94, seen=602, gi=5), recovery_action=action(0, -9, 602.1))

        settle(stored, view(ahead, report=report(ahead, observed_at=at(602.2))), 601.5)

        assert SLICE_5 in stored.effects()
        assert stored.incident.open


class TestAnOldDriver:
    """Below R565 there is no recovery action: recovery is a new epoch, and silence in it."""

    def test_that_forgets_its_xids_in_the_same_boot_frees_nothing(self) -> None:
        stored = Stored()
        settle(stored, view(gpu(0, xid(95), recovery_action=NO_ACTION_FIELD)), 1)
        forgetful = view(gpu(0, recovery_action=NO_ACTION_FIELD))
        settle(stored, forgetful, 10)

        settle(stored, forgetful, 5000)

        assert "gpu-0" in stored.effects()
        assert "no new epoch" in stored.incident.status.message

    def test_that_forgets_a_milder_xid_than_the_one_that_leads_frees_nothing(self) -> None:
        stored = Stored()
        gone = gpu(0, presence="Lost", presence_since=at(0), recovery_action=NO_ACTION_FIELD)
        settle(stored, view(gone), 1)
        settle(stored, view(gpu(0, xid(95, seen=2), recovery_action=NO_ACTION_FIELD)), 3)
        forgetful = view(gpu(0, recovery_action=NO_ACTION_FIELD))
        settle(stored, forgetful, 10)

        settle(stored, forgetful, 5000)

        assert "gpu-0" in stored.effects()

    def test_frees_it_after_a_reboot(self) -> None:
        stored = Stored()
        settle(stored, view(gpu(0, xid(95), recovery_action=NO_ACTION_FIELD)), 1)
        booted = gpu(0, recovery_action=NO_ACTION_FIELD)
        seen = view(booted, report=report(booted, boot_id="boot-2"))
        settle(stored, seen, 100)

        settle(stored, seen, 701)

        assert stored.effects() == {}

    def test_frees_it_after_a_reset_that_a_forgetful_agent_saw(self) -> None:
        stored = Stored()
        sick = gpu(0, xid(95, epoch=3), epoch=3, recovery_action=NO_ACTION_FIELD)
        settle(stored, view(sick), 1)
        assert "gpu-0" in stored.effects()
        seen = view(gpu(0, epoch=2, epoch_started=at(50), recovery_action=NO_ACTION_FIELD))
        settle(stored, seen, 100)

        settle(stored, seen, 701)

        assert stored.effects() == {}

    def test_frees_it_when_a_person_vouches(self) -> None:
        stored = Stored()
        settle(stored, view(gpu(0, xid(95), recovery_action=NO_ACTION_FIELD)), 1)
        forgetful = view(gpu(0, recovery_action=NO_ACTION_FIELD))
        settle(stored, forgetful, 10)
        stored.intend("RepairConfirmed", LASTS)
        settle(stored, forgetful, 20)

        settle(stored, forgetful, 700)

        assert stored.effects() == {}


def test_a_report_that_speaks_of_a_gpu_twice_says_nothing_of_it() -> None:
    for twice in ((dead(), gpu(0)), (gpu(0), dead())):
        stored = Stored()

        decision = settle(stored, view(*twice), 1)

        assert not stored.taken
        assert "more than once" in decision.sentence


class TestAFabricThatCannotBeRead:
    def test_is_no_sign_of_health(self) -> None:
        stored = Stored()
        broken = view(gpu(0, fabric=FabricHealth(state=3, status=15)))
        settle(stored, broken, 1)
        settle(stored, broken, 5)
        assert stored.effects() == {"gpu-0": "NoSchedule"}
        mute = view(gpu(0))
        settle(stored, mute, 10)

        settle(stored, mute, 5000)

        assert stored.effects() == {"gpu-0": "NoSchedule"}
        well = view(gpu(0, fabric=FabricHealth(state=3, status=0)))
        settle(stored, well, 5001)
        settle(stored, well, 5602)
        assert stored.effects() == {}


class TestMemoryThatMigHides:
    def test_is_freed_by_a_person_who_vouches_and_by_nobody_else(self) -> None:
        stored = Stored()
        failed = MemoryHealth(row_remap_failed="True", remap_observed_at=at(0))
        settle(stored, view(gpu(0, memory=failed)), 1)
        hidden = view(mig_gpu(0))
        settle(stored, hidden, 10)
        settle(stored, hidden, 5000)
        assert "gpu-0" in stored.effects()

        stored.intend("RepairConfirmed", LASTS)
        settle(stored, hidden, 5001)
        assert "gpu-0" in stored.effects(), "the soak begins with that word"

        settle(stored, hidden, 5602)
        assert stored.effects() == {}


def test_a_none_rule_keeps_its_words_while_its_class_leads() -> None:
    stored = Stored()
    dry = policy(mode="dry-run")
    held = (claim("gpu-0"),)
    lost = gpu(0, presence="Lost", presence_since=at(0), recovery_action=action(1, 1, 1))
    settle(stored, view(lost, claims=held), 1, dry)
    before = len(stored.taken)
    (rule,) = stored.rules.values()

    settle(stored, view(gpu(0, xid(79), recovery_action=RESET), claims=held), 2, dry)

    assert [type(step).__name__ for step in stored.taken[before:]].count("ChangeRule") == 0
    assert next(iter(stored.rules.values())).cause == rule.cause


def test_what_waits_for_a_reset_keeps_the_taint_of_a_worse_fault_and_says_so() -> None:
    stored = Stored()
    for second in (2, 6):
        settle(stored, view(gpu(0, xid(95), recovery_action=RESET)), second)
    half = gpu(
        0,
        xid(95),
        epoch=2,
        epoch_started=at(50),
        recovery_action=action(0, 51, 51),
        memory=MemoryHealth(page_retirement_pending="True"),
    )

    settle(stored, view(half), 52)
    settle(stored, view(half), 5000)

    assert stored.effects() == {"gpu-0": "NoExecute"}
    assert "not untainted while page-retirement-pending stands" in stored.incident.status.message


class TestRates:
    def test_remember_a_taint_whose_rules_are_gone(self) -> None:
        stored = Stored()
        settle(stored, view(gpu(0, xid(95), recovery_action=RESET)), 2)
        stored.intend("Ignore", LASTS)

        settle(stored, view(gpu(0, xid(95), recovery_action=RESET)), 3)

        assert stored.effects() == {}
        assert begins(stored.fleet(), "taint", at(0), at(3)) == {uuid(0): at(2)}

    def test_count_an_eviction_that_begins_a_second_time(self) -> None:
        stored = Stored()
        for second in (1, 5):
            settle(stored, view(dead()), second)
        for device, rule in stored.rules.items():
            stored.rules[device] = msgspec.structs.replace(rule, time_added=at(5000))

        assert begins(stored.fleet(), "evict", at(4000), at(5001)) == {uuid(0): at(5000)}
        assert begins(stored.fleet(), "evict", at(6000), at(6001)) == {}

    def test_count_the_last_of_two_incidents_of_a_gpu(self) -> None:
        both = tuple(an_incident("a0", number=number, tainted_at=at(number)) for number in (1, 2))

        found = begins(Fleet(incidents=both), "taint", at(0), at(3))

        assert set(found.values()) == {at(2)}


def test_an_action_that_was_read_before_an_xid_says_nothing_of_it() -> None:
    early = gpu(0, xid(95, seen=10), recovery_action=action(1, -100, 5))
    late = gpu(0, xid(95, seen=10), recovery_action=action(1, -100, 11))

    doubts = {
        name: {fault.cause: fault.doubt for fault in faults_of(verdict(health))}["xid-95"]
        for name, health in (("early", early), ("late", late))
    }

    assert "has not been read since XID 95" in doubts["early"]
    assert not doubts["late"]


def test_no_slice_is_emptied_while_its_siblings_are_about_to_be_tainted() -> None:
    stored = Stored()
    settle(stored, view(mig_gpu(0, xid(94, gi=5), recovery_action=CALM)), 1, EVICTS_LATER)
    assert stored.effects() == {SLICE_5: "NoSchedule"}
    wide = mig_gpu(0, xid(94, gi=5), xid(95, seen=4), recovery_action=action(1, 4.1, 4.1))

    decision = tick(stored, view(wide), 5)

    assert {getattr(getattr(step, "rule", None), "effect", "") for step in decision.steps} <= {
        "NoSchedule",
        "",
    }
    assert set(stored.effects().values()) == {"NoSchedule"}


def test_of_two_changed_rules_the_taint_is_written_before_the_eviction() -> None:
    stored = Stored()
    settle(stored, view(dead(0), dead(1)), 1, EVICTS_LATER)
    (lowered,) = [device for device in stored.rules if device.device == "gpu-1"]
    stored.rules[lowered] = msgspec.structs.replace(stored.rules[lowered], effect="None")

    decision = tick(stored, view(dead(0), dead(1)), 5)

    effects = [effect_of(step) for step in decision.steps if effect_of(step)]
    assert effects == ["NoSchedule", "NoExecute"]


def test_a_slice_that_is_emptied_stays_so_beside_a_worse_fault_that_goes_less_far() -> None:
    stored = Stored()
    for second in (1.5, 2, 6, 620):
        read = action(0, -3600, second)
        one = mig_gpu(0, xid(64), xid(94, seen=1, gi=5), recovery_action=read)
        settle(stored, view(one), second)

    assert stored.effects() == dict.fromkeys(ALL_SEVEN, "NoSchedule") | {SLICE_5: "NoExecute"}


def test_marks_that_somebody_took_off_a_rule_are_written_again() -> None:
    stored, seen = Stored(), view(dead())
    settle(stored, seen, 1)
    ((name, rule),) = stored.rules.items()
    stored.rules[name] = msgspec.structs.replace(rule, stripped=True)

    assert [type(step) for step in tick(stored, seen, 2).steps] == [ChangeRule]
