"""A taint belongs to hardware: whatever moves a name, what was tainted stays tainted."""

from collections.abc import Callable
from itertools import permutations

import msgspec
import pytest

from exporter.model.device import Device
from exporter.model.node_health import GpuHealth, MemorySlices
from exporter.model.resource_slices import SliceDevice
from remediator.diagnose.fault import Unknown
from remediator.model.incident import Incident, incident_name
from remediator.model.incident_status import HARDWARE_LIMIT, Hardware
from remediator.plan.board import BoardRules
from remediator.plan.hardware import tainted_hardware
from remediator.plan.node_decision import decide_node
from remediator.plan.steps import ChangeRule, CreateRule, DeleteRule
from remediator.plan.view import AgentView, Fleet, NodeView, SliceView, WatchedKind
from remediator.policy.place import Area
from remediator.policy.table import Policy
from remediator.policy.windows import Once, Window
from tests.remediator.builders import (
    ALL_SEVEN,
    DRIVER,
    LASTS,
    NODE,
    Stored,
    action,
    at,
    dead,
    gpu,
    incident,
    make_board,
    mig_gpu,
    policy,
    published,
    report,
    rule,
    uuid,
    view,
    with_fields,
    xid,
)
from tests.remediator.playing import ENFORCE, claim, settle, tick
from tests.remediator.policy.budgets import limits_of


def at_number(health: GpuHealth, minor: int) -> GpuHealth:
    return msgspec.structs.replace(health, minor=minor)


def stale(seen: NodeView) -> NodeView:
    return with_fields(seen, stale="the agent is silent")


def holders(stored: Stored) -> dict[str, tuple[str, str]]:
    """Return by device name the GPU and the effect of its rule."""
    return {rule.device.device: (rule.gpu, rule.effect) for rule in stored.rules.values()}


def tainted(sick: GpuHealth, *others: GpuHealth, rows: Policy = ENFORCE) -> Stored:
    stored = Stored()
    for second in (1, 5, 20):
        settle(stored, view(sick, *others), second, rows)
    assert {rule.effect for rule in stored.rules.values()} <= {"NoSchedule", "NoExecute"}
    assert stored.rules
    return stored


def swapped(sick: GpuHealth) -> NodeView:
    """The sick board and its healthy neighbour have changed numbers."""
    return view(at_number(sick, 1), at_number(gpu(1), 0))


def reported_nothing(stored: Stored) -> None:
    del stored


def a_hold(stored: Stored) -> None:
    stored.intend("Hold", LASTS)


STOP = msgspec.structs.replace(ENFORCE, stopped="ana: a look at it")
WINDOW = Window(name="firmware", area=Area(nodes=("*",)), when=Once(at(0), at(90000)))
MAINTENANCE = msgspec.structs.replace(ENFORCE, maintenance=(WINDOW,))
CAPPED = policy(limits_of({"taint": {"node": 0, "cluster": 0}}))


@pytest.mark.parametrize(
    ("rows", "prepare", "blind", "effect"),
    [
        (ENFORCE, reported_nothing, True, "NoSchedule"),
        (ENFORCE, reported_nothing, False, "NoExecute"),
        (ENFORCE, a_hold, False, "NoSchedule"),
        (ENFORCE, a_hold, True, "NoSchedule"),
        (STOP, reported_nothing, False, "NoSchedule"),
        (STOP, reported_nothing, True, "NoSchedule"),
        (MAINTENANCE, reported_nothing, False, "NoSchedule"),
        (MAINTENANCE, reported_nothing, True, "NoSchedule"),
        (CAPPED, reported_nothing, True, "NoSchedule"),
    ],
    ids=[
        "while its agent is silent",
        "while it is sick",
        "under a hold",
        "under a hold, silent",
        "under the emergency stop",
        "under the emergency stop, silent",
        "in a maintenance window",
        "in a maintenance window, silent",
        "whatever the caps say",
    ],
)
def test_a_renumbered_gpu_stays_tainted(
    rows: Policy, prepare: Callable[[Stored], None], blind: bool, effect: str
) -> None:
    stored = tainted(dead(), gpu(1))
    prepare(stored)
    seen = swapped(dead())

    for second in (300, 304):
        settle(stored, stale(seen) if blind else seen, second, rows)

    assert holders(stored) == {"gpu-1": (uuid(0), effect)}


