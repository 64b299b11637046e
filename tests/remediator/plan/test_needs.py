"""What would repair a GPU, and how a need ends: by another boot, another board, or health."""

from datetime import timedelta
from typing import Any, ClassVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.model.node_health import (
    ConfigSpace,
    GpuHealth,
    Inventory,
    MemoryHealth,
    RecoveryAction,
    SourceHealth,
)
from remediator.diagnose.fault import NEEDS, NODE_LEVEL, Need, most_needed
from remediator.model.node import REPAIR_NEEDED
from remediator.plan.node_condition import VERIFYING
from remediator.plan.view import NodeView
from remediator.policy.limits import LIFTED
from remediator.policy.table import Ceiling, Evict
from tests.remediator.builders import (
    LASTS,
    RESET,
    Stored,
    action,
    at,
    dead,
    gpu,
    policy,
    report_with,
    uuid,
    view,
    with_fields,
    xid,
)
from tests.remediator.plan.handover import reconciled
from tests.remediator.playing import claim, pod

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
NEW_BOARD = gpu(7, pci_bus_id=gpu(0).pci_bus_id, minor=0)
"""In the slot of GPU 0, and with its number."""
WORN = gpu(0, memory=MemoryHealth(row_remap_failed="True", remap_observed_at=at(0)))


def on(*gpus: GpuHealth, boot: str = "boot-1", missing: tuple[str, ...] = ()) -> NodeView:
    """An idle node with these GPUs."""
    seen = view(*gpus, pods=())
    inventory = Inventory(seen=len(gpus), on_bus=len(gpus) + len(missing), missing=missing)
    report = report_with(seen, boot_id=boot, inventory=inventory)
    return with_fields(seen, report=report)


def rebooted(*gpus: GpuHealth, missing: tuple[str, ...] = ()) -> NodeView:
    return on(*gpus, boot="boot-2", missing=missing)


def reasons(stored: Stored) -> dict[str, str]:
    """The conditions of the incident that are True."""
    found = stored.incident.status.conditions
    return {each.type: each.reason for each in found if each.status == "True"}


def handed_over() -> Stored:
    """GPU 0 fell off the bus, and the node was handed over for a reboot."""
    stored = Stored()
    assert reconciled(stored, on(dead(), gpu(1)), 1)[:2] == ("True", "NodeRebootNeeded")
    return stored


class TestABoardThatWasSwapped:
    """Nobody knows which GPUs were beside it: NVML was down from the fault until the boot."""

    OFF: ClassVar[dict[str, Any]] = {"presence": "Unknown", "presence_reason": "NvmlTimeout"}
    DOWN = (SourceHealth(name="nvml", state="Down"), SourceHealth(name="kmsg", state="Up"))

    def swapped(self) -> tuple[Stored, NodeView]:
        stored = Stored()
        fallen = ConfigSpace(state="AllOnes", since=at(0))
        lost = gpu(0, xid(79, sources=("kmsg",)), config_space=fallen, **self.OFF)
        seen = on(lost, gpu(1, **self.OFF))
        down = report_with(seen, sources=self.DOWN, inventory=Inventory())
        for second in (1, 5, 10, 60):
            assert reconciled(stored, with_fields(seen, report=down), second)[0]
        assert stored.incident.status.stay.siblings is None
        busy: dict[str, Any] = {"pods": (pod("job"),), "claims": (claim("gpu-0", "job"),)}
        return stored, with_fields(on(NEW_BOARD, gpu(1), boot="boot-2"), **busy)

    def test_needs_a_user_and_calls_for_no_replacement_over_its_jobs(self) -> None:
        stored, seen = self.swapped()

        for second in (700, 765, 4400, DAY):
            assert reconciled(stored, seen, second)[:2] == ("False", "OtherRepairNeeded")

        assert reasons(stored)["NeedsHuman"] == "NoAnswer"
        assert stored.incident.status.phase == "NeedsHuman"

    def test_ends_with_the_word_of_that_user(self) -> None:
        stored, seen = self.swapped()
        reconciled(stored, seen, 700)

        stored.intend("RepairConfirmed", LASTS)
        for second in (800, 810):
            reconciled(stored, seen, second)

        assert (stored.incident.status.phase, stored.effects()) == ("Closed", {})


