"""Why a pod's claims wait: all nodes and devices in a few lines. Pure.

Each device is counted once, under the reason that is hardest to take away: an allocated GPU that is
tainted as well is allocated. A device of another class is none of the candidates.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, get_args

import msgspec

from allocation.answers import Answers
from allocation.attempt import Attempt, attempt
from allocation.candidates import Selection, candidates
from allocation.demand import Demand, resource_of
from allocation.model.claims import Choice, Claim, Constraint, Request
from allocation.model.nodes import Node
from allocation.model.slices import PublishedDevice
from allocation.reasons import Candidate, Ending, Fault, Reason, Why
from allocation.search import Cluster
from allocation.selectors.device import names_read
from exporter.model.device import Device

HARDEST: tuple[Why, ...] = (
    "RequestSelector",
    "SelectorFails",
    "Fails",
    "NotEvaluated",
    "PoolInvalid",
    "PoolIncomplete",
    "Allocated",
    "Counters",
    "Capacity",
    "ClaimElsewhere",
    "NodeAffinity",
    "NodeTainted",
    "NodeNotReady",
    "NodeCordoned",
    "OtherResources",
    "Tainted",
    "Constraint",
)
"""By which reason a device is counted that has several: the first of these."""

NEAREST = 3
"""Nodes that are named as the nearest."""
MOST_VALUES = 6
"""Of attributes that are shown for one selector."""
MOST_POOLS = 3
"""That are named where no node is chosen by them."""
_BY_SELECTOR = frozenset({"RequestSelector", "SelectorFails"})
_NOT_MEANT = frozenset({"ClassSelector", "OtherNode"})
"""Of devices that are none of the candidates."""

_FAULTS: frozenset[str] = frozenset(get_args(Fault))

Verdict = Literal[
    "Allocatable",
    "ClassMissing",
    "NoDevices",
    "NoNodeChosen",
    "TooFew",
    "TooFewTogether",
    Fault,
    "NotEvaluated",
]
"""`NoNodeChosen`: there are devices, for no node that there is. `TooFew`: fewer than requested can
be had anywhere. `TooFewTogether`: not on one node, or not under the constraints."""


class Group(msgspec.Struct, frozen=True):
    """Devices that one kind of reason keeps away."""

    why: Why
    what: str
    number: int
    devices: tuple[Device, ...]
    """That many; () where only the number is kept."""
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
    resource: str
    """The extended resource that it is for, "" for none."""
    device_class: str
    count: int
    """0: all of a node."""
    free: int
    """Devices that could be had, each alone."""
    most_on_a_node: int
    lacks: int
    """How many more devices it needs than can be had anywhere, with those of its class together."""
    whole: bool
    """Whether all devices of some node can be had."""
    groups: tuple[Group, ...]
    """The most devices first."""

    @property
    def name(self) -> str:
        return f"{self.request}/{self.alternative}" if self.alternative else self.request

    @property
    def devices(self) -> int:
        """How many there are of the class, free or not."""
        return self.free + sum(each.number for each in self.groups)


class Summary(msgspec.Struct, frozen=True):
    verdict: Verdict
    why: str
    """Of ClassMissing, NoNodeChosen, faults and NotEvaluated; of NoDevices: the classes."""
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


def summarize(demand: Demand, nodes: Sequence[Node], cluster: Cluster, answers: Answers) -> Summary:
    """Return why claims wait. Raises NodeSelectorError, CapacityError."""
    return summary_of(attempt(demand, nodes, cluster, answers), cluster, answers)


def summary_of(tried: Attempt, cluster: Cluster, answers: Answers) -> Summary:
    """Return why claims wait that an attempt has not served, if so. Raises CapacityError."""
    outcomes = tried.outcomes
    look = _Look(tried, cluster, answers)
    by_request = [
        look.of_request(claim, request)
        for claim in tried.demand.waiting
        for request in claim.spec.devices.requests
    ]
    # What device plugins alone have is none of DRA's.
    plugged = {name for node in tried.nodes for name, amount in node.allocatable.items() if amount}
    requests = tuple(
        each
        for choices in by_request
        for each in choices
        if isinstance(each, RequestSummary) and (each.devices or each.resource not in plugged)
    )
    fits = sorted(name for name, each in outcomes.items() if each.ending == "Allocated")
    verdict, why = "Allocatable", ""
    if not fits:
        requests = look.with_shortage(requests)
        verdict, why = _worst(by_request, requests, look)
    # An error on one node ends the attempt, whatever other nodes have; and it comes before a number
    # that rests on it, as does what is not known.
    unknown = sorted(each.why for each in outcomes.values() if each.ending == "NotEvaluated")
    if verdict != "ClassMissing" and tried.error:
        verdict, why = tried.error
    elif verdict != "ClassMissing" and unknown and not fits:
        verdict, why = "NotEvaluated", unknown[0]
    near = [name for name, _ in look.near.most_common() if tried.away[name] is None]
    return Summary(
        verdict=verdict,
        why=why,
        nodes=Counter(each.ending for each in outcomes.values()),
        requests=requests,
        node=fits[0] if fits else "",
        near=tuple(near[:NEAREST]),
        drivers=cluster.published.drivers(),
    )


class _Look:
    """All devices of all nodes, by what keeps them away."""

    def __init__(self, tried: Attempt, cluster: Cluster, answers: Answers) -> None:
        self._nodes, self._away = tried.nodes, tried.away
        self._cluster, self._answers = cluster, answers
        self.near = Counter[str]()
        """By node: devices that are free, or kept away by one reason only."""
        self._exclusive: dict[tuple[str, str, str], frozenset[Device]] = {}
        """The free devices of each choice, where each device serves one request only."""

    def of_request(self, claim: Claim, request: Request) -> list[RequestSummary | str]:
        """Return what becomes of each choice of a request; () is one of a later Kubernetes."""
        return [self._of_choice(claim, request, choice) for choice in request.choices]

    def with_shortage(self, requests: tuple[RequestSummary, ...]) -> tuple[RequestSummary, ...]:
        """Return them with what those of one class lack together, where each alone has enough.

        Not of alternatives: which of them is taken is open.
        """
        found: list[RequestSummary] = []
        for each in requests:
            like = [other for other in requests if other.device_class == each.device_class]
            keys = [(other.claim, other.request, other.alternative) for other in like]
            known = all(key in self._exclusive and not key[2] for key in keys)
            free = frozenset[Device]().union(*(self._exclusive.get(key, ()) for key in keys))
            lacks = sum(max(other.count, 1) for other in like) - len(free) if known else 0
            found.append(msgspec.structs.replace(each, lacks=max(each.lacks, lacks)))
        return tuple(found)

    def pools_of_class(self, name: str) -> list[str]:
        """Return the first few pools, of whichever nodes, with devices of a class."""
        selectors = self._cluster.classes[name].spec.selectors
        found: dict[str, None] = {}
        for given in self._cluster.published.newest():
            if () in self._answers.reasons(given, selectors, ()):
                found[given.spec.pool.name] = None
            if len(found) == MOST_POOLS:
                break
        return [*found]

    def _of_choice(self, claim: Claim, request: Request, choice: Choice) -> RequestSummary | str:
        """Return what becomes of one choice of a request; a text: its class does not exist."""
        device_class = self._cluster.classes.get(choice.device_class_name)
        if device_class is None:
            return f"DeviceClass {choice.device_class_name} does not exist"
        selection = Selection(request.name, choice, device_class, self._answers)
        resource = resource_of(claim, request)
        best: dict[Device, tuple[Reason, ...]] = {}
        free, there = Counter[str](), Counter[str]()
        for node in self._nodes:
            if node.allocatable.get(resource):
                continue  # a device plugin serves it there
            found = self._on_node(node, selection, claim.spec.devices.constraints)
            if not found:
                continue
            numbers = [len(each.reasons) for each in found]
            free[node.name], there[node.name] = numbers.count(0), len(numbers)
            self.near[node.name] += numbers.count(0) + numbers.count(1)
            for each in found:
                # Several nodes may see one device: it counts as where it comes closest.
                known = best.setdefault(each.device, each.reasons)
                if len(each.reasons) < len(known):
                    best[each.device] = each.reasons
        usable = frozenset(device for device, reasons in best.items() if not reasons)
        every, count = choice.allocation_mode == "All", choice.count
        whole = any(free[name] == there[name] for name in there)
        summary = RequestSummary(
            claim=claim.key,
            request=request.name,
            alternative=choice.name,
            resource=resource,
            device_class=choice.device_class_name,
            count=0 if every else count,
            free=len(usable),
            most_on_a_node=max(free.values(), default=0),
            lacks=int(not whole and not usable) if every else max(count - len(usable), 0),
            whole=whole,
            groups=tuple(self._groups(best)),
        )
        published = map(self._cluster.published.device, usable)
        if not choice.admin_access and not any(
            each and each.allow_multiple_allocations for each in published
        ):
            self._exclusive[claim.key, request.name, choice.name] = usable
        return summary

    def _on_node(
        self, node: Node, selection: Selection, constraints: Sequence[Constraint]
    ) -> list[Candidate]:
        """Return the devices of its class that a node has, and what keeps each away."""
        self._answers.check()
        kept = self._away[node.name]
        pools = self._cluster.published.pools_of(node)
        found = [
            each
            for each in candidates(selection, pools, node, self._cluster.usage, constraints)
            if _NOT_MEANT.isdisjoint([reason.why for reason in each.reasons])
        ]
        if kept is None:
            return found
        # There was no error where the scheduler refuses the node before.
        unmet = _FAULTS if kept[0] == "OtherResources" else ()
        return [
            Candidate(
                each.device,
                (Reason(*kept), *(reason for reason in each.reasons if reason.why not in unmet)),
            )
            for each in found
        ]

    def _groups(self, found: Mapping[Device, Sequence[Reason]]) -> Iterator[Group]:
        """Yield the devices by the reason that is hardest to take away, the most first."""
        groups: dict[tuple[Why, str], list[tuple[Device, Reason]]] = {}
        for device, reasons in found.items():
            if reasons:
                first = min(reasons, key=_hardness) if len(reasons) > 1 else reasons[0]
                groups.setdefault((first.why, first.what), []).append((device, first))
        for (why, what), entries in sorted(
            groups.items(), key=lambda entry: (-len(entry[1]), entry[0])
        ):
            names = tuple(sorted(device for device, _ in entries))
            behind = dict.fromkeys(each for _, reason in entries for each in reason.by)
            by, seen, has = tuple(sorted(behind)), (), ()
            if why in _BY_SELECTOR:
                every = [self._cluster.published.device(name) for name in names]
                seen, has = _values(what, [each for each in every if each is not None])
            yield Group(why, what, len(names), names, by, seen, has)


def _worst(
    by_request: Iterable[Sequence[RequestSummary | str]],
    requests: Sequence[RequestSummary],
    look: _Look,
) -> tuple[Verdict, str]:
    """Return the verdict of the request that is farthest from being served."""
    for choices in by_request:
        # Also of one alternative of several: the scheduler refuses the pod.
        if missing := [each for each in choices if isinstance(each, str)]:
            return "ClassMissing", missing[0]
    served = {(each.claim, each.request) for each in requests if each.devices}
    without = [each for each in requests if (each.claim, each.request) not in served]
    pools = {each.device_class: look.pools_of_class(each.device_class) for each in without}
    somewhere = {(each.claim, each.request) for each in without if pools[each.device_class]}
    nowhere = [each for each in without if (each.claim, each.request) not in somewhere]
    if nowhere:
        return "NoDevices", ", ".join(dict.fromkeys(each.device_class for each in nowhere))
    if without:
        texts = [
            f"devices of class {name} are published, but for no node that there is: pool "
            + ", ".join(found)
            for name, found in pools.items()
            if found
        ]
        return "NoNodeChosen", "; ".join(texts)
    served = {(each.claim, each.request) for each in requests if not each.lacks}
    few = any((each.claim, each.request) not in served for each in requests)
    return ("TooFew" if few else "TooFewTogether"), ""


def _hardness(reason: Reason) -> int:
    return HARDEST.index(reason.why)


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