def test_a_gpu_that_is_being_verified_stays_tainted_under_its_new_number() -> None:
    stored = tainted(dead(), gpu(1))
    healthy = gpu(0, epoch=2, epoch_started=at(100), recovery_action=action(0, 100, 300))

    settle(stored, swapped(healthy), 300)

    assert stored.incident.status.phase == "Verifying"
    assert holders(stored) == {"gpu-1": (uuid(0), "NoSchedule")}
    settle(stored, swapped(healthy), 1000)
    assert stored.effects() == {}
    assert stored.incident.status.phase == "Recovered"


def test_a_gpu_that_needs_a_human_stays_tainted_under_its_new_number() -> None:
    sticky = policy(sticky=True)
    stored = tainted(dead(), gpu(1), rows=sticky)
    healthy = gpu(0, epoch=2, epoch_started=at(100), recovery_action=action(0, 100, 5000))
    seen = view(healthy, gpu(1))
    for second in (300, 1000, 5000):
        settle(stored, seen, second, sticky)
    assert stored.incident.status.phase == "NeedsHuman"

    settle(stored, swapped(healthy), 6000, sticky)

    assert holders(stored) == {"gpu-1": (uuid(0), "NoSchedule")}


def test_a_gpu_that_is_cut_into_slices_is_tainted_with_all_of_them() -> None:
    stored = tainted(dead())
    sliced = mig_gpu(0)

    settle(stored, stale(view(sliced)), 300)

    assert stored.effects() == dict.fromkeys(ALL_SEVEN, "NoSchedule") | {"gpu-0": "NoExecute"}


def test_names_of_another_driver_release_are_tainted() -> None:
    stored = tainted(dead())
    seen = view(dead())
    renamed = tuple(
        msgspec.structs.replace(
            device, device=msgspec.structs.replace(device.device, device="gpu-a")
        )
        for device in seen.slices.inventory
    )

    settle(stored, stale(with_fields(seen, inventory=renamed)), 300)

    assert stored.effects()["gpu-a"] == "NoSchedule"


def test_a_slice_stays_tainted_by_its_uuid_and_its_siblings_do_not() -> None:
    sick = mig_gpu(0, xid(94, gi=5), recovery_action=action(observed=0.1))
    stored = tainted(sick)
    (before,) = stored.rules.values()

    settle(stored, stale(view(at_number(sick, 3))), 300)

    fresh = [rule for rule in stored.rules.values() if rule.device != before.device]
    assert [(rule.uuid, rule.effect) for rule in fresh] == [(before.uuid, "NoSchedule")]


def partitions(health: GpuHealth, release: str = "") -> tuple[SliceDevice, ...]:
    """What dynamic MIG publishes: partitions without UUIDs, and the full GPU beside them."""
    (whole,) = published(msgspec.structs.replace(health, mig_mode="Disabled", instances=()))
    smallest = [
        msgspec.structs.replace(part, uuid=None, placement_start=start, placement_size=1)
        for start, part in enumerate(published(health))
    ]
    name = Device(DRIVER, NODE, f"gpu-{health.minor}-mig-3g40gb-9-4")
    large = msgspec.structs.replace(smallest[4], device=name, placement_size=4)
    return tuple(
        msgspec.structs.replace(part, device=Device(DRIVER, NODE, f"{part.device.device}{release}"))
        for part in (*smallest, large, whole)
    )


def test_the_memory_of_a_failed_instance_stays_tainted_whatever_its_partitions_are_called() -> None:
    failed = msgspec.structs.replace(
        xid(94, gi=5), mig_mode="Enabled", gi_profile_id=19, placement=MemorySlices(4, 1)
    )
    sick = mig_gpu(0, failed, recovery_action=action(observed=0.1))
    stored = Stored()
    for second in (1, 5, 20):
        settle(stored, view(sick, inventory=partitions(sick)), second)
    failed_memory = {"gpu-0", "gpu-0-mig-1g10gb-19-4", "gpu-0-mig-3g40gb-9-4"}
    assert stored.effects().keys() == failed_memory

    settle(stored, stale(view(sick, inventory=partitions(sick, "-r2"))), 300)

    anew = {name for name in stored.effects() if name.endswith("-r2")}
    assert anew == {f"{name}-r2" for name in failed_memory}