class TestAReboot:
    def test_that_did_not_bring_the_gpu_back_asks_for_a_replacement(self) -> None:
        stored = handed_over()

        first = reconciled(stored, rebooted(gpu(1)), 100)
        assert first[:2] == ("False", VERIFYING), "NVML may still be finding its GPUs"
        after = reconciled(stored, rebooted(gpu(1)), 100 + MINUTE)

        assert after[:2] == ("True", "ReplacementNeeded")
        assert stored.incident.status.repair.needs == "Replacement"

    def test_after_which_it_is_published_and_not_listed_asks_for_a_replacement(self) -> None:
        stored = handed_over()
        published = on(gpu(0), gpu(1)).slices.inventory
        seen = rebooted(gpu(1, presence_since=at(90)), missing=(uuid(0),))
        seen = with_fields(seen, inventory=published)
        late = with_fields(seen, report=report_with(seen, observed_at=at(200)))

        for second in (100, 200, 201, DAY):
            status, reason, _ = reconciled(stored, late if second > 100 else seen, second)
            assert (status, reason) != ("False", "NoRepairNeeded")

        assert (status, reason) == ("True", "ReplacementNeeded")

    @pytest.mark.parametrize("logged", [True, False], ids=["XID 79", "no XID"])
    def test_after_which_it_is_lost_again_asks_for_a_reboot_first(self, *, logged: bool) -> None:
        """The incident of the earlier boot is still in its soak."""
        stored = handed_over()
        for second in (100, 200):
            board = gpu(
                0,
                presence_since=at(90),
                epoch_started=at(90),
                recovery_action=action(0, 90, second),
            )
            reconciled(stored, rebooted(board, gpu(1)), second)
        again = with_fields(dead(0), presence_since=at(300), xids=(xid(79, 300),) if logged else ())

        for second in (301, 310, 301 + MINUTE, 301 + 2 * MINUTE, 4000):
            stands = reconciled(stored, rebooted(again, gpu(1)), second)
            assert stands[:2] == ("True", "NodeRebootNeeded")

    def test_is_none_where_the_node_is_only_registered_again(self) -> None:
        stored = handed_over()
        for second, uid in ((60, "again"), (120, "and again")):
            for later in (0, 5):
                reconciled(stored, on(dead(), gpu(1)), second + later, node_uid=uid)

        assert stored.incident.status.repair.request is not None
        assert stored.incident.status.repair.request.node_uid == "and again"
        assert stored.incident.status.repair.answered == 0

    def test_that_brought_it_back_asks_for_nothing(self) -> None:
        stored = handed_over()
        reconciled(stored, rebooted(gpu(1)), 100)

        seen = reconciled(stored, rebooted(gpu(0), gpu(1)), 130)

        assert seen[:2] == ("False", "RepairBeingVerified")
        assert stored.incident.status.repair.missing_since is None

    @pytest.mark.parametrize(
        "seen",
        [
            on(gpu(1)),
            with_fields(rebooted(gpu(1)), stale="silent"),
        ],
        ids=["the same boot", "a silent agent"],
    )
    def test_that_is_not_seen_changes_nothing(self, seen: NodeView) -> None:
        stored = handed_over()

        for second in (100, 100 + MINUTE, DAY):
            assert reconciled(stored, seen, second)[:2] == ("True", "NodeRebootNeeded")

    @pytest.mark.parametrize(
        "seen",
        [
            with_fields(
                rebooted(gpu(1)), report=report_with(rebooted(gpu(1)), sources=(), boot_id="boot-2")
            ),
            with_fields(
                rebooted(gpu(1)),
                report=report_with(
                    rebooted(gpu(1)), boot_id="boot-2", inventory=Inventory(set_aside=1)
                ),
            ),
        ],
        ids=["NVML is down", "a GPU is set aside"],
    )
    def test_after_which_the_gpu_cannot_be_seen_is_not_requested_again(
        self, seen: NodeView
    ) -> None:
        """What called for it stands with the time of then: a repair system would act at once."""
        stored = handed_over()

        for second in (100, 100 + MINUTE, DAY):
            assert reconciled(stored, seen, second)[:2] == ("False", "RepairBeingVerified")

    def test_of_a_node_without_an_open_node_level_need_asks_for_nothing(self) -> None:
        stored = Stored()
        reconciled(stored, on(gpu(0, xid(95), recovery_action=RESET), gpu(1)), 2)
        assert stored.incident.status.repair.needs == "GPUReset"

        for second in (100, 100 + MINUTE, DAY):
            assert reconciled(stored, rebooted(gpu(1)), second)[0] == ""
        assert stored.incident.status.repair.needs == "GPUReset"

    def test_costs_pods_nothing_where_the_class_may_not_evict(self) -> None:
        rows = policy(LIFTED, ceiling="NoSchedule")
        stored = Stored()
        reconciled(stored, on(dead(), gpu(1)), 1, rows)
        busy = with_fields(
            rebooted(gpu(1)), claims=(claim("gpu-1"),), pods=(pod(claims=("claim-of-train-0",)),)
        )

        for second in (100, 100 + MINUTE, DAY):
            assert reconciled(stored, busy, second, rows)[0] == "False"


