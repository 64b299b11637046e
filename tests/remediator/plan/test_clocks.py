"""What becomes of each date of an incident, by the table of clocks."""

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remediator.diagnose.fault import Healthy, Need, Sick, Unknown
from remediator.model.incident_status import DeviceEvictions, RuleRecord
from remediator.model.node import NodeFacts
from remediator.plan import clocks
from remediator.plan.board import BoardRules, Roster
from remediator.plan.clocks import CLOCKS, Change, ClockName, Stay, run
from remediator.plan.soak import Soak, run_soak
from remediator.plan.view import Trust
from remediator.policy.table import Evict
from tests.remediator.builders import (
    at,
    evictions,
    fault,
    gpu,
    make_board,
    make_status,
    repair_request,
    rule,
    uuid,
    with_fields,
)

HEALTHY = Healthy(at(-60), "answers")
SICK = Sick((fault(),))
WRONG_CLOCK = Trust({"clock": "our clock is wrong"})
names = st.sampled_from(sorted(CLOCKS))
STAYS_WHERE_IT_IS_NOT_SO = {"cause", "evicting", "drained", "confirmed"}
OTHERS = sorted(CLOCKS.keys() - {"cause"})
ENDS_WHERE_IT_IS_UNKNOWN = {"healthy", "confirmed"}


@given(names)
def test_a_clock_begins_when_its_fact_is_first_seen_and_runs_on(clock: ClockName) -> None:
    assert run(clock, None, at(5), fact=True) == at(5)
    assert run(clock, at(1), at(5), fact=True) == at(1)


@given(names)
def test_a_date_of_the_time_to_come_is_put_right_once_the_fact_is_known(clock: ClockName) -> None:
    """A leader whose clock was ahead has stored it."""
    assert run(clock, at(90), at(5), fact=True) == at(5)


@given(names)
def test_no_clock_begins_without_its_fact(clock: ClockName) -> None:
    assert run(clock, None, at(5), fact=False) is None
    assert run(clock, None, at(5), fact=None) is None


@given(names)
def test_what_is_recorded_once_stays_and_everything_else_ends_with_its_fact(
    clock: ClockName,
) -> None:
    kept = at(1) if clock in STAYS_WHERE_IT_IS_NOT_SO else None

    assert run(clock, at(1), at(5), fact=False) == kept


@given(names)
def test_an_unknown_fact_changes_no_clock_but_ends_that_of_health(clock: ClockName) -> None:
    kept = None if clock in ENDS_WHERE_IT_IS_UNKNOWN else at(1)

    assert run(clock, at(1), at(5), fact=None) == kept


def test_a_new_rule_restarts_the_taint_and_a_gap_restarts_health_and_its_confirmation() -> None:
    rules, health = frozenset[Change]({"rules"}), frozenset[Change]({"health"})

    assert run("tainted", at(1), at(5), fact=True, changed=rules) == at(5)
    assert run("tainted", at(1), at(5), fact=True, changed=health) == at(1)
    assert run("healthy", at(1), at(5), fact=True, changed=health) == at(5)
    assert run("confirmed", at(1), at(5), fact=True, changed=health) == at(5)
    assert run("confirmed", at(1), at(5), fact=False, changed=health) is None
    assert run("empty", at(1), at(5), fact=True, changed=rules | health) == at(1)


def test_a_new_cause_restarts_its_clock_and_nothing_else_does() -> None:
    cause, others = frozenset[Change]({"cause"}), frozenset[Change]({"boot", "rules", "health"})

    assert run("cause", at(1), at(5), fact=True, changed=cause) == at(5)
    assert run("cause", at(1), at(5), fact=True, changed=others) == at(1)
    assert all(run(clock, at(1), at(5), fact=True, changed=cause) == at(1) for clock in OTHERS)


