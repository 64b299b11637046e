"""Which change of a node, or of where the pod may run, would give it its devices there. Pure."""

import msgspec

from allocation.answers import Answers
from allocation.capacity import CapacityError
from allocation.demand import Demand
from allocation.enough import Enough
from allocation.model.claims import Toleration
from allocation.model.nodes import Node, NodeSelectorError
from allocation.model.pods import AFFINITY, CORDON, Affinity, Pod
from allocation.remedies import Change
from allocation.search import Cluster, allocate

MOST = 3
"""Nodes of which a change is offered."""


def node_changes(enough: Enough, cluster: Cluster, answers: Answers) -> tuple[Change, ...]:
    """Return the changes, each of one node, after which that node serves the pod."""
    found: list[Change] = []
    vain: list[Pod] = []
    """Pods that would meet an error on another node."""
    demand = enough.before.demand
    for node in enough.before.nodes if not enough.before.errors else ():
        if len(found) == MOST:
            break
        try:
            change, eased = _change(demand, node) or (None, demand)
            claims = demand.claims_on(node)
            if (
                change is None
                or eased.pod in vain
                or allocate(claims, node, cluster, answers).ending != "Allocated"
            ):
                continue
            if eased == demand or enough.opens(eased):
                found.append(change)
            elif eased.pod is not None and len(vain) < MOST:
                vain.append(eased.pod)
        except (NodeSelectorError, CapacityError):
            continue
    return tuple(found)


def _change(demand: Demand, node: Node) -> tuple[Change, Demand] | None:
    """Return the one thing that closes a node; None: nothing does, or several things."""
    kept, pod = demand.why_not_on(node), demand.pod
    if kept is None or pod is None:
        return None
    why, what = kept
    eased, opened = pod, node
    match why:
        case "NodeCordoned":
            taints = tuple(each for each in node.taints if each.key != CORDON.key)
            opened = msgspec.structs.replace(node, unschedulable=False, taints=taints)
            change = Change("Uncordon", node.name)
        case "NodeNotReady":
            taints = tuple(each for each in node.taints if each.is_passing or not each.is_condition)
            opened = msgspec.structs.replace(node, taints=taints)
            change = Change("MakeReady", f"{node.name} ({what})")
        case "NodeTainted":
            # What says that a node is not ready is nothing to be tolerated.
            taints = [each for each in pod.untolerated(node) if not each.is_condition]
            keys = ", ".join(dict.fromkeys(each.key for each in taints))
            tolerations = tuple(Toleration(each.key, "Exists", "", each.effect) for each in taints)
            eased = _with(pod, tolerations=(*pod.spec.tolerations, *tolerations))
            change = Change("Tolerate", f"{keys} of node {node.name}")
        case "NodeAffinity" if pod.is_of_one_node:
            return None
        case "NodeAffinity":
            selector = {
                key: each for key, each in pod.spec.node_selector.items() if f"{key}={each}" != what
            }
            affinity = Affinity() if what == AFFINITY else pod.spec.affinity
            eased = _with(pod, node_selector=selector, affinity=affinity)
            change = Change("DropNodeSelector", f"{node.name} (its {what})")
        case "ClaimElsewhere" | "OtherResources":
            return None
    after = msgspec.structs.replace(demand, pod=eased)
    return (change, after) if after.why_not_on(opened) is None else None


def _with(pod: Pod, **spec: object) -> Pod:
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, **spec))
