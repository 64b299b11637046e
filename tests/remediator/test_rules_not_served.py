"""DeviceTaintRules that are not served for a while: what was tainted is not called recovered."""

from datetime import datetime, timedelta

import msgspec
import pytest

from exporter.model.node_health import GpuHealth
from remediator.model.incident import Incident
from remediator.model.incident_status import RULES_NOT_SERVED
from remediator.model.taint_rule import Rule
from remediator.plan.node_decision import NodeDecision, decide_node
from remediator.plan.steps import DeleteRule, WriteStatus
from remediator.plan.view import Fleet
from remediator.policy.limits import LIFTED
from tests.remediator.builders import (
    LASTS,
    Stored,
    action,
    at,
    dead,
    gpu,
    policy,
    view,
    with_fields,
    xid,
)
from tests.remediator.plan.handover import reconciled
from tests.remediator.playing import ENFORCE, claim, pod, settle, tick

SICK = gpu(0, xid(95), recovery_action=action(1, 1, 1))
MENDED = gpu(0, xid(95), recovery_action=action(0, 100, 100))
LISTS_NOTHING = {"rules": "devicetaintrules have not been listed yet"}


def fleet_of(stored: Stored) -> Fleet:
    """Return the cluster as it is seen meanwhile: rules may stand, and none is listed."""
    return with_fields(stored.fleet(), rules=(), rules_served=False)


def unserved(
    stored: Stored, health: GpuHealth, seconds: float, *, knows: bool = True
) -> NodeDecision:
    """Decide until nothing is left to do, while the API server has no DeviceTaintRules.

    `knows`: this process has seen the rules before.
    """
    seen = view(health, rules_served=False, unseen=tuple(stored.rules.values()) if knows else ())
    for _ in range(8):
        incident = tuple(stored.incidents.values())
        now = with_fields(seen, incidents=incident)
        decision = decide_node(now, fleet_of(stored), ENFORCE, at(seconds))
        if not decision.steps:
            return decision
        assert not [step for step in decision.steps if isinstance(step, DeleteRule)]
        for step in decision.steps:
            stored.take(step, at(seconds))
    raise AssertionError(f"never settles: {stored.taken[-3:]}")


def evicting() -> Stored:
    stored = Stored()
    for seconds in (2, 6):
        settle(stored, view(SICK), seconds)
    assert stored.effects() == {"gpu-0": "NoExecute"}
    return stored


def rules_reported(incident: Incident) -> dict[str, str]:
    return {
        record.device.rpartition("/")[2]: record.effect for record in incident.status.scope.rules
    }


@pytest.mark.parametrize("knows", [True, False], ids=["same process", "restarted"])
def test_a_soak_that_ends_while_rules_are_not_served_closes_nothing(knows: bool) -> None:
    stored = evicting()
    for seconds in (101, 702, 800):
        decision = unserved(stored, MENDED, seconds, knows=knows)
        assert decision.wake_at is None or decision.wake_at > at(seconds)

    assert stored.incident.open
    assert stored.incident.status.phase == "Verifying"
    assert rules_reported(stored.incident) == {"gpu-0": "NoExecute"}
    assert "not closed: DeviceTaintRules are not served" in stored.incident.status.message
    conditions = {
        condition.type: condition.status for condition in stored.incident.status.conditions
    }
    assert conditions[RULES_NOT_SERVED] == "True"

    for seconds in (900, 910):
        settle(stored, view(MENDED), seconds)
    assert stored.effects() == {}
    assert (stored.incident.status.phase, stored.incident.status.history.recurrence) == (
        "Recovered",
        1,
    )
    conditions = {
        condition.type: condition.status for condition in stored.incident.status.conditions
    }
    assert conditions[RULES_NOT_SERVED] == "False"


def test_without_rules_that_were_ever_seen_an_incident_recovers_by_itself() -> None:
    stored = Stored()
    unserved(stored, SICK, 2)
    for seconds in (101, 702, 712):
        unserved(stored, MENDED, seconds)

    assert stored.incident.status.phase == "Recovered"
    assert RULES_NOT_SERVED not in {
        condition.type for condition in stored.incident.status.conditions
    }


def test_an_end_without_recovery_waits_for_the_rules_as_well() -> None:
    stored, gone = evicting(), timedelta(days=8).total_seconds()
    away = view(rules_served=False, nodes_known=True, facts=None, stale="no Lease", report=None)
    wakes: list[datetime | None] = []
    for seconds in (10, gone, gone, gone):
        seen = with_fields(away, incidents=tuple(stored.incidents.values()))
        decision = decide_node(seen, fleet_of(stored), ENFORCE, at(seconds))
        wakes.append(decision.wake_at)
        for step in decision.steps:
            stored.take(step, at(seconds))

    assert stored.incident.open
    assert rules_reported(stored.incident) == {"gpu-0": "NoExecute"}
    assert wakes[-1] is None, "a date that is over wakes nobody"


