"""The clock of a node is set back: nothing is healed by it, and nobody falls ill."""

from datetime import timedelta

import msgspec
import pytest

from exporter.agent.report import ledger
from exporter.agent.report.clock_set import earlier, not_ahead
from exporter.model.node_health import RecoveryAction
from remediator.diagnose.fault import Healthy, Sick
from tests.exporter.worlds import START, at, gpu, seen
from tests.remediator.agent_and_leader import UNREAD, AgentAndLeader, reading
from tests.remediator.builders import LASTS

HOUR = 3600.0
ANSWERED = (95, 119, 79, 48, 64, 63, 94, 109)
"""XIDs that stand until the driver answers that it requests nothing."""


@pytest.mark.parametrize("code", [95, 119, 79, 48])
def test_an_error_that_no_reading_has_answered_stands(code: int) -> None:
    node = AgentAndLeader(ahead=HOUR)
    node.keeps_looking(0, 90, reading())

    node.clock_was_set(-HOUR)
    node.logs(95, code)
    node.keeps_looking(100, 2000, UNREAD)

    assert isinstance(node.verdict, Sick)
    assert node.is_tainted


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
    node = AgentAndLeader(ahead=HOUR)
    node.looks(0, reading())
    node.logs(9, 95)
    node.keeps_looking(10, 60, reading(recovery_action=1))
    node.looks(60, reading())

    node.clock_was_set(-HOUR)
    node.logs(70, 119)
    node.keeps_looking(71, 2400, UNREAD)

    assert node.is_tainted


def test_errors_that_an_incident_has_dealt_with_are_no_news() -> None:
    node = AgentAndLeader(ahead=HOUR)
    node.looks(0, reading())
    node.logs(9, 95)
    node.keeps_looking(10, 60, reading(recovery_action=1))
    node.keeps_looking(60, 900, reading())
    assert node.phases == ["Recovered"]

    node.clock_was_set(-HOUR)
    node.keeps_looking(900, 8000, reading())

    assert node.phases == ["Recovered"]
    assert not node.is_tainted


def test_a_repair_that_was_confirmed_stays_so() -> None:
    node = AgentAndLeader(ahead=HOUR)
    node.looks(0, reading())
    node.logs(9, 95)
    node.keeps_looking(10, 60, reading(recovery_action=1))
    node.stored.intend("RepairConfirmed", LASTS)
    node.keeps_looking(60, 120, reading(recovery_action=1))
    (before,) = node.stored.incident.status.intents

    node.clock_was_set(-HOUR)
    node.keeps_looking(120, 240, reading(recovery_action=1))

    (after,) = node.stored.incident.status.intents
    assert (before.state, after.state) == ("InForce", "InForce")


def test_an_error_after_it_overtakes_the_confirmation() -> None:
    node = AgentAndLeader(ahead=HOUR)
    node.looks(0, reading())
    node.logs(9, 95)
    node.keeps_looking(10, 60, reading(recovery_action=1))
    node.stored.intend("RepairConfirmed", LASTS)
    node.keeps_looking(60, 120, reading(recovery_action=1))

    node.clock_was_set(-HOUR)
    node.logs(121, 95)
    node.keeps_looking(125, 240, reading(recovery_action=1))

    (after,) = node.stored.incident.status.intents
    assert after.state == "Overtaken"


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


def test_an_agent_that_takes_up_a_report_of_the_future_moves_it_too() -> None:
    node = AgentAndLeader(ahead=HOUR)
    node.keeps_looking(0, 90, reading())

    report = ledger.adopt(node.report, "boot-1", "2", at(90))

    assert report.observed_at is not None
    assert report.observed_at <= at(90)
    (health,) = report.gpus
    assert health.recovery_action.observed_at == report.observed_at
    assert report.clock_set_back_ms == (HOUR - 30) * 1000


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


def test_what_the_sensor_dated_before_the_step_is_dated_now() -> None:
    late = seen(gpu(), seconds=HOUR)
    assert not_ahead(late, late.at, START) == seen(gpu(), seconds=0)
    assert not_ahead(late, late.at, at(HOUR - 0.5)) == late
    assert not_ahead(late, late.at, at(HOUR + 60)) == late
