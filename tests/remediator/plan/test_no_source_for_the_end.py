"""Where no source reports that a fault is over, a user is needed, and has the last word."""

from typing import Any, ClassVar

import msgspec
import pytest

from exporter.model.node_health import (
    GpuHealth,
    Inventory,
    NvlinkHealth,
    RecoveryAction,
    SourceHealth,
    XidRecord,
)
from remediator.model.incident_status import Condition
from remediator.plan.view import NodeView
from tests.remediator.builders import (
    LASTS,
    NO_ACTION_FIELD,
    Stored,
    action,
    at,
    dead,
    gpu,
    policy,
    report,
    report_with,
    uuid,
    view,
    with_fields,
    xid,
)
from tests.remediator.playing import ENFORCE, settle

HOUR, DAY = 3600.0, 86400.0
NEVER_READ = RecoveryAction()


def reported(seconds: float, board: GpuHealth, **fields: object) -> NodeView:
    """A report of that second, in which a driver without recovery action was queried for it."""
    field = board.recovery_action
    if field.supported is False:
        field = msgspec.structs.replace(field, observed_at=at(seconds))
    seen = view(msgspec.structs.replace(board, recovery_action=field))
    return with_fields(seen, report=report_with(seen, observed_at=at(seconds), **fields))


def booted(seconds: float, *xids: XidRecord, **fields: Any) -> NodeView:
    """A node that was rebooted after an hour, of whose GPU no recovery action can be read."""
    fields = {"recovery_action": NEVER_READ} | fields
    board = gpu(0, *xids, presence_since=at(HOUR), epoch_started=at(HOUR), **fields)
    return reported(seconds, board, boot_id="boot-2")


def old(seconds: float, *xids: XidRecord, **fields: object) -> NodeView:
    """A node whose driver has no recovery action."""
    board = gpu(0, *xids, recovery_action=NO_ACTION_FIELD)
    return reported(seconds, with_fields(board, **fields))


def needs_human(stored: Stored, number: int = 1) -> Condition:
    incident = stored.incidents[f"{uuid(0).lower()}-{number}"]
    return next(one for one in incident.status.conditions if one.type == "NeedsHuman")


def repaired_and_unread() -> Stored:
    """A GPU that was lost, and came back by a reboot; nothing says that it is well."""
    stored = Stored()
    for seconds in (1, 10, HOUR / 2):
        settle(stored, reported(seconds, dead(0)), seconds)
    settle(stored, booted(HOUR + 10), HOUR + 10)
    assert stored.effects() == {"gpu-0": "NoExecute"}
    return stored


class TestAWordForTheReading:
    """A user has confirmed the repair while the recovery action cannot be read."""

    def test_makes_no_later_error_more_certain(self) -> None:
        stored = Stored()
        before, later = (
            xid(code, seen=seen, sources=("kmsg", "nvml"))
            for code, seen in ((95, HOUR + 60), (48, 3 * HOUR + 100))
        )
        for second in (HOUR + 61, HOUR + 700, 3 * HOUR):
            settle(stored, booted(second, before), second)
        stored.intend("RepairConfirmed", LASTS)
        settle(stored, booted(3 * HOUR + 10, before), 3 * HOUR + 10)

        for second in (3 * HOUR + 101, 3 * HOUR + 130):
            settle(stored, booted(second, before, later), second)
            assert stored.effects() == {"gpu-0": "NoSchedule"}

    def test_brings_no_request_back_that_the_driver_has_withdrawn(self) -> None:
        stored = repaired_and_unread()
        field = msgspec.structs.replace(
            action(0, HOUR + 20, HOUR + 30),
            unread_since=at(HOUR + 90),
            logged=1,
            logged_at=at(HOUR + 10),
            logged_source="kmsg",
        )
        settle(stored, booted(3 * HOUR, recovery_action=field), 3 * HOUR)
        stored.intend("RepairConfirmed", LASTS)

        for second in (3 * HOUR + 10, 3 * HOUR + 700):
            settle(stored, booted(second, recovery_action=field), second)

        assert stored.effects() == {}


