"""Why one pod or claim waits: everything that was read of a cluster into one answer. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property

import msgspec

from allocation.answers import Answers
from allocation.attempt import Attempt, attempt
from allocation.capacity import CapacityError
from allocation.demand import Demand
from allocation.enough import Enough
from allocation.layers.allocation import CHANGES
from allocation.layers.claim_without_pod import claim_without_pod
from allocation.layers.finding import DeviceNote, Finding, PodView
from allocation.layers.walk import first_finding
from allocation.model.claims import BLOCKING, Claim, DeviceClass
from allocation.model.device_use import DeviceUse
from allocation.model.events import Event
from allocation.model.nodes import Node, NodeSelectorError
from allocation.model.pods import NodeWhy, Pod
from allocation.model.slices import ResourceSlice, Taint
from allocation.node_changes import node_changes
from allocation.plugin import Supply, classes_of_resources, supplies
from allocation.pools import Published
from allocation.remedies import Change, Scene, remedies
from allocation.search import Cluster
from allocation.summary import Summary, summary_of
from allocation.usage import PoolName, Usage
from exporter.model.device import Device

TO_ALLOCATE = ("slices", "rules", "classes", "claims", "nodes")
"""Without one of these it is not known what can be allocated."""


class Inventory(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """What a cluster has. Of a pod that has a node only that node's part is needed.

    One serves for many pods: what is derived from it is kept.
    """

    slices: tuple[ResourceSlice, ...] = ()
    """With the taints of DeviceTaintRules (`model.slices.with_rules`)."""
    classes: tuple[DeviceClass, ...] = ()
    claims: tuple[Claim, ...] = ()
    nodes: tuple[Node, ...] = ()
    used: Mapping[str, Mapping[str, int]] | None = None
    """By node and extended resource: what pods request there; None: they were not listed."""

    @cached_property
    def cluster(self) -> Cluster:
        """What there is to allocate. Raises CapacityError."""
        classes = {each.metadata.name: each for each in self.classes}
        return Cluster(Published(self.slices), Usage.of(self.claims), classes)

    def around(
        self, nodes: Iterable[Node], waiting: tuple[Claim, ...], pod: Pod | None = None
    ) -> Scene:
        """Return what matters to claims on nodes. Raises NodeSelectorError, CapacityError."""
        published = self.cluster.published
        slices = {name: given for node in nodes for name, given in published.around(node).items()}
        places = {place for pool in slices for place in self.claims_by_pool.get(pool, ())}
        return Scene(
            waiting=waiting,
            slices=tuple(given for each in slices.values() for given in each),
            claims=tuple(self.claims[place] for place in sorted(places)),
            classes=self.cluster.classes,
            pod=pod,
        )

    @cached_property
    def claims_by_pool(self) -> Mapping[PoolName, Sequence[int]]:
        """Which of the claims, by place, have devices of a pool."""
        found: dict[PoolName, list[int]] = {}
        for place, claim in enumerate(self.claims):
            for each in claim.results:
                found.setdefault((each.driver, each.pool), []).append(place)
        return found


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """What was read about one pod or claim."""

    at: datetime
    pod: Pod | None
    """None: no pod uses the claim."""
    claims: tuple[Claim, ...]
    """Those of the pod that exist; or the claim."""
    templates: Mapping[str, bool] = {}
    """As in `PodView`."""
    events: tuple[Event, ...] = ()
    inventory: Inventory = Inventory()
    incidents: Mapping[Device, str] = {}
    """By device: what Draguard's open incident of it says."""
    uses: tuple[DeviceUse, ...] | None = None
    """What the pod has on its node; None: not known."""
    unread: Mapping[str, str] = {}
    """Rights that are missing, by the part that is empty: of the inventory, and others."""
    unreadable: str = ""
    """Objects that this version cannot read, of what can be allocated."""


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    finding: Finding
    summary: Summary | None = None
    """Of the claims that wait."""
    changes: tuple[Change, ...] = ()
    supplies: tuple[Supply, ...] = ()
    """Of extended resources that device plugins serve."""