def test_a_rule_that_no_status_has_noted_yet_counts_as_seen() -> None:
    """The process that made it dies, or rules go, between the rule and its incident's status."""
    stored = Stored()
    tick(stored, view(SICK), 2)
    assert stored.effects() == {"gpu-0": "NoSchedule"}
    assert stored.incident.blank
    unserved(stored, MENDED, 101)
    assert (stored.incident.open, stored.incident.status.fault.fault_class) == (True, "gpu")
    for seconds in (702, 712):
        unserved(stored, MENDED, seconds)

    assert stored.incident.open
    assert rules_reported(stored.incident) == {"gpu-0": "NoSchedule"}


def test_a_younger_incident_is_closed_once_its_rules_are_seen() -> None:
    stored = evicting()
    younger = msgspec.structs.replace(
        stored.incident,
        metadata=msgspec.structs.replace(
            stored.incident.metadata, name=stored.incident.name[:-1] + "2", uid="uid-2"
        ),
    )
    stored.incidents[younger.name] = younger
    unserved(stored, SICK, 10)
    assert stored.incidents[younger.name].open
    settle(stored, view(SICK), 20)
    assert not stored.incidents[younger.name].open


def test_rules_that_are_not_listed_yet_overwrite_no_list() -> None:
    """They are served again, and a process that was restarted meanwhile has not read them yet."""
    stored = evicting()
    unserved(stored, SICK, 10, knows=False)
    rules, stored.rules = stored.rules, {}
    for _ in range(4):
        tick(stored, view(SICK, blind=LISTS_NOTHING), 20)
    assert rules_reported(stored.incident) == {"gpu-0": "NoExecute"}
    stored.rules = rules
    settle(stored, view(SICK), 30)
    assert stored.effects() == {"gpu-0": "NoExecute"}


def test_served_again_a_taint_stands_for_the_settle_time_before_anybody_is_evicted() -> None:
    stored = Stored()
    settle(stored, view(SICK), 2)
    before = stored.incident.status.eviction.tainted_at
    unserved(stored, SICK, 3)
    for seconds in (100, 102):
        settle(stored, view(SICK), seconds)
        assert stored.effects() == {"gpu-0": "NoSchedule"}
    settle(stored, view(SICK), 104)
    assert stored.effects() == {"gpu-0": "NoExecute"}
    assert stored.incident.status.eviction.tainted_at == before, "rates count it from when it began"


def test_a_user_who_ignores_the_fault_meanwhile_has_its_rules_deleted_once_they_are_seen() -> None:
    stored = evicting()
    stored.intend("Ignore", LASTS)
    unserved(stored, SICK, 10)
    assert rules_reported(stored.incident) == {"gpu-0": "NoExecute"}
    settle(stored, view(SICK), 20)
    assert (stored.effects(), rules_reported(stored.incident)) == ({}, {})


def test_nothing_is_written_again_and_again_while_rules_are_not_served() -> None:
    stored = evicting()
    unserved(stored, SICK, 10)
    written = len(stored.taken)
    for seconds in range(11, 16):
        unserved(stored, SICK, seconds)
    assert not [step for step in stored.taken[written:] if isinstance(step, WriteStatus)]


def test_the_rules_of_another_gpu_hold_no_incident_open() -> None:
    stored, other = Stored(), gpu(1, xid(95), recovery_action=action(1, 1, 1))
    settle(stored, view(other), 2)
    (rule,) = stored.rules.values()
    assert isinstance(rule, Rule)
    reported = Stored()
    for seconds, health in ((2, SICK), (101, MENDED), (702, MENDED), (712, MENDED)):
        for _ in range(4):
            seen = view(health, rules_served=False, unseen=(rule,), incidents=())
            seen = with_fields(seen, incidents=tuple(reported.incidents.values()))
            decision = decide_node(seen, fleet_of(reported), policy(), at(seconds))
            for step in decision.steps:
                reported.take(step, at(seconds))
    assert reported.incident.status.phase == "Recovered"


@pytest.mark.parametrize("knows", [True, False], ids=["same process", "restarted"])
@pytest.mark.parametrize("waits", [False, True], ids=["called", "waiting"])
def test_a_call_for_repair_stays_as_it_is_while_rules_are_not_served(
    waits: bool, knows: bool
) -> None:
    stored, rows = Stored(), policy(LIFTED)
    pods = (pod("big"),) if waits else ()
    claims = (claim("gpu-1", "big"),) if waits else ()
    node = view(dead(0), gpu(1), pods=pods, claims=claims)
    for second in (1, 2, 6, 20):
        before = reconciled(stored, node, second, rows)
    request, rules = stored.incident.status.repair.request, stored.rules
    assert before[:2] == (
        ("False", "WaitingForNeighbours") if waits else ("True", "NodeRebootNeeded")
    )
    assert request is not None
    assert request.since_time == at(1)

    unseen = tuple(rules.values()) if knows else ()
    blip = with_fields(node, rules_served=False, unseen=unseen)
    stored.rules = {}
    assert reconciled(stored, blip, 3000, rows, rules_served=False) == before
    stored.rules = rules
    after = reconciled(stored, node, 3001, rows)

    assert after == before
    assert stored.incident.status.policy.mode == "Enforce"
    assert stored.incident.status.repair.request == request
