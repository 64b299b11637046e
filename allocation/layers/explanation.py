"""Why one pod or claim waits: everything that was read of a cluster into one answer. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

import msgspec

from allocation.answers import Answers
from allocation.capacity import CapacityError
from allocation.demand import Demand
from allocation.layers.allocation import CHANGES
from allocation.layers.finding import DeviceNote, Finding, PodView
from allocation.layers.unused import unused
from allocation.layers.walk import first_finding
from allocation.model.claims import BLOCKING, Claim, DeviceClass
from allocation.model.events import Event
from allocation.model.nodes import Node, NodeSelectorError
from allocation.model.pods import Pod
from allocation.model.slices import ResourceSlice
from allocation.node_changes import node_changes
from allocation.plugin import Supply, classes_of_resources, supplies
from allocation.remedies import Change, Scene, remedies
from allocation.summary import Summary, summarize
from exporter.model.device import Device

TO_ALLOCATE = ("slices", "rules", "classes", "claims", "nodes")
"""Without one of these it is not known what can be allocated."""


class Inventory(msgspec.Struct, frozen=True, kw_only=True):
    """What a cluster has. Of a pod that has a node only that node's part is needed."""

    slices: tuple[ResourceSlice, ...] = ()
    """With the taints of DeviceTaintRules (`model.slices.with_rules`)."""
    classes: tuple[DeviceClass, ...] = ()
    claims: tuple[Claim, ...] = ()
    nodes: tuple[Node, ...] = ()
    used: Mapping[str, Mapping[str, int]] | None = None
    """By node and extended resource: what pods request there; None: they were not listed."""


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """What was read about one pod or claim."""

    at: datetime
    pod: Pod | None
    """None: no pod uses the claim."""
    claims: tuple[Claim, ...]
    """Those of the pod that exist; or the claim."""
    templates: frozenset[str] = frozenset()
    events: tuple[Event, ...] = ()
    inventory: Inventory = Inventory()
    incidents: Mapping[Device, str] = {}
    """By device: what Draguard's open incident of it says."""
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


def explain(known: Known, answers: Answers) -> Explanation:
    """Return why the pod or the claim waits, or that it does not."""
    pod, stock = known.pod, known.inventory
    bound = bool(pod and pod.spec.node_name)
    waiting = tuple(claim for claim in known.claims if claim.status.allocation is None)
    requested: Mapping[str, int] = {}
    if pod is not None and not pod.status.extended_resource_claim_status.resource_claim_name:
        requested = pod.extended_resources()
        made = pod.extended_claim(classes_of_resources(stock.classes))
        waiting += (made,) if made else ()
    if bound:
        waiting, requested = (), {}
    demand = Demand.of(pod, waiting, known.claims)
    unread = {part: why for part, why in known.unread.items() if part in TO_ALLOCATE}
    if not (waiting or requested):
        unread = {}
    summary, changes, by_plugin, unknown = None, (), (), known.unreadable
    # Devices say enough without nodes and rules, which can only keep more away; not where slices
    # select nodes by labels, or where a device plugin may serve the pod.
    specs = [each.spec for each in stock.slices]
    named_all = all(spec.node_name or spec.all_nodes for spec in specs)
    without_nodes = "nodes" in unread
    enough = unread.keys() <= {"nodes", "rules"} and (
        not without_nodes or (named_all and not requested)
    )
    if waiting and enough and not unknown:
        try:
            partly = Demand(waiting, None, demand.placed) if without_nodes else demand
            named = {spec.node_name for spec in specs} - {""}
            stand_ins = tuple(map(Node, sorted(named) or ["any node"]))
            nodes = stand_ins if without_nodes else stock.nodes
            summary, changes = _allocation(partly, nodes, stock, answers)
        except (NodeSelectorError, CapacityError) as error:
            unknown = str(error)
    if unread and summary:
        # What is unread can only keep more away; and what would be enough is not known.
        summary, changes = None if summary.verdict == "Allocatable" else summary, ()
        unread = {} if summary else unread
    if pod is None:
        (claim,) = known.claims
        return Explanation(finding=unused(claim, summary), summary=summary, changes=changes)
    if requested and not unread:
        served = classes_of_resources(stock.classes)
        found = supplies(requested, stock.nodes, stock.used)
        by_plugin = tuple(each for each in found if each.nodes or each.resource not in served)
    own = {claim.key for claim in known.claims}
    changes = tuple(each for each in changes if each.what != "Free" or each.which not in own)
    view = PodView(
        pod=pod,
        now=known.at,
        claims={claim.metadata.name: claim for claim in known.claims},
        templates=known.templates,
        events=known.events,
        demand=demand,
        nodes=() if "nodes" in known.unread else stock.nodes,
        summary=summary,
        changes=changes,
        supplies=by_plugin,
        unread=tuple(unread.values()),
        unknown=unknown if waiting else "",
        health=tuple(_notes(known)),
    )
    return Explanation(
        finding=first_finding(view), summary=summary, changes=changes, supplies=by_plugin
    )


def _allocation(
    demand: Demand, nodes: Sequence[Node], stock: Inventory, answers: Answers
) -> tuple[Summary, tuple[Change, ...]]:
    """Raises NodeSelectorError, CapacityError."""
    classes = {each.metadata.name: each for each in stock.classes}
    allocated = tuple(claim for claim in stock.claims if claim.status.allocation is not None)
    scene = Scene(demand.waiting, stock.slices, allocated, classes)
    cluster = scene.cluster()
    summary = summarize(demand, nodes, cluster, answers)
    if summary.verdict == "Allocatable":
        return summary, ()
    found = list(node_changes(demand, nodes, cluster, answers))
    for node in nodes:
        if node.name in summary.near:
            # Each change is a search of its own: of what this node can use.
            around = cluster.published.around(node)
            here = Scene(
                waiting=demand.claims_on(node),
                slices=tuple(given for slices in around.values() for given in slices),
                claims=tuple(
                    claim
                    for claim in allocated
                    if any((each.driver, each.pool) in around for each in claim.results)
                ),
                classes=classes,
            )
            found += remedies(here, node, answers)
    # What changes the request comes after what gives it its devices as it is.
    kinds = [*CHANGES]
    if summary.verdict == "Fails":
        found = [each for each in found if each.what == "DropSelector"]
    return summary, tuple(sorted(dict.fromkeys(found), key=lambda each: kinds.index(each.what)))


def _notes(known: Known) -> Iterator[DeviceNote]:
    """Yield what is wrong with the devices of the claims."""
    taints = {
        given.device(each): each.taints
        for given in known.inventory.slices
        for each in given.spec.devices
        if each.taints
    }
    for claim in known.claims:
        for result in claim.results:
            if stated := known.incidents.get(result.name):
                yield DeviceNote(result.name, "DeviceSick", stated)
            for taint in taints.get(result.name, ()):
                tolerated = any(each.tolerates(taint) for each in result.tolerations)
                if taint.effect in BLOCKING and not tolerated:
                    rule = f" by rule {taint.rule}" if taint.rule else " by its driver"
                    yield DeviceNote(
                        result.name, "DeviceTainted", f"tainted {taint.key}:{taint.effect}{rule}"
                    )
