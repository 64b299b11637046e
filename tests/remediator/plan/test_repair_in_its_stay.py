"""A repair is called for in the machine, and the boot, in which it is needed, and in no other."""

import msgspec
import pytest

from exporter.model.node_health import GpuHealth, Inventory
from remediator.model.node import REPAIR_NEEDED
from remediator.plan.node_condition import WAITING
from remediator.plan.view import NodeView
from remediator.policy.limits import LIFTED, Cap, Caps
from tests.remediator.builders import (
    Stored,
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
STRANGERS = tuple(gpu(index, pci_bus_id=f"0000:c{index}:00.0") for index in (5, 6))
"""GPUs of another machine."""


def on(
    *gpus: GpuHealth,
    boot: str = "boot-1",
    busy: int | None = 1,
    node: str = "node-a",
    inventory: Inventory | None = None,
) -> NodeView:
    """A node with these GPUs, and a pod on one of them."""
    pods, claims = (), ()
    if busy is not None:
        pods = (pod("big", claims=("claim-of-big",)),)
        claims = (claim(f"gpu-{busy}", "big", pool=node),)
    seen = view(*gpus, node=node, pods=pods, claims=claims)
    there = inventory or Inventory(seen=len(gpus), on_bus=len(gpus), set_aside=0)
    return with_fields(seen, report=report_with(seen, boot_id=boot, inventory=there))


def waiting() -> Stored:
    """GPU 0 fell off the bus, and a pod on GPU 1 is waited for."""
    stored = Stored()
    assert reconciled(stored, on(dead(), gpu(1)), 1)[1] == WAITING
    return stored


class TestAnotherMachineUnderTheName:
    """The Node was deleted, and a machine with other GPUs joined under its name."""

    @pytest.mark.parametrize(
        "inventory",
        [
            None,
            Inventory(seen=2),
            Inventory(seen=2, on_bus=3, set_aside=0, missing=("0000:c7:00.0",)),
        ],
        ids=["all GPUs answer", "its PCI list cannot be read", "it misses a GPU of its own"],
    )
    def test_is_called_for_by_nothing_that_its_former_one_needed(
        self, inventory: Inventory | None
    ) -> None:
        stored = waiting()
        stored.conditions = {}
        other = on(*STRANGERS, boot="boot-9", busy=5, inventory=inventory)

        for second in (1800, 1800 + MINUTE, 1 + HOUR, 1800 + HOUR, DAY, 6 * DAY):
            assert reconciled(stored, other, second, node_uid="another")[0] != "True"
        assert stored.incident.open
        assert stored.incident.status.repair.needs == "Human"

    def test_waits_for_a_user_and_ends_what_its_former_one_had_after_a_week(self) -> None:
        """No device has the former one's name, so nothing else would ever end its taint."""
        stored, other = waiting(), on(*STRANGERS, boot="boot-9", busy=5)
        for second in (1800, 1800 + DAY, 1800 + 7 * DAY - 1):
            reconciled(stored, other, second, node_uid="another")
        assert stored.incident.status.phase == "NeedsHuman"
        assert "confirm its repair" in stored.incident.status.message

        reconciled(stored, other, 1801 + 7 * DAY, node_uid="another")
        assert (stored.effects(), stored.incident.status.phase) == ({}, "Closed")

    def test_is_known_by_its_gpus_where_nodes_have_no_uid(self) -> None:
        stored = waiting()
        other = on(*STRANGERS, boot="boot-9", busy=5)

        for second in (1800, 1800 + MINUTE, DAY):
            assert reconciled(stored, other, second, node_uid="")[0] == "False"
        assert stored.incident.status.repair.needs == "Human"


class TestTheSameMachine:
    @pytest.mark.parametrize("node_uid", ["u", "again"], ids=["the same", "registered again"])
    def test_waits_for_its_pods_without_a_limit_where_only_a_replacement_helps(
        self, node_uid: str
    ) -> None:
        """The other GPUs of before are there, so the lost one is missing in the same machine."""
        stored, begun = waiting(), 1800.0
        seen = on(gpu(1), boot="boot-2")

        for second in (begun, begun + MINUTE, 2 + HOUR, begun + 2 * HOUR, begun + 7 * DAY):
            assert reconciled(stored, seen, second, node_uid=node_uid)[:2] == ("False", WAITING)
        assert stored.incident.status.repair.needs == "Replacement"
        assert stored.incident.status.phase == "NeedsHuman"

        idle = on(gpu(1), boot="boot-2", busy=None)
        called = reconciled(stored, idle, begun + 8 * DAY, node_uid=node_uid)
        assert called[:2] == ("True", "ReplacementNeeded")

    @pytest.mark.parametrize("inventory", [None, Inventory(seen=2)], ids=["complete", "unread"])
    def test_in_which_as_many_gpus_answer_as_before_needs_no_replacement(
        self, inventory: Inventory | None
    ) -> None:
        """The new board is in another slot."""
        stored = waiting()
        repaired = on(gpu(1), gpu(7), boot="boot-2", inventory=inventory)

        for second in (1800, 1800 + MINUTE, 1 + HOUR, DAY):
            assert reconciled(stored, repaired, second)[:2] == ("False", "OtherRepairNeeded")
        assert stored.incident.status.repair.needs == "Human"

    def test_gives_the_pods_that_came_after_a_reboot_an_hour_of_their_own(self) -> None:
        stored, begun = waiting(), 1 + 0.8 * HOUR
        again = dead(xids=(xid(79, begun),), presence_since=at(begun))
        seen = on(again, gpu(1), boot="boot-2")

        for second in (begun, begun + MINUTE, 2 + HOUR, begun + HOUR - 1):
            assert reconciled(stored, seen, second)[:2] == ("False", WAITING)
        called = reconciled(stored, seen, begun + HOUR)
        assert called[:2] == ("True", "NodeRebootNeeded")

    def test_is_waited_for_after_each_reboot_of_its_own_where_the_gpu_is_not_listed(self) -> None:
        stored = waiting()
        reboots = {2: 1 + 0.9 * HOUR, 3: 1 + 1.8 * HOUR, 4: 1 + 2.7 * HOUR}

        for number, begun in reboots.items():
            seen = on(gpu(1), boot=f"boot-{number}")
            for second in (begun, begun + MINUTE, begun + 0.8 * HOUR):
                assert reconciled(stored, seen, second)[:2] == ("False", WAITING)

    def test_of_which_a_gpu_is_listed_late_still_needs_its_replacement(self) -> None:
        stored = Stored()
        reconciled(stored, on(dead(), gpu(1), gpu(2)), 1)
        reconciled(stored, on(gpu(7), boot="boot-2"), 1800, node_uid="again")
        assert stored.incident.status.repair.needs == "Human"

        for second in (1805, 1805 + MINUTE):
            reconciled(stored, on(gpu(1), gpu(2), boot="boot-2"), second, node_uid="again")

        assert stored.incident.status.repair.needs == "Replacement"


class TestABoardThatMoves:
    """It is in node b, beside another one, and is lost there as well."""

    SEEN = on(dead(), gpu(1, node="node-b"), boot="boot-b", node="node-b")

    def test_calls_for_the_other_node_after_an_hour_there(self) -> None:
        stored, begun = waiting(), 2 * DAY

        for second in (begun, begun + HOUR - 1):
            assert reconciled(stored, self.SEEN, second, node_uid="b")[:2] == ("False", WAITING)
        assert stored.incident.node == "node-b"
        assert reconciled(stored, self.SEEN, begun + HOUR, node_uid="b")[0] == "True"

    def test_needs_a_replacement_where_a_reboot_there_does_not_bring_it_back(self) -> None:
        stored = waiting()
        reconciled(stored, self.SEEN, 2 * DAY, node_uid="b")
        without = on(gpu(1, node="node-b"), boot="boot-c", node="node-b")

        for second in (MINUTE, 2 * MINUTE + 5):
            reconciled(stored, without, 2 * DAY + second, node_uid="b")

        assert stored.incident.status.repair.needs == "Replacement"

    def test_needs_room_in_the_budget_there(self) -> None:
        stored = waiting()
        none = policy(msgspec.structs.replace(LIFTED, evict=Caps(cluster=Cap(0))))

        status, reason, message = reconciled(stored, self.SEEN, 2 * DAY, none, node_uid="b")

        assert (status, reason) == ("False", "Deferred")
        assert "evict.cluster=0" in message


@pytest.mark.parametrize("busy", [1, None], ids=["waited for", "called for"])
def test_while_a_greater_need_has_no_room_the_lesser_one_is_called_for(
    busy: int | None,
) -> None:
    stored = Stored()
    for second in (1, 2):
        reconciled(stored, on(dead(), gpu(1), busy=busy), second)
    before = stored.incident.status.repair.request
    full = policy(msgspec.structs.replace(LIFTED, evict=Caps(cluster=Cap(0))))
    worse = dead(memory=msgspec.structs.replace(gpu(0).memory, row_remap_failed="True"))

    for second in (1800, 1900):
        reconciled(stored, on(worse, gpu(1), busy=busy), second, full)

    assert before is not None
    assert stored.incident.status.repair.request == before
    called = reconciled(stored, on(worse, gpu(1), busy=busy), 2 + HOUR, full)
    assert called[:2] == ("True", "NodeRebootNeeded")


def test_a_need_that_falls_and_rises_again_restarts_no_deadline() -> None:
    stored = waiting()
    worse = dead(memory=msgspec.structs.replace(gpu(0).memory, row_remap_failed="True"))

    for second in (1800, 1900, 2000, 2100):
        reconciled(stored, on(worse if second % 200 else dead(), gpu(1)), second)

    request = stored.incident.status.repair.request
    assert request is not None
    assert request.deadline_start_time == at(1900)
    assert uuid(0) in reconciled(stored, on(dead(), gpu(1)), 1900 + HOUR)[2]


class TestAfterTheRebootThatWasCalledFor:
    def under_a_call(self) -> Stored:
        stored = Stored()
        for second in (1, 5, 20):
            reconciled(stored, on(dead(), gpu(1), busy=None), second)
        assert stored.conditions[REPAIR_NEEDED].status == "True"
        return stored

    @pytest.mark.parametrize("why", ["Hung", "Released", "NvmlDown"])
    def test_a_gpu_that_cannot_be_read_calls_for_nothing(self, why: str) -> None:
        stored = self.under_a_call()
        unread = on(
            gpu(0, presence="Unknown", presence_reason=why), gpu(1), boot="boot-2", busy=None
        )

        for second in (600, 600 + MINUTE, 2 * HOUR, DAY):
            state, reason = reconciled(stored, unread, second)[:2]
            assert (state, reason) == ("False", "RepairBeingVerified")
        assert stored.incident.status.repair.needs == "NodeReboot"

    def test_a_report_that_is_not_believed_takes_nothing_back(self) -> None:
        stored = self.under_a_call()
        silent = with_fields(on(dead(), gpu(1), boot="boot-2", busy=None), stale="silent")

        assert reconciled(stored, silent, 600)[0] == "True"

    def test_a_gpu_that_is_lost_still_is_called_for_anew(self) -> None:
        stored = self.under_a_call()
        lost = on(dead(), gpu(1), boot="boot-2", busy=None)

        assert reconciled(stored, lost, 600)[:2] == ("True", "NodeRebootNeeded")
        assert reconciled(stored, lost, 600 + MINUTE)[:2] == ("True", "ReplacementNeeded")
