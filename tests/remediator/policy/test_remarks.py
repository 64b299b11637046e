"""What is odd about a sound policy is said, and nothing else is."""

import pytest

from remediator.policy.load import read, written_keys
from remediator.policy.remarks import remarks
from tests.remediator.builders import T0

BUDGET = "budget: {evict: {node: 1}}\n"


@pytest.mark.parametrize(
    ("text", "stated"),
    [
        ("classes: {gpu: {mode: enforce}}", "budget: a class is enforced and the shipped budget"),
        (
            BUDGET + "classes: {pending: {mode: enforce}}",
            "classes.pending: class pending: mode enforce does nothing while the ceiling is",
        ),
        (
            "budget: {evict: {node: 4, cluster: 4}}",
            "budget.evict.node: 4 is not below budget.evict.cluster (4); one node can use up",
        ),
        (
            "budget: {taint: {node: 9, rate: {count: 8, within: 10m}}}",
            "budget.taint.node: 9 is not below budget.taint.rate (8 in 10m); one node",
        ),
        (BUDGET + "classes: {gpu: {mode: enforce, soak: 59s}}", "classes.gpu: class gpu: soak 59s"),
        (
            BUDGET + "classes: {memory: {mode: enforce, evict: {then: wait}}}",
            "classes.memory: class memory: evict does nothing while the ceiling is NoSchedule",
        ),
        (BUDGET + "classes: {gpu: {mode: enforce, settle: 500ms}}", "settle 500ms is short"),
        (
            BUDGET + "overrides: [{match: {node: a}, classes: {gpu: {mode: enforce, soak: 9s}}}]",
            "overrides[0]: class gpu: soak 9s is short",
        ),
        (
            "maintenance: [{name: x, nodes: a, from: 2026-01-01T00:00:00Z, "
            "until: 2026-01-05T12:00:00Z}]",
            "maintenance[0] (x): ended at 2026-01-05T12:00:00Z",
        ),
        (
            "maintenance: [{name: x, nodes: a, from: 2026-01-01T00:00:00Z, "
            "until: 2026-02-05T12:00:00Z}]",
            "maintenance[0] (x): is longer than 7 days",
        ),
        (
            "maintenance:\n"
            "- {name: x, nodes: a, from: 2026-02-01T00:00:00Z, until: 2026-02-02T12:00:00Z}\n"
            "- {name: y, nodes: a, from: 2026-02-02T00:00:00Z, until: 2026-02-03T12:00:00Z}\n",
            "maintenance[1] (y): overlaps with x",
        ),
        (
            "exempt: [{nodes: a, why: w, until: 2026-01-05T12:00:00Z}]",
            "exempt[0]: expired at 2026-01-05T12:00:00Z",
        ),
        (
            "overrides:\n"
            "- {match: {node: a}, classes: {gpu: {mode: off}}}\n"
            "- {match: {node: a}, defaults: {mode: dry-run}}\n",
            "overrides[0]: does nothing; overrides[1] overrides it",
        ),
        (
            BUDGET + "defaults: {evict: {then: wait}}\n"
            "overrides: [{match: {deviceClass: a}, classes: {gpu: {evict: {within: 1m}}}}]",
            "overrides[0]: does more by deviceClass for gpu",
        ),
        (
            BUDGET + "overrides: [{match: {deviceClass: a}, classes: {gpu: {mode: enforce}}}]",
            "overrides[0]: does more by deviceClass for gpu;",
        ),
        ("emergency_stop: {by: ann, why: fire}", "emergency_stop: set by ann"),
    ],
)
def test_one_odd_thing_is_one_sentence(text: str, stated: str) -> None:
    (remark,) = remarks(read(text), T0)

    assert remark.startswith(stated) or stated in remark


def test_what_one_line_does_to_several_classes_is_one_sentence() -> None:
    (remark,) = remarks(read(BUDGET + "defaults: {mode: enforce, soak: 8s}"), T0)

    assert remark.startswith("defaults: classes suspect, pending, contained, ")
    assert remark.endswith(": soak 8s is short: a GPU that flaps is untainted")


def test_a_budget_that_is_written_as_it_is_shipped_is_written() -> None:
    text = "classes: {gpu: {mode: enforce}}\nbudget: {evict: {node: 2}}"

    assert remarks(read(text), T0, written=written_keys(text)) == ()
    assert len(remarks(read("classes: {gpu: {mode: enforce}}"), T0)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        BUDGET + "defaults: {soak: 1m}\nclasses: {gpu: {mode: enforce}}",
        BUDGET + "defaults: {mode: enforce}",
        "classes: {gpu: {soak: 10s}}",
        "maintenance: [{name: x, nodes: a, from: 2026-01-05T00:00:00Z, "
        "until: 2026-01-05T12:00:01Z}]",
        "exempt: [{nodes: a, why: w}]",
        BUDGET
        + "classes: {gpu: {mode: enforce}}\n"
        + "overrides: [{match: {deviceClass: a}, classes: {gpu: {mode: dry-run}}}]",
        "overrides:\n"
        "- {match: {node: a}, classes: {gpu: {mode: off}}}\n"
        "- {match: {node: b}, classes: {gpu: {mode: dry-run}}}\n",
    ],
)
def test_nothing_odd_has_no_remark(text: str) -> None:
    assert remarks(read(text), T0) == ()
