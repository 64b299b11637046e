"""A new incident inherits what a user wants for its GPU, until that expires or is removed."""

import msgspec
import pytest

from remediator.model.incident import Incident, with_intent
from remediator.model.intent import LASTING, Intent, Kind, in_words
from remediator.plan.node_decision import decide_node
from remediator.plan.steps import OpenIncident
from tests.remediator.builders import (
    LASTS,
    RESET,
    Stored,
    action,
    at,
    gpu,
    policy,
    until,
    view,
    with_fields,
    xid,
)
from tests.remediator.playing import ENFORCE, settle, tick
from tests.remediator.test_lost_status import wiped
from tests.remediator.test_pending_remap import REMAP


def first(kind: Kind, intent: Intent) -> Stored:
    """An incident with an intent, and over."""
    stored = Stored()
    settle(stored, view(gpu(0, recovery_action=RESET)), 1)
    stored.intend(kind, intent)
    for second in (10, 700):
        settle(stored, view(gpu(0, recovery_action=action(0, 5, 5))), second)
    assert not stored.incident.open
    return stored


def again(stored: Stored, second: float) -> Incident:
    """The same board fails again."""
    for later in (second, second + 4):
        settle(stored, view(gpu(0, recovery_action=action(1, second - 1, second - 1))), later)
    return stored.incidents[max(stored.incidents)]


def over(stored: Stored, second: float) -> None:
    for later in (second, second + 700):
        healthy = gpu(0, recovery_action=action(0, second - 1, second - 1))
        settle(stored, view(healthy), later)


@pytest.mark.parametrize("kind", LASTING)
def test_the_next_incident_is_created_with_it_and_says_from_where(kind: Kind) -> None:
    stored = first(kind, LASTS)

    next_one = again(stored, 800)

    assert stored.effects() == {}
    assert next_one.open
    assert next_one.spec.intents == {kind: LASTS}
    assert next_one.spec.inherited_from == min(stored.incidents)
    received = in_words(kind, LASTS)
    assert [entry.text for entry in next_one.status.timeline].count(f"in force: {received}") == 1
    assert received in next_one.status.message


def test_the_next_incident_is_acted_on_when_it_expires() -> None:
    stored = first("Ignore", until(805))

    next_one = again(stored, 800)
    assert stored.effects() == {}
    for second in (805, 809):
        settle(stored, view(gpu(0, recovery_action=action(1, 799, 799))), second)

    assert stored.effects() == {"gpu-0": "NoExecute"}
    assert [intent.state for intent in stored.incidents[next_one.name].status.policy.intents] == [
        "Expired"
    ]


def test_the_next_incident_inherits_nothing_that_has_expired() -> None:
    stored = first("Ignore", until(790))

    next_one = again(stored, 800)

    assert stored.effects() == {"gpu-0": "NoExecute"}
    assert next_one.spec.intents == {}
    assert next_one.spec.inherited_from is msgspec.UNSET


def test_what_is_removed_from_the_next_incident_does_not_come_back_in_the_third() -> None:
    stored = first("Ignore", LASTS)
    next_one = again(stored, 800)
    stored.intend("Ignore", None, next_one.name)
    for second in (810, 814):
        settle(stored, view(gpu(0, recovery_action=action(1, 799, 799))), second)
    assert stored.effects() == {"gpu-0": "NoExecute"}

    over(stored, 820)
    assert not stored.incidents[next_one.name].open
    third = again(stored, 1600)

    assert len(stored.incidents) == 3
    assert third.spec.intents == {}
    assert stored.effects() != {}


def test_the_next_incident_hands_it_on_to_the_third() -> None:
    stored = first("Ignore", LASTS)
    second = again(stored, 800)
    over(stored, 820)

    third = again(stored, 1600)

    assert third.spec.inherited_from == second.name
    assert stored.effects() == {}


def test_the_next_incident_inherits_what_was_written_into_a_duplicate() -> None:
    stored = first("Ignore", LASTS)
    leading = stored.incident
    stored.intend("Ignore", None)
    meta = msgspec.structs.replace(leading.metadata, name=leading.name[:-1] + "2", uid="uid-2")
    twin = with_fields(leading.status, duplicate_of=leading.name)
    stored.incidents[meta.name] = Incident(meta, leading.spec, twin)

    next_one = again(stored, 800)

    assert next_one.spec.intents == {"Ignore": LASTS}
    assert next_one.spec.inherited_from == leading.name
    assert stored.effects() == {}


def test_the_next_incident_needs_its_own_confirmation_of_a_repair() -> None:
    stored = first("RepairConfirmed", LASTS)

    next_one = again(stored, 800)

    assert stored.effects() == {"gpu-0": "NoExecute"}
    assert next_one.status.policy.intents == ()