class TestAnotherBoard:
    def test_in_the_same_slot_ends_the_need_and_the_incident(self) -> None:
        stored = handed_over()

        stated = reconciled(stored, rebooted(NEW_BOARD, gpu(1)), 100)

        assert stated[:2] == ("False", "NoRepairNeeded")
        status = stored.incident.status
        assert status.history.closed_at is not None
        assert (status.phase, status.message) == (
            "Closed",
            f"another board is in its place: {NEW_BOARD.uuid}",
        )
        assert stored.rules == {}

    @pytest.mark.parametrize(
        "inventory",
        [
            Inventory(seen=2, on_bus=3, missing=("0000:09:00.0",)),
            Inventory(seen=2, on_bus=3),
            Inventory(seen=2, on_bus=3, set_aside=1),
            Inventory(seen=2, on_bus=2, missing=(uuid(7),)),
            Inventory(seen=2),
        ],
    )
    def test_is_not_proven_while_the_old_one_may_be_at_another_number(
        self, inventory: Inventory
    ) -> None:
        """A board is added, numbers move, and the new one gets that of the dead one."""
        stored = handed_over()
        seen = rebooted(NEW_BOARD, gpu(1))
        seen = with_fields(seen, report=report_with(seen, inventory=inventory))

        reconciled(stored, seen, 100)
        assert stored.incident.status.history.closed_at is None

        found = gpu(0, pci_bus_id="0000:09:00.0", minor=8)
        reconciled(stored, on(found, NEW_BOARD, gpu(1), boot="boot-3"), 1000)
        assert stored.effects() == {"gpu-8": "NoSchedule"}

    def test_ends_the_need_of_a_worn_board(self) -> None:
        stored = Stored()
        assert reconciled(stored, on(WORN, gpu(1)), 1)[1] == "ReplacementNeeded"

        stated = reconciled(stored, rebooted(NEW_BOARD, gpu(1)), DAY)

        assert stated[:2] == ("False", "NoRepairNeeded")

    def test_is_not_proven_by_a_neighbour_that_got_its_name_and_number(self) -> None:
        stored = handed_over()
        moved_up = gpu(1, minor=0)

        for second in (100, 100 + MINUTE, DAY):
            stated = reconciled(stored, rebooted(moved_up), second)

        assert stated[:2] == ("True", "ReplacementNeeded")
        assert stored.incident.open

    def test_is_not_proven_by_a_neighbour_in_its_slot(self) -> None:
        stored = handed_over()
        plugged_over = gpu(1, pci_bus_id=gpu(0).pci_bus_id)

        reconciled(stored, rebooted(plugged_over), DAY)

        assert stored.incident.open

    def test_is_not_proven_by_a_new_board_in_another_slot(self) -> None:
        stored = handed_over()

        reconciled(stored, rebooted(gpu(1), gpu(7)), DAY)

        assert stored.incident.open

    def test_is_not_proven_while_the_old_one_is_there_or_published(self) -> None:
        stored = handed_over()
        both = rebooted(gpu(0, xid(79)), NEW_BOARD)
        old = on(gpu(0), gpu(1)).slices.inventory
        published = with_fields(rebooted(NEW_BOARD, gpu(1)), inventory=old)

        for seen in (both, published):
            reconciled(stored, seen, 100)
            assert stored.incident.open

    @pytest.mark.parametrize(
        "change", [{"stale": "silent"}, {"report": report_with(rebooted(NEW_BOARD), sources=())}]
    )
    def test_is_not_proven_by_a_report_that_nobody_believes(
        self, change: dict[str, object]
    ) -> None:
        stored = handed_over()

        reconciled(stored, with_fields(rebooted(NEW_BOARD, gpu(1)), **change), DAY)

        assert stored.incident.open


