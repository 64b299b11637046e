"""Why one pod or claim waits: everything that was read of a cluster into one answer. Pure."""

from collections.abc import Iterator, Mapping
from datetime import datetime

import msgspec

from allocation.answers import Answers
from allocation.capacity import CapacityError
from allocation.layers.finding import DeviceNote, Finding, PodView
from allocation.layers.unused import unused
from allocation.layers.walk import first_finding
from allocation.model.claims import BLOCKING, Claim, DeviceClass
from allocation.model.events import Event
from allocation.model.nodes import Node, NodeSelectorError
from allocation.model.pods import Pod
from allocation.model.slices import ResourceSlice
from allocation.plugin import Supply, classes_of_resources, supplies
from allocation.remedies import Change, Scene, node_remedies, remedies
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
    """Why parts are empty, such as a right that is missing: those of the inventory, and others."""


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
    waiting = waiting_claims(known)
    summary, changes = None, ()
    missing = {part: why for part, why in known.unread.items() if part in TO_ALLOCATE}
    doubts = tuple(missing.values())
    if set(missing) == {"nodes"} and _need_no_nodes(pod, stock):
        names = sorted({each.spec.node_name for each in stock.slices} - {""})
        stock = msgspec.structs.replace(stock, nodes=tuple(map(Node, names)))
        doubts = ()
    if waiting and not doubts:
        try:
            summary, changes = _allocation(waiting, None if missing else pod, stock, answers)
        except (NodeSelectorError, CapacityError) as error:
            # Something that is published or requested says nothing to the scheduler either.
            doubts = (str(error),)
    if missing and summary and summary.verdict == "Allocatable":
        summary, doubts = None, tuple(missing.values())
    if pod is None:
        (claim,) = known.claims
        return Explanation(finding=unused(claim, summary), summary=summary, changes=changes)
    by_plugin: tuple[Supply, ...] = ()
    if not pod.spec.node_name:
        served = classes_of_resources(stock.classes)
        found = supplies(pod.extended_resources(), stock.nodes, stock.used)
        by_plugin = tuple(each for each in found if each.nodes or each.resource not in served)
    view = PodView(
        pod=pod,
        now=known.at,
        claims={claim.metadata.name: claim for claim in known.claims},
        templates=known.templates,
        events=known.events,
        nodes=stock.nodes,
        summary=summary,
        changes=changes,
        supplies=by_plugin,
        unread=doubts if waiting else (),
        health=tuple(_notes(known)),
    )
    return Explanation(
        finding=first_finding(view), summary=summary, changes=changes, supplies=by_plugin
    )


def _need_no_nodes(pod: Pod | None, stock: Inventory) -> bool:
    """Whether what keeps devices away is known without nodes, which can only keep more away.

    Not where slices select nodes by labels, or where a device plugin may serve the pod.
    """
    specs = (each.spec for each in stock.slices)
    return all(spec.node_name or spec.all_nodes for spec in specs) and not (
        pod and pod.extended_resources()
    )


def waiting_claims(known: Known) -> tuple[Claim, ...]:
    """Return the claims for which the scheduler still has to find devices."""
    pod = known.pod
    if pod is not None and pod.spec.node_name:
        return ()
    waiting = [claim for claim in known.claims if claim.status.allocation is None]
    made = pod.extended_claim(classes_of_resources(known.inventory.classes)) if pod else None
    return (*waiting, *([made] if made else ()))


def _allocation(
    waiting: tuple[Claim, ...], pod: Pod | None, stock: Inventory, answers: Answers
) -> tuple[Summary, tuple[Change, ...]]:
    """Raises NodeSelectorError, CapacityError."""
    classes = {each.metadata.name: each for each in stock.classes}
    allocated = tuple(claim for claim in stock.claims if claim.status.allocation is not None)
    scene = Scene(waiting, stock.slices, allocated, classes)
    of_classes = classes_of_resources(stock.classes).keys()
    names = pod.extended_resources().keys() & of_classes if pod else frozenset[str]()
    # Where a device plugin has any, it serves them, and not the class.
    nodes = [each for each in stock.nodes if not any(each.allocatable.get(name) for name in names)]
    summary = summarize(waiting, pod, nodes, scene.cluster(), answers)
    if summary.verdict == "Allocatable":
        return summary, ()
    by_name = {node.name: node for node in nodes}
    found = list(node_remedies(pod, scene, nodes, answers) if pod else ())
    for name in summary.near:
        found += remedies(scene, by_name[name], answers)
    return summary, tuple(dict.fromkeys(found))


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
                if taint.effect in BLOCKING:
                    rule = f" by rule {taint.rule}" if taint.rule else " by its driver"
                    yield DeviceNote(
                        result.name, "DeviceTainted", f"tainted {taint.key}:{taint.effect}{rule}"
                    )