def test_what_a_user_has_taken_back_does_not_count_again_when_all_statuses_are_lost() -> None:
    """The oldest incident still carries it; the one that the rules name leads."""
    stored = first("Ignore", LASTS)
    second = again(stored, 800)
    stored.intend("Ignore", None, second.name)
    sick = view(gpu(0, recovery_action=action(1, 799, 799)))
    for moment in (810, 815, 820):
        settle(stored, sick, moment)
    assert stored.effects() == {"gpu-0": "NoExecute"}

    wiped(stored)
    for moment in (900, 901, 930):
        settle(stored, sick, moment)
        assert stored.effects() == {"gpu-0": "NoExecute"}


def test_a_closed_incident_that_lost_its_status_lends_nothing_to_the_one_that_leads() -> None:
    stored = first("Ignore", LASTS)
    second = again(stored, 800)
    stored.intend("Ignore", None, second.name)
    sick = view(gpu(0, recovery_action=action(1, 799, 799)))
    for moment in (810, 815, 820):
        settle(stored, sick, moment)

    wiped(stored, min(stored.incidents))
    for moment in (900, 900.1, 901):
        tick(stored, sick, moment)
        assert stored.effects() == {"gpu-0": "NoExecute"}


def test_a_confirmation_that_is_read_together_with_a_new_signal_does_not_count() -> None:
    """It may have been given before that signal, while nobody looked."""
    rows, stored = policy(sticky=True), Stored()
    for second in (2, 6, 12):
        settle(stored, view(gpu(0, xid(95), recovery_action=action(1, 1, 1))), second, rows)
    for second in (1000, 1701):
        settle(stored, view(gpu(0, xid(95), recovery_action=action(0, 999, 999))), second, rows)
    assert stored.incident.status.phase == "NeedsHuman"

    stored.intend("RepairConfirmed", LASTS)
    again = xid(95, seen=1805, count=2)
    settle(stored, view(gpu(0, again, recovery_action=action(1, 1806, 1806))), 1810, rows)
    for second in (1900, 2600):
        settle(stored, view(gpu(0, again, recovery_action=action(0, 1890, 1890))), second, rows)

    assert stored.incident.open
    assert stored.incident.status.phase == "NeedsHuman"


def of_a_remap() -> Stored:
    """An ignored pending remap, and over."""
    stored = Stored()
    settle(stored, view(gpu(0, memory=REMAP)), 1)
    stored.intend("Ignore", LASTS)
    for second in (5, 10):
        settle(stored, view(gpu(0, memory=REMAP)), second)
    for second in (20, 700):
        settle(stored, view(gpu(0)), second)
    assert not stored.incident.open
    return stored


def states(incident: Incident) -> list[str]:
    return [intent.state for intent in incident.status.policy.intents]


def test_an_ignored_class_is_inherited_too_and_a_worse_one_overtakes_it() -> None:
    stored = of_a_remap()

    next_one = again(stored, 800)

    assert stored.effects() == {"gpu-0": "NoExecute"}
    assert states(next_one) == ["Overtaken"]
    assert "overtaken by a fault worse than pending" in {
        entry.text.partition(":")[0] for entry in next_one.status.timeline
    }


def test_a_crash_while_the_next_incident_is_opened_widens_no_ignored_class() -> None:
    stored = of_a_remap()
    sick = view(gpu(0, recovery_action=action(1, 799, 799)))
    decision = decide_node(stored.over(sick), stored.fleet(), ENFORCE, at(800))
    for step in decision.steps:
        if isinstance(step, OpenIncident):
            stored.take(step, at(800))

    for second in (801, 805):
        settle(stored, sick, second)

    assert stored.effects() == {"gpu-0": "NoExecute"}
    assert states(stored.incidents[max(stored.incidents)]) == ["Overtaken"]


def test_one_that_was_overtaken_is_not_inherited() -> None:
    stored = of_a_remap()
    again(stored, 800)
    over(stored, 820)

    third = again(stored, 1600)

    assert third.spec.intents == {}
    assert stored.effects() != {}


def test_an_ignored_class_is_that_of_the_duplicate_in_which_it_was_written() -> None:
    stored = Stored()
    settle(stored, view(gpu(0, memory=REMAP)), 1)
    leading = stored.incident
    meta = msgspec.structs.replace(leading.metadata, name=leading.name[:-1] + "2", uid="uid-2")
    twin = with_fields(leading.status, fault_class="gpu", cause="xid-95")
    stored.put_incident(with_intent(Incident(meta, leading.spec, twin), "Ignore", LASTS))

    for second in (5, 9):
        settle(stored, view(gpu(0, memory=REMAP, recovery_action=action(1, 4, 4))), second)

    assert states(stored.incidents[leading.name]) == ["InForce"]
    assert stored.effects() == {}
