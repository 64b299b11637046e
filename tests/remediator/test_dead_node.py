"""A board that is put into another node, while the dead node that it left still publishes it."""

from collections.abc import Callable

import pytest

from exporter.model.node_health import GpuHealth
from remediator.diagnose.fault import Unknown
from remediator.plan.boards import bind_boards
from remediator.plan.view import NodeView
from tests.remediator.builders import (
    LASTS,
    NODE,
    Stored,
    at,
    dead,
    gpu,
    report,
    uuid,
    view,
    with_fields,
)
from tests.remediator.plan.handover import reconciled
from tests.remediator.playing import settle, tick

DAY = 86400.0
SILENT = view(
    dead(),
    stale="its agent is silent",
    elsewhere={uuid(0): ("node-b",)},
    decided_by={uuid(0): "node-b"},
)
"""The node that it left."""


def there(health: GpuHealth | None = None, *, dead_node: bool = True) -> NodeView:
    """The node that has it now."""
    also_at = {uuid(0): (NODE,)} if dead_node else {}
    return view(health or dead(), node="node-b", also_at=also_at)


def lost() -> Stored:
    """It was lost in node-a, and its pods are evicted there."""
    stored = Stored()
    for second in (1, 5):
        settle(stored, view(dead()), second)
    return stored


def moved() -> Stored:
    """It is lost in node-b as well."""
    stored = lost()
    for second in (1000, 1100):
        settle(stored, there(), second)
    return stored


def effects(stored: Stored) -> dict[str, str]:
    return {rule.node: rule.effect for rule in stored.rules.values()}


def test_it_is_tainted_there_and_evicts_no_pod() -> None:
    stored = moved()

    assert effects(stored) == {NODE: "NoExecute", "node-b": "NoSchedule"}
    status = stored.incident.status
    assert status.stay.node == "node-b"
    assert "node-a publishes it as well without a fresh report of it" in status.message


def test_it_evicts_pods_once_the_dead_node_is_gone() -> None:
    stored = moved()

    for second in (2000, 2004):
        settle(stored, there(dead_node=False), second)

    assert effects(stored)["node-b"] == "NoExecute"


def test_the_dead_node_leaves_the_incident_to_the_other() -> None:
    stored = moved()

    assert tick(stored, SILENT, 1200).steps == []
    assert tick(stored, there(), 1200).steps == []


@pytest.mark.parametrize("before_that", [lost, moved], ids=["at once", "after its fault"])
def test_health_that_it_reports_there_ends_nothing(before_that: Callable[[], Stored]) -> None:
    """A node may lie about a board that it does not have."""
    stored = before_that()
    before = effects(stored)

    settle(stored, SILENT, 2000)
    for second in (2000, 2000 + DAY):
        settle(stored, there(gpu(0)), second)
        assert tick(stored, SILENT, second).steps == [], "they do not write over each other"

    assert effects(stored) == before
    assert stored.incident.open


def test_the_other_node_reads_what_a_user_says() -> None:
    stored = lost()
    seen = there(gpu(0))
    settle(stored, seen, 2000)
    assert effects(stored) == {NODE: "NoExecute"}

    stored.intend("Ignore", LASTS)
    settle(stored, seen, 2010)

    assert effects(stored) == {}


@pytest.mark.parametrize("before_that", [lost, moved], ids=["at once", "after its fault"])
def test_a_user_who_confirms_the_repair_ends_the_doubt_about_its_health(
    before_that: Callable[[], Stored],
) -> None:
    stored = before_that()
    settle(stored, there(gpu(0)), 2000)
    stored.intend("RepairConfirmed", LASTS)

    for second in (2010, 2010 + DAY):
        settle(stored, there(gpu(0)), second)
        assert tick(stored, SILENT, second).steps == [], "they do not write over each other"

    assert effects(stored) == {}
    assert stored.incident.status.phase == "Recovered"


def test_the_incident_says_what_ends_the_doubt() -> None:
    stored = moved()

    settle(stored, there(gpu(0)), 2000)

    message = stored.incident.status.message
    assert "delete the Node node-a or its ResourceSlices, or confirm the repair" in message


def test_what_it_reports_there_is_read_though_its_health_is_doubted() -> None:
    """Else a confirmation that comes next would find nothing known of it."""
    (board,) = bind_boards(there(gpu(0)), at(2000))

    assert isinstance(board.verdict, Unknown)
    assert board.gpu is not None
    assert board.unusable == ""


DISPUTED = view(
    report=report(),
    pods=(),
    elsewhere={uuid(0): ("node-b",)},
    inventory=view(dead()).slices.inventory,
)
"""It is lost in node-a, whose report misses it by now, and a dead node publishes it as well."""


def test_a_node_that_decides_about_it_and_reports_it_no_more_reads_what_a_user_says() -> None:
    stored = lost()
    stored.intend("Ignore", LASTS)

    settle(stored, DISPUTED, 10)

    assert effects(stored) == {}


def test_its_call_for_repair_stands_while_it_decides_about_it() -> None:
    stored = Stored()
    for second in (1, 5, 70):
        called = reconciled(stored, view(dead(), pods=()), second)
    assert called[0] == "True"

    assert reconciled(stored, DISPUTED, 80) == called


def test_a_call_is_over_once_another_node_decides_about_the_gpu() -> None:
    """No pod that comes, no user and no recovery there could take it back otherwise."""
    stored = Stored()
    for second in (1, 5, 70):
        assert reconciled(stored, view(dead(), pods=()), second) is not None
    settle(stored, there(), 1000)
    assert stored.incident.node == "node-b"

    assert reconciled(stored, with_fields(SILENT, pods=()), 1010)[0] == "False"
