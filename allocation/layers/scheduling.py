"""What the scheduler says of a pod, beside devices: nodes, memory, CPU, ports. Pure."""

import re
from collections.abc import Sequence

from allocation.layers.finding import Finding, PodView
from allocation.model.claims import Condition
from allocation.plugin import Supply

_HEAD = re.compile(r"^\d+/\d+ nodes are available: ")
_TAIL = re.compile(r"\.(?: (?:preemption|no new claims)\b.*)?$", re.DOTALL)
_PART = re.compile(r"(?:(?P<nodes>\d+) )?(?P<why>.+?)(?:, (?=\d+ )|$)", re.DOTALL)
OF_DEVICES = (
    "cannot allocate all claims",
    "resourceclaim not available on the node",
    "resourceclaim in use",
    "waiting for resource claim",
)
"""How the refusals of plugin DynamicResources begin (kube-scheduler 1.37)."""


def scheduler(view: PodView) -> Finding | None:
    """Return whether no scheduler has looked at a pod."""
    spec = view.pod.spec
    if spec.node_name or view.pod.condition("PodScheduled") is not None:
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
    refusals = [
        (nodes, why) for nodes, why in parts(condition.message) if not why.startswith(OF_DEVICES)
    ]
    short = [each for each in view.supplies if f"Insufficient {each.resource}" in condition.message]
    if short:
        return _insufficient(short, condition)
    fits = view.summary.node if view.summary else ""
    if not refusals and fits:
        return Finding(
            layer="Scheduling",
            reason="Allocatable",
            message=f"its claims could be allocated on {fits} now: the scheduler has not tried "
            "again yet",
            since=condition.last_transition_time,
            evidence=(condition.message,) if condition.message else (),
            todo=("it tries again within five minutes, or when something changes",),
        )
    return Finding(
        layer="Scheduling",
        reason="OtherResources",
        message="the scheduler finds no node for it, and not because of its devices",
        since=condition.last_transition_time,
        evidence=tuple(f"{nodes or 'all'} nodes: {why}" for nodes, why in refusals),
        todo=("kubectl describe node NODE shows what a node has left",),
    )


def _insufficient(short: Sequence[Supply], condition: Condition) -> Finding:
    """Return that device plugins offer too few of a resource."""
    first, *_ = short
    where = f"{first.allocatable} are allocatable in all"
    if not first.nodes:
        where = "no node has any"
    elif first.most_free is not None:
        where = f"the emptiest has {first.most_free} left"
    return Finding(
        layer="Scheduling",
        reason="Insufficient",
        message=f"it requests {first.requested} of {first.resource} on one node, and {where}",
        since=condition.last_transition_time,
        evidence=tuple(map(_in_words, short)),
        todo=(
            (f"no device plugin and no DeviceClass offers {first.resource}: install one",)
            if not first.nodes
            else ("wait until pods end, or add nodes",)
        ),
    )


def _in_words(supply: Supply) -> str:
    sick = supply.installed - supply.allocatable
    used = "unknown" if supply.used is None else supply.used
    most = "unknown" if supply.most_free is None else supply.most_free
    return (
        f"{supply.resource}: {supply.installed} installed on {supply.nodes} nodes, "
        f"{sick} unhealthy, {used} requested by other pods, {most} free on the emptiest node"
    )


def parts(message: str) -> list[tuple[int, str]]:
    """Return what the scheduler refuses nodes for, and on how many; 0: it does not say."""
    plain = _TAIL.sub("", _HEAD.sub("", message.strip()))
    return [(int(each["nodes"] or 0), each["why"]) for each in _PART.finditer(plain)]
