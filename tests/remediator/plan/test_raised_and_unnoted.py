"""What counts for the caps between a write and the status that notes it."""

from datetime import datetime

import msgspec

from remediator.model.incident_status import EVICTION_BLOCKED, Condition, RuleRecord
from remediator.model.taint_rule import Rule
from remediator.plan.view import Fleet
from remediator.policy.limits import LIFTED, Cap, Caps
from tests.remediator.builders import at, evictions
from tests.remediator.plan.fleets import NOW, an_incident, desired, grant, rule, stored


def test_a_rule_that_was_raised_counts_before_its_incident_has_noted_it() -> None:
    """Under Evict it waited for a PodDisruptionBudget, which counts for no cap."""
    (waited,) = stored(rule("a0", "Evict"))
    raised = msgspec.structs.replace(waited, effect="NoExecute")
    blocked = Condition(
        type=EVICTION_BLOCKED, status="True", reason="Refused", last_transition_time=NOW
    )
    noted = (RuleRecord(waited.name, waited.uid, str(waited.device), waited.effect),)
    incident = an_incident(
        "a0",
        by_device=evictions(at(-600)),
        evicting_at=at(-600),
        rules=noted,
        conditions=(blocked,),
    )
    one_a_node = msgspec.structs.replace(LIFTED, evict=Caps(node=Cap(1)))

    def held(now: Rule) -> bool:
        fleet = Fleet(rules=(now,), incidents=(incident,))
        return bool(grant(one_a_node, fleet, desired("a1", "NoExecute"))["a1"].deferred)

    assert not held(waited)
    assert held(raised)


def test_an_incident_that_has_lost_its_status_keeps_its_place_in_the_caps() -> None:
    """Its rule evicts pods: that no eviction is recorded proves nothing."""
    (evicting,) = stored(rule("a0", "Evict"))
    noted = (RuleRecord(evicting.name, evicting.uid, str(evicting.device), evicting.effect),)
    one_a_node = msgspec.structs.replace(LIFTED, evict=Caps(node=Cap(1)))

    def held(evicting_at: datetime | None) -> bool:
        incident = an_incident("a0", rules=noted, evicting_at=evicting_at)
        fleet = Fleet(rules=(evicting,), incidents=(incident,))
        return bool(grant(one_a_node, fleet, desired("a1", "Evict"))["a1"].deferred)

    assert held(None)
    assert not held(at(-600)), "its evictions are over"
