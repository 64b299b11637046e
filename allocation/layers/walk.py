"""The layers in their order: the first that a pod has not passed is why it waits. Pure."""

from collections.abc import Callable

import msgspec

from allocation.layers.admission import admission
from allocation.layers.allocation import allocation
from allocation.layers.binding import binding, in_use
from allocation.layers.device import device
from allocation.layers.finding import Finding, PodView
from allocation.layers.node import preparation, runtime
from allocation.layers.scheduling import other_resources, scheduler

LAYERS: tuple[Callable[[PodView], Finding | None], ...] = (
    admission,
    scheduler,
    in_use,
    allocation,
    binding,
    other_resources,
    preparation,
    runtime,
    device,
)
"""`other_resources` comes after those that know what devices keep it waiting."""

_BY_SICKNESS = frozenset(
    {"Crashing", "ContainerNotStarted", "PreparationFailed", "Preparing", "CdiDeviceMissing"}
)
"""What a sick device may cause."""


def first_finding(view: PodView) -> Finding:
    """Return where a pod stands."""
    pod = view.pod
    if pod.status.phase in {"Succeeded", "Failed"}:
        why = ": ".join(filter(None, (pod.status.reason, pod.status.message)))
        return Finding(
            layer="Running",
            reason="Finished",
            message=f"it has ended: {pod.status.phase}",
            evidence=(why,) if why else (),
        )
    if pod.metadata.deletion_timestamp is not None:
        disruption = pod.condition("DisruptionTarget")
        return Finding(
            layer="Running",
            reason="Deleting",
            message="it is being deleted",
            since=pod.metadata.deletion_timestamp,
            evidence=(f"{disruption.reason}: {disruption.message}",) if disruption else (),
        )
    for layer in LAYERS:
        found = layer(view)
        if found is not None:
            return _with_health(found, view) if found.reason in _BY_SICKNESS else found
    if not pod.spec.node_name:
        return Finding(
            layer="Binding",
            reason="BindingPending",
            message="its claims are allocated, and the scheduler is about to bind it to a node",
        )
    ready = pod.condition("Ready")
    if ready is not None and ready.status == "False":
        return Finding(
            layer="Running",
            reason="NotReady",
            message=f"it is on {pod.spec.node_name} and not ready",
            since=ready.last_transition_time,
            evidence=tuple(filter(None, (ready.reason, ready.message))),
        )
    return _running(view)


def _running(view: PodView) -> Finding:
    """Return that a pod runs, and what it does with its devices."""
    node, uses = view.pod.spec.node_name, view.uses or ()
    devices = ", ".join(str(result.name) for _, result in view.results())
    idle = bool(uses) and all(each.idle for each in uses)
    return Finding(
        layer="Running",
        reason="Idle" if idle else "Running",
        message=f"it runs on {node}, and uses none of its devices at the moment"
        if idle
        else f"it runs on {node}" + (f" with {devices}" if devices else ""),
        evidence=tuple(map(str, uses)),
        todo=("for how long: dashboard Claim, panel Devices by claim",) if devices else (),
    )


def _with_health(found: Finding, view: PodView) -> Finding:
    """Return a finding with what is known of the devices; an incident of one comes first."""
    health = device(view)
    if health is None:
        return found
    first, second = (health, found) if health.reason == "DeviceSick" else (found, health)
    return msgspec.structs.replace(
        first,
        evidence=(*first.evidence, second.message, *second.evidence),
        todo=tuple(dict.fromkeys((*first.todo, *second.todo))),
    )
