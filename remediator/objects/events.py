"""Kubernetes Events, as values: stable reasons, one sentence, no posting. Pure."""

import hashlib
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Literal

import msgspec

from remediator.decide import history, person
from remediator.decide.case import Case, Desired
from remediator.decide.plan import Step, WriteStatus
from remediator.decide.timeline import kernel
from remediator.decide.view import NodeView
from remediator.objects.answers import DOMAIN
from remediator.objects.incident import PodHold

FOREIGN_DEVICE = "ForeignDevice"
"""A node reports a GPU that another node reports or publishes."""
PHASE_REASONS = {
    "Suspected": "DeviceSuspected",
    "Fenced": "DeviceFenced",
    "Evicting": "DeviceEvicting",
    "Drained": "DeviceDrained",
    "Repairing": "DeviceRepairing",
    "Verifying": "DeviceVerifying",
    "Recovered": "DeviceRecovered",
    "NeedsHuman": "DeviceNeedsHuman",
    "Closed": "DeviceIncidentClosed",
}
HELD = "DeviceHeld"
RELAPSED = "DeviceRelapsed"
RULE_DELETED = "RuleDeletedByPerson"
ANSWER_REASONS = {
    "InForce": "AnswerTaken",
    "Expired": "AnswerExpired",
    "Unreadable": "AnswerUnreadable",
    "Overtaken": "AnswerOvertaken",
}
POD_PLANNED = "PodEvictionPlanned"
"""A fence stands whose end is NoExecute: the pod will be evicted after the settle time."""
POD_EVICTED = "PodEvicted"
POD_EVENTS_AT_ONCE = 10
"""Of one plan: a shared device may have hundreds of holders, and their list is in the status."""
NAMESPACE = "default"
"""Events about cluster-scoped objects live here."""
_GOOD = frozenset({"Verifying", "Recovered", "InForce", "Expired"})
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

    @property
    def posted_in(self) -> str:
        """Namespace that the Event itself lives in."""
        return self.namespace or NAMESPACE


def of_view(view: NodeView) -> tuple[Event, ...]:
    """Return the events that a node's state asks for, whatever is done about it."""
    reported = {gpu.uuid for gpu in (view.report.gpus if view.report else ())}
    contested = sorted(reported & view.elsewhere.keys())
    if not contested:
        return ()
    rivals = sorted({one for uuid in contested for one in view.elsewhere[uuid]})
    named = ", ".join(contested[:3]) + (" and more" if len(contested) > 3 else "")
    message = (
        f"{named}: claimed by {view.node} and by {', '.join(rivals[:3])}; unknown for all of "
        "them, nothing is tainted or released; one of the reports is wrong"
    )
    return (Event("Node", view.node, view.node, FOREIGN_DEVICE, message),)


def of_steps(
    steps: Iterable[Step], pairs: Iterable[tuple[Case, Desired]] = ()
) -> tuple[Event, ...]:
    """Return the events for what a plan writes down: on the incident, its node and the pods."""
    goals = {wish.uuid: wish.goal for _, wish in pairs}
    writes = [one for one in steps if isinstance(one, WriteStatus) and not one.before_removal]
    told = [
        event
        for step in writes
        for reason, message, kind in _news(step)
        for event in _on_both(step, reason, message, kind)
    ]
    pods = [event for step in writes for event in _on_pods(step, goals)]
    return (*told, *pods[:POD_EVENTS_AT_ONCE])


