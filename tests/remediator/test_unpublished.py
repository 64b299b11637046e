"""Devices that nobody publishes for a while: no mode is lowered by it, and no exemption ends."""

from datetime import timedelta
from typing import Any, ClassVar

import msgspec
import pytest

from exporter.model.device import Device
from exporter.model.node_health import GpuHealth
from remediator.model.incident import Incident
from remediator.model.incident_status import Target
from remediator.model.node import NodeFacts
from remediator.plan.boards import bind_boards
from remediator.plan.node_condition import HandoverOptions
from remediator.plan.node_decision import decide_node
from remediator.plan.view import NodeView
from remediator.policy.file import read
from remediator.policy.table import Policy
from tests.remediator.builders import (
    DRIVER,
    NODE,
    SLICE_5,
    Stored,
    at,
    dead,
    driver_away,
    gpu,
    mig_gpu,
    policy,
    published,
    uuid,
    view,
    with_fields,
    xid,
)
from tests.remediator.playing import claim, pod, settle

BY_POOL = read(b"""
overrides:
  - match: {pool: "node-*"}
    classes: {lost: {mode: enforce}}
""")
BY_RACK = read(b"""
overrides:
  - match: {pool: "rack-*", driver: gpu.example.com}
    classes: {lost: {mode: enforce}}
""")
BY_DRIVER = read(b"""
overrides:
  - match: {driver: gpu.nvidia.com}
    defaults: {mode: enforce}
""")
EXEMPT = read(b"""
defaults: {mode: enforce}
exempt:
  - pools: node-a
    why: being rebuilt
""")
UNPUBLISHED = view(dead(), inventory=())
SILENT = with_fields(UNPUBLISHED, stale="the agent is silent")
HANDS_OVER = HandoverOptions(enabled=True, deadline=timedelta(hours=1))


def evicted(rows: Policy) -> Stored:
    """Return what is stored of a GPU that was lost while it was published."""
    stored = Stored()
    for second in (1, 5):
        settle(stored, view(dead()), second, rows)
    assert stored.effects() == {"gpu-0": "NoExecute"}
    return stored


@pytest.mark.parametrize("rows", [BY_POOL, BY_DRIVER], ids=["by pool", "by driver"])
@pytest.mark.parametrize("seen", [UNPUBLISHED, SILENT], ids=["heard", "silent"])
def test_a_mode_goes_on_while_nobody_publishes_the_device(rows: Policy, seen: NodeView) -> None:
    stored = evicted(rows)

    settle(stored, seen, 100, rows)

    assert stored.effects() == {"gpu-0": "NoExecute"}
    assert stored.incident.status.policy.mode == "Enforce"


def test_a_mode_goes_on_where_the_incident_was_deleted_or_the_rules() -> None:
    """Of a driver that names its pools as it likes, so that nothing else tells where it was."""
    device = msgspec.structs.replace(
        published(dead())[0], device=Device("gpu.example.com", "rack-7", "gpu-0")
    )
    seen = view(dead(), inventory=(device,))
    for forget in ("the incident", "the rules"):
        stored = Stored()
        for second in (1, 5):
            settle(stored, seen, second, BY_RACK)
        (stored.incidents if forget == "the incident" else stored.rules).clear()

        settle(stored, SILENT, 100, BY_RACK)

        assert stored.incident.status.policy.mode == "Enforce"
        assert bool(stored.effects()) == (forget == "the incident")


@pytest.mark.parametrize("neighbours", [(gpu(1),), ()], ids=["a neighbour", "nobody"])
def test_an_exemption_by_pool_holds_for_a_gpu_that_was_never_published(
    neighbours: tuple[GpuHealth, ...],
) -> None:
    """Its node is called for no repair either."""
    stored = Stored()
    offered = tuple(device for health in neighbours for device in published(health))
    seen = view(dead(), *neighbours, inventory=offered, pods=())
    for second in (1, 5, 10):
        facts = NodeFacts(name=NODE, uid="u", conditions=tuple(stored.conditions.values()))
        reported = msgspec.structs.replace(stored.over(seen), facts=facts, nodes_known=True)
        decision = decide_node(reported, stored.fleet(), EXEMPT, at(second), HANDS_OVER)
        for step in decision.steps:
            stored.take(step, at(second))

    assert stored.incident.status.policy.mode == "IncidentOnly"
    assert not any(condition.status == "True" for condition in stored.conditions.values())


@pytest.mark.parametrize("mode", ["enforce", "incident-only"])
def test_an_exemption_of_one_slice_holds_while_it_is_unpublished(mode: str) -> None:
    """A slice is remembered by the incident, and by the rule that stands on it."""
    sick = mig_gpu(0, xid(79))
    first, *others = published(sick)
    stored = Stored()
    settle(stored, view(sick), 1, policy(mode=mode))
    if mode == "enforce":
        stored.incidents.clear()

    (board,) = bind_boards(stored.over(view(sick, inventory=tuple(others))), at(1))

    assert first.uuid in board.place.devices


def test_a_board_that_moved_is_not_of_the_pool_that_it_came_from() -> None:
    """Its incident remembers the devices of before."""
    stored = evicted(BY_POOL)
    stored.rules.clear()
    (before,) = stored.incidents.values()
    scope = before.status.scope
    came = Target(DRIVER, "node-z", "gpu-3", uuid(0))
    incident = _with_scope(before, (came, *scope.devices))
    (board,) = bind_boards(with_fields(UNPUBLISHED, incidents=(incident,)), at(1))
    assert board.place.pools == {(DRIVER, NODE)}

    (moved,) = bind_boards(
        with_fields(UNPUBLISHED, incidents=(_with_scope(before, (came,)),)), at(1)
    )
    assert moved.place.pools == {(DRIVER, NODE)}