class TestTheTaint:
    old = make_status(tainted_at=at(1), rules=(RuleRecord("r", "one", "d", "NoSchedule"),))

    @pytest.mark.parametrize(
        ("uid", "tainted", "since"),
        [
            ("one", True, at(1)),
            ("another", True, at(9)),  # the time belongs to the very rule
            ("one", False, None),
        ],
    )
    def test_its_settle_time_belongs_to_the_rules_that_stand(
        self, uid: str, tainted: bool, since: datetime | None
    ) -> None:
        board = make_board(SICK, rules=BoardRules(stored=(rule(effect="NoSchedule", uid=uid),)))

        assert clocks.whole_taint_since(board, self.old, at(9), tainted=tainted) == since

    def test_its_date_outlives_the_last_rule_because_rates_count_it(self) -> None:
        assert clocks.whole_taint_since(make_board(HEALTHY), self.old, at(9), tainted=False) == at(
            1
        )

    def test_a_rule_of_effect_none_restarts_nothing(self) -> None:
        board = make_board(SICK, rules=BoardRules(stored=(rule(effect="None", uid="another"),)))

        assert clocks.whole_taint_since(board, self.old, at(9), tainted=True) == at(1)


class TestANodeThatIsGone:
    def since(self, old: datetime | None, trust: Trust, *, gone: bool | None) -> datetime | None:
        board = make_board(Unknown("gone"), trust=trust, gone=gone)
        return clocks.node_gone_since(board, make_status(node_gone_since=old), at(9))

    def test_it_counts_from_when_it_was_first_missed_until_it_is_back(self) -> None:
        assert self.since(None, Trust(), gone=True) == at(9)
        assert self.since(at(1), Trust(), gone=True) == at(1)
        assert self.since(at(1), Trust(), gone=False) is None

    def test_while_nodes_are_not_read_it_neither_begins_nor_ends(self) -> None:
        assert self.since(None, Trust(), gone=None) is None
        assert self.since(at(1), Trust(), gone=None) == at(1)

    def test_by_a_wrong_clock_it_does_not_begin_and_does_not_end(self) -> None:
        assert self.since(None, WRONG_CLOCK, gone=True) is None
        assert self.since(at(1), WRONG_CLOCK, gone=True) == at(1)
        assert self.since(at(1), WRONG_CLOCK, gone=False) is None


class TestADateThatAWrongClockSees:
    """It is behind: what it put right would be as much too old."""

    status = make_status(tainted_at=at(60), rules=(RuleRecord("r", "uid-0", "a/b/c", "NoExecute"),))

    def since(self, trust: Trust) -> datetime | None:
        stored = rule(uid="uid-0", effect="NoExecute")
        board = make_board(SICK, trust=trust, stored=(stored,))
        return clocks.whole_taint_since(board, self.status, at(9), tainted=True)

    def test_is_put_right_by_one_that_is_trusted_alone(self) -> None:
        assert self.since(WRONG_CLOCK) == at(60)
        assert self.since(Trust()) == at(9)


class TestAGpuThatIsMissing:
    old = make_status(boot_id="first", siblings=())

    def since(self, roster: Roster | None, old: datetime | None = None) -> datetime | None:
        board = make_board(Unknown("missing"), roster=roster)
        return clocks.missing_since(board, with_fields(self.old, missing_since=old), at(9))

    def test_only_another_boot_without_it_begins_the_time(self) -> None:
        assert self.since(Roster(boot_id="second", slots={}, known=frozenset())) == at(9)
        assert self.since(Roster(boot_id="first", slots={}, known=frozenset())) is None
        assert self.since(Roster(boot_id="", slots={}, known=frozenset())) is None

    def test_nothing_begins_the_time_where_it_is_not_known_what_was_beside_it(self) -> None:
        roster = Roster(boot_id="second", slots={}, known=frozenset())
        unknown = with_fields(self.old, siblings=None)

        assert clocks.missing_since(make_board(SICK, roster=roster), unknown, at(9)) is None

    def test_what_is_unknown_keeps_the_time_and_the_gpu_ends_it(self) -> None:
        here = Roster(boot_id="second", slots={uuid(0): "slot"}, known=frozenset())
        aside = Roster(boot_id="second", slots={}, known=frozenset(), aside=True)

        assert self.since(None, old=at(1)) == at(1)
        assert self.since(here, old=at(1)) is None
        assert self.since(aside, old=at(1)) is None

    @pytest.mark.parametrize(("why", "missing"), [("Hung", False), ("NeverListed", True)])
    def test_one_that_only_the_kernel_log_names_is_missing(
        self, why: str, *, missing: bool
    ) -> None:
        """What hangs is known to NVML."""
        seen = gpu(0, presence="Unknown", presence_reason=why)
        roster = Roster(boot_id="second", slots={}, known=frozenset())
        board = make_board(Unknown("unread"), gpu=seen, roster=roster, reported=True)

        found = clocks.missing_since(board, self.old, at(9))

        assert found == (at(9) if missing else None)

    @pytest.mark.parametrize(("seconds", "lost"), [(59, False), (60, True)])
    def test_it_takes_a_minute(self, seconds: int, lost: bool) -> None:
        roster = Roster(boot_id="second", slots={}, known=frozenset())
        board = make_board(Unknown("missing"), roster=roster)
        status = with_fields(self.old, missing_since=at(0))

        assert clocks.not_brought_back(board, status, at(seconds)) == lost
        assert clocks.not_brought_back_at(status) == at(60)


