"""A user confirms a repair that no source can report: a reset under a driver before R565.

Such a driver has no recovery action, and a reset that loads no driver starts no new epoch.
"""

from typing import Any

import msgspec
import pytest

from exporter.model.node_health import (
    GpuHealth,
    MemoryHealth,
    NvlinkHealth,
    RecoveryAction,
    SourceHealth,
    XidRecord,
)
from remediator.model.intent import Intent
from remediator.plan.view import NodeView
from remediator.policy.table import Policy
from tests.remediator import playing
from tests.remediator.builders import (
    LASTS,
    NO_ACTION_FIELD,
    RESET,
    T0,
    Stored,
    action,
    at,
    gpu,
    report_with,
    until,
    view,
    with_fields,
    xid,
)
from tests.remediator.playing import ENFORCE, EVICTS_LATER

DAY = 86400
CONFIRMED, SOAKED = 20, 620
"""Seconds: when the user confirms, and the end of the soak time after that."""


def old(*xids: XidRecord, **fields: object) -> NodeView:
    """A GPU whose driver has no recovery action. A reset of it shows in nothing that it reports."""
    board = gpu(0, *xids, recovery_action=NO_ACTION_FIELD)
    return view(with_fields(board, **fields))


SICK = old(xid(95))


def settle(stored: Stored, seen: NodeView, seconds: float, rows: Policy = ENFORCE) -> None:
    """A report is dated when it is seen, unless a test dates it."""
    if seen.agent.report is not None and seen.agent.report.observed_at == T0:
        gpus = tuple(_read(health, seconds) for health in seen.agent.report.gpus)
        dated = report_with(seen, observed_at=at(seconds), gpus=gpus)
        seen = with_fields(seen, report=dated)
    playing.settle(stored, seen, seconds, rows)


def _read(health: GpuHealth, seconds: float) -> GpuHealth:
    """Its recovery action is read anew for each report, unless a test dates it."""
    action_read = health.recovery_action
    if action_read.observed_at == T0:
        action_read = msgspec.structs.replace(action_read, observed_at=at(seconds))
    return msgspec.structs.replace(health, recovery_action=action_read)


def names(cause: int, seen: float = 0) -> XidRecord:
    """An XID 45 whose line names another XID as its cause."""
    return msgspec.structs.replace(xid(45, seen=seen), caused_by=cause)


def confirmed(seen: NodeView = SICK, intent: Intent = LASTS, rows: Policy = ENFORCE) -> Stored:
    """A GPU that was tainted; a user has reset it and confirmed that."""
    stored = Stored()
    for seconds in (1, 10):
        settle(stored, seen, seconds, rows)
    assert stored.effects() != {}
    stored.intend("RepairConfirmed", intent)
    settle(stored, seen, CONFIRMED, rows)
    return stored


def recovered(seen: NodeView = SICK) -> Stored:
    stored = confirmed(seen)
    settle(stored, seen, SOAKED)
    assert stored.incident.status.phase == "Recovered"
    return stored


@pytest.mark.parametrize("sources", [("kmsg", "nvml"), ("kmsg",)], ids=["confirmed", "log alone"])
@pytest.mark.parametrize("code", [48, 62, 74, 95, 119])
def test_the_fault_ends_after_the_soak(code: int, sources: tuple[str, ...]) -> None:
    seen = old(xid(code, count=3, sources=sources))
    stored = confirmed(seen)
    assert stored.incident.status.phase == "Verifying"

    settle(stored, seen, SOAKED - 1)
    assert set(stored.effects()) == {"gpu-0"}
    settle(stored, seen, SOAKED)

    assert stored.effects() == {}
    assert stored.incident.status.phase == "Recovered"


@pytest.mark.parametrize(
    "read",
    [{}, {"row_remap_failed": "False", "remap_observed_at": at(-60)}],
    ids=["never", "before the error, as under MIG"],
)
def test_a_failed_remap_ends_too_where_nvml_does_not_read_it(read: dict[str, Any]) -> None:
    recovered(old(xid(64), memory=MemoryHealth(**read)))


def test_an_xid_that_another_one_named_ends_too() -> None:
    recovered(old(names(95)))


def test_timeouts_that_follow_from_another_fault_end_with_it() -> None:
    recovered(old(xid(95), xid(119, seen=5, count=80)))


def test_an_error_that_only_syslog_had_reported_ends_too_whatever_reports_it_later() -> None:
    stored = recovered(old(xid(95), xid(74, seen=5, sources=("syslog",))))

    for seconds in (700, DAY):
        settle(stored, old(xid(95), xid(74, seen=5)), seconds)

    assert stored.effects() == {}


@pytest.mark.parametrize("seen", [SICK, old(xid(95), names(95, seen=1))], ids=["it", "named too"])
def test_a_confirmation_ends_the_fault_in_the_decision_that_reads_it(seen: NodeView) -> None:
    """Else pods could be deleted after it."""
    stored = Stored()
    settle(stored, seen, 1, EVICTS_LATER)
    stored.intend("RepairConfirmed", LASTS)

    settle(stored, seen, 10)

    assert stored.effects() == {"gpu-0": "NoSchedule"}


