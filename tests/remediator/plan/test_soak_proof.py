"""A soak is proven by the agent while it runs: by renewals that confirm its report."""

import msgspec
import pytest

from exporter.model.node_health import GpuHealth, NodeHealth
from remediator.plan.board import RENEWALS_NEEDED
from remediator.plan.steps import DeleteRule
from remediator.plan.view import NodeView
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
)
from tests.remediator.playing import claim, pod, settle, tick

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


def test_a_leader_that_finds_the_soak_over_stores_its_proof_before_it_removes_a_rule() -> None:
    """It may be killed after the last rule, and the next one begins to count renewals anew."""
    stored = sick_then_healthy()
    tick(stored, healed(5000, RENEWALS_NEEDED), 5000)
    assert stored.effects() == {"gpu-0": "NoExecute"}
    assert stored.incident.status.recovery.confirmed_at == at(5000)

    (untaint,) = tick(stored, healed(5001, RENEWALS_NEEDED), 5001).steps
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


def test_a_gpu_whose_rule_is_gone_gets_no_other_before_its_end_is_stored() -> None:
    """The write failed, and meanwhile the agent has reported something that it has to confirm."""
    stored = sick_then_healthy()
    settle(stored, healed(800, RENEWALS_NEEDED), 800)
    (untaint,) = tick(stored, healed(905, RENEWALS_NEEDED), 905).steps
    assert isinstance(untaint, DeleteRule)

    settle(stored, with_fields(healed(905, RENEWALS_NEEDED), overtaken=True), 906)
    assert stored.effects() == {}
    assert stored.incident.open

    settle(stored, healed(910, RENEWALS_NEEDED), 910)
    assert stored.incident.status.phase == "Recovered"


def test_a_gpu_that_waits_for_a_user_gets_back_a_rule_that_was_deleted_by_hand() -> None:
    stored, sticky = Stored(), policy(sticky=True)
    for seconds in (100, 110):
        settle(stored, held(dead(0)), seconds, sticky)
    for seconds in (300, 800, 5000):
        settle(stored, healed(seconds, RENEWALS_NEEDED), seconds, sticky)
    stored.rules.clear()

    settle(stored, healed(5010, RENEWALS_NEEDED), 5010, sticky)
    assert stored.effects() == {"gpu-0": "NoSchedule"}