def test_a_slice_that_a_new_layout_has_ended_taints_nothing_of_it() -> None:
    sick = mig_gpu(0, xid(94, gi=5), recovery_action=action(observed=0.1))
    stored = tainted(sick)
    other = msgspec.structs.replace(
        sick,
        instances=tuple(
            msgspec.structs.replace(part, uuid=f"MIG-f{part.uuid[5:]}") for part in sick.instances
        ),
    )

    settle(stored, stale(view(other)), 300)

    assert stored.effects() == {}


@pytest.mark.parametrize(
    "rows",
    [policy(mode="incident-only"), policy(ceiling="None"), policy(ceiling="observe")],
    ids=["incident-only", "ceiling None", "observe"],
)
def test_a_policy_that_taints_no_more_lets_no_name_be_tainted(rows: Policy) -> None:
    stored = tainted(dead(), gpu(1))

    settle(stored, stale(swapped(dead())), 300, rows)

    assert "NoSchedule" not in stored.effects().values()


def test_what_a_lowered_mode_has_set_free_is_tainted_again_by_evidence_alone() -> None:
    stored = tainted(dead())
    blind = stale(view(dead()))
    settle(stored, blind, 300, policy(mode="dry-run"))
    assert stored.effects() == {"gpu-0": "None"}

    settle(stored, blind, 400)
    assert stored.effects() == {"gpu-0": "None"}, "it may be repaired by now"

    settle(stored, view(dead()), 500)
    assert stored.effects() == {"gpu-0": "NoSchedule"}


def test_an_ignored_gpu_is_not_tainted_under_another_name() -> None:
    stored = tainted(dead(), gpu(1))
    stored.intend("Ignore", LASTS)

    settle(stored, stale(swapped(dead())), 300)

    assert stored.effects() == {}


def test_a_device_that_another_node_publishes_is_not_tainted_before_that_node_reports_it() -> None:
    stored = tainted(dead())
    there = NodeView(
        node="node-b",
        agent=AgentView(
            report=report(),
            stale="no Lease",
        ),
        slices=SliceView(
            inventory=published(dead(), "node-b"),
        ),
    )

    decision = decide_node(stored.over(there), Fleet(), ENFORCE, at(300))

    assert not [step for step in decision.steps if isinstance(step, CreateRule)]


@pytest.mark.parametrize("kind", ["slices", "rules", "incidents"])
def test_names_that_cannot_be_trusted_make_no_rule(kind: WatchedKind) -> None:
    stored = tainted(dead(), gpu(1))
    blind = msgspec.structs.replace(swapped(dead()), blind={kind: "the watch is refused"})

    decision = tick(stored, blind, 300)

    assert not [step for step in decision.steps if isinstance(step, CreateRule)]


def test_rules_whose_incident_was_deleted_while_names_moved_are_adopted() -> None:
    stored = tainted(dead(), gpu(1))
    stored.incidents.clear()

    settle(stored, stale(swapped(dead())), 300)

    assert holders(stored) == {"gpu-1": (uuid(0), "NoSchedule")}
    assert stored.incident.open


def test_the_incident_that_takes_rules_over_has_the_name_that_they_give() -> None:
    """All incidents of its GPU were deleted, of which it was not the first."""
    stored = tainted(dead(), gpu(1))
    (device, taint_rule), *_ = stored.rules.items()
    second = incident_name(uuid(0), 2)
    stored.rules[device] = msgspec.structs.replace(taint_rule, incident=second)
    stored.incidents.clear()

    settle(stored, stale(view(dead(), gpu(1))), 300)

    assert stored.incident.name == second
    assert stored.rules[device].incident == second


