"""Kubernetes Events, as values: stable reasons, one sentence, no posting. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Literal

import msgspec

from kubeapi.event import Regarding, Source, event_object
from remediator.model.claim import ADMIN, EXTENDED_RESOURCE, GANG, may_stay
from remediator.model.incident_status import PODS_LIMIT, AffectedPod
from remediator.model.node import REPAIR_NEEDED
from remediator.model.taint_rule import EVICTING
from remediator.plan import history, overrides
from remediator.plan.board import Board
from remediator.plan.evictable import kind_passed_by
from remediator.plan.needs import NODE_REPAIRS
from remediator.plan.node_condition import HELD as NODE_HELD
from remediator.plan.node_condition import (
    NOTHING_NEEDED,
    OTHER_REPAIR,
    SWITCHED_OFF,
    VERIFYING,
    WAITING,
)
from remediator.plan.phase import kernel
from remediator.plan.pods import drainer_of
from remediator.plan.stages import Planned
from remediator.plan.steps import Step, WriteNodeConditions, WriteStatus
from remediator.plan.view import NodeView
from remediator.plan.words import some
from remediator.policy.table import AT_ONCE
from remediator.policy.windows import moment

FOREIGN_DEVICE = "ForeignDevice"
"""A node reports a GPU that another node reports or publishes."""
PHASE_REASONS = {
    "Suspected": "DeviceSuspected",
    "Tainted": "DeviceTainted",
    "Evicting": "DeviceEvicting",
    "Drained": "DeviceDrained",
    "Repairing": "DeviceRepairing",
    "Verifying": "DeviceVerifying",
    "Recovered": "DeviceRecovered",
    "NeedsHuman": "DeviceNeedsHuman",
    "Closed": "DeviceIncidentClosed",
}
HELD = "ActionDeferred"
REPAIR_DEFERRED = "DeviceRepairDeferred"
RELAPSED = "DeviceRelapsed"
INTENT = "Intent"
"""Begins the reason that reports the state of a user's intent: `IntentInForce` and so on."""
POD_PLANNED = "PodEvictionPlanned"
"""A taint stands whose pods are evicted: the message has the time, so that the pod can
checkpoint."""
POD_EVICTED = "PodEvicted"
POD_EVENTS_AT_ONCE = PODS_LIMIT
"""Of one plan: as many as the incident names."""
NAMESPACE = "kube-system"
"""Events about cluster-scoped objects live here: they name pods of all tenants, who may read
`default`. events.k8s.io/v1 takes these two namespaces alone, and v1 only `default`."""
_REPORTED_CONDITIONS = {"Deferred": HELD, "RepairDeferred": REPAIR_DEFERRED}
"""Conditions of an incident of which each change is reported."""
CONDITION_REASONS = frozenset(
    {*NODE_REPAIRS.values(), WAITING, NODE_HELD, VERIFYING, OTHER_REPAIR, NOTHING_NEEDED}
    | {SWITCHED_OFF}
)
"""Reasons of the Node's condition: an Event on the Node carries the same."""
_NO_TROUBLE = frozenset({VERIFYING, OTHER_REPAIR, NOTHING_NEEDED, SWITCHED_OFF})
_GOOD = frozenset({"Verifying", "Recovered", "InForce", "Expired"})
_SOURCE = Source("draguard.dev/remediator", "draguard-remediator", "Remediate")
_GROUPS = {"Node": "v1", "Pod": "v1", "DeviceIncident": "draguard.dev/v1alpha1"}


class Event(msgspec.Struct, frozen=True):
    kind: Literal["Node", "DeviceIncident", "Pod"]
    name: str
    uid: str
    """Of the object; of a Node its name, as kubelets do it, so that `kubectl describe` finds it."""
    reason: str
    message: str
    type: Literal["Normal", "Warning"] = "Warning"
    namespace: str = ""
    """Of the object; "" for one without."""
    incident: str = ""
    """Name of the incident whose written status it reports; "" where it reports none."""

    @property
    def posted_in(self) -> str:
        """Namespace that the Event itself lives in."""
        return self.namespace or NAMESPACE


