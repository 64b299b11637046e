"""Whether a pod still uses what an incident drains."""

import pytest

from exporter.model.device import Device
from kubeapi.types import ObjectMeta
from remediator.diagnose.fault import Unknown
from remediator.model.incident import Incident, IncidentSpec
from remediator.model.incident_status import AffectedPod, ScopeStatus, Target
from remediator.model.taint_rule import Rule
from remediator.plan.pods import empty_since
from tests.remediator.builders import DRIVER, NODE, at, make_board, make_granted, make_status, uuid
from tests.remediator.playing import pod

BEFORE, NOW = "gpu-0", "gpu-1"
"""The names of the GPU: from the first pods are evicted, under the other one stands NoSchedule."""


def under(name: str) -> AffectedPod:
    return AffectedPod("team", "train-0", "claim", f"{DRIVER}/{NODE}/{name}", "u-train-0")


@pytest.mark.parametrize("running", [True, False])
def test_a_gpu_is_not_empty_of_a_pod_that_its_incident_does_not_name_yet(*, running: bool) -> None:
    scope = tuple(Target(DRIVER, NODE, name, uuid(0)) for name in (BEFORE, NOW))
    status = make_status(evicting_at=at(0), scope=ScopeStatus("the GPU under two names", scope))
    incident = Incident(ObjectMeta(name="one"), IncidentSpec(NODE, uuid(0)), status)
    board = make_board(
        Unknown("it does not answer"), holders=(under(NOW),), pods=(pod(running=running),)
    )
    evicts = Rule(
        device=Device(DRIVER, NODE, BEFORE),
        effect="NoExecute",
        fault="lost",
        cause="xid-79",
        incident="one",
        uuid=uuid(0),
        gpu=uuid(0),
        node=NODE,
    )
    granted = make_granted(uuid(0), evicts)

    assert empty_since(board, granted, incident, at(5)) == (None if running else at(5))