@pytest.mark.parametrize(
    "xids",
    [(xid(95), xid(119, seen=5, count=80)), (xid(95), xid(45, seen=1))],
    ids=["timeouts behind it", "an error of applications"],
)
def test_one_that_is_given_while_there_is_no_report_is_for_what_the_last_one_had(
    xids: tuple[XidRecord, ...],
) -> None:
    seen = old(*xids)
    stored = Stored()
    settle(stored, seen, 1)
    stored.intend("RepairConfirmed", LASTS)
    settle(stored, with_fields(seen, stale="silent"), CONFIRMED)

    for seconds in (60, 70, 80 + SOAKED):
        settle(stored, seen, seconds)

    assert stored.effects() == {}


class TestItDoesNotEnd:
    @pytest.mark.parametrize(
        "state",
        [
            {"memory": MemoryHealth(row_remap_pending="True")},
            {"memory": MemoryHealth(row_remap_failed="True")},
            {"nvlink": NvlinkHealth(failed=(1,))},
            {"presence": "Lost", "presence_since": at(5)},
            {"recovery_action": RESET},
            {"recovery_action": action(0, -60, -10)},
            {
                "recovery_action": msgspec.structs.replace(
                    NO_ACTION_FIELD, logged=1, logged_at=at(2)
                )
            },
        ],
        ids=[
            "pending remap",
            "failed remap",
            "link",
            "lost",
            "action",
            "no action read since",
            "logged action",
        ],
    )
    def test_a_state_that_is_reported_now(self, state: dict[str, object]) -> None:
        seen = old(xid(95), **state)
        stored = confirmed(seen)

        settle(stored, seen, SOAKED)

        assert set(stored.effects()) == {"gpu-0"}
        assert stored.incident.status.phase != "Verifying"

    def test_a_failed_remap_until_nvml_reads_that_rows_can_be_remapped(self) -> None:
        failed = MemoryHealth(row_remap_failed="True", remap_observed_at=at(-60))
        stored = confirmed(old(xid(64), memory=failed))
        settle(stored, old(xid(64), memory=failed), SOAKED)
        assert stored.effects() != {}

        well = MemoryHealth(row_remap_failed="False", remap_observed_at=at(SOAKED))
        for seconds in (SOAKED + 10, 2 * SOAKED):
            settle(stored, old(xid(64), memory=well), seconds)

        assert stored.effects() == {}

    @pytest.mark.parametrize(
        "again",
        [
            old(xid(95, seen=300, count=2)),
            old(xid(95), xid(119, seen=300)),
            old(xid(95, count=2)),
            old(xid(95), xid(119, seen=-30)),
        ],
        ids=["again", "another", "again by its count", "another with an older date"],
    )
    @pytest.mark.parametrize("after", [300, SOAKED + 300], ids=["soaking", "recovered"])
    def test_a_signal_that_comes_after_it(self, again: NodeView, after: float) -> None:
        stored = confirmed()
        for seconds in (after - 1, SOAKED) if after > SOAKED else (after - 1,):
            settle(stored, SICK, seconds)

        for seconds in (after, after + DAY):
            settle(stored, again, seconds)

        assert set(stored.effects()) == {"gpu-0"}
        assert [one.status.phase for one in stored.incidents.values() if one.open]

    def test_anything_once_it_was_overtaken_until_the_user_confirms_again(self) -> None:
        stored = confirmed()
        both = old(xid(95), xid(119, seen=300))
        settle(stored, both, 300)
        settle(stored, both, 300 + DAY)
        assert stored.effects() != {}

        stored.intend("RepairConfirmed", until(10 * DAY))
        for seconds in (301 + DAY, 301 + DAY + SOAKED):
            settle(stored, both, seconds)

        assert stored.effects() == {}

    @pytest.mark.parametrize("change", [None, until(300)], ids=["removed", "expired"])
    def test_anything_once_it_counts_no_longer(self, change: Intent | None) -> None:
        stored = confirmed(intent=until(300))
        stored.intend("RepairConfirmed", change)

        for seconds in (300, SOAKED, SOAKED + DAY):
            settle(stored, SICK, seconds)

        assert set(stored.effects()) == {"gpu-0"}
        assert stored.incident.status.phase not in {"Verifying", "Recovered"}

    def test_anything_of_an_incident_that_has_lost_its_status(self) -> None:
        stored = confirmed()
        stored.loses_status(stored.incident.name)

        for seconds in (30, SOAKED + 30):
            settle(stored, SICK, seconds)

        assert set(stored.effects()) == {"gpu-0"}

    def test_anything_while_the_recovery_action_may_be_readable(self) -> None:
        """The driver will say itself whether the fault is over."""
        begun = {"presence_since": at(-60), "epoch_started": at(-60)}
        seen = old(xid(95), recovery_action=RecoveryAction(), **begun)
        stored = confirmed(seen)

        settle(stored, seen, SOAKED)
        assert set(stored.effects()) == {"gpu-0"}

        settle(stored, old(xid(95), recovery_action=action(1, 700, 700)), 700)
        settle(stored, old(xid(95), recovery_action=action(0, 710, 710)), 710)
        settle(stored, old(xid(95), recovery_action=action(0, 710, 710 + SOAKED)), 710 + SOAKED)
        assert stored.effects() == {}


