"""The clock of a node is set back: nothing is healed by it, and no healthy GPU falls ill."""

from datetime import timedelta

import msgspec
import pytest

from exporter.agent.report import ledger
from exporter.agent.report.clock_set import by_clock_of, dated_as, earlier
from exporter.model.node_health import RecoveryAction
from exporter.model.signals import Signal
from kubeapi.types import EARLIEST, LATEST
from remediator.diagnose.fault import Healthy, Sick
from remediator.model.incident import Incident
from remediator.model.intent import IntentRecord
from remediator.plan.signals import by_clock_of_now
from tests.exporter.worlds import at, seen
from tests.remediator.agent_and_leader import UNREAD, AgentAndLeader, reading
from tests.remediator.builders import LASTS, NODE
from tests.remediator.plan.fleets import an_incident

HOUR = 3600.0
ANSWERED = (95, 119, 79, 48, 64, 63, 94, 109)
"""XIDs that stand until the driver answers that it requests nothing."""


def an_open_incident() -> AgentAndLeader:
    node = AgentAndLeader(ahead=HOUR)
    node.looks(0, reading())
    node.logs(9, 95)
    node.keeps_looking(10, 60, reading(recovery_action=1))
    return node


def confirmed(node: AgentAndLeader) -> str:
    (intent,) = node.stored.incident.status.policy.intents
    return intent.state


@pytest.mark.parametrize("code", [95, 119, 79, 48])
def test_an_error_that_no_reading_has_answered_stands(code: int) -> None:
    node = AgentAndLeader(ahead=HOUR)
    node.keeps_looking(0, 90, reading())

    node.clock_was_set(-HOUR)
    node.logs(95, code)
    node.keeps_looking(100, 2000, UNREAD)

    assert isinstance(node.verdict, Sick)
    assert node.stored.effects() == {"gpu-0": "NoSchedule"}


@pytest.mark.parametrize("code", ANSWERED)
def test_an_error_that_a_reading_has_answered_stays_answered(code: int) -> None:
    node = AgentAndLeader(ahead=HOUR)
    node.keeps_looking(0, 90, reading())
    node.logs(95, code)
    node.report = ledger.observe(node.report, seen(reading(), seconds=HOUR + 96))
    node.keeps_looking(120, 1200, reading())
    assert isinstance(node.verdict, Healthy)
    before = dict(node.stored.effects()), node.phases

    node.clock_was_set(-HOUR)
    node.keeps_looking(1200, 6000, reading())

    assert isinstance(node.verdict, Healthy)
    assert (node.stored.effects(), node.phases) == before


def test_the_soak_of_an_open_incident_proves_nothing_once_the_gpu_is_unread() -> None:
    node = an_open_incident()
    node.looks(60, reading())

    node.clock_was_set(-HOUR)
    node.logs(70, 119)
    node.keeps_looking(71, 2400, UNREAD)

    assert node.is_tainted


def test_errors_that_an_incident_has_dealt_with_are_no_news() -> None:
    node = an_open_incident()
    node.keeps_looking(60, 900, reading())
    assert node.phases == ["Recovered"]

    node.clock_was_set(-HOUR)
    node.keeps_looking(900, 8000, reading())

    assert node.phases == ["Recovered"]
    assert not node.is_tainted


@pytest.mark.parametrize("steps", [(-HOUR,), (-1.5,), (-HOUR, -2.0), (-2.0, -600.0), (HOUR, -2.0)])
def test_a_repair_that_was_confirmed_stays_so(steps: tuple[float, ...]) -> None:
    node = an_open_incident()
    node.stored.intend("RepairConfirmed", LASTS)
    node.keeps_looking(60, 120, reading(recovery_action=1))

    for place, step in enumerate(steps):
        node.clock_was_set(step)
        node.keeps_looking(120 + 600 * place, 720 + 600 * place, reading(recovery_action=1))

    assert confirmed(node) == "InForce"


def test_an_error_after_it_overtakes_the_confirmation() -> None:
    node = an_open_incident()
    node.stored.intend("RepairConfirmed", LASTS)
    node.keeps_looking(60, 120, reading(recovery_action=1))

    node.clock_was_set(-HOUR)
    node.logs(121, 95)
    node.keeps_looking(125, 240, reading(recovery_action=1))

    assert confirmed(node) == "Overtaken"


def test_long_after_it_an_error_that_no_observation_follows_settles() -> None:
    """Its date is later than the report's last observation, and no date of before the step."""
    node = an_open_incident()
    node.clock_was_set(-1.5)
    node.keeps_looking(60, 4000, reading(recovery_action=1))
    node.logs(4005, 12020, kind="sxid")
    node.stored.intend("RepairConfirmed", LASTS)
    node.decides(4006)
    before = len(node.stored.taken)

    for seconds in range(4010, 4300, 10):
        node.decides(seconds)

    assert confirmed(node) == "InForce"
    assert len(node.stored.taken) - before < 5