def test_what_a_driver_publishes_outranks_what_is_remembered_of_it() -> None:
    """A board that was moved is not of the pool that it came from."""
    before = msgspec.structs.replace(published(dead())[0], device=Device("d", "rack-7", "gpu-0"))
    stored = Stored()
    settle(stored, view(dead(), inventory=(before,)), 1, BY_DRIVER)
    now = msgspec.structs.replace(before, device=Device("d", "rack-8", "gpu-0"), node="node-b")

    (board,) = bind_boards(stored.over(view(dead(), node="node-b", inventory=(now,))), at(100))

    assert board.place.pools == {("d", "rack-8")}


def test_where_it_is_published_joins_what_is_remembered() -> None:
    stored = evicted(BY_POOL)
    other = Device("gpu.example.com", "rack", "gpu-0")
    device = msgspec.structs.replace(published(dead())[0], device=other)

    (board,) = bind_boards(stored.over(view(dead(), inventory=(device,))), at(1))

    assert board.place.pools == {(DRIVER, NODE), (other.driver, other.pool)}


def _with_scope(incident: Incident, devices: tuple[Target, ...]) -> Incident:
    scope = msgspec.structs.replace(incident.status.scope, devices=devices)
    found = msgspec.structs.replace(incident.status, scope=scope)
    return msgspec.structs.replace(incident, status=found)


class TestDriverAway:
    """A DRA driver that cannot start, such as while another GPU is lost: its slices are gone.

    Pods go on holding what they were given, by the names that it had.
    """

    HELD: ClassVar[dict[str, Any]] = {"claims": (claim("gpu-0"),), "pods": (pod(),)}
    SLICE_HELD: ClassVar[dict[str, Any]] = {"claims": (claim(SLICE_5),), "pods": (pod(),)}
    ERROR = mig_gpu(0, xid(94, gi=5))

    def play(self, seen: NodeView, *seconds: float) -> Stored:
        stored = Stored()
        for second in seconds:
            settle(stored, seen, second)
        return stored

    def test_a_gpu_that_is_lost_meanwhile_is_emptied(self) -> None:
        stored = self.play(driver_away(dead(), **self.HELD), 1, 5)

        assert stored.effects() == {"gpu-0": "NoExecute"}
        assert stored.incident.status.phase == "Evicting"

    def test_an_error_in_a_slice_empties_that_slice_alone(self) -> None:
        stored = self.play(driver_away(self.ERROR, **self.SLICE_HELD), 1, 5)

        assert stored.effects() == {SLICE_5: "NoExecute"}
        assert stored.incident.status.scope.summary == "1 of 7 slices"

    def test_an_incident_of_a_slice_goes_on_as_it_was(self) -> None:
        stored = self.play(view(self.ERROR, **self.SLICE_HELD), 1, 5)
        before = stored.incident.status

        settle(stored, driver_away(self.ERROR, **self.SLICE_HELD), 100)

        assert stored.effects() == {SLICE_5: "NoExecute"}
        assert stored.incident.status.phase == before.phase == "Evicting"
        assert stored.incident.status.scope == before.scope

    def test_names_are_no_better_than_the_report_that_has_them(self) -> None:
        """A node may have booted since, and then it is unknown what it will publish."""
        seen = driver_away(dead(), **self.HELD)
        stored = self.play(seen, 1)
        silent = stored.over(with_fields(seen, stale="the agent is silent"))

        assert [bool(board.inventory) for board in bind_boards(stored.over(seen), at(2))] == [True]
        assert [bool(board.inventory) for board in bind_boards(silent, at(2))] == [False]

    def test_nor_may_it_name_a_pool_of_others(self) -> None:
        """Only the pool that is named after the node is certainly its own."""
        seen = driver_away(dead(), **self.HELD)
        elsewhere = [
            msgspec.structs.replace(
                part, device=msgspec.structs.replace(part.device, pool="node-b")
            )
            for part in seen.slices.last_published
        ]

        assert self.play(with_fields(seen, last_published=elsewhere), 1, 5).effects() == {}

    def test_nothing_is_missed_of_what_nobody_publishes_now(self) -> None:
        """A user who took the driver away may have taken the GPU, too."""
        (gone,) = driver_away(gpu(0)).slices.last_published
        seen = driver_away(gpu(1))
        seen = with_fields(seen, last_published=(gone, *seen.slices.last_published))

        boards = {board.uuid for board in bind_boards(seen, at(1))}

        assert boards == {uuid(1)}

    def test_a_device_plugin_may_have_given_the_gpu_to_others_meanwhile(self) -> None:
        plugged = pod("plugged", plugin_resources=("nvidia.com/gpu",))
        seen = driver_away(dead(), claims=(), pods=(plugged,))

        stored = self.play(seen, 1, 5, 200)

        stated = {condition.type: condition for condition in stored.incident.status.conditions}
        assert "given it to team/plugged" in stated["AffectedPodsIncomplete"].message

    def test_the_taint_follows_the_gpu_when_the_driver_is_back_with_other_names(self) -> None:
        stored = self.play(driver_away(dead(), gpu(1), **self.HELD), 1, 5)
        swapped = dead(minor=1), gpu(1, minor=0)

        settle(stored, view(*swapped), 10)

        assert stored.effects() == {"gpu-1": "NoSchedule"}
