"""Moments in which a healthy device or an innocent pod could be hit."""

import msgspec
import pytest

from exporter.model.device import Device
from exporter.model.node_health import GpuHealth
from exporter.model.resource_slices import SliceDevice
from remediator.diagnose.fault import Healthy
from remediator.plan.boards import bind_boards
from remediator.plan.node_decision import decide_node
from remediator.plan.view import AgentView, Fleet, NodeView, SliceView
from tests.remediator.builders import (
    ALL_SEVEN,
    NODE,
    RESET,
    SLICE_5,
    Stored,
    action,
    at,
    dead,
    gpu,
    mig_gpu,
    policy,
    published,
    report,
    report_with,
    uuid,
    view,
    with_fields,
    xid,
)
from tests.remediator.playing import ENFORCE, EVICTS_LATER, claim, effect_of, settle, tick

CHANNEL = Device("compute-domain.nvidia.com", "node-b", "channel-0")
"""An IMEX channel: the other driver of NVIDIA's names its pools after nodes, too."""
ON_A_SHELF = Device("gpu.example.com", "rack-7", "gpu-3")
OF_MY_OWN = Device("gpu.example.com", NODE, "gpu-0")


def wide(second: float) -> GpuHealth:
    """A slice fault, and then one of the whole GPU."""
    return mig_gpu(
        0,
        xid(94, gi=5),
        xid(95, seen=second),
        recovery_action=action(1, second + 0.1, second + 0.1),
    )


def dead_board(number: int) -> GpuHealth:
    return msgspec.structs.replace(dead(), uuid=uuid(number))


