"""Which devices the claims wait for, and what keeps each away, in words. Pure."""

from collections.abc import Iterator, Mapping
from typing import get_args

from allocation.layers.finding import Finding, Layer, PodView, WaitReason
from allocation.model.pods import EXTENDED_RESOURCES, NodeWhy
from allocation.reasons import Why
from allocation.summary import Group, RequestSummary, Summary

WORDS: Mapping[Why, str] = {
    "Allocated": "{n} allocated{by}",
    "Tainted": "{n} tainted with {what}{by}",
    "NodeCordoned": "{n} on cordoned nodes",
    "ClaimElsewhere": "{n} on nodes where the pod's claim {what} is not",
    "NodeNotReady": "{n} on nodes that are not ready ({what})",
    "NodeTainted": "{n} on nodes with the taint {what}",
    "NodeAffinity": "{n} on nodes that the pod's {what} does not choose",
    "OtherResources": "{n} on nodes that the scheduler refuses for other reasons",
    "PoolIncomplete": "{n} in pools that are not published completely ({what})",
    "PoolInvalid": "{n} in invalid pools ({what})",
    "RequestSelector": "{n} do not match {what}{seen}",
    "SelectorFails": "{n} on which {what} fails{by}{seen}",
    "Fails": "{n} whose {what} is an error{by}",
    "NotEvaluated": "{n} on which {what} cannot be evaluated here{by}",
    "Capacity": "{n} with too little {what}{by}",
    "Counters": "{n} whose {what} is used up{by}",
    "Constraint": "{n} without {what}, which a constraint compares",
    "OtherNode": "{n} for other nodes",
    "ClassSelector": "{n} of other classes",
}
"""By why a device is kept away; `{by}` names who is behind it, `{seen}` what the devices have."""
CHANGES: Mapping[str, str] = {
    "Uncordon": "uncordon node {}",
    "MakeReady": "make node {} ready",
    "RemoveRule": "remove DeviceTaintRule {}",
    "Untaint": "have the device repaired, so that its driver removes the taint {}",
    "Free": "free the devices of claim {}",
    "Tolerate": "have the pod tolerate {}",
    "OneDevice": "request one device in {}",
    "DropNodeSelector": "let the pod run on node {}",
    "DropConstraint": "drop the constraint on {}",
    "DropSelector": "drop the selector {}",
}
"""By `Change.what`, in the order in which they are offered."""
ADVICE: Mapping[WaitReason, tuple[str, ...]] = {
    "ClassMissing": ("install the driver that brings the class, or correct the request",),
    "NoDevices": (
        "start the driver of the class on a node that has the hardware, and see its log; if it "
        "publishes, compare the selectors of the DeviceClass",
    ),
    "NoNodeChosen": (
        "see for which nodes its slices are (`kubectl get resourceslices -o yaml`), and add such a "
        "node, or the label that a node lacks",
    ),
    "Allocated": ("wait until devices are free, or add nodes",),
    "Tainted": (
        "have the devices repaired: `draguard incidents` shows those of Draguard's taints",
    ),
}
"""Where no single change is enough."""
INCURABLE = frozenset({"RequestSelector", "SelectorFails", "Fails", "NotEvaluated", "PoolInvalid"})
"""No waiting takes these away, nor a device that is too small."""
ON_NODES: frozenset[str] = frozenset(get_args(NodeWhy))
MOST_NAMED = 3


def allocation(view: PodView) -> Finding | None:
    """Return why the claims that wait have no devices."""
    summary = view.summary
    if view.pod.spec.node_name:
        return None
    if summary is None:
        return _not_known(view)
    if summary.verdict == "Allocatable" or not (summary.requests or summary.why):
        return None
    reason, request, group = decisive(summary)
    if reason == "OtherResources":
        return None  # its own layer has the scheduler's words
    layer: Layer = "Scheduling" if reason in ON_NODES else "Allocation"
    made = f"{view.pod.metadata.namespace}/{EXTENDED_RESOURCES}/"
    changes = [CHANGES[each.what].format(each.which.replace(made, "")) for each in view.changes]
    return Finding(
        layer=layer,
        reason=reason,
        message=message(summary, reason, request, group),
        since=view.pod.metadata.creation_timestamp,
        evidence=tuple(lines(summary)),
        todo=tuple(f"enough alone: {change}" for change in changes) or ADVICE.get(reason, ()),
    )


