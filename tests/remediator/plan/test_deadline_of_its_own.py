"""The deadline counts from when a class that may evict called, and nothing but that moves it."""

from collections.abc import Callable

import msgspec
import pytest

from exporter.model.node_health import GpuHealth, RecoveryAction
from remediator.model.incident_status import RepairRequest
from remediator.plan.node_condition import OFF, WAITING
from remediator.plan.view import NodeView
from remediator.policy.limits import LIFTED
from remediator.policy.table import Policy
from tests.remediator.builders import Stored, action, at, dead, gpu, policy, view, xid
from tests.remediator.plan.handover import reconciled
from tests.remediator.playing import claim, pod

HOUR = 3600.0
DAY = 24 * HOUR


def busy(sick: GpuHealth) -> NodeView:
    """A node of two GPUs, with a pod on the healthy one."""
    pods, claims = (pod("big", claims=("claim-of-big",)),), (claim("gpu-1", "big"),)
    return view(sick, gpu(1), pods=pods, claims=claims)


def lost(*records: int, since: float) -> GpuHealth:
    """A GPU off the bus; errors of before are in its record."""
    old = (xid(code) for code in records)
    return gpu(
        0,
        *old,
        xid(79, since),
        presence="Lost",
        presence_since=at(since),
        recovery_action=RecoveryAction(),
    )


def milder(fault: str) -> Policy:
    """Every class may evict but one."""
    rows = policy(LIFTED)
    return msgspec.structs.replace(
        rows,
        rows=tuple(
            msgspec.structs.replace(row, ceiling="NoSchedule") if row.fault_class == fault else row
            for row in rows.rows
        ),
    )


def request_of(stored: Stored) -> RepairRequest:
    found = stored.incident.status.repair.request
    assert found is not None
    return found


class TestAnOlderNeed:
    """One for which pods are waited for without an end."""

    def waited(self, stored: Stored, seconds: float) -> None:
        """Class `memory` asks for a replacement."""
        for second in (1, 2, 6, HOUR, seconds):
            assert reconciled(stored, busy(gpu(0, xid(64))), second)[1] == WAITING
        assert request_of(stored).since_time == at(1)

    def test_a_gpu_that_is_lost_later_waits_for_its_own_hour(self) -> None:
        stored, begun = Stored(), 2 * DAY + 1
        self.waited(stored, 2 * DAY)
        seen = busy(lost(64, since=begun))

        for second in (begun, begun + 1, begun + HOUR - 1):
            assert reconciled(stored, seen, second)[1] == WAITING
        assert reconciled(stored, seen, begun + HOUR)[0] == "True"

    def test_a_policy_that_lets_the_class_evict_begins_the_hour_however_old_the_fault(self) -> None:
        stored, seen, begun = Stored(), busy(dead(0)), 5 * HOUR
        for second in (1, 2, 6, begun - 1):
            assert reconciled(stored, seen, second, milder("lost"))[1] == WAITING

        for second in (begun, begun + HOUR - 1):
            assert reconciled(stored, seen, second)[1] == WAITING
        assert reconciled(stored, seen, begun + HOUR)[0] == "True"

    def test_while_the_option_is_off_it_does_not_begin(self) -> None:
        stored, begun = Stored(), 5 * HOUR
        self.waited(stored, begun - 10)
        reconciled(stored, busy(lost(64, since=begun)), begun, options=OFF)

        assert request_of(stored).deadline_start_time is None


def rebooted(second: float) -> GpuHealth:
    """The driver requests a reboot of the node, each time that it is read."""
    return gpu(0, recovery_action=action(2, 1, second))


def reported_again(second: float) -> GpuHealth:
    """XID 79 comes again and again."""
    one = msgspec.structs.replace(xid(79), last_seen=at(second), count=int(second))
    return gpu(0, one, presence="Lost", presence_since=at(0), recovery_action=RecoveryAction())


def another_word(second: float) -> GpuHealth:
    """The agent says in turn that it is lost and that a call on it hangs, each since now."""
    reason = "Hung" if second % 60 else "GpuIsLost"
    return gpu(
        0,
        xid(79),
        presence="Lost",
        presence_reason=reason,
        presence_since=at(second),
        recovery_action=RecoveryAction(),
    )


@pytest.mark.parametrize("sick", [rebooted, reported_again, another_word])
def test_a_fault_that_is_read_anew_each_30_s_is_overdue_after_its_hour(
    sick: Callable[[float], GpuHealth],
) -> None:
    stored = Stored()
    stated = {
        second: reconciled(stored, busy(sick(second)), second)[:2]
        for second in (1, *(30.0 * number for number in range(1, 123)))
    }

    assert {state for second, state in stated.items() if second <= HOUR} == {("False", WAITING)}
    assert stated[HOUR + 30][0] == "True"
    assert request_of(stored).deadline_start_time == at(1)