class TestOthers:
    def test_another_board_under_the_name_is_not_held_for_the_old_one(self) -> None:
        stored = Stored()
        settle(stored, view(dead()), 1)
        fresh = gpu(0)
        fresh = msgspec.structs.replace(fresh, uuid=uuid(77))

        settle(stored, view(fresh), 5)

        assert stored.effects() == {}

    def test_a_new_sick_board_under_an_old_name_gets_its_own_rule(self) -> None:
        stored = Stored()
        for second in (1, 5):
            settle(stored, view(dead()), second)
        fresh = msgspec.structs.replace(dead(), uuid=uuid(77))

        for second in (6, 10):
            settle(stored, view(fresh), second)

        assert stored.effects() == {"gpu-0": "NoExecute"}
        assert {rule.gpu for rule in stored.rules.values()} == {uuid(77)}

    def test_a_node_that_publishes_into_another_nodes_pool_taints_nothing_there(self) -> None:
        stored = Stored()
        sick = dead()
        foreign = tuple(
            msgspec.structs.replace(
                device, device=msgspec.structs.replace(device.device, pool="node-b")
            )
            for device in published(sick)
        )

        settle(stored, view(sick, inventory=foreign), 1)

        assert stored.effects() == {}
        assert stored.incident.status.scope.summary == "not published"

    @pytest.mark.parametrize(
        ("name", "contested", "tainted"),
        [
            (CHANNEL, False, False),
            (ON_A_SHELF, True, False),
            (ON_A_SHELF, False, True),
            (OF_MY_OWN, True, True),
        ],
    )
    def test_a_node_that_calls_others_devices_its_gpu_has_none_of_them_tainted(
        self, name: Device, *, contested: bool, tainted: bool
    ) -> None:
        """A rule names driver, pool and device, and no node."""
        stored = Stored()
        sick = dead()
        called = tuple(msgspec.structs.replace(device, device=name) for device in published(sick))
        pools = frozenset({(name.driver, name.pool)} if contested else ())

        settle(stored, view(sick, inventory=called, contested=pools), 1)

        assert bool(stored.effects()) == tainted

    def test_a_gpu_that_only_the_log_names_has_no_incident_and_stops_nobody(self) -> None:
        nameless = msgspec.structs.replace(dead(1), uuid="unknown-0000:3b:00.0")
        seen = view(dead(0), nameless)

        assert [board.uuid for board in bind_boards(seen, at(1))] == [uuid(0)]
        assert "1 without a name" in decide_node(seen, Fleet(), ENFORCE, at(1)).sentence

    def test_an_instance_number_used_again_does_not_condemn_the_new_slice(self) -> None:
        stored = Stored()
        sick = mig_gpu(0, xid(94, gi=5), recovery_action=action(observed=0.1))
        settle(stored, view(sick), 1)
        settle(stored, view(sick), 5)
        moved = tuple(
            msgspec.structs.replace(instance, uuid=instance.uuid.replace("MIG-0", "MIG-9"))
            for instance in sick.instances
        )
        again = msgspec.structs.replace(sick, instances=moved)

        settle(stored, view(again), 60)

        assert stored.effects() == {}

    def test_who_came_after_a_contained_error_is_not_moved_for_it(self) -> None:
        stored = Stored()
        seen = view(mig_gpu(0, xid(94, gi=5), recovery_action=action(observed=0.1)))

        settle(stored, seen, 540)
        settle(stored, seen, 545)

        assert stored.effects() == {SLICE_5: "NoSchedule"}

    def test_a_gpu_fault_that_the_driver_calls_over_opens_nothing(self) -> None:
        stored = Stored()

        settle(stored, view(gpu(0, xid(119), recovery_action=action(0, -60, 0.1))), 1)

        assert not stored.taken

    def test_the_same_uuid_in_another_nodes_slice_is_never_a_target(self) -> None:
        stored = Stored()
        sick = dead()
        there = published(sick, "node-b")

        settle(stored, view(sick, inventory=(*published(sick), *there)), 1)

        assert {rule.device.pool for rule in stored.rules.values()} == {NODE}

    def test_the_vfio_twin_of_a_sick_gpu_is_tainted_with_it(self) -> None:
        stored = Stored()
        sick = dead()
        (whole,) = published(sick)
        twin = msgspec.structs.replace(
            whole,
            device=msgspec.structs.replace(whole.device, device="gpu-vfio-0"),
            kind="vfio",
            uuid="0e5fffd1-0000-0000-0000-000000000000",
        )
        other = msgspec.structs.replace(
            twin,
            device=msgspec.structs.replace(whole.device, device="gpu-vfio-1"),
            pci_bus_id="0000:ff:00.0",
        )

        settle(stored, view(sick, inventory=(whole, twin, other)), 1)

        assert set(stored.effects()) == {"gpu-0", "gpu-vfio-0"}

    def test_a_dynamic_slice_is_found_by_profile_and_placement(self) -> None:
        stored = Stored()
        sick = mig_gpu(0, xid(94, gi=5), recovery_action=action(observed=0.1))
        abstract: tuple[SliceDevice, ...] = tuple(
            msgspec.structs.replace(device, uuid=None) for device in published(sick)
        )

        settle(stored, view(sick, inventory=abstract), 1)

        assert set(stored.effects()) == {SLICE_5}

    def test_an_instance_that_is_not_published_taints_nothing(self) -> None:
        stored = Stored()
        sick = mig_gpu(0, xid(94, gi=12), recovery_action=action(observed=0.1))

        for second in (1, 5, 10, 20):
            settle(stored, view(sick), second)

        assert stored.effects() == {}

    def test_a_claim_that_is_reserved_for_nobody_still_holds_its_device(self) -> None:
        stored = Stored()
        held = claim("gpu-0")
        assert held.status is not None
        idle = msgspec.structs.replace(
            held, status=msgspec.structs.replace(held.status, reserved_for=())
        )
        seen = view(dead(), claims=(idle,))

        settle(stored, seen, 1)
        settle(stored, seen, 5)

        assert stored.incident.status.phase == "Evicting"