def decisive(summary: Summary) -> tuple[WaitReason, RequestSummary | None, Group | None]:
    """Return what keeps most of the devices away that a request may have at all, and which."""
    verdict = summary.verdict
    if verdict not in {"TooFew", "TooFewTogether"}:
        return verdict, None, None
    for request in summary.lacking():
        here = [each for each in request.groups if not _is_incurable(each)]
        # What is on nodes that are open to the pod comes before what is elsewhere, and both before
        # what no waiting cures: as soon as there are enough.
        open_to_it = [each for each in here if each.why not in ON_NODES]
        misfits = [each for each in request.groups if _is_incurable(each)]
        for groups in (open_to_it, here, misfits):
            number = sum(each.number for each in groups)
            if groups and (groups is misfits or number >= request.lacks):
                most = max(groups, key=lambda each: each.number)
                return most.why, request, most
    for request in summary.requests:
        if not (request.count or request.whole) and request.groups:
            return request.groups[0].why, request, request.groups[0]
    return verdict, next(iter(summary.lacking()), None), None


def _is_incurable(group: Group) -> bool:
    return group.why in INCURABLE or (group.why == "Capacity" and not group.by)


def message(
    summary: Summary, reason: WaitReason, request: RequestSummary | None, group: Group | None
) -> str:
    """Return the one sentence of it."""
    match reason:
        case "ClassMissing" | "NoNodeChosen" | "Fails" | "SelectorFails" if summary.why:
            return summary.why
        case "NotEvaluated" if summary.why:
            return f"what the scheduler makes of it is not known here: {summary.why}"
        case "NoDevices":
            published = ", ".join(f"{name} ({n})" for name, n in sorted(summary.drivers.items()))
            return (
                f"no published device is of class {summary.why}; published by drivers: "
                f"{published or 'nothing'}"
            )
        case "TooFewTogether":
            return (
                "enough devices are free, each alone, but not together: on one node, of one GPU, "
                "or under its constraints"
            )
        case _ if request is not None:
            return _shortage(summary, request, group)
        case _:
            return "the scheduler finds no devices for it"


def _shortage(summary: Summary, request: RequestSummary, group: Group | None) -> str:
    """Return which request has too few devices, or which have too few together."""
    if not group and request.free >= max(request.count, 1):
        like = [each for each in summary.requests if each.device_class == request.device_class]
        return (
            f"{len(like)} requests of class {request.device_class} need {request.lacks} more "
            "devices than can be had"
        )
    kept = f", {group_in_words(group)}" if group else ""
    return f"{request_in_words(request)}, {request.free} can be had{kept}"


def request_in_words(request: RequestSummary) -> str:
    """Return what a request needs, and of how many."""
    count = request.count or "all of a node"
    return (
        f"request {request.name} needs {count}: of {request.devices} devices of class "
        f"{request.device_class}"
    )


def lines(summary: Summary) -> Iterator[str]:
    """Yield each choice of each request, and below it what keeps devices away."""
    claims = {request.claim for request in summary.requests}
    for request in summary.requests:
        whose = f"claim {request.claim}, " if len(claims) > 1 else ""
        most = f", {request.most_on_a_node} on one node" if request.free else ""
        yield f"{whose}{request_in_words(request)}, {request.free} can be had{most}"
        for group in request.groups:
            yield f"  {group_in_words(group)}"


def group_in_words(group: Group) -> str:
    """Return what keeps a group of devices away."""
    seen = ", ".join(f"{name} {value or 'absent'} ({n})" for name, value, n in group.seen)
    if group.has:
        seen = f"none of what it reads, but {', '.join(group.has)}"
    more = len(group.by) - MOST_NAMED
    by = ", ".join((*group.by[:MOST_NAMED], *([f"{more} more"] if more > 0 else [])))
    return WORDS[group.why].format(
        n=group.number,
        what=group.what,
        by=f" ({by})" if by else "",
        seen=f"; they have {seen}" if seen else "",
    )


def _not_known(view: PodView) -> Finding | None:
    """Return that rights are missing, or that something cannot be read, and what others say."""
    if not (view.unread or view.unknown):
        return None
    scheduled = view.pod.condition("PodScheduled")
    stated = (scheduled.message,) if scheduled and scheduled.message else ()
    on_claims = tuple(
        event.message for event in view.events if event.involved_object.kind == "ResourceClaim"
    )
    return Finding(
        layer="Allocation",
        reason="NotRead" if view.unread else "NotEvaluated",
        message="it waits, and you may not read which devices there are"
        if view.unread
        else f"what it waits for is not known here: {view.unknown}",
        since=view.pod.metadata.creation_timestamp,
        evidence=(*stated, *on_claims),
        todo=view.unread,
    )
