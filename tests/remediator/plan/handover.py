"""Short ways to write down what a handover is decided on."""

from datetime import datetime, timedelta
from typing import Any, Literal

import msgspec

from kubeapi.types import ObjectMeta
from remediator.diagnose.fault import Fault, Healthy, Need, Sick, Unknown, Verdict
from remediator.model.claim import Claim
from remediator.model.incident import Incident, IncidentSpec
from remediator.model.node import REPAIR_NEEDED, NodeCondition, NodeFacts
from remediator.model.pod import PodFacts
from remediator.plan.board import Board
from remediator.plan.node_condition import (
    HandoverOptions,
    conditions,
)
from remediator.plan.node_decision import decide_node
from remediator.plan.stages import Deferral, Planned, Repair
from remediator.plan.steps import EvictPod
from remediator.plan.view import NodeView
from remediator.plan.words import NEEDS
from remediator.policy.limits import LIFTED
from remediator.policy.table import Policy
from tests.remediator import playing
from tests.remediator.builders import (
    NODE,
    Stored,
    at,
    gpu,
    make_board,
    make_granted,
    make_status,
    policy,
    repair_request,
    uuid,
    view,
    with_fields,
)

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
    deferred: str = "",
    call_deferred: str = "",
    closing: bool = False,
    cause: str = "xid-79",
    mode: str = "Enforce",
    since: datetime | None = at(0),  # noqa: B008 - immutable
    insists: bool = True,
) -> tuple[Board, Planned]:
    """A GPU with an open incident, and what is desired for it."""
    name = f"{uuid(index).lower()}-1"
    request = repair_request(since, insists=insists, need=NEEDS[needs]) if since else None
    incident = Incident(
        ObjectMeta(name=name, uid=f"uid-{name}"),
        IncidentSpec(NODE, uuid(index)),
        make_status(
            fault_class="node",
            cause=cause,
            mode=mode,
            needs=NEEDS[needs],
            request=request,
        ),
    )
    board = make_board(verdict, index, incidents=(incident,))
    granted = make_granted(
        uuid(index),
        incident=incident,
        repair=Repair(
            needs=needs,
            calls=needs if isinstance(verdict, Sick) else "nothing",
            insists=needs if insists else "nothing",
        ),
        call=Deferral("Budget", call_deferred) if call_deferred else None,
        deferral=Deferral("Budget", deferred) if deferred else None,
        kind="closes" if closing else "stands",
    )
    return board, Planned(granted=granted)


def but(planned: Planned, **demanded: Any) -> Planned:
    """Return the same where something else is demanded."""
    demand = with_fields(planned.demanded, **demanded)
    return Planned(granted=msgspec.structs.replace(planned.granted, demanded=demand))


def node(
    *stored: NodeCondition, pods: tuple[PodFacts, ...] | None = (), claims: tuple[Claim, ...] = ()
) -> NodeView:
    facts = NodeFacts(name=NODE, uid="uid-node", conditions=stored)
    return view(gpu(0), gpu(1), facts=facts, pods=pods, claims=claims)


def pod(name: str, **fields: object) -> PodFacts:
    return playing.pod(name, **({"claims": (f"claim-of-{name}",)} | fields))


def reported(
    seen: NodeView,
    *pairs: tuple[Board, Planned],
    seconds: float = 60,
    options: HandoverOptions = ON,
    stopped: str = "",
) -> dict[str, NodeCondition]:
    written = conditions(seen, pairs, at(seconds), options, stopped)
    assert all(write.node == NODE for write in written)
    return {it.type: it for write in written for it in write.conditions}


def repair(
    seen: NodeView, *pairs: tuple[Board, Planned], seconds: float = 60, stopped: str = ""
) -> NodeCondition:
    return reported(seen, *pairs, seconds=seconds, stopped=stopped)[REPAIR_NEEDED]


def stored(
    status: Literal["True", "False"] = "True", kind: str = REPAIR_NEEDED, **fields: object
) -> NodeCondition:
    standard = NodeCondition(
        type=kind,
        status=status,
        reason="NodeRebootNeeded",
        message=f"node-reboot needed by {uuid(0)}; as it was",
        last_transition_time=at(-500),
    )
    return with_fields(standard, **fields)


def reconciled(
    stored: Stored,
    seen: NodeView,
    seconds: float,
    rows: Policy | None = None,
    options: HandoverOptions = ON,
    *,
    node_uid: str = "u",
    **fleet: object,
) -> tuple[str, str, str]:
    """Reconcile until nothing is left to do but to request evictions; return what the Node says."""
    for _ in range(8):
        conditions = tuple(stored.conditions.values())
        facts = NodeFacts(name=seen.node, uid=node_uid, conditions=conditions)
        full = msgspec.structs.replace(stored.over(seen), facts=facts, nodes_known=True)
        around = with_fields(stored.fleet(), **fleet)
        others = (*stored.incidents.values(), *around.incidents)
        around = with_fields(
            around, incidents=tuple({incident.name: incident for incident in others}.values())
        )
        decision = decide_node(full, around, rows or policy(LIFTED), at(seconds), options)
        for step in decision.steps:
            stored.take(step, at(seconds))
        if all(isinstance(step, EvictPod) for step in decision.steps):
            one = stored.conditions.get(REPAIR_NEEDED)
            return (one.status, one.reason, one.message) if one else ("", "", "")
    raise AssertionError("never settles")