def _news(step: WriteStatus) -> Iterator[tuple[str, str, str]]:
    """Give reason, sentence, and the word that says whether it is good news."""
    old, new, spec = step.incident.status, step.status, step.incident.spec
    if new.phase != old.phase or not old.timeline:
        yield PHASE_REASONS.get(new.phase, "DeviceIncident"), new.message, new.phase
    for line in spec.evidence if not old.timeline else ():
        if line.startswith(history.RELAPSE):
            yield RELAPSED, line, ""
    was = {one.type: one.message for one in old.conditions}
    for one in new.conditions:
        if (
            one.type == "Held"
            and one.message
            and kernel(one.message) != kernel(was.get("Held", ""))
        ):
            yield HELD, one.message, ""
    before = {(one.kind, one.said): one.state for one in old.answers}
    for one in new.answers:
        if before.get((one.kind, one.said)) != one.state:
            yield ANSWER_REASONS.get(one.state, "Answer"), person.in_words(one), one.state
    known = {one.device for one in old.deleted_rules}
    for one in new.deleted_rules:
        if one.device not in known:
            until = f"{one.respected_until:%Y-%m-%dT%H:%M:%SZ}"
            yield RULE_DELETED, f"{one.device}: not made again before {until}", ""


def _on_both(step: WriteStatus, reason: str, message: str, word: str) -> Iterator[Event]:
    """Tell it on the incident, and on the node, where people look first."""
    incident, kind = step.incident, "Normal" if word in _GOOD else "Warning"
    node = incident.spec.node
    text = f"{node} {incident.spec.uuid}: {message}"
    yield Event("DeviceIncident", incident.name, incident.metadata.uid, reason, text, kind)
    yield Event("Node", node, node, reason, f"{incident.name}: {text}", kind)


def _on_pods(step: WriteStatus, goals: dict[str, str]) -> Iterator[Event]:
    """Warn who will be evicted when the fence stands, and tell who was."""
    old, new, spec = step.incident.status, step.status, step.incident.spec
    fenced = new.fenced_at not in (None, old.fenced_at)
    # The same words again are the same Event, so that nobody is warned twice.
    emptied = new.evicting_at is not None and old.evicting_at is None
    if emptied or (fenced and goals.get(spec.uuid) == "NoExecute"):
        for one in new.hit:
            if one.via != "gang" and not _may_stay(one, spec.fault):
                yield from _on_pod(one, POD_PLANNED, f"will be evicted: {_why(step, one)}")
    for one in new.evicted:
        if one not in old.evicted and not _may_stay(one, spec.fault):
            yield from _on_pod(one, POD_EVICTED, f"evicted: {_why(step, one)}")


def _may_stay(hold: PodHold, fault: str) -> bool:
    """Whether a pod tolerates our NoExecute without an end: if it is gone, it went by itself."""
    key = f"NoExecute of {DOMAIN}/{fault}"
    said = hold.tolerates.split(", ")
    return any(one in ("NoExecute", key) or one.startswith(f"{key}=") for one in said)


def _why(step: WriteStatus, hold: PodHold) -> str:
    how = {"admin": " by admin access", "extended": " by an extended resource"}.get(hold.via, "")
    spec = step.incident.spec
    return f"it holds {hold.device}{how}, and {spec.cause} was seen ({step.incident.name})"


def _on_pod(hold: PodHold, reason: str, message: str) -> Iterator[Event]:
    if hold.pod and hold.uid:
        yield Event("Pod", hold.pod, hold.uid, reason, message, namespace=hold.namespace)


def manifest(event: Event, now: datetime) -> dict[str, object]:
    """Return the object to create. The same event gets the same name, so that it is said once."""
    words = "\0".join((event.kind, event.name, event.uid, event.reason, event.message))
    digest = hashlib.sha256(words.encode()).hexdigest()[:16]
    involved = {
        "apiVersion": _GROUPS[event.kind],
        "kind": event.kind,
        "name": event.name,
        "uid": event.uid,
    }
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"draguard.{digest}", "namespace": event.posted_in},
        "involvedObject": involved | ({"namespace": event.namespace} if event.namespace else {}),
        "reason": event.reason,
        "message": event.message[:1024],
        "type": event.type,
        "source": {"component": "draguard-remediator"},
        "firstTimestamp": now.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "lastTimestamp": now.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "count": 1,
    }