class TestTheGreatestNeed:
    def test_a_person_hides_no_act_that_stops_the_node(self) -> None:
        newer = action(99, 1, 1)
        sick = gpu(0, recovery_action=newer, memory=WORN.memory)
        stored = Stored()

        stated = reconciled(stored, on(sick, gpu(1)), 2)

        assert stated[:2] == ("True", "ReplacementNeeded")
        assert stored.incident.status.repair.needs == "Replacement"

    @given(st.lists(st.sampled_from(NEEDS)))
    def test_no_other_need_is_greater_than_one_of_the_node(self, found: list[Need]) -> None:
        assert (most_needed(found) in NODE_LEVEL) == bool(NODE_LEVEL.intersection(found))

    def test_what_is_over_needs_no_repair_of_the_node(self) -> None:
        stored = Stored()
        reconciled(stored, on(dead(), gpu(1)), 1)
        back = gpu(0, xid(79), recovery_action=action(0, 50, 60), epoch=2, epoch_started=at(50))
        still = msgspec.structs.replace(back, memory=MemoryHealth(row_remap_pending="True"))

        stated = reconciled(stored, on(still, gpu(1)), 70)

        assert stated[:2] == ("False", "OtherRepairNeeded")
        assert uuid(0) in stated[2]

    def test_a_repair_is_not_reported_over_while_the_gpu_is_not_healthy(self) -> None:
        stored = handed_over()
        sick = gpu(0, xid(95, 200), recovery_action=action(1, 201, 201), epoch_started=at(90))

        stated = reconciled(stored, rebooted(sick, gpu(1)), 202)

        assert stated[:2] == ("False", "OtherRepairNeeded")
        assert stored.conditions[REPAIR_NEEDED].reason != "NoRepairNeeded"


