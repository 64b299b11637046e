"""A soak is proven by the agent while it runs: by renewals that confirm its report."""

from collections.abc import Callable
from typing import TypeVar

import msgspec
import pytest

from exporter.model.node_health import GpuHealth, NodeHealth
from remediator.plan.board import RENEWALS_NEEDED
from remediator.plan.steps import DeleteRule
from remediator.plan.view import NodeView
from remediator.policy.table import Policy
from tests.remediator.builders import (
    LASTS,
    Stored,
    action,
    at,
    dead,
    gpu,
    policy,
    report,
    view,
    with_fields,
    xid,
)
from tests.remediator.playing import claim, evicts_later, pod, settle, tick

Seen = TypeVar("Seen")
AUTOMATIC, STICKY = policy(), policy(sticky=True)
REPAIRED = gpu(0, epoch_started=at(200), epoch=2, recovery_action=action(0, 250, 250))


def held(*gpus: GpuHealth) -> NodeView:
    """A node on which a pod has gpu-0."""
    return view(*gpus, claims=(claim("gpu-0"),), pods=(pod(),))


def healed(seconds: float, renewals: int) -> NodeView:
    confirmed = tuple(at(seconds - 60 * minute) for minute in range(renewals))
    return view(REPAIRED, renewals=confirmed)


def sick_then_healthy() -> Stored:
    stored = Stored()
    for seconds in (100, 110):
        settle(stored, held(dead(0)), seconds)
    settle(stored, healed(300, 0), 300)
    return stored


@pytest.mark.parametrize("renewals", range(RENEWALS_NEEDED))
def test_a_soak_that_rests_on_one_report_releases_nothing(renewals: int) -> None:
    stored = sick_then_healthy()
    decision = settle(stored, healed(5000, renewals), 5000)
    assert stored.effects() == {"gpu-0": "NoExecute"}
    assert "waiting for the agent to confirm its report" in stored.incident.status.message
    assert decision.wake_at is not None

    settle(stored, healed(5015, RENEWALS_NEEDED), 5015)
    assert stored.effects() == {}


def test_renewals_of_before_the_soak_prove_nothing() -> None:
    stored = sick_then_healthy()
    early = with_fields(healed(0, 0), renewals=(at(299),) * RENEWALS_NEEDED)
    settle(stored, early, 5000)
    assert stored.effects() == {"gpu-0": "NoExecute"}


def test_a_soak_that_was_confirmed_once_is_so_after_a_restart() -> None:
    """The count is in memory alone, what came of it is in the incident."""
    stored = sick_then_healthy()
    settle(stored, healed(800, RENEWALS_NEEDED), 800)
    assert stored.incident.status.recovery.confirmed_at == at(800)
    settle(stored, healed(905, 0), 905)
    assert stored.effects() == {}


def test_a_leader_that_finds_the_soak_over_stores_that_before_it_removes_a_rule() -> None:
    """It may be killed after the last rule, and the next one begins to count renewals anew."""
    stored = sick_then_healthy()
    tick(stored, healed(5000, RENEWALS_NEEDED), 5000)
    assert stored.effects() == {"gpu-0": "NoExecute"}
    assert stored.incident.status.recovery.released_at == at(5000)

    (untaint,) = tick(stored, healed(5001, 0), 5001).steps
    assert isinstance(untaint, DeleteRule)
    settle(stored, healed(5002, 0), 5002)
    assert stored.effects() == {}
    assert not stored.incident.open


def test_a_gap_in_health_makes_the_agent_confirm_anew() -> None:
    stored = sick_then_healthy()
    settle(stored, healed(800, RENEWALS_NEEDED), 800)
    settle(stored, view(REPAIRED, stale="silent"), 850)
    assert stored.incident.status.recovery.confirmed_at is None
    settle(stored, healed(900, 0), 900)
    settle(stored, healed(5000, 0), 5000)
    assert stored.effects() == {"gpu-0": "NoExecute"}


def without_hash() -> NodeHealth:
    reported = report(REPAIRED)
    return msgspec.structs.replace(reported, content_hash="")


