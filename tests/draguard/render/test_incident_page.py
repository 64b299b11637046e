"""One incident, and one node's plan, as people read them: every time with its distance."""

import re
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from draguard.cluster.plans import Plans
from draguard.render.incident_page import incident_page
from draguard.render.plain import plain
from draguard.render.plan_page import plan_page
from kubeapi.types import ObjectMeta
from remediator.controller.debug_plan import GpuPlan, NodePlan, Page
from remediator.diagnose.fault import Need
from remediator.model.incident import Incident, IncidentSpec
from remediator.model.incident_status import Condition, ScopeStatus, Target, TimelineEntry
from remediator.model.intent import IntentRecord
from remediator.plan.stages import Wake
from remediator.plan.words import NEEDS
from tests.remediator.builders import DRIVER, T0, make_status, with_fields

ROOT = Path(__file__).parents[3]
NOW = T0 + timedelta(hours=3)


def words(**status: object) -> str:
    spec = IncidentSpec(node="node-a", uuid="GPU-a")
    reported = with_fields(
        make_status(fault_class="lost", cause="xid-79", phase="Tainted"), **status
    )
    return plain(incident_page(Incident(ObjectMeta(name="gpu-a-1"), spec, reported), NOW))


@pytest.mark.parametrize(
    ("until", "end"),
    [
        (T0 + timedelta(hours=7), "by ana: a run (in 4h)\n"),
        (T0 + timedelta(hours=2), "by ana: a run (1h ago)\n"),
        (None, "ignore without end by ana: a run\n"),
    ],
)
def test_an_intent_says_how_far_its_end_is(until: datetime | None, end: str) -> None:
    record = IntentRecord(
        kind="Ignore", until=until, by="ana", reason="a run", state="InForce", seen_time=T0
    )

    assert end in words(intents=(record,))


def test_the_timeline_says_how_long_ago_each_step_was() -> None:
    steps = (TimelineEntry(T0, "Suspected", "seen"), TimelineEntry(NOW, "Tainted", "done"))

    stated = words(timeline=steps)

    assert "2026-01-05T12:00:00Z  3h   Suspected  seen" in stated
    assert "2026-01-05T15:00:00Z  0s   Tainted    done" in stated


def test_a_plan_says_in_how_long_it_looks_again_and_how_many_nodes_it_leaves_out() -> None:
    wake = Wake(NOW + timedelta(minutes=10), "the soak time ends")
    node = NodePlan(node="node-a", sentence="node-a: well", wake=wake)
    page = Page(cluster="", at=NOW, role="nobody", nodes=(node,), left_out=1)

    stated = plain(plan_page(Plans(source="here", policy="p", page=page)))

    assert "next check at 2026-01-05T15:10:00Z, in 10m: the soak time ends" in stated
    assert "1 more node is not shown; select one with --node" in stated


def planned(*gpus: GpuPlan, **node: object) -> str:
    plan = NodePlan(node="node-a", sentence="node-a: well", gpus=gpus)
    page = Page(cluster="", at=NOW, role="local", nodes=(with_fields(plan, **node),), left_out=0)
    return plain(plan_page(Plans(source="here", policy="p", page=page)))


def test_a_deferral_stands_in_place_of_the_reason_for_what_it_defers() -> None:
    deferred = GpuPlan(
        uuid="GPU-a",
        index=3,
        verdict="sick: xid-95",
        deferred="Budget: budget evict.node=2 is used up",
        why="evidence complete, settle time over: pods are evicted; a user must confirm it",
        remarks=("a user must confirm it",),
    )

    stated = planned(deferred)

    assert "deferred (Budget): budget evict.node=2 is used up; a user must confirm it" in stated
    assert "pods are evicted" not in stated
    assert re.search(r"^node-a/3  GPU-a", stated, re.MULTILINE)


def test_a_nodes_summary_has_the_counts_and_not_what_the_table_says() -> None:
    counts, sentence = "7 healthy, 1 sick, 0 unknown", f"node-a: 7 healthy; {'GPU-a ' * 200}"

    stated = planned(sentence=sentence, counts=counts)

    assert "\nNode node-a: 7 healthy, 1 sick, 0 unknown\n" in stated
    assert max(map(len, stated.splitlines())) < 100