def test_a_fatal_sxid_after_it_counts_and_one_before_a_reset_does_not() -> None:
    node = AgentAndLeader(ahead=HOUR)
    node.looks(0, reading())
    node.logs(5, 12020, kind="sxid")
    node.logs(20, 1, kind="driver-load")
    node.keeps_looking(30, 120, reading())
    assert isinstance(node.verdict, Healthy)

    node.clock_was_set(-HOUR)
    node.keeps_looking(120, 240, reading())
    assert isinstance(node.verdict, Healthy)
    node.logs(240, 12020, kind="sxid")
    node.keeps_looking(241, 600, reading())

    assert isinstance(node.verdict, Sick)


def test_a_report_that_is_taken_up_moves_by_the_whole_step_however_old_it_is() -> None:
    node = AgentAndLeader(ahead=HOUR)
    node.keeps_looking(0, 90, reading())
    begun = node.report

    report = ledger.adopt(begun, "boot-1", "2", at(1000))
    node.report = report
    node.clock_was_set(-HOUR)

    assert node.report.observed_at == at(60)
    assert node.report.clock_set_back_ms == HOUR * 1000
    assert node.health.recovery_action.observed_at == at(60)


def test_all_dates_move_and_nothing_else_does() -> None:
    node = AgentAndLeader()
    node.looks(0, reading())
    node.logs(9, 94)
    node.logs(10, 12020, kind="sxid")
    node.looks(30, reading())
    by = timedelta(seconds=5)

    moved = earlier(node.report, by)

    assert moved != node.report
    assert earlier(moved, -by) == node.report
    kept = msgspec.structs.replace(moved.gpus[0].recovery_action, since=None, observed_at=None)
    assert kept == RecoveryAction(support="Supported", value=0)


def test_what_the_sensor_dated_before_the_step_moves_by_it() -> None:
    line = Signal(kind="xid", source="kmsg", at=at(HOUR + 50), booted_at=at(HOUR))
    report = ledger.begin("boot-1", "1", at(0))

    def dated(booted: float) -> Signal:
        return dated_as(by_clock_of(report, at(booted)), line)

    assert dated(0) == msgspec.structs.replace(line, at=at(50), booted_at=at(0))
    assert dated(HOUR) == line
    assert dated(2 * HOUR) == line
    assert dated_as(report, line) == line
    unknown = msgspec.structs.replace(line, booted_at=None)
    assert dated_as(by_clock_of(report, at(0)), unknown) == unknown


def test_dates_at_the_edges_of_time_stay_dates() -> None:
    node = AgentAndLeader()
    node.looks(0, reading())
    ancient = msgspec.structs.replace(node.report, observed_at=EARLIEST, booted_at=LATEST)
    moved = by_clock_of(ancient, EARLIEST)
    assert moved.observed_at == EARLIEST
    record = IntentRecord(
        kind="Hold",
        by="ana",
        reason="why",
        state="InForce",
        seen_time=at(0),
        seen_through_time=EARLIEST,
    )
    by_clock_of_now(an_incident("a0", seen_through=EARLIEST, intents=(record,)), NODE, moved)


class TestWhatAnIncidentKeeps:
    REPORT = msgspec.structs.replace(AgentAndLeader().report, clock_set_back_ms=5000)

    def now(self, known: Incident, node: str = NODE, back: int = 5000) -> Incident:
        report = msgspec.structs.replace(self.REPORT, clock_set_back_ms=back)
        return by_clock_of_now(known, node, report)

    def test_moves_by_what_came_on_top_and_once(self) -> None:
        known = an_incident(
            "a0", seen_through=at(100), handled_through=at(90), clock_set_back_ms=2000
        )
        moved = self.now(known)
        assert (moved.status.fault.seen_through, moved.status.history.handled_through) == (
            at(97),
            at(87),
        )
        assert self.now(moved) == moved

    def test_stays_where_another_boot_counts_anew_and_moves_by_what_follows(self) -> None:
        known = an_incident("a0", seen_through=at(100), clock_set_back_ms=9000)
        rebooted = self.now(known, back=0)
        assert rebooted.status.fault.seen_through == at(100)
        assert self.now(rebooted, back=2000).status.fault.seen_through == at(98)

    def test_stays_where_it_is_not_known_how_its_dates_were_copied(self) -> None:
        known = an_incident("a0", seen_through=at(100))
        adopted = self.now(known)
        assert adopted.status.fault.seen_through == at(100)
        assert self.now(adopted, back=7000).status.fault.seen_through == at(98)

    def test_stays_where_it_is_of_another_node(self) -> None:
        known = an_incident("a0", seen_through=at(100))
        assert self.now(known, node="node-b") == known
