"""Sentences of docs/remediation.md that no other test holds."""

import re
from collections.abc import Iterable
from pathlib import Path
from time import monotonic
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from exporter.model.node_health import FabricHealth
from kubeapi.distrust import distrust
from remediator.model.intent import Intent
from remediator.model.node import NodeFacts
from remediator.plan.events import Event
from remediator.plan.node_decision import decide_node
from remediator.policy.limits import LIFTED, Cap, Caps
from remediator.policy.table import SHIPPED
from tests.remediator.builders import (
    NODE,
    Stored,
    action,
    at,
    dead,
    gpu,
    mig_gpu,
    policy,
    until,
    uuid,
    view,
    with_fields,
    xid,
)
from tests.remediator.plan.evict_first import REFUSED, START, begun, play, rows, seen
from tests.remediator.plan.handover import ON, reconciled
from tests.remediator.playing import claim, pod, settle, tick

DOCUMENT = Path(__file__).parents[2] / "docs" / "remediation.md"
HOUR, DAY = 3600.0, 86400.0


def test_the_table_of_classes_has_the_ceilings_that_are_shipped() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    table = text[text.index("| class | example |") : text.index("Some signals are not faults")]
    stated = re.findall(r"^\| `(\w+)` \|.*\| `?(\w+)`? \|[^|]*\|$", table, re.MULTILINE)

    assert dict(stated) == {row.fault_class: row.ceiling for row in SHIPPED}


def test_a_link_taints_the_gpu_that_reports_it_and_informs_the_peer() -> None:
    failed = gpu(0, fabric=FabricHealth(state=3, status=15))
    peer = f"node-a/{uuid(1)}"
    stored, both = Stored(), view(failed, gpu(1), domains={uuid(0): (peer,)})

    for second in (1, 5, 60, 600):
        settle(stored, both, second)

    assert stored.effects() == {"gpu-0": "NoSchedule"}
    assert stored.incident.status.scope.informed == (peer,)


def test_the_ceiling_none_marks_a_device_and_moves_no_pod() -> None:
    stored = Stored()
    held = view(dead(), claims=(claim("gpu-0"),), pods=(pod(),))

    for second in (1, 5, 60, HOUR, DAY):
        settle(stored, held, second, policy(ceiling="None"))

    assert stored.effects() == {"gpu-0": "None"}
    assert stored.incident.status.eviction.evicting_at is None


def test_a_pod_that_stays_past_its_time_is_requested_once_a_minute() -> None:
    one, asks = seen(pod(), refusals={"u-train-0": REFUSED}), rows("wait")
    stored = begun(one, asks)

    play(stored, one, asks, START, START + 700)

    assert tick(stored, one, START + 705, asks).wake_at == at(START + 765)


def test_no_repair_is_requested_while_two_policies_disagree() -> None:
    idle = view(dead(), gpu(1), pods=())
    rules = policy(LIFTED)
    apart = msgspec.structs.replace(rules, disagrees="another leader's")
    for asks, expected in ((apart, "False"), (rules, "True")):
        stored = Stored()
        for second in (1, 5, 10, 60, 120):
            stated = reconciled(stored, idle, second, asks)
        assert stated[0] == expected, stated


def test_off_keeps_an_open_incident_without_rules_until_the_gpu_is_healthy() -> None:
    stored = Stored()
    for second in (1, 5, 10):
        settle(stored, view(dead()), second)
    assert stored.effects() == {"gpu-0": "NoExecute"}

    for second in (20, 30, HOUR):
        settle(stored, view(dead()), second, policy(mode="off"))
    assert stored.effects() == {}
    assert (stored.incident.open, stored.incident.status.policy.mode) == (True, "Off")

    for second in (2 * HOUR, 3 * HOUR):
        settle(stored, view(gpu(0)), second, policy(mode="off"))
    assert not stored.incident.open


def test_ignore_ends_at_its_time_also_while_the_clock_is_in_doubt() -> None:
    stored = Stored()
    settle(stored, view(dead()), 1)
    stored.intend("Ignore", until(100))
    settle(stored, view(dead()), 5)
    assert stored.effects() == {}

    settle(stored, view(dead(), clock_doubt="the clock jumped"), 101)

    assert stored.effects() == {"gpu-0": "NoSchedule"}
    assert [(known.kind, known.state) for known in stored.incident.status.policy.intents] == [
        ("Ignore", "Expired")
    ]