class TestAfterTheRecovery:
    """The report keeps its XIDs until the next boot."""

    def test_the_same_signals_taint_nothing_again(self) -> None:
        stored = recovered()

        for seconds in (SOAKED + 1, DAY, 40 * DAY, 80 * DAY):
            settle(stored, SICK, seconds)

        assert stored.effects() == {}
        assert len(stored.incidents) == 1

    @pytest.mark.parametrize("after", [300, 800], ids=["soaking", "recovered"])
    def test_nor_does_a_further_45_though_its_record_keeps_the_cause(self, after: float) -> None:
        stored = confirmed(old(xid(95), names(95, seen=1)))
        further = msgspec.structs.replace(names(95, seen=1), count=2, last_seen=at(after))

        for seconds in (after, after + 10, after + SOAKED, DAY):
            settle(stored, old(xid(95), further), seconds)

        assert stored.effects() == {}

    @pytest.mark.parametrize("presence", ["Unknown", "Present"])
    @pytest.mark.parametrize("field", [NO_ACTION_FIELD, RecoveryAction()], ids=["old", "unknown"])
    def test_nor_does_a_time_without_nvml(self, presence: str, field: RecoveryAction) -> None:
        """Also where it is not known whether the driver is still the old one."""
        stored = recovered()
        blind = old(xid(95), presence=presence, presence_since=at(700), recovery_action=field)
        nvml = (SourceHealth(name="nvml", state="Down"), SourceHealth(name="kmsg", state="Up"))
        blind = with_fields(blind, report=report_with(blind, sources=nvml))

        for seconds in (700, 800, DAY):
            settle(stored, blind, seconds)

        assert stored.effects() == {}
        assert len(stored.incidents) == 1

    def test_an_end_of_the_confirmation_changes_nothing(self) -> None:
        stored = confirmed(intent=until(SOAKED + 60))
        settle(stored, SICK, SOAKED)
        assert stored.effects() == {}

        for seconds in (SOAKED + 61, DAY):
            settle(stored, SICK, seconds)

        assert stored.effects() == {}

    def test_a_clock_that_is_set_back_taints_nothing_again(self) -> None:
        stored = Stored()
        set_back = old(xid(95, seen=-3600))
        set_back = with_fields(set_back, report=report_with(set_back, clock_set_back_ms=3_600_000))
        before = with_fields(SICK, report=report_with(SICK, clock_set_back_ms=0))
        settle(stored, before, 1)
        stored.intend("RepairConfirmed", LASTS)
        for seconds in (CONFIRMED, SOAKED):
            settle(stored, before, seconds)
        assert stored.effects() == {}

        settle(stored, set_back, SOAKED + 10)

        assert stored.effects() == {}

    @pytest.mark.parametrize("seen", [-600, 0, 700])
    def test_the_same_xid_in_another_boot_is_another_fault_however_it_is_dated(
        self, seen: float
    ) -> None:
        stored = recovered()
        again = old(xid(95, seen=seen))
        again = with_fields(again, report=report_with(again, boot_id="boot-2"))

        settle(stored, again, 700)

        assert set(stored.effects()) == {"gpu-0"}

    def test_its_incident_is_kept_for_this_boot_and_pruned_after_it(self) -> None:
        stored = recovered()
        settle(stored, SICK, 40 * DAY)
        assert len(stored.incidents) == 1

        unread = with_fields(SICK, stale="silent")
        settle(stored, unread, 41 * DAY)
        assert len(stored.incidents) == 1
        booted = with_fields(old(), report=report_with(old(), boot_id="boot-2"))
        settle(stored, booted, 42 * DAY)

        assert stored.incidents == {}

    def test_its_incident_is_pruned_once_the_node_is_gone(self) -> None:
        stored = recovered()

        settle(
            stored,
            NodeView(
                node="node-a",
                nodes_known=True,
            ),
            40 * DAY,
        )

        assert stored.incidents == {}


def test_a_gpu_that_was_reset_is_not_tainted_again_while_nvml_is_down() -> None:
    """An old driver that was loaded anew starts an epoch: no user needs to confirm that."""
    stored = Stored()
    settle(stored, SICK, 1)
    reset = {"epoch": 2, "epoch_started": at(40)}
    for seconds in (50, 50 + SOAKED):
        settle(stored, old(xid(95), **reset), seconds)
    assert stored.effects() == {}

    field = msgspec.structs.replace(NO_ACTION_FIELD, observed_at=at(50 + SOAKED))
    unread = {"presence": "Unknown", "presence_since": at(900), "recovery_action": field}
    away = old(xid(95), **reset, **unread)
    for seconds in (900, DAY):
        settle(stored, away, seconds)

    assert stored.effects() == {}
    assert len(stored.incidents) == 1
