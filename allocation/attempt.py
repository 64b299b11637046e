"""One attempt of the scheduler: what it does on each node that it searches for devices. Pure.

An error on one of them ends the attempt, whatever others have. What is closed by a cordon, a taint
or a selector is not searched; a node where an allocated claim of the pod is not is searched all the
same (`Filter` of plugin DynamicResources in Kubernetes 1.37).
"""

from collections.abc import Mapping, Sequence
from operator import itemgetter

import msgspec

from allocation import capacity
from allocation.answers import Answers
from allocation.candidates import Selection
from allocation.capacity import CapacityError
from allocation.demand import Demand
from allocation.model.claims import Claim
from allocation.model.nodes import Node
from allocation.model.pods import NodeWhy
from allocation.pools import Pool
from allocation.reasons import Fault, Outcome
from allocation.search import Cluster, allocate


class Attempt(msgspec.Struct, frozen=True):
    demand: Demand
    nodes: Sequence[Node]
    away: Mapping[str, tuple[NodeWhy, str] | None]
    """What closes each node, and by what; None: it is open."""
    outcomes: Mapping[str, Outcome]
    """Of the nodes that are open."""
    errors: Mapping[str, tuple[Fault, str]]
    """By node: what a search ends with that comes to one, also where a claim is elsewhere."""

    @property
    def error(self) -> tuple[Fault, str] | None:
        """Return what ends the attempt; None: nothing does, or the scheduler does not say so."""
        found = self.errors.values() if self.demand.may_end_in_error else ()
        return min(found, key=itemgetter(1), default=None)


def attempt(demand: Demand, nodes: Sequence[Node], cluster: Cluster, answers: Answers) -> Attempt:
    """Return what the scheduler does on all nodes.

    Raises NodeSelectorError and OutOfTimeError.
    """
    away: dict[str, tuple[NodeWhy, str] | None] = {}
    outcomes: dict[str, Outcome] = {}
    errors: dict[str, tuple[Fault, str]] = {}
    for node in nodes:
        # A tenant chooses how much is compared with each node.
        answers.check()
        away[node.name] = kept = demand.why_not_on(node)
        if kept is not None and (kept[0] != "ClaimElsewhere" or demand.why_not_searched(node)):
            continue
        found = allocate(demand.claims_on(node), node, cluster, answers)
        if fault := found.fault:
            errors[node.name] = fault, found.why
            if not demand.may_end_in_error:
                away[node.name] = kept = "OtherResources", ""
        if kept is None:
            outcomes[node.name] = found
    return Attempt(demand, nodes, away, outcomes, errors)


def may_fail(claims: Sequence[Claim], node: Node, cluster: Cluster, answers: Answers) -> bool:
    """Whether a search on a node may end with an error after a single change.

    It does so at a device on which a selector fails, or is not evaluated here, or whose capacity
    cannot be read; or where all devices are requested. Raises NodeSelectorError, CapacityError.
    """
    for claim in claims:
        for request in claim.spec.devices.requests:
            for choice in request.choices:
                device_class = cluster.classes.get(choice.device_class_name)
                if choice.allocation_mode == "All" or device_class is None:
                    return True
                selection = Selection(request.name, choice, device_class, answers)
                if any(_fails(selection, pool) for pool in cluster.published.pools_of(node)):
                    return True
    return False


def _fails(selection: Selection, pool: Pool) -> bool:
    requests = selection.choice.capacity.requests
    for spot, selectors in selection.devices(pool):
        if any(reason.why in {"SelectorFails", "NotEvaluated"} for reason in selectors):
            return True
        try:
            if requests or not spot.suffices:
                capacity.too_little(requests, spot.device, {})
        except CapacityError:
            return True
    return False