@pytest.mark.parametrize("between", [5 * DAY, DAY / 2], ids=["five days", "within a day"])
@pytest.mark.parametrize(("code", "counts"), [(74, [1, 1, 1]), (119, [1, 2, 3])])
def test_an_incident_that_ended_before_any_taint_is_no_repeat(
    code: int, counts: list[int], between: float
) -> None:
    """An NVLink error waits for better evidence; a timeout is tainted at once."""
    stored = Stored()
    for start in (0, between, 2 * between):
        broken = gpu(0, xid(code, seen=start), recovery_action=action(0, -HOUR, start - 1))
        over = gpu(0, xid(code, seen=start), recovery_action=action(0, -HOUR, start + 3))
        settle(stored, view(broken), start + 1)
        for second in (3, 2000, 4000):
            settle(stored, view(over), start + second)

    found = [stored.incidents[name].status.history.recurrence for name in sorted(stored.incidents)]
    assert found == counts
    last = stored.incidents[max(stored.incidents)]
    evidence = " ".join(last.status.fault.evidence)
    assert ("relapse: " in evidence) == (code == 119 and between < DAY)


def test_a_contained_error_that_no_source_names_is_a_repeat_as_one_that_is_named() -> None:
    """It is over when it is logged: its slices are tainted when the GPU is healthy again."""
    for instance, tainted in ((None, 7), (5, 1)):
        stored = Stored()
        for start in (0, 5 * DAY, 10 * DAY):
            error = with_fields(xid(94, seen=start, gi=instance), mig_mode="Enabled")
            for second in (1, 4, 5, 60, HOUR):
                read = action(0, -HOUR, start + second - 1)
                settle(stored, view(mig_gpu(0, error, recovery_action=read)), start + second)
                assert second != 60 or len(stored.rules) == tainted

        found = [stored.incidents[name].status for name in sorted(stored.incidents)]
        assert [status.history.recurrence for status in found] == [1, 2, 3]
        assert [status.phase for status in found] == ["Recovered", "Recovered", "NeedsHuman"]


def test_a_repeat_is_known_by_its_taint_also_where_its_timeline_was_cut() -> None:
    """It keeps the opening and the newest entries."""
    stored = Stored()
    for start in (0, 5 * DAY):
        settle(stored, view(gpu(0, recovery_action=action(1, start, start))), start + 1)
        for second in (30, 4000):
            settle(
                stored, view(gpu(0, recovery_action=action(0, start, start + 20))), start + second
            )
        known = stored.incidents[max(stored.incidents)]
        opening = with_fields(known.status.timeline[0], phase="Suspected")
        status = with_fields(known.status, timeline=(opening, *known.status.timeline[-1:]))
        stored.put_incident(with_fields(known, status=status))

    assert [incident.status.history.recurrence for incident in stored.incidents.values()] == [1, 2]


@pytest.mark.parametrize(("seconds", "trusted"), [(149, True), (151, False)])
def test_a_watch_that_was_silent_for_150_seconds_is_not_trusted(
    seconds: float, *, trusted: bool
) -> None:
    contact = monotonic() - seconds
    watch: Any = SimpleNamespace(resource="nodes", synced=True, refused=False, last_contact=contact)

    assert (distrust(watch) == "") == trusted


def test_the_timeline_names_the_pods_once_they_are_gone_and_not_before() -> None:
    stored, held = Stored(), view(dead(), claims=(claim("gpu-0"),), pods=(pod(),))
    for second in (1, 5, 10):
        settle(stored, held, second)
    for second in (20, 40, 60):
        settle(stored, view(dead(), pods=()), second)
    repaired = gpu(0, epoch=2, epoch_started=at(90), recovery_action=action(0, 90, 90))
    for second in (100, 1000):
        settle(stored, view(repaired), second)
    assert stored.incident.status.phase == "Recovered"

    entries = stored.incident.status.timeline
    assert [entry.phase for entry in entries if "pods gone: team/train-0" in entry.text] == [
        "Drained"
    ]
    assert "pods gone" not in entries[1].text


def reasons(events: Iterable[Event]) -> set[str]:
    return {event.reason for event in events}


def test_an_error_after_a_confirmation_is_reported_as_overtaking_it() -> None:
    stored = Stored()
    settle(stored, view(dead()), 1)
    stored.intend("RepairConfirmed", Intent(by="ana", reason="a new board"))
    settle(stored, view(dead()), 5)

    worse = with_fields(dead(), xids=(xid(95, seen=50),))

    assert "IntentOvertaken" in reasons(tick(stored, view(worse), 60).events)


@pytest.mark.parametrize(("limit", "reports"), [(0, True), (8, False)])
def test_a_repair_that_waits_for_a_budget_is_reported(limit: int, *, reports: bool) -> None:
    rules = policy(msgspec.structs.replace(LIFTED, evict=Caps(cluster=Cap(limit))))
    idle = view(dead(), gpu(1), pods=(), nodes_known=True, facts=NodeFacts(name=NODE, uid="u"))
    stored, posted = Stored(), set[str]()
    for second in range(1, 20):
        decision = decide_node(stored.over(idle), stored.fleet(), rules, at(second), ON)
        posted |= reasons(decision.events)
        for step in decision.steps:
            stored.take(step, at(second))

    assert ("DeviceRepairDeferred" in posted) == reports