class TestSettling:
    def test_a_scope_that_grows_settles_anew(self) -> None:
        stored = Stored()
        narrow = view(mig_gpu(0, xid(94, gi=5), recovery_action=action(observed=0.1)))
        settle(stored, narrow, 1)
        settle(stored, narrow, 5)
        assert stored.effects() == {SLICE_5: "NoExecute"}

        settle(stored, view(wide(20)), 20.2)
        assert stored.effects() == {
            name: "NoExecute" if name == SLICE_5 else "NoSchedule" for name in ALL_SEVEN
        }
        settle(stored, view(wide(20)), 23.1)
        assert set(stored.effects().values()) == {"NoExecute", "NoSchedule"}
        settle(stored, view(wide(20)), 23.3)
        assert set(stored.effects().values()) == {"NoExecute"}

    def test_an_old_error_is_not_one_of_a_slice_that_was_made_later(self) -> None:
        stored, broken = Stored(), mig_gpu(0, xid(94, gi=5), recovery_action=action())
        settle(stored, view(broken), 1)
        anew = tuple(
            msgspec.structs.replace(instance, uuid=f"{instance.uuid[:-6]}made-2")
            for instance in broken.instances
        )
        made_again = msgspec.structs.replace(broken, instances=anew)
        settle(stored, view(made_again), 2)

        drained = msgspec.structs.replace(made_again, recovery_action=action(4, 3, 3))
        seen = view(drained)
        seen = with_fields(seen, report=report_with(seen, observed_at=at(3)))
        for second in (3, 10, 60):
            settle(stored, seen, second)

        assert stored.effects() == dict.fromkeys(ALL_SEVEN, "NoSchedule")

    def test_a_dry_run_that_becomes_enforce_settles_from_then(self) -> None:
        stored = Stored()
        seen = view(dead(), claims=(claim("gpu-0"),))
        for second in (1, 50, 100):
            settle(stored, seen, second, policy(mode="dry-run"))
        assert stored.effects() == {"gpu-0": "None"}

        settle(stored, seen, 101)
        assert stored.effects() == {"gpu-0": "NoSchedule"}

    def test_an_unplaced_contained_error_is_not_tainted_before_its_time(self) -> None:
        stored = Stored()
        seen = view(mig_gpu(0, xid(94)))
        settle(stored, seen, 1)

        settle(stored, seen, 3.9)
        assert stored.effects() == {}
        settle(stored, seen, 4)
        assert set(stored.effects()) == ALL_SEVEN

    def test_all_new_rules_come_before_all_deletions_and_those_before_all_evictions(self) -> None:
        stored = Stored()
        sick = gpu(2, xid(95), recovery_action=RESET)
        settle(stored, view(dead(0), gpu(1), sick), 1, EVICTS_LATER)
        mended = gpu(2, xid(95), recovery_action=action(0, 2, 2))
        for second in (2, 4):
            settle(stored, view(dead(0), gpu(1), mended), second, policy())
        tick(stored, view(dead(0), gpu(1), mended), 690)
        stored.rules[published(dead(0))[0].device] = msgspec.structs.replace(
            stored.rules[published(dead(0))[0].device], effect="NoSchedule"
        )

        decision = tick(stored, view(dead(0), dead(1), mended), 700)

        names = [type(step).__name__ for step in decision.steps]
        effects = [effect_of(step) for step in decision.steps if effect_of(step)]
        assert names.index("CreateRule") < names.index("DeleteRule") < names.index("ChangeRule")
        assert effects == ["NoSchedule", "NoExecute"]


def test_a_gpu_that_moved_is_reported_by_the_node_that_has_it() -> None:
    stored = Stored()
    settle(stored, view(dead()), 1)
    left = NodeView(
        node=NODE,
        agent=AgentView(
            report=report(),
        ),
        slices=SliceView(
            elsewhere={uuid(0): ("node-b",)},
            decided_by={uuid(0): "node-b"},
        ),
    )

    decision = decide_node(stored.over(left), Fleet(), ENFORCE, at(5))

    # It takes its own rule down, because the node is observed without the board.
    assert [type(step).__name__ for step in decision.steps] == ["DeleteRule"]
    assert [planned.incident for _, planned in decision.pairs] == [None]
    unanswered = with_fields(left, stale="the agent is silent")
    assert decide_node(stored.over(unanswered), Fleet(), ENFORCE, at(5)).steps == []


def test_healthy_says_since_when_and_by_what() -> None:
    (board,) = bind_boards(view(gpu(0)), at(1))

    assert isinstance(board.verdict, Healthy)
    assert "recovery action" in board.verdict.evidence


class TestEndlessGpus:
    """A node that tells of ever new sick GPUs."""

    def test_it_gets_so_many_incidents_and_its_published_gpu_comes_first(self) -> None:
        lies = [dead_board(index) for index in range(100, 300)]
        stored = Stored()

        for second in (1, 5):
            settle(stored, view(*lies, dead(), inventory=published(dead())), second)

        assert len(stored.incidents) == 64
        assert uuid(0) in {incident.spec.uuid for incident in stored.incidents.values()}
        assert stored.effects() == {"gpu-0": "NoExecute"}

    def test_new_ones_open_no_more_while_the_old_ones_are_open(self) -> None:
        stored = Stored()
        for first in (100, 300, 500):
            lies = [dead_board(index) for index in range(first, first + 100)]
            settle(stored, view(*lies, inventory=()), first)

        assert len(stored.incidents) == 64
