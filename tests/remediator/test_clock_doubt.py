"""While our clock is not trusted, no time that we count ends."""

from datetime import timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remediator.freshness import TRUSTED, clock_doubt
from remediator.plan.node_decision import decide_node
from remediator.plan.recovery import NODE_GONE_FOR
from remediator.plan.view import NodeView
from remediator.policy.limits import Correlation, Limits
from tests.remediator.builders import RESET, Stored, action, at, dead, gpu, policy, view, xid
from tests.remediator.plan.handover import reconciled
from tests.remediator.playing import claim, pod, settle, tick

SICK = view(gpu(0, xid(95), recovery_action=RESET))
MENDED = view(gpu(0, xid(95), recovery_action=action(0, 20, 20)))
SOAK = 600.0
DOUBT = clock_doubt(timedelta(minutes=11))
HOLDS = policy(Limits(correlation=Correlation(after_change=timedelta(minutes=30))))


def doubted(seen: NodeView) -> NodeView:
    return msgspec.structs.replace(seen, clock_doubt=DOUBT)


def tainted() -> Stored:
    stored = Stored()
    for second in (1, 6):
        settle(stored, SICK, second)
    settle(stored, MENDED, 30)
    assert stored.incident.status.recovery.healthy_since == at(30)
    return stored


@pytest.mark.parametrize("seconds", [-30.0, 0.0, 29.9, 30.0])
def test_thirty_seconds_are_no_doubt(seconds: float) -> None:
    assert clock_doubt(timedelta(seconds=seconds)) == ""


@pytest.mark.parametrize("seconds", [-31.0, 30.1, 660.0])
def test_more_are(seconds: float) -> None:
    assert f"{TRUSTED.total_seconds():.0f} s apart" in clock_doubt(timedelta(seconds=seconds))


def test_a_successor_whose_clock_is_eleven_minutes_ahead_untaints_nothing() -> None:
    stored = tainted()

    settle(stored, doubted(MENDED), 33 + 660)

    assert stored.effects() == {"gpu-0": "NoExecute"}
    assert DOUBT in stored.incident.status.message


def test_the_soak_time_begins_anew_when_the_clock_is_trusted_again() -> None:
    """A clock that was behind, and is set right, makes every recorded date older."""
    stored = tainted()
    settle(stored, doubted(MENDED), 40)
    assert stored.incident.status.recovery.healthy_since is None

    settle(stored, MENDED, 40 + 660)
    assert stored.effects() == {"gpu-0": "NoExecute"}

    settle(stored, MENDED, 40 + 660 + SOAK)
    assert stored.effects() == {}


@given(st.lists(st.tuples(st.floats(1, 400), st.booleans()), min_size=1, max_size=8))
def test_nothing_is_untainted_before_a_whole_soak_time_of_trust(
    looks: list[tuple[float, bool]],
) -> None:
    stored, now, trusted_since = tainted(), 30.0, 30.0
    was_trusted = True
    for later, trusted in looks:
        now += later
        if trusted and not was_trusted:
            trusted_since = now
        was_trusted = trusted
        settle(stored, MENDED if trusted else doubted(MENDED), now)
        whole = trusted and now - trusted_since >= SOAK
        if not stored.effects():
            assert whole
            return
        assert not whole


def test_a_status_settles_while_the_clock_is_not_trusted() -> None:
    stored = tainted()
    settle(stored, doubted(MENDED), 40)

    assert not tick(stored, doubted(MENDED), 45).steps


def test_a_node_is_not_gone_for_a_week_by_a_clock_that_is_not_trusted() -> None:
    stored = tainted()
    gone = view(report=None, inventory=(), nodes_known=True)
    settle(stored, gone, 60)
    week = NODE_GONE_FOR.total_seconds()

    settle(stored, doubted(gone), 60 + week)
    assert stored.effects() == {"gpu-0": "NoExecute"}

    settle(stored, gone, 61 + week)
    assert stored.effects() == {}


def test_no_closed_incident_is_pruned_for_its_age_by_such_a_clock() -> None:
    stored = tainted()
    settle(stored, MENDED, 30 + SOAK)
    assert not stored.incident.open
    year = timedelta(days=365).total_seconds()

    settle(stored, doubted(MENDED), year)
    assert len(stored.incidents) == 1

    settle(stored, MENDED, year)
    assert not stored.incidents


def test_a_new_fault_is_tainted_whatever_the_clock_and_evicted_once_it_is_trusted() -> None:
    stored = Stored()
    for second in (1, 6):
        settle(stored, doubted(SICK), second)
    assert stored.effects() == {"gpu-0": "NoSchedule"}
    (held,) = [one for one in stored.incident.status.conditions if one.type == "Deferred"]
    assert (held.reason, DOUBT in held.message) == ("Blindness", True)
    (pods,) = [
        one for one in stored.incident.status.conditions if one.type == "AffectedPodsIncomplete"
    ]
    assert DOUBT not in pods.message

    settle(stored, SICK, 10)
    assert stored.effects() == {"gpu-0": "NoExecute"}


def test_a_clock_that_is_ahead_ends_no_hold_after_a_policy_change() -> None:
    stored = Stored()

    def decided(seen: NodeView, second: float) -> dict[str, str]:
        for _ in range(6):
            fleet = msgspec.structs.replace(stored.fleet(), policy_changed_at=at(0))
            for step in decide_node(stored.over(seen), fleet, HOLDS, at(second)).steps:
                stored.take(step, at(second))
        return stored.effects()

    decided(SICK, 1)
    assert decided(SICK, 60) == {"gpu-0": "NoSchedule"}
    assert decided(doubted(SICK), 61 + 1860) == {"gpu-0": "NoSchedule"}
    assert decided(SICK, 61 + 1860) == {"gpu-0": "NoExecute"}


def test_no_repair_is_requested_by_a_clock_that_is_not_trusted() -> None:
    stored, sick = Stored(), view(dead(0), pods=())
    for second in (1, 6):
        assert reconciled(stored, doubted(sick), second)[0] != "True"

    assert [reconciled(stored, sick, second)[0] for second in (20, 40)][-1] == "True"


def test_no_deadline_of_a_repair_request_is_over_by_a_clock_that_is_not_trusted() -> None:
    """It is requested while no pod has a GPU; then one starts on the node's other GPU."""
    stored, empty = Stored(), view(dead(0), gpu(1), pods=())
    assert [reconciled(stored, empty, second)[0] for second in (1, 6, 20)][-1] == "True"

    used = view(dead(0), gpu(1), claims=(claim("gpu-1"),), pods=(pod(),))
    assert reconciled(stored, doubted(used), 20 + 8 * 86400)[0] == "False"
    assert reconciled(stored, used, 40)[0] == "False"
    assert reconciled(stored, used, 40 + 3600)[0] == "True"