class TestCeilings:
    """A call that overrides running pods is an eviction of them all."""

    @pytest.mark.parametrize(
        ("sick", "ceiling", "overridden"),
        [
            (dead(), "NoExecute", True),
            (dead(), "NoSchedule", False),
            (WORN, "NoSchedule", False),
            (WORN, "NoExecute", False),
        ],
    )
    def test_bind_the_call(self, sick: GpuHealth, ceiling: Ceiling, overridden: bool) -> None:
        rows = policy(LIFTED, ceiling=ceiling)
        stored = Stored()
        busy = with_fields(
            on(sick, gpu(1)), claims=(claim("gpu-1"),), pods=(pod(claims=("claim-of-train-0",)),)
        )

        for second in (1, HOUR, HOUR + 2, DAY):
            stated = reconciled(stored, busy, second, rows)
        assert stated[0] == ("True" if overridden else "False")
        if not overridden:
            assert stated[1] == "WaitingForNeighbours"
            assert "until" not in stated[2]
            empty = reconciled(stored, on(sick, gpu(1)), DAY + 1, rows)
            assert empty[0] == "True", "nobody is in the way any more"

    def test_a_class_that_waits_for_disruption_budgets_overrides_no_pod_either(self) -> None:
        stored, rows = Stored(), policy(LIFTED, evict=Evict(then="wait"))
        busy = with_fields(
            on(dead(), gpu(1)), claims=(claim("gpu-1"),), pods=(pod(claims=("claim-of-train-0",)),)
        )

        for second in (1, HOUR, HOUR + 2, DAY):
            stated = reconciled(stored, busy, second, rows)

        assert stated[:2] == ("False", "WaitingForNeighbours")

    def test_a_deadline_calls_for_no_more_than_its_class_needs(self) -> None:
        both = dead(memory=WORN.memory)
        stored = Stored()
        busy = with_fields(
            on(both, gpu(1)), claims=(claim("gpu-1"),), pods=(pod(claims=("claim-of-train-0",)),)
        )

        waiting = reconciled(stored, busy, 1)
        overdue = reconciled(stored, busy, HOUR + 2)

        assert stored.incident.status.repair.needs == "Replacement"
        assert waiting[2].startswith("replacement needed by")
        assert overdue[:2] == ("True", "NodeRebootNeeded")
        empty = reconciled(stored, on(both, gpu(1)), HOUR + 3)
        assert empty[:2] == ("True", "ReplacementNeeded")

    def test_that_calls_for_nothing_is_called_for_by_no_unknown_gpu_either(self) -> None:
        """Memory is only observed, so a worn board that is lost needs a reboot."""
        strict = policy(LIFTED)
        rows = tuple(
            with_fields(row, mode="incident-only") if row.fault_class == "memory" else row
            for row in strict.rows
        )
        mild = with_fields(strict, rows=rows)
        lost = on(dead(memory=WORN.memory), gpu(1))
        unread = on(gpu(0, presence="Unknown", recovery_action=RecoveryAction()), gpu(1))

        stored = Stored()
        for second, seen in ((1, lost), (10, lost), (60, unread), (70, unread)):
            called = reconciled(stored, seen, second, mild)
            assert called[:2] == ("True", "NodeRebootNeeded")

        assert stored.incident.status.repair.needs == "Replacement"
        assert stored.incident.status.repair.request is not None
        assert stored.incident.status.repair.request.need == "NodeReboot"

    def test_a_deadline_of_one_class_calls_for_nothing_that_another_needs(self) -> None:
        worn = gpu(1, memory=WORN.memory)
        stored = Stored()
        busy = with_fields(
            on(dead(), worn, gpu(2)),
            claims=(claim("gpu-2"),),
            pods=(pod(claims=("claim-of-train-0",)),),
        )

        for second in (1, HOUR + 2):
            stated = reconciled(stored, busy, second)

        assert stated[:2] == ("True", "NodeRebootNeeded")
        assert uuid(1) not in stated[2]


@given(st.lists(st.sampled_from([True, False, None]), min_size=1, max_size=8))
def test_missing_is_counted_without_a_gap_in_which_it_was_there(sights: list[bool | None]) -> None:
    """Sights are half a minute apart; None: nobody could tell."""
    stored = handed_over()
    absent = timedelta()
    since = None
    for number, sight in enumerate(sights):
        moment = 100 + 30.0 * number
        seen = rebooted(gpu(0), gpu(1)) if sight else rebooted(gpu(1))
        if sight is None:
            seen = with_fields(seen, stale="silent")
        reconciled(stored, seen, moment)
        if sight is False:
            since = moment if since is None else since
        elif sight:
            since = None
        absent = timedelta(seconds=moment - since) if since is not None else timedelta()
    escalated = stored.incident.status.repair.needs == "Replacement"
    assert escalated <= (absent >= timedelta(minutes=1))