class TestARecoveryActionThatAlwaysFailsToRead:
    def test_heals_nothing_and_needs_a_user_after_an_hour(self) -> None:
        stored = repaired_and_unread()
        settle(stored, booted(2 * HOUR - 1), 2 * HOUR - 1)
        assert needs_human(stored).status == "False"

        for seconds in (2 * HOUR, 30 * DAY):
            settle(stored, booted(seconds), seconds)

        status, needed = stored.incident.status, needs_human(stored)
        assert (status.phase, needed.status, needed.reason) == ("NeedsHuman", "True", "NoSource")
        assert "recovery action could not be read for an hour" in needed.message
        assert "spec.repairConfirmed" in status.message
        assert stored.effects() == {"gpu-0": "NoExecute"}

    def test_a_user_who_confirms_the_repair_ends_the_incident_after_the_soak(self) -> None:
        stored = repaired_and_unread()
        settle(stored, booted(2 * HOUR), 2 * HOUR)
        stored.intend("RepairConfirmed", LASTS)
        settle(stored, booted(2 * HOUR + 10), 2 * HOUR + 10)
        assert stored.incident.status.phase == "Verifying"
        settle(stored, booted(2 * HOUR + 609), 2 * HOUR + 609)
        assert stored.effects() != {}

        for seconds in (2 * HOUR + 610, DAY):
            settle(stored, booted(seconds), seconds)

        assert stored.effects() == {}
        assert stored.incident.status.phase == "Recovered"

    @pytest.mark.parametrize("late", [300, DAY], ids=["soaking", "recovered"])
    def test_no_confirmation_ends_what_comes_after_it(self, late: float) -> None:
        stored = repaired_and_unread()
        settle(stored, booted(2 * HOUR), 2 * HOUR)
        stored.intend("RepairConfirmed", LASTS)
        for seconds in (2 * HOUR + 10, 2 * HOUR + min(late - 1, 610)):
            settle(stored, booted(seconds), seconds)
        begun = 2 * HOUR + late
        again = xid(95, seen=begun)

        for seconds in (begun + 1, begun + 10, begun + DAY):
            settle(stored, booted(seconds, again), seconds)

        assert set(stored.effects()) == {"gpu-0"}
        assert [one.status.phase for one in stored.incidents.values() if one.open] == ["NeedsHuman"]

    def test_a_confirmation_that_is_taken_back_ends_nothing(self) -> None:
        stored = repaired_and_unread()
        settle(stored, booted(2 * HOUR), 2 * HOUR)
        stored.intend("RepairConfirmed", LASTS)
        settle(stored, booted(2 * HOUR + 10), 2 * HOUR + 10)
        stored.intend("RepairConfirmed", None)

        for seconds in (2 * HOUR + 20, DAY):
            settle(stored, booted(seconds), seconds)

        assert stored.effects() != {}
        assert stored.incident.status.phase == "NeedsHuman"

    @pytest.mark.parametrize(
        "field",
        [
            NEVER_READ,
            RecoveryAction(support="Supported", since=at(HOUR), observed_at=at(HOUR)),
            msgspec.structs.replace(action(0, HOUR, HOUR + 30), unread_since=at(HOUR + 90)),
        ],
        ids=["never read", "without a value", "read before it came"],
    )
    def test_a_confirmation_ends_an_xid_that_is_still_reported(self, field: RecoveryAction) -> None:
        stored, fault = Stored(), xid(95, seen=HOUR + 60)
        for seconds in (HOUR + 61, HOUR + 70, 3 * HOUR):
            settle(stored, booted(seconds, fault, recovery_action=field), seconds)
        assert stored.incident.status.phase == "NeedsHuman"
        stored.intend("RepairConfirmed", LASTS)

        for seconds in (3 * HOUR + 10, 3 * HOUR + 620, DAY):
            settle(stored, booted(seconds, fault, recovery_action=field), seconds)
        # NVML was away for a moment.
        back = gpu(0, fault, recovery_action=field, presence_since=at(2 * DAY))
        for seconds in (2 * DAY + 60, 3 * DAY):
            settle(stored, reported(seconds, back, boot_id="boot-2"), seconds)

        assert stored.effects() == {}
        assert stored.incident.status.phase == "Recovered"

    @pytest.mark.parametrize(
        "state",
        [
            {"nvlink": NvlinkHealth(failed=(1,))},
            {"presence": "Unknown", "presence_reason": "Released"},
            {"presence": "Lost"},
            {"omitted": ("memory",)},
            {"recovery_action": RecoveryAction(logged=1, logged_at=at(HOUR + 5))},
        ],
        ids=["a link is down", "let go", "lost", "not all is reported", "a reset is requested"],
    )
    def test_a_confirmation_ends_nothing_else_that_is_reported(
        self, state: dict[str, object]
    ) -> None:
        stored = repaired_and_unread()
        settle(stored, booted(2 * HOUR), 2 * HOUR)
        stored.intend("RepairConfirmed", LASTS)

        for seconds in (2 * HOUR + 10, DAY, DAY + 700):
            settle(stored, booted(seconds, **state), seconds)

        assert stored.effects() != {}

    def test_a_confirmation_does_not_end_what_the_driver_requested_after_it(self) -> None:
        stored, begun = Stored(), HOUR + 60
        for seconds in (begun + 1, begun + 10, 3 * HOUR):
            settle(stored, booted(seconds, recovery_action=action(1, begun, seconds)), seconds)
            stored.intend("RepairConfirmed", LASTS)
        field = msgspec.structs.replace(action(1, begun, 3 * HOUR), unread_since=at(3 * HOUR + 60))

        for seconds in (3 * HOUR + 90, DAY, DAY + 700):
            settle(stored, booted(seconds, recovery_action=field), seconds)

        assert stored.incident.status.phase == "Drained"

    def test_a_driver_that_answers_again_says_itself_that_it_is_well(self) -> None:
        stored = repaired_and_unread()
        settle(stored, booted(2 * HOUR), 2 * HOUR)
        assert needs_human(stored).status == "True"

        for seconds in (3 * HOUR, 3 * HOUR + 600):
            field = action(0, 3 * HOUR, seconds)
            settle(stored, booted(seconds, recovery_action=field), seconds)

        assert needs_human(stored).status == "False"
        assert stored.incident.status.phase == "Recovered"

    def test_a_reading_that_fails_for_less_than_an_hour_is_waited_for(self) -> None:
        stored = Stored()
        for seconds in (1, 10):
            settle(stored, reported(seconds, dead(0)), seconds)
        begun = 5 * HOUR
        field = msgspec.structs.replace(action(0, begun, begun), unread_since=at(begun + 60))

        for seconds in (begun + 90, begun + 59 * 60):
            settle(stored, booted(seconds, recovery_action=field), seconds)
            assert needs_human(stored).status == "False"
        settle(stored, booted(begun + 61 * 60, recovery_action=field), begun + 61 * 60)

        assert needs_human(stored).status == "True"