@pytest.mark.parametrize(
    ("phase", "step"),
    [
        ("Tainted", "wait until the GPU is drained (phase Drained), then reset it on node-a:"),
        ("Drained", "the GPU is drained: reset it on node-a:"),
        ("Suspected", "cordon node-a, wait until no pod uses the GPU, then reset it on node-a:"),
    ],
)
def test_a_drained_gpu_is_not_waited_for(phase: str, step: str) -> None:
    assert f"\n{step}\n" in words(needs=NEEDS["gpu-reset"], phase=phase)


def test_an_untainted_gpu_has_the_runbook_of_what_is_not_tainted() -> None:
    stated = words(needs=NEEDS["node-reboot"], phase="Suspected")

    assert "runbook: alerts/runbooks/DraguardDeviceNotTainted.md, docs/handover.md" in stated


@pytest.mark.parametrize(
    ("reason", "step"),
    [
        ("Budget", "nothing yet: Draguard waits for more evidence"),
        ("RulesNotServed", "nothing: no repair is needed"),
    ],
)
def test_no_evidence_is_waited_for_where_only_rules_are_missing(reason: str, step: str) -> None:
    deferred = Condition("Deferred", "True", reason, T0, "a test")

    assert step in words(phase="Suspected", conditions=(deferred,))


def test_the_gpu_has_its_node_and_index_beside_its_uuid() -> None:
    scope = ScopeStatus("whole GPU", (Target(DRIVER, "node-a", "gpu-3", "GPU-a"),))

    assert re.search("^GPU +GPU-a, node-a/3$", words(scope=scope), re.MULTILINE)


@pytest.mark.parametrize(
    ("needs", "steps"),
    [
        ("gpu-reset", ["nvidia-smi --gpu-reset -i GPU-a"]),
        ("node-reboot", ["kubectl drain node-a ", "reboot", "docs/handover.md"]),
        ("replacement", ["kubectl drain node-a ", "replaced", "docs/handover.md"]),
        ("fabric-recovery", ["runbook: alerts/runbooks/DraguardFabricFault.md"]),
        ("diagnosis", ["dcgmi diag"]),
        ("human", ["draguard confirm-repaired gpu-a-1 ", "DraguardNeedsHuman.md"]),
    ],
)
def test_the_page_says_first_what_to_do_and_last_how_to_pause(
    needs: Need, steps: list[str]
) -> None:
    stated = words(needs=NEEDS[needs])
    first, _, last = stated.partition("To pause Draguard on this GPU")

    assert [step for step in steps if step not in first.partition("What to do")[2]] == []
    assert "runbook: alerts/runbooks/" in first
    assert "draguard hold gpu-a-1 --until" in last
    assert "draguard untaint gpu-a-1 --until" in last


@pytest.mark.parametrize(
    ("needs", "first"), [("gpu-reset", "reset it on node-a:"), ("nothing", "check the GPU:")]
)
def test_where_no_source_reports_the_end_the_page_names_the_repair_and_its_confirmation(
    needs: Need, first: str
) -> None:
    silent = Condition("NeedsHuman", "True", "NoSource", T0, "the driver has no recovery action")

    stated = words(needs=NEEDS[needs], phase="NeedsHuman", conditions=(silent,), drained_at=T0)

    steps = stated.partition("What to do")[2].partition("To pause")[0]
    assert first in steps
    assert "draguard confirm-repaired gpu-a-1 --reason 'repaired, nvidia-smi is well'" in steps
    assert "runbook: alerts/runbooks/DraguardNeedsHuman.md" in steps


def test_every_need_has_its_steps_and_every_page_is_there() -> None:
    for need in set(NEEDS) - {"nothing"}:
        (page,) = re.findall(r"alerts/runbooks/\w+\.md", words(needs=NEEDS[need]))
        assert (ROOT / page).is_file()


def test_a_pause_that_is_in_force_can_be_ended_and_is_not_offered_again() -> None:
    kinds = ("Hold", "Ignore")
    records = tuple(
        IntentRecord(kind=kind, by="ana", reason="x", state="InForce", seen_time=T0)
        for kind in kinds
    )

    stated = words(intents=records)

    assert "draguard hold gpu-a-1 --remove" in stated
    assert "draguard ignore gpu-a-1 --remove" in stated
    assert "--until" not in stated.partition("To pause Draguard")[2]


def test_conditions_that_are_as_expected_are_left_out() -> None:
    held = Condition("Deferred", "True", "Budget", T0, "evict.node is used up")
    fine = Condition("TaintIgnored", "False", "AsExpected", T0)

    stated = words(conditions=(held, fine))

    assert "Deferred" in stated
    assert "TaintIgnored" not in stated
