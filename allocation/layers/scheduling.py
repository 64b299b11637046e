"""What the scheduler says of a pod, beside devices: nodes, memory, CPU, ports. Pure."""

import re
from collections.abc import Sequence

from allocation.layers.finding import Finding, PodView
from allocation.model.claims import Condition
from allocation.plugin import Supply

_HEAD = re.compile(r"^\d+/\d+ nodes are available: ")
_TAIL = re.compile(
    r"\.? (?:preemption|no new claims|still not schedulable|deallocation of|deletion of)\b.*$|\.$",
    re.DOTALL,
)
_PART = re.compile(r"(?:(?P<nodes>\d+) )?(?P<why>.+?)(?:, (?=\d+ )|$)", re.DOTALL)
OF_DEVICES = re.compile(
    r"cannot allocate all claims|cannot schedule extended resource claim|waiting for resource claim"
    r"|resourceclaim (?:not available on the node|in use)|request \S+: device class"
    r"|resource claim \S+ is in the process of being allocated|invalid resource pools were"
)
"""How the refusals of plugin DynamicResources begin (kube-scheduler 1.37)."""


def scheduler(view: PodView) -> Finding | None:
    """Return whether no scheduler has looked at a pod since it may."""
    spec, status, uid = view.pod.spec, view.pod.status, view.pod.metadata.uid
    condition = view.pod.condition("PodScheduled")
    # The condition of a gate stays after the gate; one that waits for its devices has none yet.
    looked_at = condition is not None and condition.reason != "SchedulingGated"
    reserved = any(claim.is_reserved_for(uid) for claim in view.claims_of_pod())
    if spec.node_name or looked_at or status.nominated_node_name or reserved:
        return None
    return Finding(
        layer="Scheduling",
        reason="NoScheduler",
        message=f"scheduler {spec.scheduler_name} has not looked at it yet",
        since=view.pod.metadata.creation_timestamp,
        todo=(f"check that scheduler {spec.scheduler_name} runs",),
    )


def other_resources(view: PodView) -> Finding | None:
    """Return what the scheduler refuses a pod for whose devices could be had."""
    condition = view.pod.condition("PodScheduled")
    if view.pod.spec.node_name or condition is None or condition.status == "True":
        return None
    if condition.reason == "SchedulerError":
        return Finding(
            layer="Scheduling",
            reason="SchedulerError",
            message="the scheduler has failed on it",
            since=condition.last_transition_time,
            evidence=(condition.message,),
            todo=("see the scheduler's log; it tries again",),
        )
    refusals = parts(condition.message)
    of_plugins = {f"Insufficient {each.resource}" for each in view.supplies}
    others = any(not OF_DEVICES.match(why) for _, why in refusals)
    of_devices = any(OF_DEVICES.match(why) or why in of_plugins for _, why in refusals)
    fits = view.summary.node if view.summary else ""
    if fits and not others:
        return Finding(
            layer="Scheduling",
            reason="Allocatable",
            message=f"its claims could be allocated on {fits} now: the scheduler has not tried "
            "again yet",
            since=condition.last_transition_time,
            evidence=(condition.message,) if condition.message else (),
            todo=("it tries again within five minutes, or when something changes",),
        )
    stated = (
        *(f"{nodes or 'all'} nodes: {why}" for nodes, why in refusals),
        *map(_in_words, view.supplies),
    )
    short = _insufficient(view, refusals)
    if short is not None:
        return _too_few(short, condition, stated)
    message = "the scheduler finds no node for it"
    if not of_devices:
        message += ", and not because of its devices"
    elif fits:
        message += f"; its devices could be had on {fits}"
    return Finding(
        layer="Scheduling",
        reason="OtherResources",
        message=message,
        since=condition.last_transition_time,
        evidence=stated,
        todo=("kubectl describe node NODE shows what a node has left",),
    )


def _insufficient(view: PodView, refusals: Sequence[tuple[int, str]]) -> Supply | None:
    """Return the resource of which no node has enough.

    The scheduler says so of each node without the resource, also where another has it.
    """
    for each in view.supplies:
        stated = any(why == f"Insufficient {each.resource}" for _, why in refusals)
        free = each.largest if each.most_free is None else each.most_free
        if stated and free < each.requested:
            return each
    return None


def _too_few(supply: Supply, condition: Condition, stated: tuple[str, ...]) -> Finding:
    left, todo = f"the emptiest has {supply.most_free} left", "wait until pods end, or add nodes"
    if not supply.nodes:
        left = "no node has any"
        todo = f"no device plugin and no DeviceClass offers {supply.resource}: install one"
    elif supply.largest < supply.requested:
        left = f"the largest has {supply.largest} that are well"
        todo = "request fewer, or add larger nodes"
        if supply.allocatable < supply.installed:
            todo += "; the device plugin calls devices unhealthy: see its log"
    return Finding(
        layer="Scheduling",
        reason="Insufficient",
        message=f"it requests {supply.requested} of {supply.resource} on one node, and {left}",
        since=condition.last_transition_time,
        evidence=stated,
        todo=(todo,),
    )


def _in_words(supply: Supply) -> str:
    sick = supply.installed - supply.allocatable
    used = "unknown" if supply.used is None else supply.used
    most = "unknown" if supply.most_free is None else supply.most_free
    return (
        f"{supply.resource}: {supply.installed} installed on {supply.nodes} nodes, {sick} "
        f"unhealthy, {used} requested by other pods, {most} free on the emptiest node"
    )


def parts(message: str) -> list[tuple[int, str]]:
    """Return what the scheduler refuses nodes for, and on how many; 0: it does not say."""
    plain = _TAIL.sub("", _HEAD.sub("", message.strip()))
    return [(int(each["nodes"] or 0), each["why"]) for each in _PART.finditer(plain)]
