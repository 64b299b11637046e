"""One incident, and one node's plan, as people read them: every time with its distance."""

from datetime import timedelta

import msgspec
import pytest

from draguard.incidents.case_file import case_file
from draguard.output.plain import plain
from draguard.plan.pages import Plans
from draguard.plan.sheet import sheet
from exporter.report import ObjectMeta
from remediator.hands.debug_plan import NodePlan, Page
from remediator.objects.incident import (
    AnswerRecord,
    DeletedRule,
    Incident,
    IncidentSpec,
    IncidentStatus,
    TimelineEntry,
)
from tests.draguard.fleet import T0

NOW = T0 + timedelta(hours=3)


def words(**status: object) -> str:
    spec = IncidentSpec(node="node-a", uuid="GPU-a", fault="lost", cause="xid-79")
    told = msgspec.structs.replace(IncidentStatus(phase="Fenced"), **status)
    return plain(case_file(Incident(ObjectMeta(name="gpu-a-1"), spec, told), NOW))


@pytest.mark.parametrize(
    ("said", "end"),
    [
        ("2026-01-05T19:00:00Z; by=ana; why=a run", "by ana: a run (in 4h)\n"),
        ("2026-01-05T14:00:00Z; by=ana; why=a run", "by ana: a run (1h ago)\n"),
        ("forever; by=ana; why=a run", "hold forever by ana: a run\n"),
    ],
)
def test_an_answer_says_how_far_its_end_is(said: str, end: str) -> None:
    record = AnswerRecord("hold", said, "InForce", T0)

    assert end in words(answers=(record,))


def test_an_answer_that_cannot_be_read_says_what_to_write() -> None:
    record = AnswerRecord("hold", "soon", "Unreadable", T0)

    assert "write `<until>; by=<who>; why=<text>`" in words(answers=(record,))


def test_the_timeline_says_how_long_ago_each_step_was() -> None:
    steps = (TimelineEntry(T0, "Suspected", "seen"), TimelineEntry(NOW, "Fenced", "done"))

    said = words(timeline=steps)

    assert "2026-01-05T12:00:00Z  3h   Suspected  seen" in said
    assert "2026-01-05T15:00:00Z  0s   Fenced     done" in said


def test_a_rule_that_a_person_deleted_says_for_how_long_it_is_respected() -> None:
    rule = DeletedRule("d", T0, T0 + timedelta(hours=24))

    said = words(deleted_rules=(rule,))

    assert "2026-01-05T12:00:00Z, 3h ago" in said
    assert "2026-01-06T12:00:00Z, in 21h, or a new signal" in said


def test_a_plan_says_in_how_long_it_looks_again_and_how_many_nodes_it_leaves_out() -> None:
    node = NodePlan(node="node-a", sentence="node-a: well", wake_at=NOW + timedelta(minutes=10))
    page = Page(at=NOW, role="nobody", nodes=(node,), left_out=1)

    said = plain(sheet(Plans(source="here", policy="p", page=page)))

    assert "looked at again at 2026-01-05T15:10:00Z, in 10m" in said
    assert "1 more node is left out; ask for one by --node" in said