class Outcome(msgspec.Struct, frozen=True):
    """What becomes of the claims that wait."""

    summary: Summary | None = None
    """None: of none, or it is not known, for one of the next two."""
    changes: tuple[Change, ...] = ()
    unread: tuple[str, ...] = ()
    unknown: str = ""
    supplies: tuple[Supply, ...] = ()
    """Of extended resources of device plugins."""
    elsewhere: Mapping[str, tuple[NodeWhy, str]] | None = None
    """As in `PodView`, of the claims that are allocated."""


def explain(known: Known, answers: Answers) -> Explanation:
    """Return why the pod or the claim waits, or that it does not."""
    stock = known.inventory
    demand, requested = demand_of(known.pod, known.claims, classes_of_resources(stock.classes))
    outcome = _outcome(known, demand, requested, answers)
    if requested and not outcome.unread:
        outcome = msgspec.structs.replace(outcome, supplies=supplies_of(requested, stock))
    nodes = () if "nodes" in known.unread else stock.nodes
    outcome = msgspec.structs.replace(outcome, elsewhere=elsewhere(demand, nodes, answers))
    health = tuple(notes_on(known.claims, taints_of(stock.slices), known.incidents))
    return explanation_of(known, demand, outcome, health)


def demand_of(
    pod: Pod | None, claims: tuple[Claim, ...], classes: Mapping[str, str]
) -> tuple[Demand, Mapping[str, int]]:
    """Return what the scheduler still has to find, and what of extended resources.

    `claims` are those of the pod that exist; `classes` has the DeviceClass of each resource.
    """
    if pod is not None and pod.spec.node_name:
        return Demand.of(pod, (), claims), {}
    waiting = tuple(claim for claim in claims if claim.status.allocation is None)
    requested: Mapping[str, int] = {}
    # The scheduler deletes its claim where it could not be bound, and the status still names it.
    existing = {claim.metadata.name for claim in claims}
    if (
        pod is not None
        and pod.status.extended_resource_claim_status.resource_claim_name not in existing
    ):
        requested = pod.extended_resources()
        made = pod.extended_claim(classes)
        waiting += (made,) if made else ()
    return Demand.of(pod, waiting, claims), requested


def explanation_of(
    known: Known, demand: Demand, outcome: Outcome, health: tuple[DeviceNote, ...]
) -> Explanation:
    """Return where the pod or the claim stands, with what becomes of its demand."""
    own = {claim.key for claim in known.claims}
    changes = tuple(
        each for each in outcome.changes if each.what != "Free" or each.which not in own
    )
    outcome = msgspec.structs.replace(outcome, changes=changes)
    if known.pod is None:
        (claim,) = known.claims
        finding = claim_without_pod(claim, outcome.summary)
        return Explanation(finding=finding, summary=outcome.summary, changes=changes)
    view = view_of(known, known.pod, demand, outcome, health)
    return Explanation(
        finding=first_finding(view),
        summary=outcome.summary,
        changes=changes,
        supplies=view.supplies,
    )


def elsewhere(
    demand: Demand, nodes: Sequence[Node], answers: Answers
) -> Mapping[str, tuple[NodeWhy, str]] | None:
    """Return what closes each node to a pod that has all of its allocated claims.

    None: one of these nodes is open, or that is not known. Raises OutOfTimeError.
    """
    if not (demand.placed and nodes):
        return None
    found: dict[str, tuple[NodeWhy, str]] = {}
    for node in nodes:
        answers.check()
        try:
            why = demand.why_not_on(node)
        except NodeSelectorError:
            return None
        if why is None:
            return None
        if why[0] != "ClaimElsewhere":
            found[node.name] = why
    return found


def supplies_of(requested: Mapping[str, int], stock: Inventory) -> tuple[Supply, ...]:
    """Return what device plugins have of extended resources; what DRA alone serves is none."""
    served = classes_of_resources(stock.classes)
    found = supplies(requested, stock.nodes, stock.used)
    return tuple(each for each in found if each.nodes or each.resource not in served)


def view_of(
    known: Known, pod: Pod, demand: Demand, outcome: Outcome, health: tuple[DeviceNote, ...]
) -> PodView:
    """Return the pod of what is known, with all that the layers look at."""
    return PodView(
        pod=pod,
        now=known.at,
        claims={claim.metadata.name: claim for claim in known.claims},
        templates=known.templates,
        events=known.events,
        demand=demand,
        elsewhere=outcome.elsewhere,
        summary=outcome.summary,
        changes=outcome.changes,
        supplies=outcome.supplies,
        unread=outcome.unread,
        unknown=outcome.unknown,
        health=health,
        uses=known.uses,
    )


