"""Which pods hold a device of a node, and whether that is known for certain.

Three signs count, each by itself, for every pod of the node that has not ended: an
allocated claim, whether or not its device is still published; an extended resource that
may be a GPU; a claim that is not known here. A claim that is reserved counts before its
pod is listed. Admin access takes no GPU: such pods watch it and never leave by themselves.
Foreign drivers choose the names of their pools, so a claim on a foreign device counts only for a
listed pod, and only where this node publishes the device. Pure.
"""

from collections.abc import Iterable
from datetime import datetime

import msgspec

from exporter.model.device import GPU_DRIVER, Device
from remediator.model.claim import Claim
from remediator.model.incident import Incident
from remediator.model.pod import PodFacts
from remediator.plan.view import NodeView

NOT_LISTED = "the pods of the node could not be listed"
NOT_LIVE = "the list of its pods may not be the newest"
NOT_PUBLISHED = "the node publishes no GPU, so it is unknown which pods use one"

ClaimKey = tuple[str, str]
"""(namespace, name)."""


class Promise(msgspec.Struct, frozen=True, kw_only=True):
    """What some of them were promised: no deadline overrides them before it is over."""

    why: str
    pods: tuple[str, ...]
    """None: it is unknown whether there are any."""
    until: datetime | None
    """None: without an end that is known."""


class Neighbours(msgspec.Struct, frozen=True):
    """Pods in the way of an act that stops the whole node."""

    pods: tuple[str, ...]
    """`namespace/name` of the pods that certainly hold a device, or may."""
    unknown: str = ""
    """Why there may be more of them, "" when these are all."""
    promised: tuple[Promise, ...] = ()
    """What `protected_pods` adds."""


def neighbours(view: NodeView, incidents: Iterable[Incident]) -> Neighbours:
    """Return the pods that hold a device of the node, and why that may not be all of them."""
    # The devices that name the node's pools of GPUs: published now, ruled, or once in scope.
    named = {device.device for device in view.inventory} | {rule.device for rule in view.rules}
    named |= {device.name for each in incidents for device in each.status.scope.devices}
    foreign = {device.device for device in view.inventory if device.foreign}
    named -= foreign
    published = any(device.kind for device in view.inventory)
    pools = {(device.driver, device.pool) for device in named} | {(GPU_DRIVER, view.node)}
    drivers = {device.driver for device in named} | {GPU_DRIVER}
    known = {(claim.metadata.namespace, claim.metadata.name): claim for claim in view.claims}
    here = {
        key: claim
        for key, claim in known.items()
        if any((name.driver, name.pool) in pools for name in _holds(claim))
    }
    # Where nothing is published it is unknown which drivers are those of GPUs.
    held = here | {
        key: claim
        for key, claim in known.items()
        if any(name in foreign or name.driver in drivers or not published for name in _holds(claim))
    }
    running = {
        (pod.namespace, pod.name)
        for pod in view.pods or ()
        if pod.running and (pod.plugin_resources or _claims_one(pod, known, held))
    }
    why = view.trust().refusal("name pods")
    if view.pods is None:
        return Neighbours((), why or NOT_LISTED)
    # What is reserved is older than the list of pods, or younger: it counts if it can be trusted.
    reserved = set[ClaimKey]()
    if not why:
        # By UID: a StatefulSet makes a pod anew under the name of one that has ended.
        ended = {pod.uid for pod in view.pods if not pod.running}
        reserved = {
            (claim.metadata.namespace, consumer.name)
            for claim in here.values()
            for consumer in claim.consumers
            if consumer.uid not in ended
        }
    found = tuple(f"{space}/{name}" for space, name in sorted(running | reserved))
    # The Node itself may show that a device plugin allocates its GPUs.
    has_plugin = bool(view.facts and view.facts.plugin_resources)
    offered = published or (not named and not here and has_plugin)
    why = why or ("" if view.pods_live else NOT_LIVE)
    return Neighbours(found, why or ("" if offered else NOT_PUBLISHED))


def _holds(claim: Claim) -> set[Device]:
    return {result.name for result in claim.results if result.allocates}


def _claims_one(pod: PodFacts, known: dict[ClaimKey, Claim], held: dict[ClaimKey, Claim]) -> bool:
    keys = {(pod.namespace, name) for name in (*pod.claims, pod.extended_claim) if name}
    return any(key not in known or key in held for key in keys)