class TestADriverWithoutRecoveryAction:
    LINK = xid(74)

    @pytest.mark.parametrize("code", [74, 95, 48, 62, 119])
    def test_asks_a_user_once_the_fault_has_been_tainted_for_an_hour(self, code: int) -> None:
        stored, fault = Stored(), xid(code, count=3)
        for seconds in (1, 10, HOUR):
            settle(stored, old(seconds, fault), seconds)
        assert needs_human(stored).status == "False"

        settle(stored, old(HOUR + 10, fault), HOUR + 10)

        status, needed = stored.incident.status, needs_human(stored)
        assert (status.phase, needed.status, needed.reason) == ("NeedsHuman", "True", "NoSource")
        assert needed.message == (
            "only a user can say that it is repaired (spec.repairConfirmed): "
            f"the driver has no recovery action, so no source reports that xid-{code} is over"
        )
        stored.intend("RepairConfirmed", LASTS)
        for seconds in (HOUR + 20, HOUR + 640):
            settle(stored, old(seconds, fault), seconds)
        assert stored.effects() == {}

    def test_is_looked_at_again_when_the_hour_is_over(self) -> None:
        stored = Stored()

        for seconds in (1, 10):
            settle(stored, old(seconds, self.LINK), seconds)
        decision = settle(stored, old(30, self.LINK), 30)

        assert decision.wake_at == at(1 + HOUR)

    def test_asks_no_user_where_a_reboot_has_ended_the_fault(self) -> None:
        stored = Stored()
        for seconds in (1, 10):
            settle(stored, old(seconds, self.LINK), seconds)

        for seconds in (2 * HOUR, 2 * HOUR + 600):
            seen = old(seconds, presence_since=at(2 * HOUR - 60), epoch_started=at(2 * HOUR - 60))
            seen = with_fields(seen, report=report_with(seen, boot_id="boot-2"))
            settle(stored, seen, seconds)
            assert needs_human(stored).status == "False"

        assert stored.incident.status.phase == "Recovered"

    @pytest.mark.parametrize(
        "state",
        [{"nvlink": NvlinkHealth(failed=(1,))}, {"presence": "Lost", "presence_since": at(5)}],
        ids=["a link is down", "lost"],
    )
    def test_asks_no_user_while_a_state_shows_that_it_is_not_repaired(
        self, state: dict[str, object]
    ) -> None:
        stored = Stored()

        for seconds in (1, 10, DAY):
            settle(stored, old(seconds, xid(95), **state), seconds)

        assert needs_human(stored).status == "False"

    def test_asks_no_user_where_nothing_is_tainted(self) -> None:
        stored, rows = Stored(), policy(mode="incident-only")

        for seconds in (1, 10, DAY):
            settle(stored, old(seconds, self.LINK), seconds, rows)

        assert needs_human(stored).status == "False"
        assert stored.incident.status.phase == "Suspected"

    def test_asks_no_user_while_the_agent_is_silent(self) -> None:
        stored = Stored()
        for seconds in (1, 10, 30):
            settle(stored, old(seconds, self.LINK), seconds)

        settle(stored, with_fields(old(30, self.LINK), stale="silent"), DAY)

        assert needs_human(stored).status == "False"
        assert stored.incident.status.phase == "Drained"


