"""A rule of which a write was refused is not written again at once, and nothing waits for it."""

from datetime import timedelta

import pytest

from exporter.model.node_health import NvlinkHealth
from remediator.model.taint_rule import rule_name
from remediator.plan.steps import ChangeRule, CreateRule
from remediator.plan.view import NodeView, RefusedRule
from remediator.policy.table import Policy
from tests.remediator.builders import (
    Stored,
    action,
    at,
    dead,
    gpu,
    mig_gpu,
    policy,
    published,
    uuid,
    view,
    with_fields,
    xid,
)
from tests.remediator.playing import settle, tick

SLICES = tuple(part.device for part in published(mig_gpu(0, slices=2)))
SICK = view(mig_gpu(0, xid(95), slices=2, recovery_action=action(1, 1, 1)))
WELL = view(mig_gpu(0, slices=2, epoch=2, epoch_started=at(20), recovery_action=action(0, 20, 20)))


def with_refusals(seen: NodeView, *names: str) -> NodeView:
    why = RefusedRule("403 Forbidden", at(1e6))
    return with_fields(seen, refused=dict.fromkeys(names, why))


def deferred(stored: Stored) -> str:
    """Return why something is deferred, as the incident says it."""
    conditions = {each.type: each for each in stored.incident.status.conditions}
    return f"{conditions['Deferred'].reason}: {conditions['Deferred'].message}"


FIRST_REFUSED = with_refusals(SICK, rule_name(SLICES[0]))


def test_its_device_alone_is_free_and_the_incident_knows_why() -> None:
    stored = Stored()

    settle(stored, FIRST_REFUSED, 1)
    settle(stored, FIRST_REFUSED, 5)

    assert stored.effects() == {SLICES[1].device: "NoExecute"}
    assert "403 Forbidden" in stored.incident.status.message


def test_a_gpu_that_is_well_again_is_verified_and_untainted_without_it() -> None:
    stored = Stored()
    settle(stored, FIRST_REFUSED, 1)
    well = with_refusals(WELL, rule_name(SLICES[0]))

    for second in (20, 30, 700):
        settle(stored, well, second)

    assert stored.effects() == {}
    assert stored.incident.status.phase == "Recovered"


def test_while_the_gpu_is_unknown_its_taint_follows_to_no_device_that_is_refused() -> None:
    stored = Stored()
    settle(stored, FIRST_REFUSED, 1)
    settle(stored, with_fields(FIRST_REFUSED, stale="its agent is silent"), 5)

    assert stored.effects() == {SLICES[1].device: "NoSchedule"}
    assert "403 Forbidden" in deferred(stored)


def test_an_incident_that_waits_for_a_user_says_which_rule_cannot_be_made_again() -> None:
    stored, sticky = Stored(), policy(sticky=True)
    for second in (1, 5):
        settle(stored, SICK, second, sticky)
    stored.rules.clear()
    names = [rule_name(name) for name in SLICES]

    for second in (20, 30, 700):
        settle(stored, with_refusals(WELL, *names), second, sticky)

    assert stored.effects() == {}
    assert "RuleRefused: " in deferred(stored)
    assert "NoSchedule deferred: the rule of " in deferred(stored)


def test_so_does_one_whose_end_was_not_seen() -> None:
    down, unread = NvlinkHealth(up=(0,), down=(1,), failed=(1,)), NvlinkHealth()
    stored, name = Stored(), rule_name(published(gpu(0))[0].device)

    for second, links in ((1, down), (2, down), (30, unread)):
        settle(stored, with_refusals(view(gpu(0, nvlink=links)), name), second)

    assert "verifying" not in stored.incident.status.message
    assert "NoSchedule deferred: the rule of " in deferred(stored)


def test_a_refused_rule_is_lowered_and_removed_all_the_same() -> None:
    stored = Stored()
    settle(stored, SICK, 1)
    settle(stored, SICK, 5)
    milder = policy(ceiling="NoSchedule")

    lowered = tick(stored, with_refusals(SICK, *(rule_name(name) for name in SLICES)), 6, milder)

    assert {step.rule.effect for step in lowered.steps if isinstance(step, ChangeRule)} == {
        "NoSchedule"
    }
    off = with_refusals(SICK, *(rule_name(name) for name in SLICES))
    settle(stored, off, 7, policy(mode="off"))
    assert stored.effects() == {}


@pytest.mark.parametrize("rows", [policy(ceiling="NoSchedule"), policy(mode="off")])
def test_a_rule_that_may_not_be_lowered_or_removed_stands_and_its_incident_knows_why(
    rows: Policy,
) -> None:
    stored, seen = Stored(), SICK
    for second in (1, 5):
        settle(stored, seen, second)
    first = rule_name(SLICES[0])
    why = {first: RefusedRule("403 Forbidden", at(1e6))}

    settle(stored, with_fields(SICK, irremovable=why), 6, rows)

    assert stored.effects()[SLICES[0].device] == "NoExecute"
    assert stored.effects().get(SLICES[1].device) != "NoExecute"
    assert f"{SLICES[0].device} cannot be removed or lowered: 403 Forbidden" in deferred(stored)
    settle(stored, with_fields(SICK, irremovable=why), 66, rows)
    assert tick(stored, with_fields(SICK, irremovable=why), 126, rows).steps == []


def test_a_rule_that_may_not_be_removed_brings_back_none_that_is_gone() -> None:
    """By the node's date, health began later than was recorded, and has held long enough."""
    stored = Stored()
    for second, seen in ((1, SICK), (5, SICK), (30, WELL)):
        settle(stored, seen, second)
    later = mig_gpu(0, slices=2, epoch=2, epoch_started=at(20), recovery_action=action(0, 40, 1000))
    why = {rule_name(SLICES[0]): RefusedRule("403 Forbidden", at(1e6))}

    for second in (1000, 1001):
        settle(stored, with_fields(view(later), irremovable=why), second)
        assert stored.effects().keys() == {SLICES[0].device}


@pytest.mark.parametrize("wait", [0, 60])
def test_it_is_made_once_it_is_tried_again(wait: int) -> None:
    stored = Stored()
    settle(stored, FIRST_REFUSED, 1)
    settle(stored, FIRST_REFUSED, 5)

    decision = tick(stored, SICK, 10 + wait)

    assert [step.rule.effect for step in decision.steps if isinstance(step, CreateRule)] == [
        "NoSchedule"
    ]
    settle(stored, SICK, 10 + wait)
    assert sorted(stored.effects().values()) == ["NoExecute", "NoSchedule"]
    settle(stored, SICK, 10 + wait + timedelta(seconds=4).total_seconds())
    assert set(stored.effects().values()) == {"NoExecute"}


def test_a_gpu_whose_name_has_a_rule_that_cannot_go_gets_a_decision_all_the_same() -> None:
    """Of the other GPU an object cannot be read, and its name is this one's since a boot."""
    stored = Stored()
    for second in (1, 5):
        settle(stored, view(dead(0), gpu(1)), second)
    well = gpu(0, minor=1, epoch=2, epoch_started=at(15), recovery_action=action(0, 16, 17))
    unread = frozenset({stored.incident.name})

    for second in (20, 25, 60):
        settle(stored, with_fields(view(well, dead(1, minor=0)), unread=unread), second)

    other = stored.incidents[f"{uuid(1).lower()}-1"].status
    assert (other.phase, other.repair.needs) == ("Suspected", "NodeReboot")
    assert f"it has the rule of {uuid(0)}, which cannot go now" in other.message
