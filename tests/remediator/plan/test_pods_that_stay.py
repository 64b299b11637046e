"""Pods that NoExecute does not remove are left to a user."""

from remediator.model.claim import Toleration
from remediator.model.incident import EVICTION_BLOCKED
from remediator.plan.view import NodeView
from tests.remediator.builders import Stored, at, dead, view, with_fields
from tests.remediator.playing import claim, pod, settle

RAISED, TEN_MINUTES = 5.0, 600.0
FOR_EVER = (Toleration(operator="Exists", effect="NoExecute"),)


def on_dead_gpu(*pods: str, grace_ends: float | None = None, tolerant: str = "") -> NodeView:
    """A dead GPU, and pods on it by a claim each."""
    terminating = {"terminating": True, "grace_ends": at(grace_ends)} if grace_ends else {}
    claims = (
        claim("gpu-0", name, tolerations=FOR_EVER if name == tolerant else ()) for name in pods
    )
    return view(dead(), pods=tuple(pod(name, **terminating) for name in pods), claims=tuple(claims))


def under_no_execute(seen: NodeView) -> Stored:
    stored = Stored()
    for second in (1.0, RAISED):
        settle(stored, seen, second)
    assert stored.effects() == {"gpu-0": "NoExecute"}
    # The API server dates a taint whose effect has changed.
    raised = {"time_added": at(RAISED)}
    stored.rules = {name: with_fields(rule, **raised) for name, rule in stored.rules.items()}
    return stored


def block_of(stored: Stored) -> tuple[str, str]:
    """Return reason and message of the condition that evictions are blocked."""
    found = stored.incident.status.conditions
    return next(
        (condition.reason, condition.message)
        for condition in found
        if condition.type == EVICTION_BLOCKED
    )


class TestAPodThatDoesNotEnd:
    HANGS = on_dead_gpu("big", grace_ends=60)

    def test_is_reported_once_noexecute_has_stood_for_ten_minutes(self) -> None:
        stored = under_no_execute(self.HANGS)

        settle(stored, self.HANGS, RAISED + TEN_MINUTES - 1)
        assert block_of(stored)[0] == "AsExpected"

        settle(stored, self.HANGS, RAISED + TEN_MINUTES)
        reason, message = block_of(stored)
        assert reason == "PodsStay"
        assert message.startswith("team/big: it is terminating and has not ended since ")

    def test_is_not_reported_while_its_grace_period_lasts(self) -> None:
        saving = on_dead_gpu("big", grace_ends=3600)
        stored = under_no_execute(saving)

        settle(stored, saving, 3600)
        assert block_of(stored)[0] == "AsExpected"
        settle(stored, saving, 3601)
        assert block_of(stored)[0] == "PodsStay"

    def test_stays_reported_while_nothing_is_known(self) -> None:
        stored = under_no_execute(self.HANGS)
        settle(stored, self.HANGS, RAISED + TEN_MINUTES)
        before = block_of(stored)

        settle(stored, with_fields(self.HANGS, stale="silent"), RAISED + 2 * TEN_MINUTES)

        assert block_of(stored) == before

    def test_is_not_reported_beside_one_that_noexecute_still_removes(self) -> None:
        both = on_dead_gpu("stays", "goes", tolerant="stays")
        stored = under_no_execute(both)

        settle(stored, both, RAISED + TEN_MINUTES)

        assert block_of(stored)[0] == "AsExpected"


def test_a_pod_that_tolerates_it_for_a_time_will_be_removed() -> None:
    an_hour = (Toleration(operator="Exists", effect="NoExecute", toleration_seconds=3600),)
    seen = view(dead(), pods=(pod("big"),), claims=(claim("gpu-0", "big", tolerations=an_hour),))
    stored = under_no_execute(seen)

    settle(stored, seen, RAISED + TEN_MINUTES)

    assert block_of(stored)[0] == "AsExpected"


def test_a_pod_that_tolerates_noexecute_is_reported_as_well() -> None:
    seen = on_dead_gpu("big", tolerant="big")
    stored = under_no_execute(seen)

    settle(stored, seen, RAISED + TEN_MINUTES)

    assert block_of(stored) == ("PodsStay", "team/big: it tolerates NoExecute")