class TestOrder:
    """An eviction on healthy hardware ends first; then taints are made; then others go."""

    def test_an_eviction_of_the_healthy_neighbour_ends_before_anything_else(self) -> None:
        stored = tainted(dead(), gpu(1))
        assert stored.effects() == {"gpu-0": "NoExecute"}

        decision = tick(stored, stale(swapped(dead())), 300)

        first, second = decision.steps[:2]
        assert isinstance(first, ChangeRule)
        assert (first.rule.device.device, first.rule.effect) == ("gpu-0", "NoSchedule")
        assert isinstance(second, CreateRule)
        assert second.rule.device.device == "gpu-1"

    def test_nothing_is_deleted_before_what_replaces_it_is_made(self) -> None:
        stored = tainted(gpu(0, xid(95), recovery_action=action(3, 1, 1)), gpu(1))
        assert stored.effects() == {"gpu-0": "NoSchedule"}
        sick = gpu(0, xid(95), recovery_action=action(3, 1, 1))

        decision = tick(stored, stale(swapped(sick)), 300)

        kinds = [type(step) for step in decision.steps]
        assert kinds.index(CreateRule) < kinds.index(DeleteRule)

    def test_an_eviction_ends_also_where_nothing_can_be_decided(self) -> None:
        stored = tainted(dead(), gpu(1))
        seen = with_fields(swapped(dead()), unread=frozenset({stored.incident.name}))

        settle(stored, seen, 300)

        assert holders(stored)["gpu-0"] == (uuid(0), "NoSchedule")

    def test_a_mark_of_another_gpu_that_is_left_keeps_no_taint_away(self) -> None:
        """Nothing is decided about the GPU of the mark; its name is that of a sick one now."""
        stored, claims = Stored(), (claim("gpu-0"),)
        shown = policy(mode="dry-run")
        for second in (1, 5):
            settle(stored, view(dead(), gpu(1), claims=claims), second, shown)
        assert stored.effects() == {"gpu-0": "None"}
        seen = view(at_number(gpu(0), 1), at_number(dead(1), 0))
        unread = frozenset({stored.incident.name})

        for second in (300, 304):
            settle(stored, with_fields(seen, unread=unread), second)

        assert holders(stored)["gpu-0"] == (uuid(1), "NoExecute")


def sick_ones(count: int) -> list[GpuHealth]:
    return [dead(index) for index in range(count)]


@pytest.mark.parametrize("order", [*permutations(range(2)), *permutations(range(3))])
@pytest.mark.parametrize("blind", [True, False])
def test_tainted_gpus_that_change_places_are_tainted_after_each_write(
    order: tuple[int, ...], blind: bool
) -> None:
    count = len(order)
    moved = view(
        *(at_number(health, number) for health, number in zip(sick_ones(count), order, strict=True))
    )
    moved = stale(moved) if blind else moved
    before = Stored()
    for second in (1, 5, 20):
        settle(before, view(*sick_ones(count)), second)
    names = {f"gpu-{number}" for number in range(count)}
    for killed_after in range(2 * count + 1):
        stored = again(before)
        for step in decide_node(stored.over(moved), stored.fleet(), ENFORCE, at(300)).steps[
            :killed_after
        ]:
            stored.take(step, at(300))
            assert stored.effects().keys() == names, "no name is free for a moment"

        settle(stored, moved, 301)

        meant = {f"gpu-{number}": uuid(index) for index, number in enumerate(order)}
        assert {name: gpu for name, (gpu, _) in holders(stored).items()} == meant


def again(before: Stored) -> Stored:
    stored = Stored()
    stored.rules, stored.incidents = dict(before.rules), dict[str, Incident](before.incidents)
    return stored


def test_hardware_keeps_the_cause_that_it_was_tainted_for_first_unless_a_worse_class_comes() -> (
    None
):
    known = Hardware(effect="NoSchedule", fault="gpu", cause="xid-95", tainted_time=at(1))
    one = incident(0, hardware=(known,))

    def cause_after(fault: str) -> str:
        standing = rule(0, fault=fault, cause="another", uid="u")
        board = make_board(Unknown("not read"), rules=BoardRules(stored=(standing,)))
        (part,) = tainted_hardware(board, one, at(9))
        return part.cause

    assert (cause_after("gpu"), cause_after("lost")) == ("xid-95", "another")


def test_the_gpu_is_recorded_before_its_memory_so_that_the_limit_never_leaves_it_out() -> None:
    whole = Hardware(effect="NoSchedule", fault="gpu", cause="xid-95")
    places = [
        with_fields(whole, placement=MemorySlices(start, 1), fault="contained")
        for start in range(HARDWARE_LIMIT)
    ]
    one = incident(0, hardware=(*places, whole))

    found = tainted_hardware(make_board(Unknown("not read")), one, at(9))

    assert (found[0], len(found)) == (whole, HARDWARE_LIMIT)