def _outcome(
    known: Known, demand: Demand, requested: Mapping[str, int], answers: Answers
) -> Outcome:
    """Return what becomes of a demand, as far as what was read says it.

    Devices say enough without nodes and rules, which can only keep more away; not where slices
    select nodes by labels, or where a device plugin may serve the pod.
    """
    stock, nodes = known.inventory, known.inventory.nodes
    unread = {part: why for part, why in known.unread.items() if part in TO_ALLOCATE}
    if not (demand.waiting or requested):
        return Outcome()
    hidden = Outcome(unread=tuple(unread.values()))
    enough = unread.keys() <= {"nodes", "rules"}
    if "nodes" in unread:
        specs = [each.spec for each in stock.slices]
        enough &= not requested and all(spec.node_name or spec.all_nodes for spec in specs)
        demand = Demand(demand.waiting, None, demand.placed)
        named = {spec.node_name for spec in specs} - {""}
        nodes = tuple(map(Node, sorted(named) or ["any node"]))
    if not (enough and demand.waiting):
        return hidden
    if known.unreadable:
        return Outcome(unknown=known.unreadable)
    try:
        tried = attempt(demand, nodes, stock.cluster, answers)
        summary = summary_of(tried, stock.cluster, answers)
        if not unread:
            full = known.pod and any(
                each.is_full_for(known.pod.metadata.uid) for each in known.claims
            )
            changes = () if full else _changes(tried, summary, stock, answers)
            return Outcome(summary, changes)
    except (NodeSelectorError, CapacityError) as error:
        # Something that is published or requested says nothing to the scheduler either.
        return Outcome(unknown=str(error))
    # What would be enough is not known then; nor whether the pod comes to where a search fails.
    open_question = summary.verdict == "Allocatable" or ("nodes" in unread and tried.errors)
    return hidden if open_question else Outcome(summary)


def _changes(
    tried: Attempt, summary: Summary, stock: Inventory, answers: Answers
) -> tuple[Change, ...]:
    """Return what would be enough, each alone. Raises NodeSelectorError, CapacityError."""
    if summary.verdict == "Allocatable":
        return ()
    cluster, demand = stock.cluster, tried.demand
    enough = Enough(tried, cluster, stock.around, answers)
    found: list[Change] = []
    for node in tried.nodes:
        if node.name in summary.near:
            # Each change is a search of its own: of what this node can use.
            scene = stock.around((node,), demand.claims_on(node), demand.pod)
            found += remedies(scene, node, answers)
    whole = Scene(demand.waiting, stock.slices, stock.claims, cluster.classes, demand.pod)
    taken = [each for each in dict.fromkeys(found) if enough.takes(each, whole)]
    # What changes the request comes after what gives it its devices as it is.
    kinds = [*CHANGES]
    every = (*node_changes(enough, cluster, answers), *taken)
    return tuple(sorted(every, key=lambda each: kinds.index(each.what)))


def taints_of(slices: Iterable[ResourceSlice]) -> dict[Device, tuple[Taint, ...]]:
    """Return the taints of each device that has any."""
    return {
        given.device(each): each.taints
        for given in slices
        for each in given.spec.devices
        if each.taints
    }


def notes_on(
    claims: Iterable[Claim],
    taints: Mapping[Device, tuple[Taint, ...]],
    incidents: Mapping[Device, str],
) -> Iterator[DeviceNote]:
    """Yield what is wrong with the devices of claims."""
    for claim in claims:
        for result in claim.results:
            if stated := incidents.get(result.name):
                yield DeviceNote(result.name, "DeviceSick", stated)
            for taint in taints.get(result.name, ()):
                tolerated = any(each.tolerates(taint) for each in result.tolerations)
                if taint.effect in BLOCKING and not (tolerated or taint.doubt):
                    rule = f" by rule {taint.rule}" if taint.rule else " by its driver"
                    yield DeviceNote(
                        result.name, "DeviceTainted", f"tainted {taint.key}:{taint.effect}{rule}"
                    )