class TestASoak:
    old = make_status(healthy_since=at(0), confirmed_at=at(5))

    def test_it_runs_on_with_its_confirmation_while_health_has_no_gap(self) -> None:
        found = run_soak(make_board(HEALTHY), self.old, at(9), news=False)

        assert (found.since, found.confirmed_at) == (at(0), at(5))

    def test_a_new_signal_restarts_it_without_its_confirmation(self) -> None:
        found = run_soak(make_board(HEALTHY), self.old, at(9), news=True)

        assert (found.since, found.confirmed_at) == (at(9), None)

    @pytest.mark.parametrize(("dated", "since"), [(0, 0), (3, 9), (9, 9), (10, 0)])
    def test_a_date_that_the_node_gives_later_restarts_it_unless_it_is_ahead_of_us(
        self, dated: int, since: int
    ) -> None:
        board = make_board(Healthy(at(dated), "answers"))

        assert run_soak(board, self.old, at(9), news=False).since == at(since)

    @pytest.mark.parametrize("verdict", [SICK, Unknown("no report")])
    def test_nothing_is_left_of_it_where_health_is_not_seen(self, verdict: Sick | Unknown) -> None:
        assert run_soak(make_board(verdict), self.old, at(9), news=False) == Soak()

    def test_nothing_is_left_of_it_by_a_wrong_clock(self) -> None:
        board = make_board(HEALTHY, trust=WRONG_CLOCK)

        assert run_soak(board, self.old, at(9), news=False) == Soak()


@pytest.mark.parametrize(
    ("now", "before", "boot", "epoch"),
    [
        (Stay(boot_id="b", epoch=2), Stay(boot_id="a", epoch=1), True, True),
        (Stay(boot_id="a", epoch=1), Stay(boot_id="a", epoch=1), False, False),
        (Stay(boot_id="", epoch=0), Stay(boot_id="a", epoch=1), False, False),
        (Stay(boot_id="b", epoch=2), Stay(), False, False),
        (Stay(boot_id="a", epoch=1), Stay(boot_id="a", epoch=2), False, False),
    ],
)
def test_a_part_of_the_stay_that_is_unknown_has_not_changed(
    now: Stay, before: Stay, boot: bool, epoch: bool
) -> None:
    assert (now.new_boot(before), now.new_epoch(before)) == (boot, epoch)


class TestARequestForRepair:
    STORED = repair_request(at(1), node="node-a", node_uid="u", boot_id="a")

    def stands(self, need: Need = "node-reboot", /, **changed: str) -> bool:
        """Whether it still counts in the machine and boot of now."""
        here = {"node": "node-a", "node_uid": "u", "boot_id": "a"} | changed
        facts = NodeFacts(name=here["node"], uid=here["node_uid"])
        board = make_board(SICK, node=here["node"], facts=facts, boot_id=here["boot_id"])
        status = make_status(request=self.STORED)
        found = clocks.request_in_this_stay(board, status, need)
        assert found in {None, self.STORED}
        return found is not None

    def test_stands_in_its_machine_and_boot_for_what_was_needed(self) -> None:
        assert self.stands()
        assert self.stands("human")

    @pytest.mark.parametrize(
        ("part", "value"), [("node", "node-b"), ("node_uid", "v"), ("boot_id", "b")]
    )
    def test_ends_with_another_node_or_boot(self, part: str, value: str) -> None:
        assert not self.stands(**{part: value})

    def test_ends_with_a_greater_need(self) -> None:
        assert not self.stands("replacement")

    @pytest.mark.parametrize("part", ["node_uid", "boot_id"])
    def test_stands_while_a_part_of_its_stay_is_unknown(self, part: str) -> None:
        assert self.stands(**{part: ""})


