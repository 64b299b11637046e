"""In which order the steps for a node are taken."""

import pytest

from remediator.model.incident_status import AffectedPod
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
    in_order,
)
from tests.remediator.builders import NODE, incident, rule, uuid

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
