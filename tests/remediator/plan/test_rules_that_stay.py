"""Evictions that are broken off under a rule that the API server does not let us delete."""

import pytest

from remediator.model.intent import Intent
from remediator.plan.view import NodeView, RefusedRule
from remediator.policy.table import Policy
from tests.remediator.builders import Stored, at, policy, with_fields
from tests.remediator.plan.evict_first import REFUSED, START, begun, play, rows, seen
from tests.remediator.plan.test_pods_that_stay import (
    RAISED,
    TEN_MINUTES,
    block_of,
    on_dead_gpu,
    under_no_execute,
)
from tests.remediator.playing import ENFORCE, pod, tick

MILDER = [policy(mode="incident-only"), policy(mode="off")]


def play_undeletable(stored: Stored, seen: NodeView, seconds: float, asks: Policy) -> None:
    """Reconcile while each deletion of a rule is refused."""
    why = RefusedRule("403 Forbidden", at(1e6))
    names = {rule.name: why for rule in stored.rules.values()}
    for _ in range(3):
        tick(stored, with_fields(seen, irremovable=names), seconds, asks)


@pytest.mark.parametrize("asks", MILDER)
def test_a_pod_that_tolerates_noexecute_leaves_the_budget_after_ten_minutes(asks: Policy) -> None:
    stays = on_dead_gpu("big", tolerant="big")
    stored = under_no_execute(stays)

    play_undeletable(stored, stays, RAISED + TEN_MINUTES - 1, asks)
    assert stored.fleet_evicts() == 1
    play_undeletable(stored, stays, RAISED + TEN_MINUTES, asks)

    assert stored.effects() == {"gpu-0": "NoExecute"}
    assert stored.fleet_evicts() == 0
    assert block_of(stored) == ("PodsStay", "team/big: it tolerates NoExecute")


@pytest.mark.parametrize("asks", MILDER)
def test_it_leaves_the_budget_once_its_pods_have_gone(asks: Policy) -> None:
    stored = under_no_execute(on_dead_gpu("big"))

    play_undeletable(stored, on_dead_gpu("big"), 20, asks)
    assert stored.fleet_evicts() == 1
    for second in (40, 60):
        play_undeletable(stored, on_dead_gpu(), second, asks)

    assert stored.effects() == {"gpu-0": "NoExecute"}
    assert stored.fleet_evicts() == 0


def test_so_does_one_that_a_user_ignores() -> None:
    stays = on_dead_gpu("big", tolerant="big")
    stored = under_no_execute(stays)
    stored.intend("Ignore", Intent(by="ana", reason="a test"))

    play_undeletable(stored, stays, RAISED + TEN_MINUTES, ENFORCE)

    assert stored.fleet_evicts() == 0


@pytest.mark.parametrize("asks", MILDER)
def test_requests_that_are_broken_off_fill_no_budget(asks: Policy) -> None:
    refused = seen(pod(), refusals={"u-train-0": REFUSED})
    stored = begun(refused, rows("wait"))
    play(stored, refused, rows("wait"), START, START + 60)
    assert stored.fleet_evicts() == 1

    play_undeletable(stored, refused, START + 65, asks)

    assert stored.effects() == {"gpu-0": "Evict"}
    assert stored.fleet_evicts() == 0
