"""Why a pod's claims wait: all nodes and devices in a few lines. Pure.

Each device is counted once, under the reason that is hardest to take away: an allocated GPU that is
tainted as well is allocated. A device of another class is none of the candidates.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from allocation.answers import Answers
from allocation.candidates import Selection, candidates
from allocation.model.claims import Choice, Claim, Constraint
from allocation.model.nodes import Node
from allocation.model.pods import NodeWhy, Pod
from allocation.model.slices import PublishedDevice
from allocation.reasons import Ending, Reason, Why
from allocation.search import Cluster, allocate
from allocation.selectors.device import names_read
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

NEAREST = 3
"""Nodes that are named as the nearest."""
MOST_VALUES = 6
"""Of attributes that are shown for one selector."""
_BY_SELECTOR = frozenset({"RequestSelector", "SelectorFails"})

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
    by: tuple[str, ...] = ()
    """Who is behind it: claims, partitions, rules; see `Reason.by`."""
    seen: tuple[tuple[str, str, int], ...] = ()
    """Of a selector: each attribute that it reads, a value ("": none), and how many have that."""
    has: tuple[str, ...] = ()
    """Where none of them has any that it reads: the names of what they have."""


class RequestSummary(msgspec.Struct, frozen=True):
    """One choice of a request, over all nodes."""

    claim: str
    request: str
    alternative: str
    """Of `firstAvailable`, else ""."""
    device_class: str
    count: int
    """0: all of a node."""
    free: int
    """Devices that could be had, each alone."""
    most_on_a_node: int
    groups: tuple[Group, ...]
    """The most devices first."""

    @property
    def name(self) -> str:
        return f"{self.request}/{self.alternative}" if self.alternative else self.request

    @property
    def devices(self) -> int:
        """How many there are of the class, free or not."""
        return self.free + sum(len(each.devices) for each in self.groups)

    @property
    def lacks(self) -> int:
        """How many more devices it needs than can be had anywhere."""
        return max(max(self.count, 1) - self.free, 0)


class Summary(msgspec.Struct, frozen=True):
    verdict: Verdict
    why: str
    """Of ClassMissing, Fails and NotEvaluated."""
    nodes: Mapping[Ending, int]
    """How many of the nodes that the pod may run on end how."""
    requests: tuple[RequestSummary, ...]
    node: str
    """The first on which the claims fit, "" for none."""
    near: tuple[str, ...] = ()
    """Nodes on which most is free, or kept away by one reason only."""
    drivers: Mapping[str, int] = {}
    """How many devices each driver publishes in all."""

    def lacking(self) -> list[RequestSummary]:
        """Return the choices of requests of which no choice can have enough devices."""
        served = {(each.claim, each.request) for each in self.requests if not each.lacks}
        return [each for each in self.requests if (each.claim, each.request) not in served]


def summarize(
    waiting: Sequence[Claim],
    pod: Pod | None,
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
    look = _Look(nodes, away, cluster, answers)
    by_request = [
        [look.summary(claim, request.name, choice) for choice in request.choices]
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
    near = [name for name, _ in look.near.most_common() if away[name] is None]
    return Summary(
        verdict=verdict,
        why=why,
        nodes=Counter(each.ending for each in outcomes.values()),
        requests=tuple(
            each for choices in by_request for each in choices if isinstance(each, RequestSummary)
        ),
        node=fits[0] if fits else "",
        near=tuple(near[:NEAREST]),
        drivers=cluster.published.drivers(),
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
        elif all(each.lacks for each in known):
            found.add("TooFew")
    if "NoDevices" in found:
        return "NoDevices", ""
    return ("TooFew" if "TooFew" in found else "TooFewTogether"), ""


class _Look:
    """All devices of all nodes, by what keeps them away."""

    def __init__(
        self,
        nodes: Sequence[Node],
        away: Mapping[str, tuple[NodeWhy, str] | None],
        cluster: Cluster,
        answers: Answers,
    ) -> None:
        self._nodes, self._away = nodes, away
        self._cluster, self._answers = cluster, answers
        self.near = Counter[str]()
        """By node: devices that are free, or kept away by one reason only."""

    def summary(self, claim: Claim, request: str, choice: Choice) -> RequestSummary | str:
        """Return what becomes of one choice of a request; a text: its class does not exist."""
        device_class = self._cluster.classes.get(choice.device_class_name)
        if device_class is None:
            return f"DeviceClass {choice.device_class_name} does not exist"
        selection = Selection(request, choice, device_class, self._answers)
        best: dict[Device, tuple[Reason, ...]] = {}
        free = Counter[str]()
        for node in self._nodes:
            for device, reasons in self._on_node(node, selection, claim.spec.devices.constraints):
                free[node.name] += not reasons
                self.near[node.name] += len(reasons) < 2
                # Several nodes may see one device: it counts as where it comes closest.
                if device not in best or len(reasons) < len(best[device]):
                    best[device] = reasons
        return RequestSummary(
            claim=claim.key,
            request=request,
            alternative=choice.name,
            device_class=choice.device_class_name,
            count=0 if choice.allocation_mode == "All" else choice.count,
            free=sum(not reasons for reasons in best.values()),
            most_on_a_node=max(free.values(), default=0),
            groups=tuple(self._groups(best)),
        )

    def _on_node(
        self, node: Node, selection: Selection, constraints: Sequence[Constraint]
    ) -> Iterator[tuple[Device, tuple[Reason, ...]]]:
        """Yield the devices of its class that a node has, and what keeps each away."""
        kept = self._away[node.name]
        of_node = (Reason(*kept),) if kept else ()
        pools = self._cluster.published.pools_of(node)
        for each in candidates(selection, pools, node, self._cluster.usage, constraints):
            if all(reason.why not in {"ClassSelector", "OtherNode"} for reason in each.reasons):
                yield each.device, (*of_node, *each.reasons)

    def _groups(self, found: Mapping[Device, Sequence[Reason]]) -> Iterator[Group]:
        """Yield the devices by the reason that is hardest to take away, the most first."""
        groups: dict[tuple[Why, str], list[Device]] = {}
        behind: dict[tuple[Why, str], set[str]] = {}
        for device, reasons in found.items():
            if reasons:
                first = min(reasons, key=lambda reason: HARDEST.index(reason.why))
                groups.setdefault((first.why, first.what), []).append(device)
                behind.setdefault((first.why, first.what), set()).update(first.by)
        for (why, what), devices in sorted(
            groups.items(), key=lambda entry: (-len(entry[1]), entry[0])
        ):
            names = tuple(sorted(devices))
            by, seen, has = tuple(sorted(behind[why, what])), (), ()
            if why in _BY_SELECTOR:
                every = [self._cluster.published.device(name) for name in names]
                seen, has = _values(what, [each for each in every if each is not None])
            yield Group(why, what, names, by, seen, has)


def _values(
    expression: str, devices: Sequence[PublishedDevice]
) -> tuple[tuple[tuple[str, str, int], ...], tuple[str, ...]]:
    """Return what devices have of the attributes that an expression reads; or what else."""
    read = names_read(expression)
    values = [each.values(read or frozenset()) for each in devices]
    names = sorted({name for each in values for name in each})
    counts = Counter((name, each.get(name, "")) for name in names for each in values)
    seen = tuple((*entry, number) for entry, number in counts.most_common(MOST_VALUES))
    others = {name for each in devices for name in (*each.attributes, *each.capacity)}
    return seen, () if seen or read is None else tuple(sorted(others))
