"""Short ways to write down what a handover is decided on."""

from datetime import datetime, timedelta
from typing import Literal

import msgspec

from exporter.report import ObjectMeta
from remediator.decide.case import Case, Desired
from remediator.decide.handover import (
    HandoverOptions,
    conditions,
)
from remediator.decide.view import NodeView
from remediator.judge.fault import Fault, Healthy, Need, Sick, Unknown, Verdict
from remediator.objects.claims import Claim
from remediator.objects.incident import (
    Incident,
    IncidentSpec,
    IncidentStatus,
)
from remediator.objects.nodes import REPAIR_NEEDED, NodeCondition, NodeFacts
from remediator.objects.pods import PodFacts
from tests.remediator.builders import NODE, at, gpu, uuid, view

ON = HandoverOptions(enabled=True, deadline=timedelta(hours=1))
EKS = msgspec.structs.replace(ON, accelerated_hardware_ready=True)
SICK = Sick((Fault(fault_class="node", cause="xid-79", last_seen=at(0), evidence="XID 79"),))
HEALTHY = Healthy(at(50), "recovery action 0")
UNKNOWN = Unknown("no report")


def pair(
    index: int = 0,
    needs: Need = "node-reboot",
    verdict: Verdict = SICK,
    *,
    held: str = "",
    call_held: str = "",
    closing: bool = False,
    cause: str = "xid-79",
    mode: str = "enforce",
    since: datetime | None = at(0),  # noqa: B008 - immutable
) -> tuple[Case, Desired]:
    """A GPU with an open incident, and what is wished for it."""
    name = f"{uuid(index).lower()}-1"
    incident = Incident(
        ObjectMeta(name=name, uid=f"uid-{name}"),
        IncidentSpec(NODE, uuid(index), "node", cause),
        IncidentStatus(mode=mode, needs=needs, needs_since=since),
    )
    case = Case(node=NODE, uuid=uuid(index), verdict=verdict, incidents=(incident,))
    return case, Desired(
        uuid=uuid(index),
        incident=incident,
        needs=needs,
        calls=needs if isinstance(verdict, Sick) else "nothing",
        held=held,
        call_held=call_held,
        closing=closing,
    )


def node(
    *stored: NodeCondition, pods: tuple[PodFacts, ...] | None = (), claims: tuple[Claim, ...] = ()
) -> NodeView:
    facts = NodeFacts(name=NODE, uid="uid-node", conditions=stored)
    return view(gpu(0), gpu(1), facts=facts, pods=pods, claims=claims)


def pod(name: str, **fields: object) -> PodFacts:
    standard = PodFacts(namespace="team", name=name, uid=f"u-{name}", claims=(f"claim-of-{name}",))
    return msgspec.structs.replace(standard, **fields)


def told(
    seen: NodeView,
    *pairs: tuple[Case, Desired],
    seconds: float = 60,
    options: HandoverOptions = ON,
    stopped: str = "",
) -> dict[str, NodeCondition]:
    written = conditions(seen, pairs, at(seconds), options, stopped)
    assert all(one.node == NODE for one in written)
    return {one.condition.type: one.condition for one in written}


def repair(
    seen: NodeView, *pairs: tuple[Case, Desired], seconds: float = 60, stopped: str = ""
) -> NodeCondition:
    return told(seen, *pairs, seconds=seconds, stopped=stopped)[REPAIR_NEEDED]


def stored(
    status: Literal["True", "False"] = "True", kind: str = REPAIR_NEEDED, **fields: object
) -> NodeCondition:
    standard = NodeCondition(
        type=kind,
        status=status,
        reason="NodeRebootNeeded",
        message="as it was",
        last_transition_time=at(-500),
    )
    return msgspec.structs.replace(standard, **fields)