def of_decision(
    view: NodeView, steps: Iterable[Step], pairs: Iterable[tuple[Board, Planned]]
) -> tuple[Event, ...]:
    """Return all events of one decision about a node."""
    planned = tuple(steps)
    return (*of_view(view), *of_steps(planned, pairs), *of_condition(view, planned))


def of_view(view: NodeView) -> tuple[Event, ...]:
    """Return the events for a node's state, whatever is done about it."""
    reported = {gpu.uuid for gpu in (view.agent.report.gpus if view.agent.report else ())}
    contested = sorted(reported & view.slices.elsewhere.keys())
    if not contested:
        return ()
    rivals = sorted({node for uuid in contested for node in view.slices.elsewhere[uuid]})
    message = (
        f"{some(contested)}: claimed by {view.node} and by {some(rivals)}; unknown for all of "
        "them, nothing is tainted or untainted; one of the reports is wrong"
    )
    return (Event("Node", view.node, view.node, FOREIGN_DEVICE, message),)


def of_condition(view: NodeView, steps: Iterable[Step]) -> Iterator[Event]:
    """Yield an event for each change of status or reason of the Node's condition.

    The event has the time of the change in it: a second change is another event.
    """
    stored = view.facts.conditions if view.facts else ()
    before = {condition.type: (condition.status, condition.reason) for condition in stored or ()}
    written = (step.conditions for step in steps if isinstance(step, WriteNodeConditions))
    for now in (
        condition
        for conditions in written
        for condition in conditions
        # The alias says the same for another reader: one Event is enough.
        if condition.type == REPAIR_NEEDED
    ):
        if before.get(now.type) != (now.status, now.reason):
            since = f" since {now.last_transition_time:%FT%TZ}" if now.last_transition_time else ""
            text = f"{now.type} is {now.status}{since}: {now.message}"
            kind = "Normal" if now.reason in _NO_TROUBLE else "Warning"
            yield Event("Node", view.node, view.node, now.reason, text, kind)


def of_steps(
    steps: Iterable[Step], pairs: Iterable[tuple[Board, Planned]] = ()
) -> tuple[Event, ...]:
    """Return the events for what a plan writes down: on the incident, its node and the pods."""
    known = {planned.uuid: (board, planned) for board, planned in pairs}
    writes = [step for step in steps if isinstance(step, WriteStatus)]
    found = [
        event
        for step in writes
        for reason, message, kind in _changes(step)
        for event in _on_both(step, reason, message, kind)
    ]
    pods = [
        event
        for step in writes
        if step.incident.spec.uuid in known
        for event in _on_pods(step, *known[step.incident.spec.uuid])
    ]
    return (*found, *pods[:POD_EVENTS_AT_ONCE])


def _changes(step: WriteStatus) -> Iterator[tuple[str, str, str]]:
    """Return reason, sentence, and the word that marks it as good news or not."""
    old, new = step.incident.status, step.status
    if not new.timeline:
        return  # what was found, and nothing that was decided: that comes with the next write
    if new.phase != old.phase or not old.timeline:
        # A phase that another version wrote is kept, and has no reason here.
        yield PHASE_REASONS.get(new.phase, "DeviceIncident"), new.message, new.phase
    for line in new.fault.evidence if not old.timeline else ():
        if line.startswith(history.RELAPSE):
            yield RELAPSED, line, ""
    was = {entry.type: entry.message for entry in old.conditions}
    for condition in new.conditions:
        # Without the figures, which change with each look.
        known = kernel(condition.message) == kernel(was.get(condition.type, ""))
        if condition.type in _REPORTED_CONDITIONS and condition.message and not known:
            yield _REPORTED_CONDITIONS[condition.type], condition.message, ""
    for record in overrides.changes(old.policy.intents, new.policy.intents):
        yield f"{INTENT}{record.state}", overrides.in_words(record), record.state


def _on_both(step: WriteStatus, reason: str, message: str, word: str) -> Iterator[Event]:
    """Report it on the incident, and on the node, where users look first."""
    incident, kind = step.incident, "Normal" if word in _GOOD else "Warning"
    node = step.status.stay.node or incident.node
    text = f"{node} {incident.spec.uuid}: {message}"
    name, uid = incident.name, incident.metadata.uid
    yield Event("DeviceIncident", name, uid, reason, text, kind, incident=name)
    yield Event("Node", node, node, reason, f"{name}: {text}", kind, incident=name)


