"""In which order the steps for a node are taken."""

from typing import Any

import msgspec
import pytest

from remediator.model.incident_status import AffectedPod, Hardware, Target
from remediator.plan.steps import (
    ChangeRule,
    CreateRule,
    DeleteIncident,
    DeleteRule,
    EvictPod,
    OpenIncident,
    Step,
    WriteNodeConditions,
    WriteStatus,
    carries_proof,
    goes_on,
    in_order,
)
from tests.remediator.builders import (
    DRIVER,
    NODE,
    at,
    incident,
    make_status,
    repair_request,
    rule,
    uuid,
)

TAINTED = incident()
EVICTS = ChangeRule(rule(0, uid="u"), rule(0, "NoExecute"))
EVICTED = EvictPod(uuid(0), AffectedPod("team", "train-0", "claim-of-train-0", "gpu-0"))


@pytest.mark.parametrize(
    ("first", "then"),
    [
        pytest.param(CreateRule(rule(1)), WriteStatus(TAINTED, TAINTED.status), id="taint, record"),
        pytest.param(CreateRule(rule(1)), DeleteRule(rule(2), ""), id="taint, untaint"),
        pytest.param(CreateRule(rule(1)), EVICTS, id="taint, evict"),
        pytest.param(OpenIncident(TAINTED), EVICTS, id="open the incident, evict"),
        pytest.param(EVICTS, WriteStatus(TAINTED, TAINTED.status), id="evict, record"),
        pytest.param(WriteStatus(TAINTED, TAINTED.status), EVICTED, id="record, evict a pod"),
        pytest.param(EVICTED, WriteNodeConditions(NODE, ()), id="evict a pod, call for a repair"),
        pytest.param(DeleteRule(rule(2), ""), DeleteIncident(TAINTED), id="untaint, prune"),
    ],
)
def test_the_order_of_two_steps_is_the_same_in_whatever_order_they_were_found(
    first: Step, then: Step
) -> None:
    assert in_order([first, then]) == in_order([then, first]) == [first, then]


RECORDS = WriteStatus(TAINTED, incident(phase="Tainted").status)
FILLS = WriteStatus(TAINTED, TAINTED.status)
ONE, OTHER = (Target(DRIVER, NODE, f"gpu-{n}", uuid(n)) for n in (1, 2))
OPENS_FOR_BOTH = OpenIncident(incident(devices=(ONE, OTHER)))


@pytest.mark.parametrize("failed", [CreateRule(rule(1)), EVICTS, RECORDS, FILLS])
def test_untainting_waits_for_no_step_that_failed(failed: Step) -> None:
    assert goes_on(DeleteRule(rule(2), ""), failed)


@pytest.mark.parametrize(
    "failed", [DeleteRule(rule(2), ""), ChangeRule(rule(2, "NoExecute"), rule(2))]
)
@pytest.mark.parametrize("step", [CreateRule(rule(1)), OPENS_FOR_BOTH, RECORDS, EVICTS, EVICTED])
def test_nothing_waits_for_an_untaint_that_failed(step: Step, failed: Step) -> None:
    assert goes_on(step, failed)


SLICES = (Hardware(uuid="a", effect="NoSchedule", fault="contained", cause="xid-94"),) * 2
CALLED = repair_request(at(0), called_time=at(1))
PROOFS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a source has named another slice": ({"hardware": SLICES}, {"hardware": ()}),
    "recovery is verified": ({}, {"released_at": at(1)}),
    "a call was seen": ({"request": repair_request(at(0))}, {"request": CALLED}),
    "another boot has answered a call": ({"request": CALLED}, {"answered": 1}),
}
"""What a status records that can be seen nowhere else once the next writes are made."""


@pytest.mark.parametrize("proof", PROOFS)
def test_what_is_about_to_be_seen_no_more_is_stored_at_once(proof: str) -> None:
    before, after = (make_status(**fields) for fields in PROOFS[proof])
    stored = msgspec.structs.replace(TAINTED, status=before)
    assert carries_proof(WriteStatus(stored, after))
    assert not carries_proof(WriteStatus(stored, before))
    assert goes_on(WriteStatus(stored, after), EVICTS)
    assert not goes_on(WriteStatus(stored, after), WriteStatus(stored, before))


def test_after_a_rule_that_failed_the_others_are_made_and_get_their_incident() -> None:
    failed = CreateRule(rule(1))

    assert goes_on(CreateRule(rule(2)), failed)
    assert goes_on(OPENS_FOR_BOTH, failed)
    # Where nothing is tainted the incident waits for the next decision.
    assert not goes_on(OpenIncident(incident(devices=(ONE,))), failed)


@pytest.mark.parametrize("step", [CreateRule(rule(2, "NoExecute")), EVICTS, RECORDS, EVICTED])
@pytest.mark.parametrize("failed", [CreateRule(rule(1)), FILLS])
def test_what_harms_or_records_waits_for_each_rule_and_status(step: Step, failed: Step) -> None:
    assert not goes_on(step, failed)
