"""Kubernetes Events, as values: stable reasons, one sentence, no posting. Pure."""

import hashlib
from datetime import datetime
from typing import Literal

import msgspec

from remediator.decide.plan import Step, WriteStatus
from remediator.decide.view import NodeView

FOREIGN_DEVICE = "ForeignDevice"
"""A node reports a GPU that another node reports or publishes."""
PHASE_REASONS = {
    "Suspected": "DeviceSuspected",
    "Fenced": "DeviceFenced",
    "Evicting": "DeviceEvicting",
    "Drained": "DeviceDrained",
    "Verifying": "DeviceVerifying",
    "Recovered": "DeviceRecovered",
    "NeedsHuman": "DeviceNeedsHuman",
    "Repairing": "DeviceRepairing",
}
NAMESPACE = "default"
"""Events about cluster-scoped objects live here."""


class Event(msgspec.Struct, frozen=True):
    kind: Literal["Node", "DeviceIncident"]
    name: str
    uid: str
    reason: str
    message: str
    type: Literal["Normal", "Warning"] = "Warning"


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


def of_steps(steps: list[Step]) -> tuple[Event, ...]:
    """Return an event for each phase that a plan enters."""
    return tuple(
        Event(
            "DeviceIncident",
            step.incident.name,
            step.incident.metadata.uid,
            PHASE_REASONS.get(step.status.phase, "DeviceIncident"),
            f"{step.incident.spec.node} {step.incident.spec.uuid}: {step.status.message}",
            "Normal" if step.status.phase in ("Verifying", "Recovered") else "Warning",
        )
        for step in steps
        if isinstance(step, WriteStatus) and step.status.phase != step.incident.status.phase
    )


def manifest(event: Event, now: datetime) -> dict[str, object]:
    """Return the object to create. The same event gets the same name, so that it is said once."""
    words = "\0".join((event.kind, event.name, event.uid, event.reason, event.message))
    digest = hashlib.sha256(words.encode()).hexdigest()[:16]
    group = "v1" if event.kind == "Node" else "draguard.dev/v1alpha1"
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"draguard.{digest}", "namespace": NAMESPACE},
        "involvedObject": {
            "apiVersion": group,
            "kind": event.kind,
            "name": event.name,
            "uid": event.uid,
        },
        "reason": event.reason,
        "message": event.message[:1024],
        "type": event.type,
        "source": {"component": "draguard-remediator"},
        "firstTimestamp": now.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "lastTimestamp": now.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "count": 1,
    }