def _on_pods(step: WriteStatus, board: Board, planned: Planned) -> Iterator[Event]:
    """Warn pods that will be evicted when the taint stands or join later; report evicted ones."""
    old, new = step.incident.status, step.status
    # A taint that begins anew has a later time of eviction, so its pods are warned once more.
    noted = (
        {affected.uid for affected in old.scope.affected}
        if new.eviction.tainted_at == old.eviction.tainted_at
        else set[str]()
    )
    # The same words again are the same Event, so no pod is warned twice.
    begins = new.eviction.evicting_at is not None and old.eviction.evicting_at is None
    emptied = begins and bool(planned.granted.emptying)
    if new.eviction.tainted_at is not None and (emptied or planned.demanded.goal in EVICTING):
        for pod in new.scope.affected:
            if (emptied or pod.uid not in noted) and not _is_spared(
                pod, board, planned, new.fault.fault_class
            ):
                why = f"will be evicted: {_why(step, pod)}{_when(new.eviction.tainted_at, planned)}"
                yield from _on_pod(step, pod, POD_PLANNED, why)
    for pod in new.eviction.evicted:
        if pod not in old.eviction.evicted and not may_stay(pod, new.fault.fault_class):
            yield from _on_pod(step, pod, POD_EVICTED, f"evicted: {_why(step, pod)}")


def _is_spared(pod: AffectedPod, board: Board, planned: Planned, fault: str) -> bool:
    """Whether a pod stays: for want of a device, by its toleration, or passed by."""
    if pod.via == GANG or may_stay(pod, fault) or _is_left_to_others(pod, board):
        return True
    # NoExecute ends these as well: the eviction controller looks neither at admin access nor at the
    # owner.
    only_requests = planned.demanded.goal == "Evict"
    return only_requests and (pod.via == ADMIN or bool(kind_passed_by(board, pod.uid)))


def _is_left_to_others(pod: AffectedPod, board: Board) -> bool:
    """Whether another system drains a pod: a NoExecute that stands reaches it by its claim."""
    if not drainer_of(board, pod.uid):
        return False
    stands = {str(rule.device) for rule in board.rules.stored if rule.effect == "NoExecute"}
    return pod.device not in stands or pod.via == EXTENDED_RESOURCE


def _when(tainted_at: datetime, planned: Planned) -> str:
    """Return when evictions begin at the earliest, and what follows."""
    notice = planned.demanded.eviction.notice
    if notice is None:
        return ""
    plan, begins = notice.soonest, tainted_at + notice.settle
    if plan == AT_ONCE:
        return f"; not before {moment(begins)}"
    ends = moment(begins + plan.within)
    then = f"; deleted not before {ends}" if plan.then == "NoExecute" else ""
    return f"; by the Eviction API, not before {moment(begins)}{then}"


def _why(step: WriteStatus, pod: AffectedPod) -> str:
    how = {ADMIN: " by admin access", EXTENDED_RESOURCE: " by an extended resource"}
    held = f"it holds {pod.device}{how.get(pod.via, '')}"
    return f"{held}, and {step.status.fault.cause} was seen ({step.incident.name})"


def _on_pod(step: WriteStatus, pod: AffectedPod, reason: str, message: str) -> Iterator[Event]:
    if pod.pod and pod.uid:
        yield Event(
            "Pod",
            pod.pod,
            pod.uid,
            reason,
            message,
            namespace=pod.namespace,
            incident=step.incident.name,
        )


def manifest(event: Event, now: datetime, labels: Mapping[str, str]) -> dict[str, object]:
    """Return the object of events.k8s.io/v1 to create."""
    regarding = Regarding(
        api_version=_GROUPS[event.kind],
        kind=event.kind,
        name=event.name,
        uid=event.uid,
        namespace=event.namespace,
    )
    return event_object(
        regarding,
        _SOURCE,
        reason=event.reason,
        note=event.message,
        kind=event.type,
        at=now,
        namespace=event.posted_in,
        labels=labels,
    )
