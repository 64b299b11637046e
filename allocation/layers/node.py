"""On the node: what the kubelet, the driver and the container runtime say. Pure."""

import re
from collections.abc import Iterator
from datetime import datetime, timedelta

from allocation.layers.finding import Finding, PodView, WaitReason
from allocation.model.pods import Terminated, Waiting
from exporter.model.device import NVIDIAS

NOT_PREPARED = "FailedPrepareDynamicResources"
"""Reason of the kubelet's event: a driver has refused, or is not there."""
_REPEATED = timedelta(minutes=11)
"""The kubelet tries again every 10 to 15 s. While that fails it renews its Event, beyond the first
25 once in 5 minutes: client-go's limit for one object. One of two may be lost."""
_DOWN = re.compile(r"DRA driver (\S+) is not registered|dial unix \S*/plugins/([^/\s]+)/\S*:")
"""A driver that never came, and one that has ended: its socket is known and refuses."""
_NO_SANDBOX = "FailedCreatePodSandBox"
_BY_RUNTIME = frozenset(
    {"CreateContainerError", "RunContainerError", "StartError", "ContainerCannotRun"}
)
_JOINED = timedelta(minutes=1)
"""Within that, the exporter sees what the kubelet has given to whom."""
_CREATING = frozenset({"ContainerCreating", "PodInitializing", ""})
"""Reasons of a container that waits because nothing has been tried yet."""


def preparation(view: PodView) -> Finding | None:
    """Return why the devices of a pod on a node are not prepared for it."""
    pod = view.pod
    if not pod.spec.node_name or pod.status.phase not in {"", "Pending"}:
        return None
    ready = pod.condition("PodReadyToStartContainers")
    # A container that waits for something else, or for nothing, is beyond this.
    waiting = [each.state.waiting for each in pod.containers()]
    if (ready is not None and ready.status == "True") or any(
        each is None or each.reason not in _CREATING for each in waiting
    ):
        return None
    scheduled = pod.condition("PodScheduled")
    since = scheduled.last_transition_time if scheduled else None
    node = pod.spec.node_name
    for name in pod.claim_names().values():
        claim = view.claims.get(name)
        if name and (claim is None or claim.status.allocation is None):
            what = "does not exist" if claim is None else "is not allocated"
            return Finding(
                layer="Preparation",
                reason="ClaimMissing" if claim is None else "NotAllocated",
                message=f"it is on {node}, and its claim {name} {what}",
                since=since,
                todo=("let the scheduler place it: remove spec.nodeName from what creates it",),
            )
    # Devices are prepared before the sandbox is made: an error of that means that they are.
    event = view.last_event(NOT_PREPARED, _NO_SANDBOX)
    seen = event.last_seen if event else None
    if event is None or event.reason == _NO_SANDBOX or (seen and view.now - seen > _REPEATED):
        return _not_begun(view, since)
    down = _DOWN.search(event.message)
    driver = (down[1] or down[2]) if down else ""
    return Finding(
        layer="Preparation",
        reason="DriverDown" if driver else "PreparationFailed",
        message=f"DRA driver {driver} does not answer the kubelet of {node}"
        if driver
        else f"its devices could not be prepared on {node}",
        since=since,
        evidence=(event.message,),
        todo=(
            f"start the driver's pod on {node}, or see its log"
            if driver
            else f"see the log of the driver's pod on {node}; the kubelet tries again",
        ),
    )


def _not_begun(view: PodView, since: datetime | None) -> Finding:
    """Return that no container was started, how far the devices are, and what else is wrong."""
    node = view.pod.spec.node_name
    # Such as a volume that is not mounted.
    others = tuple(
        f"{each.reason}: {each.message}"
        for each in view.events
        if each.type == "Warning" and each.reason not in {"FailedScheduling", NOT_PREPARED}
    )
    if view.uses:
        return Finding(
            layer="Runtime",
            reason="Starting",
            message=f"its devices are prepared on {node}, and no container was started yet",
            since=since,
            evidence=(*others, *(f"the kubelet has given it {each.device}" for each in view.uses)),
        )
    return Finding(
        layer="Preparation",
        reason="Preparing",
        message=f"it is on {node}, and no container was started yet",
        since=since,
        evidence=(*others, *_not_given(view)),
        todo=() if others else (f"check that the kubelet of {node} runs",),
    )


def _not_given(view: PodView) -> Iterator[str]:
    """Yield that the kubelet has not given the pod its GPUs, and for how long."""
    if view.uses is None:
        return
    for claim in view.claims_of_pod():
        allocation = claim.status.allocation
        at = allocation.allocation_timestamp if allocation else None
        # The exporter looks at GPUs only.
        gpus = any(result.driver in NVIDIAS for result in claim.results)
        if gpus and at is not None and view.now - at > _JOINED:
            minutes = (view.now - at) // timedelta(minutes=1)
            name = claim.metadata.name
            yield f"claim {name} was allocated {minutes} min ago, and the kubelet has not given it"


def runtime(view: PodView) -> Finding | None:
    """Return which container does not start, and why; or what a pod that is pending waits for."""
    pod = view.pod
    if not pod.spec.node_name:
        return None
    for each in pod.containers():
        waiting = each.state.waiting
        if waiting is None or waiting.reason in _CREATING:
            continue
        last = each.last_state.terminated
        reason, todo = _meaning(waiting, last)
        ended = f"{last.reason}, exit code {last.exit_code}: {last.message}" if last else ""
        return Finding(
            layer="Runtime",
            reason=reason,
            message=f"container {each.name} does not start: {waiting.reason}",
            evidence=tuple(filter(None, (waiting.message, ended))),
            todo=(todo.format(node=pod.spec.node_name, container=each.name),),
        )
    if pod.status.phase != "Pending":
        return None
    newest = max(
        view.events, key=lambda each: (each.last_seen is not None, each.last_seen), default=None
    )
    return Finding(
        layer="Runtime",
        reason="Starting",
        message="its devices are prepared, and its images are pulled or its init containers run",
        evidence=(f"{newest.reason}: {newest.message}",) if newest else (),
    )


def _meaning(waiting: Waiting, last: Terminated | None) -> tuple[WaitReason, str]:
    """Return whether the runtime or the program is why; the kubelet waits longer after both."""
    by_runtime = waiting.reason in _BY_RUNTIME or (
        last is not None and last.reason in _BY_RUNTIME and waiting.reason == "CrashLoopBackOff"
    )
    if by_runtime and "CDI" in waiting.message + (last.message if last else ""):
        return "CdiDeviceMissing", (
            "the runtime of {node} finds no CDI file of the device: see the driver's log there, "
            "and that CDI is enabled in the runtime"
        )
    if by_runtime:
        return "ContainerNotStarted", "the runtime of {node} cannot start it: see the message"
    if waiting.reason == "CrashLoopBackOff":
        return "Crashing", "the program ends by itself: kubectl logs --previous -c {container}"
    return "ContainerNotStarted", "this is not about its devices"
