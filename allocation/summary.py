"""Why a pod's claims wait: all nodes and devices in a few lines. Pure.

Each device is counted once, under the reason that is hardest to take away: an allocated GPU that is
tainted as well is allocated. A device of another class is none of the candidates.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec

from allocation.answers import Answers
from allocation.candidates import Selection, candidates
from allocation.model.claims import Choice, Claim
from allocation.model.nodes import Node
from allocation.model.pods import NodeWhy, WaitingPod
from allocation.reasons import Ending, Reason, Why
from allocation.search import Cluster, allocate
from exporter.model.device import Device

HARDEST: tuple[Why, ...] = (
    "RequestSelector",
    "SelectorFails",
    "NotEvaluated",
    "PoolInvalid",
    "PoolIncomplete",
    "Allocated",
    "Counters",
    "Capacity",
    "NodeAffinity",
    "NodeTainted",
    "NodeNotReady",
    "NodeCordoned",
    "Tainted",
    "Constraint",
)
"""By which reason a device is counted that has several: the first of these."""

Verdict = Literal[
    "Allocatable", "ClassMissing", "NoDevices", "TooFew", "TooFewTogether", "Fails", "NotEvaluated"
]
"""`TooFew`: fewer than requested can be had anywhere. `TooFewTogether`: not on one node, or not
under the constraints. `Fails`: the scheduler gives up with an error."""


class Group(msgspec.Struct, frozen=True):
    """Devices that one kind of reason keeps away."""

    why: Why
    what: str
    devices: tuple[Device, ...]


class RequestSummary(msgspec.Struct, frozen=True):
    """One choice of a request, over all nodes."""

    claim: str
    request: str
    """`request`, or `request/alternative`."""
    count: int
    """0: all of a node."""
    free: int
    """Devices that could be had, each alone."""
    most_on_a_node: int
    groups: tuple[Group, ...]
    """The most devices first."""


class Summary(msgspec.Struct, frozen=True):
    verdict: Verdict
    why: str
    """Of ClassMissing, Fails and NotEvaluated."""
    nodes: Mapping[Ending, int]
    """How many of the nodes that the pod may run on end how."""
    requests: tuple[RequestSummary, ...]
    node: str
    """The first on which the claims fit, "" for none."""


def summarize(
    waiting: Sequence[Claim],
    pod: WaitingPod | None,
    nodes: Sequence[Node],
    cluster: Cluster,
    answers: Answers,
) -> Summary:
    """Return why claims wait; without a pod any node will do. Raises NodeSelectorError."""
    away = {node.name: pod.why_not_on(node) if pod else None for node in nodes}
    outcomes = {
        node.name: allocate(waiting, node, cluster, answers)
        for node in nodes
        if away[node.name] is None
    }
    by_request = [
        [
            _of_choice(claim, request.name, choice, nodes, away, cluster, answers)
            for choice in request.choices
        ]
        for claim in waiting
        for request in claim.spec.devices.requests
    ]
    fits = sorted(name for name, each in outcomes.items() if each.ending == "Allocated")
    verdict, why = "Allocatable", ""
    if not fits:
        verdict, why = _worst(by_request)
        # An error, or what is not known, comes before a number that rests on it.
        for ending in ("Fails", "NotEvaluated") if verdict != "ClassMissing" else ():
            if texts := sorted(each.why for each in outcomes.values() if each.ending == ending):
                verdict, why = ending, texts[0]
                break
    return Summary(
        verdict=verdict,
        why=why,
        nodes=Counter(each.ending for each in outcomes.values()),
        requests=tuple(
            each for choices in by_request for each in choices if isinstance(each, RequestSummary)
        ),
        node=fits[0] if fits else "",
    )


def _worst(by_request: Iterable[Sequence[RequestSummary | str]]) -> tuple[Verdict, str]:
    """Return the verdict of the request that is farthest from being served."""
    found: set[Verdict] = set()
    for choices in by_request:
        known = [each for each in choices if isinstance(each, RequestSummary)]
        if not known:
            return "ClassMissing", next(each for each in choices if isinstance(each, str))
        if not any(each.free or each.groups for each in known):
            found.add("NoDevices")
        elif all(each.free < max(each.count, 1) for each in known):
            found.add("TooFew")
    if "NoDevices" in found:
        return "NoDevices", ""
    return ("TooFew" if "TooFew" in found else "TooFewTogether"), ""


def _of_choice(  # noqa: PLR0917 - everything that it rests on
    claim: Claim,
    request: str,
    choice: Choice,
    nodes: Sequence[Node],
    away: Mapping[str, tuple[NodeWhy, str] | None],
    cluster: Cluster,
    answers: Answers,
) -> RequestSummary | str:
    """Return what becomes of one choice on all nodes; a text: its class does not exist."""
    device_class = cluster.classes.get(choice.device_class_name)
    if device_class is None:
        return f"DeviceClass {choice.device_class_name} does not exist"
    selection = Selection(request, choice, device_class, answers)
    constraints = claim.spec.devices.constraints
    best: dict[Device, tuple[Reason, ...]] = {}
    free = Counter[str]()
    for node in nodes:
        kept = away[node.name]
        of_node = (Reason(*kept),) if kept else ()
        pools = cluster.published.pools_of(node)
        for each in candidates(selection, pools, node, cluster.usage, constraints):
            if any(reason.why in {"ClassSelector", "OtherNode"} for reason in each.reasons):
                continue
            reasons = (*of_node, *each.reasons)
            free[node.name] += not reasons
            # Several nodes may see one device: it counts as where it comes closest.
            if each.device not in best or len(reasons) < len(best[each.device]):
                best[each.device] = reasons
    groups: dict[tuple[Why, str], list[Device]] = {}
    for device, reasons in best.items():
        if reasons:
            first = min(reasons, key=lambda reason: HARDEST.index(reason.why))
            groups.setdefault((first.why, first.what), []).append(device)
    return RequestSummary(
        claim=claim.key,
        request=selection.name,
        count=0 if choice.allocation_mode == "All" else choice.count,
        free=sum(not reasons for reasons in best.values()),
        most_on_a_node=max(free.values(), default=0),
        groups=tuple(
            Group(why, what, tuple(sorted(devices)))
            for (why, what), devices in sorted(
                groups.items(), key=lambda entry: (-len(entry[1]), entry[0])
            )
        ),
    )