class TestTheMachineOfALostGpu:
    """It had one neighbour when its last signal came, on a Node with the UID `u`."""

    @pytest.mark.parametrize(
        ("uid", "gpus", "another"),
        [
            ("u", (1,), False),
            ("v", (1,), False),  # registered again
            ("v", (), True),
            ("v", (5,), True),
            ("u", (), False),  # its neighbour is lost, too
            ("", (5,), True),
            ("u", (5,), True),
            ("", (), False),
        ],
    )
    def test_is_known_by_its_neighbours_first(
        self, uid: str, gpus: tuple[int, ...], another: bool
    ) -> None:
        seen = {uuid(index): f"slot-{index}" for index in gpus}
        roster = Roster(boot_id="b", slots=seen, known=frozenset(seen))
        board = make_board(
            Unknown("missing"), roster=roster, facts=NodeFacts(name="node-a", uid=uid)
        )
        status = make_status(siblings=(uuid(1),), node_uid="u")

        assert clocks.in_another_machine(board, status) == another

    def test_is_not_known_without_its_report(self) -> None:
        board = make_board(Unknown("no report"), facts=NodeFacts(name="node-a", uid="v"))

        assert not clocks.in_another_machine(board, make_status(node_uid="u"))


class TestTheStayThatIsRecorded:
    old = make_status(boot_id="a", epoch=1)

    def record(self, boot_id: str, epoch: int, *, signal: bool) -> Stay:
        board = make_board(SICK, boot_id=boot_id, gpu=gpu(0, epoch=epoch))
        return clocks.stay_to_record(board, self.old, signal=signal)

    def test_a_new_signal_records_the_present_one_and_nothing_else_does(self) -> None:
        assert self.record("b", 2, signal=True) == Stay(boot_id="b", epoch=2)
        assert self.record("b", 2, signal=False) == Stay(boot_id="a", epoch=1)

    def test_what_is_unknown_replaces_nothing(self) -> None:
        assert self.record("", 0, signal=True) == Stay(boot_id="a", epoch=1)


class TestTheTimeToEvictWithin:
    plan = Evict(within=timedelta(minutes=10))

    def evictions(self, attempt: float | None) -> DeviceEvictions:
        return evictions(at(0), None if attempt is None else at(attempt))[0]

    @pytest.mark.parametrize(
        ("attempt", "now", "start"),
        [
            (100, 160, 0),  # an attempt counts for a minute of ten
            (100, 161, 1),
            (100, 460, 300),
            (None, 460, 0),
        ],
    )
    def test_a_pause_is_not_counted(self, attempt: float | None, now: float, start: float) -> None:
        assert clocks.start_of_within(self.evictions(attempt), self.plan, at(now)) == at(start)

    def test_the_first_attempt_begins_it(self) -> None:
        assert clocks.run_within(evictions(None)[0], self.plan, at(9)) == (at(9), at(9))

    @pytest.mark.parametrize(
        ("now", "stored"),
        [
            (129, (0, 100)),  # near enough to the last attempt: nothing is written
            (130, (0, 130)),
            (700, (540, 700)),
        ],
    )
    def test_attempts_are_noted_now_and_then(self, now: float, stored: tuple[int, int]) -> None:
        start, last = stored

        assert clocks.run_within(self.evictions(100), self.plan, at(now)) == (at(start), at(last))

    def test_nothing_is_written_any_more_once_it_is_over(self) -> None:
        assert clocks.run_within(self.evictions(590), self.plan, at(640)) == (at(0), at(590))