def test_a_driver_that_answers_asks_no_user_however_long_its_fault_stands() -> None:
    stored = Stored()

    for seconds in (1, 10, DAY):
        board = gpu(0, xid(95), recovery_action=action(1, 1, seconds))
        settle(stored, reported(seconds, board), seconds, ENFORCE)

    assert needs_human(stored).status == "False"
    assert stored.incident.status.phase == "Drained"


def test_without_the_kernel_log_a_confirmation_does_not_stand_for_a_reading() -> None:
    stored = repaired_and_unread()
    settle(stored, booted(2 * HOUR), 2 * HOUR)
    stored.intend("RepairConfirmed", LASTS)
    sources = (SourceHealth(name="nvml", state="Up"), SourceHealth(name="kmsg", state="Down"))

    for seconds in (2 * HOUR + 10, DAY, DAY + 700):
        seen = booted(seconds)
        settle(stored, with_fields(seen, report=report_with(seen, sources=sources)), seconds)

    assert stored.effects() != {}


class TestAGpuThatDoesNotAnswerAfterTheReboot:
    HANGS: ClassVar[dict[str, Any]] = {"presence": "Unknown", "presence_reason": "Hung"}
    NAMELESS = Inventory(seen=2, on_bus=2, set_aside=0, unidentified=1)

    def seen(self, seconds: float, *, boot: str = "boot-2", named: bool = True) -> NodeView:
        other = gpu(1, recovery_action=action(observed=seconds))
        hung = gpu(0, recovery_action=NEVER_READ, presence_since=at(HOUR), **self.HANGS)
        gpus = (hung, other) if named else (other,)
        inventory = {} if named else {"inventory": self.NAMELESS}
        return view(*gpus, report=report(*gpus, observed_at=at(seconds), boot_id=boot, **inventory))

    def lost(self) -> Stored:
        stored = Stored()
        for seconds in (1, 10, HOUR / 2):
            settle(stored, reported(seconds, dead(0)), seconds)
        return stored

    @pytest.mark.parametrize("named", [True, False], ids=["it hangs", "NVML cannot name it"])
    def test_needs_a_user_after_an_hour(self, *, named: bool) -> None:
        stored = self.lost()
        first = settle(stored, self.seen(HOUR, named=named), HOUR)
        assert first.wake_at == at(2 * HOUR)

        settle(stored, self.seen(2 * HOUR - 1, named=named), 2 * HOUR - 1)
        assert needs_human(stored).status == "False"
        settle(stored, self.seen(2 * HOUR, named=named), 2 * HOUR)

        needed = needs_human(stored)
        assert (stored.incident.status.phase, needed.reason) == ("NeedsHuman", "NoAnswer")
        assert stored.effects() == {"gpu-0": "NoExecute"}

    def test_needs_none_before_a_reboot(self) -> None:
        stored = self.lost()
        for seconds in (HOUR, 3 * HOUR):
            settle(stored, self.seen(seconds, boot="boot-1"), seconds)

        assert needs_human(stored).status == "False"

    def test_needs_none_any_more_once_it_answers(self) -> None:
        stored = self.lost()
        for seconds in (HOUR, 2 * HOUR):
            settle(stored, self.seen(seconds), seconds)

        for seconds in (2 * HOUR + 10, 2 * HOUR + 700):
            well = gpu(0, recovery_action=action(observed=seconds), presence_since=at(2 * HOUR))
            settle(stored, reported(seconds, well, boot_id="boot-2"), seconds)

        assert (stored.incident.status.phase, stored.effects()) == ("Recovered", {})