def test_an_agent_of_the_release_before_releases_nothing_without_a_confirmation() -> None:
    stored = sick_then_healthy()
    old = with_fields(healed(0, 0), report=without_hash())
    settle(stored, old, 5000)
    assert stored.effects() == {"gpu-0": "NoExecute"}
    assert "upgrade it, or confirm the repair" in stored.incident.status.message

    stored.intend("RepairConfirmed", LASTS)
    settle(stored, old, 5001)
    settle(stored, old, 6000)
    assert stored.effects() == {}


def test_an_incident_that_waits_for_a_user_is_left_alone_by_other_news_of_its_node() -> None:
    """A sibling's XID changes the report; the next Lease confirms it, up to a minute later."""
    stored, sticky = Stored(), policy(sticky=True)
    for seconds in (100, 110):
        settle(stored, held(dead(0)), seconds, sticky)
    for seconds in (300, 800, 5000):
        settle(stored, healed(seconds, RENEWALS_NEEDED), seconds, sticky)
    before = stored.incident.status
    assert before.phase == "NeedsHuman"

    news = with_fields(healed(0, 0), overtaken=True)
    decision = settle(stored, news, 5100, sticky)

    assert stored.incident.status == before
    assert not decision.events


def silent(seen: NodeView) -> NodeView:
    return with_fields(seen, stale="silent")


def with_clock_off(seen: NodeView) -> NodeView:
    return msgspec.structs.replace(seen, clock_doubt="our clock is off")


def overtaken(seen: NodeView) -> NodeView:
    return with_fields(seen, overtaken=True)


def unchanged(seen: Seen) -> Seen:
    return seen


def released(rows: Policy) -> Stored:
    """The last rule is gone, and the leader has died."""
    stored = Stored()
    for seconds in (100, 110):
        settle(stored, held(dead(0)), seconds, rows)
    for seconds in (300, 800):
        settle(stored, healed(seconds, RENEWALS_NEEDED), seconds, rows)
    stored.intend("RepairConfirmed", LASTS)
    for _ in range(3):
        if stored.rules:
            tick(stored, healed(1000, RENEWALS_NEEDED), 1000, rows)
    assert stored.effects() == {}
    assert stored.incident.open
    return stored


@pytest.mark.parametrize("rows", [AUTOMATIC, STICKY], ids=["automatic", "confirmed"])
@pytest.mark.parametrize("doubt", [silent, with_clock_off, overtaken, unchanged])
@pytest.mark.parametrize("leader", [unchanged, evicts_later], ids=["same policy", "another policy"])
def test_no_doubt_taints_a_gpu_that_recovery_has_set_free(
    doubt: Callable[[NodeView], NodeView], rows: Policy, leader: Callable[[Policy], Policy]
) -> None:
    stored = released(rows)
    settle(stored, doubt(healed(1001, 0)), 1001, leader(rows))
    assert stored.effects() == {}
    settle(stored, healed(1002, RENEWALS_NEEDED), 1002, rows)
    assert stored.effects() == {}
    assert stored.incident.status.phase == "Recovered", "no doubt starts the soak anew"


def test_a_user_who_takes_a_confirmation_back_taints_no_gpu_that_was_set_free() -> None:
    stored = released(STICKY)
    stored.intend("RepairConfirmed", None)
    settle(stored, healed(1001, RENEWALS_NEEDED), 1001, STICKY)
    assert stored.effects() == {}
    assert stored.incident.status.phase == "Recovered"


def test_a_gpu_that_fails_before_its_incident_is_closed_is_tainted_again() -> None:
    stored = released(AUTOMATIC)
    settle(stored, held(dead(0, xids=(xid(79, 1001),), presence_since=at(1001))), 1001)
    assert stored.effects().keys() == {"gpu-0"}
    assert stored.incident.status.recovery.released_at is None


def test_a_gpu_that_waits_for_a_user_gets_back_a_rule_that_was_deleted_by_hand() -> None:
    stored, sticky = Stored(), policy(sticky=True)
    for seconds in (100, 110):
        settle(stored, held(dead(0)), seconds, sticky)
    for seconds in (300, 800, 5000):
        settle(stored, healed(seconds, RENEWALS_NEEDED), seconds, sticky)
    stored.rules.clear()

    settle(stored, healed(5010, RENEWALS_NEEDED), 5010, sticky)
    assert stored.effects() == {"gpu-0": "NoSchedule"}
