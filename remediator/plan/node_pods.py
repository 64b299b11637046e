"""Which pods hold a device of a node, and whether that is known for certain.

Three signs count, each by itself, for every pod of the node that has not ended: an
allocated claim, whether or not its device is still published; an extended resource that
may be a GPU; a claim that is not known here. A claim that is reserved counts before its
pod is listed. Admin access takes no GPU: such pods watch it and never leave by themselves.
Foreign drivers choose the names of their pools, so a claim on a foreign device counts only for a
listed pod, and only where this node publishes the device.

After its deadline a repair of the node is requested over running pods. Two kinds of pods were
promised more: those on a GPU whose incident a user holds, as long as the hold counts, and those
that are evicted by request, until the time for it is over. Where it is unknown which GPU a pod
holds, it may be the one under the hold. What a pod says of itself, by its tolerations or its owner,
promises it nothing: a tenant writes that.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime

import msgspec

from exporter.model.device import GPU_DRIVER, Device
from remediator.diagnose.fault import Unknown
from remediator.model import intent
from remediator.model.claim import ADMIN, Claim
from remediator.model.incident import Incident
from remediator.model.incident_caps import cut
from remediator.model.incident_status import DeviceEvictions, EvictionStatus
from remediator.model.pod import PodFacts
from remediator.plan import history, overrides
from remediator.plan.board import Board
from remediator.plan.clocks import start_of_within
from remediator.plan.stages import Planned
from remediator.plan.view import NodeView
from remediator.plan.words import some

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
    """What `with_promises` adds."""


def neighbours(view: NodeView, incidents: Iterable[Incident]) -> Neighbours:
    """Return the pods that hold a device of the node, and why that may not be all of them."""
    # The devices that name the node's pools of GPUs: published now, ruled, or once in scope.
    named = {device.device for device in view.slices.inventory} | {
        rule.device for rule in view.stored.rules
    }
    named |= {device.name for each in incidents for device in each.status.scope.devices}
    foreign = {device.device for device in view.slices.inventory if device.foreign}
    named -= foreign
    published = any(device.kind for device in view.slices.inventory)
    # NVIDIA's driver names its pool after the node. So its claims count also where the kubelet,
    # when it started, deleted all slices, and no rule or incident remembers a device.
    pools = {(device.driver, device.pool) for device in named} | {(GPU_DRIVER, view.node)}
    drivers = {device.driver for device in named} | {GPU_DRIVER}
    known = {(claim.metadata.namespace, claim.metadata.name): claim for claim in view.usage.claims}
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
        for pod in view.usage.pods or ()
        if pod.running and (pod.plugin_resources or _claims_one(pod, known, held))
    }
    why = view.trust().refusal("name pods")
    if view.usage.pods is None:
        return Neighbours((), why or NOT_LISTED)
    # What is reserved is older than the list of pods, or younger: it counts if it can be trusted.
    reserved = set[ClaimKey]()
    if not why:
        # By UID: a StatefulSet makes a pod anew under the name of one that has ended.
        ended = {pod.uid for pod in view.usage.pods if not pod.running}
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
    # A driver that cannot start while a GPU is lost waits for this call: its names are known.
    offered = offered or any(device.kind for device in view.slices.last_published)
    why = why or ("" if view.usage.pods_live else NOT_LIVE)
    return Neighbours(found, why or ("" if offered else NOT_PUBLISHED))


def _holds(claim: Claim) -> set[Device]:
    return {result.name for result in claim.results if result.allocates}


def _claims_one(pod: PodFacts, known: dict[ClaimKey, Claim], held: dict[ClaimKey, Claim]) -> bool:
    keys = {(pod.namespace, name) for name in (*pod.claims, pod.extended_claim) if name}
    return any(key not in known or key in held for key in keys)


NAMED = 3
"""Pods that are named of each promise."""
WORDS_LIMIT = 160
"""Characters of what a user wrote: the message names others, too."""
LEAVING = "until its time to leave is over"


def with_promises(
    seen: Neighbours, pairs: Iterable[tuple[Board, Planned]], now: datetime
) -> Neighbours:
    """Return the pods in the way, with what they were promised."""
    decided = tuple(pairs)
    known = {name for board, _ in decided for name in _holders(board)}
    somewhere = tuple(name for name in seen.pods if name not in known)
    found: list[Promise] = []
    for board, planned in decided:
        opened = (incident for incident in board.incidents if incident.open)
        incident = planned.incident or next(opened, None)
        name, hold = _hold_on(board, planned, incident, now)
        pods = (*_there(board, seen), *somewhere)
        if hold is not None and (pods or seen.unknown):
            why = f"{cut(intent.in_words('Hold', hold), WORDS_LIMIT)}, incident {name}"
            found.append(Promise(why=why, pods=pods, until=hold.until))
        if incident is not None:
            found += _promises_of_within(board, planned, incident, seen, now)
    found.sort(key=lambda promise: (promise.why, promise.pods))
    return msgspec.structs.replace(seen, promised=tuple(found))


def in_words(promises: Iterable[Promise]) -> tuple[str, ...]:
    """Name the pods that no deadline overrides, and why."""
    parts: list[str] = []
    for promise in promises:
        # Where none is known there may be some.
        listed = some(promise.pods, NAMED) or "who may be there"
        parts.append(f"{listed} ({promise.why})")
    return (f"not overridden: {', '.join(parts)}",) if parts else ()


def _hold_on(
    board: Board, planned: Planned, incident: Incident | None, now: datetime
) -> tuple[str, intent.Intent | None]:
    """Return the incident by which a user holds a GPU, and the hold.

    It lasts beyond a recovery: the next incident would inherit it.
    """
    if incident is None:
        name, lasting = history.inheritance(board.incidents, board.uuid, now)
        return name, lasting.get("Hold")
    # Where nothing is decided no intent is recorded: what the spec has counts.
    if planned.demanded.undecided is not None:
        own = incident.spec.intents.get("Hold")
        return incident.name, own if own is not None and intent.counts(own, now) else None
    return incident.name, overrides.in_force(planned.record.intents, "Hold")


def _promises_of_within(
    board: Board, planned: Planned, incident: Incident, seen: Neighbours, now: datetime
) -> Iterator[Promise]:
    """Yield what `evict.within` promises to pods on devices that are evicted from, by its end.

    From the taint on: pods that come later could see it.
    """
    stored = incident.status.eviction
    known = stored.by_device if planned.demanded.undecided else planned.evictions
    begun = {entry.device: entry for entry in known if entry.start_time}
    # No eviction can be requested then, and the clock of `within` stands still: its end moves.
    stands = bool(board.trust.refusal("disrupt")) or board.pods is None
    ends: dict[datetime | None, set[str]] = {}
    for rule in planned.rules:
        device = str(rule.device)
        # Before the first request evictions are about to begin on every tainted device.
        if rule.effect not in ({"Evict"} if device in begun else {"Evict", "NoSchedule"}):
            continue
        until = _until(board, planned, device, begun.get(device), stored, now)
        if until is None or now < until:
            ends.setdefault(None if stands else until, set()).add(device)
    for until, devices in ends.items():
        if pods := _there(board, seen, devices):
            yield Promise(why=f"{LEAVING}, incident {incident.name}", pods=pods, until=until)


def _until(  # noqa: PLR0917 - everything that it rests on
    board: Board,
    planned: Planned,
    device: str,
    begun: DeviceEvictions | None,
    stored: EvictionStatus,
    now: datetime,
) -> datetime | None:
    """Return when the time of evicted pods is over; None: it is not over, and the end is unknown.

    Where evictions wait for a budget it is over as if they had begun, and where the GPU is Unknown
    as if they went on: both may last for ever.
    """
    plan, notice = planned.demanded.eviction.plan, planned.demanded.eviction.notice
    if begun is not None and notice and isinstance(board.verdict, Unknown):
        return begun.start_time + notice.plan.within if begun.start_time else None
    if begun is not None:
        start = start_of_within(begun, plan, now) if plan else None
        return start + plan.within if plan and start else now if planned.blocked else None
    if _begins(board, planned, device):
        return None
    if notice is None or stored.tainted_at is None or not notice.plan.within:
        return now
    return stored.tainted_at + notice.settle + notice.plan.within


def _begins(board: Board, planned: Planned, device: str) -> bool:
    """Whether evictions of pods on a device are about to be requested."""
    requested = {str(rule.device) for rule in planned.rules if rule.effect == "Evict"}
    running = {pod.uid for pod in board.pods or () if pod.running}
    there = device in requested and any(
        affected.device == device and affected.uid in running for affected in board.users.holders
    )
    if planned.granted.held_back:  # they go on once that is over: no pod has had its time yet
        return there
    return there and device in map(str, planned.granted.evicts)


def _there(board: Board, seen: Neighbours, devices: Iterable[str] | None = None) -> tuple[str, ...]:
    """Return the pods on the GPU, or on some devices of it, that are in the way or may be."""
    found = _holders(board, devices)
    # While it is unknown who is there, each holder that a claim names may be.
    return tuple(pod for pod in found if seen.unknown or pod in seen.pods)


def _holders(board: Board, devices: Iterable[str] | None = None) -> tuple[str, ...]:
    chosen = None if devices is None else set(devices)
    names = {
        f"{pod.namespace}/{pod.pod}"
        for pod in board.users.holders
        if pod.pod and pod.via != ADMIN and (chosen is None or pod.device in chosen)
    }
    return tuple(sorted(names))
