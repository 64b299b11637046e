"""Which devices the claims wait for, and what keeps each away, in words. Pure."""

from collections.abc import Iterator, Mapping

from allocation.layers.finding import Finding, Layer, PodView, WaitReason
from allocation.reasons import Why
from allocation.summary import Group, RequestSummary, Summary

WORDS: Mapping[Why, str] = {
    "Allocated": "{n} allocated{by}",
    "Tainted": "{n} tainted with {what}{by}",
    "NodeCordoned": "{n} on cordoned nodes",
    "NodeNotReady": "{n} on nodes that are not ready",
    "NodeTainted": "{n} on nodes with the taint {what}",
    "NodeAffinity": "{n} on nodes that the pod's {what} does not choose",
    "PoolIncomplete": "{n} in pools that are not published completely ({what})",
    "PoolInvalid": "{n} in invalid pools ({what})",
    "RequestSelector": "{n} do not match {what}{seen}",
    "SelectorFails": "{n} on which {what} fails{by}{seen}",
    "NotEvaluated": "{n} on which {what} cannot be evaluated here{by}",
    "Capacity": "{n} with too little {what}{by}",
    "Counters": "{n} whose {what} is used up{by}",
    "Constraint": "{n} without {what}, which a constraint compares",
    "OtherNode": "{n} for other nodes",
    "ClassSelector": "{n} of other classes",
}
"""By why a device is kept away; `{by}` names who is behind it, `{seen}` what the devices have."""
CHANGES: Mapping[str, str] = {
    "Free": "free the devices of claim {}",
    "RemoveRule": "remove DeviceTaintRule {}",
    "Untaint": "have the driver remove its taint {}",
    "DropSelector": "drop the selector {}",
    "DropConstraint": "drop the constraint on {}",
    "OneDevice": "request one device in {}",
    "Uncordon": "uncordon node {}",
    "UntaintNode": "remove the taint of node {}",
    "DropNodeSelector": "let the pod run on node {}",
}
"""By `Change.what`."""
ADVICE: Mapping[WaitReason, tuple[str, ...]] = {
    "ClassMissing": ("install the driver that brings the class, or correct the request",),
    "NoDevices": ("start the driver of the class on a node that has the hardware; see its log",),
    "Allocated": ("wait until devices are free, or add nodes",),
}
"""Where no single change is enough."""
INCURABLE = frozenset({"RequestSelector", "SelectorFails", "NotEvaluated", "PoolInvalid"})
"""No waiting takes these away, nor a device that is too small."""
ON_NODES = frozenset({"NodeCordoned", "NodeNotReady", "NodeTainted", "NodeAffinity"})
MOST_NAMED = 3


def allocation(view: PodView) -> Finding | None:
    """Return why the claims that wait have no devices."""
    summary = view.summary
    if view.pod.spec.node_name:
        return None
    if summary is None:
        return _unread(view) if view.unread else None
    by_plugin = any(each.nodes for each in view.supplies)
    if summary.verdict == "Allocatable" or (summary.verdict == "NoDevices" and by_plugin):
        return None
    reason = first_reason(summary)
    layer: Layer = "Scheduling" if reason in ON_NODES else "Allocation"
    changes = tuple(CHANGES[each.what].format(each.which) for each in view.changes)
    return Finding(
        layer=layer,
        reason=reason,
        message=message(summary, reason),
        since=view.pod.metadata.creation_timestamp,
        evidence=tuple(lines(summary)),
        todo=tuple(f"enough alone: {change}" for change in changes) or ADVICE.get(reason, ()),
    )


def first_reason(summary: Summary) -> WaitReason:
    """Return what keeps most of the devices away that the request may have at all."""
    verdict = summary.verdict
    if verdict == "Fails":
        kinds = {group.why for request in summary.requests for group in request.groups}
        return "SelectorFails" if "SelectorFails" in kinds else verdict
    if verdict not in {"TooFew", "TooFewTogether"}:
        return verdict
    for request in summary.lacking():
        curable = [each for each in request.groups if not _is_incurable(each)]
        there = sum(len(each.devices) for each in curable)
        # Where all that fit are too few, no waiting helps: what does not fit is the reason.
        enough = there >= request.lacks
        groups = curable if enough else [each for each in request.groups if _is_incurable(each)]
        if groups:
            return max(groups, key=lambda each: len(each.devices)).why
    return verdict


def _is_incurable(group: Group) -> bool:
    return group.why in INCURABLE or (group.why == "Capacity" and not group.by)


def message(summary: Summary, reason: WaitReason) -> str:
    """Return the one sentence of it."""
    match reason:
        case "ClassMissing" | "Fails" | "SelectorFails" if summary.why:
            return summary.why
        case "NotEvaluated" if summary.why:
            return f"what the scheduler makes of it is not known here: {summary.why}"
        case "NoDevices":
            empty = [each for each in summary.requests if not each.devices]
            names = ", ".join(dict.fromkeys(each.device_class for each in empty))
            published = ", ".join(f"{name} ({n})" for name, n in sorted(summary.drivers.items()))
            return (
                f"no node publishes a device of class {names}; published by drivers: "
                f"{published or 'nothing'}"
            )
        case "TooFewTogether" if any(not each.count for each in summary.requests):
            return "it requests all devices of a node, and on no node can all be had"
        case "TooFewTogether":
            return "enough devices are free, but not together on one node, or under its constraints"
        case _:
            request, *_ = summary.lacking()
            most = max(request.groups, key=lambda each: len(each.devices), default=None)
            kept = f", {group_in_words(most)}" if most else ""
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
        n=len(group.devices),
        what=group.what,
        by=f" ({by})" if by else "",
        seen=f"; they have {seen}" if seen else "",
    )


def _unread(view: PodView) -> Finding:
    scheduled = view.pod.condition("PodScheduled")
    stated = (scheduled.message,) if scheduled and scheduled.message else ()
    on_claims = tuple(
        event.message for event in view.events if event.involved_object.kind == "ResourceClaim"
    )
    return Finding(
        layer="Allocation",
        reason="NotRead",
        message="its claims wait for devices, and you may not read which there are",
        since=view.pod.metadata.creation_timestamp,
        evidence=(*stated, *on_claims),
        todo=view.unread,
    )
