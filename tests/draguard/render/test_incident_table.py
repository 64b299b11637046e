"""Lists of incidents as people read them: sick GPUs first, one row for many of one cause."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from draguard.cluster.incident_lines import incident_lines
from draguard.render.incident_table import GROUPED_FROM, incident_table
from draguard.render.plain import plain
from kubeapi.types import ObjectMeta
from remediator.model.incident import Incident
from remediator.model.incident_status import AffectedPod, Condition, ScopeStatus
from tests.remediator.builders import T0, incident, uuid


def rows(incidents: Sequence[Incident], *, grouped: bool = True, wide: bool = False) -> list[str]:
    table = incident_table(incident_lines(incidents), T0, grouped=grouped, wide=wide)
    return plain((table,)).splitlines()[1:]


def test_incidents_of_one_cause_are_one_row_with_a_count() -> None:
    (row,) = rows([incident(index, cause="xid-119") for index in range(8)])

    assert row.split()[:6] == ["8", "incidents", "8", "on", "node-a", "gpu"]
    assert "xid-119" in row
    assert row.endswith("NoSchedule")


def test_every_row_is_there_if_it_is_requested() -> None:
    every = [incident(index) for index in range(8)]

    assert len(rows(every, grouped=False)) == 8


def test_a_few_are_not_grouped() -> None:
    assert len(rows([incident(index) for index in range(GROUPED_FROM - 1)])) == GROUPED_FROM - 1


@pytest.mark.parametrize(
    "other",
    [
        {"cause": "xid-79"},
        {"phase": "Drained"},
        {"conditions": (Condition("Deferred", "True", "Budget", T0),)},
        {"mode": "IncidentOnly"},
        {"needs": "Replacement"},
        {"scope": ScopeStatus("1 of 7 slices")},
        {"message": "NoExecute deferred: hold by ana: run 1"},
    ],
)
def test_what_differs_in_more_than_place_and_numbers_is_another_row(other: dict[str, Any]) -> None:
    alike = [incident(index) for index in range(4)]
    others = [incident(index, node="node-b", **other) for index in range(3)]

    stated = rows([*alike, *others])

    assert [row.split()[0] for row in stated] == ["4", "3"]


def test_a_group_over_many_nodes_names_the_first_and_counts_pods_of_each() -> None:
    pod = AffectedPod("default", "train", "train", "gpu-0", "uid")
    many = [incident(0, node=f"node-{letter}") for letter in "abcde"]
    many.append(incident(1, node="node-a", affected=(pod,), message="NoSchedule"))

    (row,) = rows(many)

    assert "6 on node-a, node-b, node-c and 2 more" in row
    assert "0 to 1 each" in row
    assert row.endswith("NoSchedule")


def test_messages_that_differ_in_numbers_share_a_row_and_other_messages_do_not() -> None:
    many = [incident(i, message=f"evicting {i} pods, 1{i}m left") for i in range(4)]
    many += [incident(i, message="hold by ana: run 1") for i in range(4, 8)]
    many += [incident(i, message="hold by bob: run 1") for i in range(8, 12)]

    counts, ana, bob = rows(many)

    assert counts.endswith("evicting 0 pods, 10m left (numbers differ)")
    assert [ana.rpartition("  ")[2], bob.rpartition("  ")[2]] == [
        "hold by ana: run 1",
        "hold by bob: run 1",
    ]


def test_closed_incidents_stay_in_order_of_time() -> None:
    def closed(index: int, days: int, cause: str = "xid-95") -> Incident:
        at = T0 - timedelta(days=days)
        return incident(index, phase="Recovered", closed_at=at, cause=cause)

    many = [closed(index, 0) for index in range(3)]
    many += [closed(3, 5, cause="xid-48"), *(closed(index, 30) for index in range(4, 8))]
    table = incident_table(incident_lines(many, closed=True), T0, grouped=True)

    young, between, old = plain((table,)).splitlines()[1:]

    assert [young.split()[0], old.split()[0]] == ["3", "4"]
    assert "xid-48" in between


def test_a_row_has_the_node_and_the_index_of_its_gpu() -> None:
    (whole,) = rows([incident(3)])
    (part,) = rows([incident(3, device="gpu-3-mig-1g10gb-19-4")])
    (unknown,) = rows([incident(3, scope=ScopeStatus())])
    (odd,) = rows([incident(3, device="accelerator-3")])

    assert [row.split()[1] for row in (whole, part, unknown, odd)] == [
        "node-a/3",
        "node-a/3",
        "node-a/?",
        "node-a/?",
    ]


def test_names_are_short_unless_two_begin_alike() -> None:
    other = incident(1)
    twin = msgspec.structs.replace(
        other, metadata=ObjectMeta(name="gpu-a0000001-1111-0000-0000-000000000000-1")
    )

    (short,) = rows([other])
    both = rows([other, twin])
    (wide,) = rows([other], wide=True)

    assert short.split()[0] == "gpu-a0000001-1"
    assert {row.split()[0] for row in both} == {other.name, twin.name}
    assert wide.split()[0] == other.name
    assert uuid(1) in wide


def test_sick_gpus_come_first_and_among_them_the_worst_class_by_node_and_index() -> None:
    found = incident_lines(
        [
            incident(0, fault_class="node", phase="Verifying"),
            incident(10, node="node-b"),
            incident(2, node="node-b"),
            incident(5, node="node-c", fault_class="lost"),
        ]
    )

    assert [(line.node, line.index) for line in found] == [
        ("node-c", 5),
        ("node-b", 2),
        ("node-b", 10),
        ("node-a", 0),
    ]


def test_an_incident_that_needs_a_user_comes_before_more_severe_ones_and_verifying_ones_last() -> (
    None
):
    severe = [
        incident(0, node=f"node-{i:02d}", fault_class="lost", cause=f"xid-{i}") for i in range(12)
    ]
    human = incident(0, node="node-y", fault_class="memory", phase="NeedsHuman")
    verifying = incident(0, node="node-a", fault_class="node", phase="Verifying")

    found = incident_lines([verifying, *severe, human])

    assert [found[0].node, found[-1].node] == ["node-y", "node-a"]
