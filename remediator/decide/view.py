"""What the remediator sees of one node at one moment, and the cases in it.

A report is bound only to devices that the reporting node publishes. A UUID that
two nodes claim, or that another node publishes, is Unknown for both: nobody can
get another node's device tainted by naming it. Pure.
"""

import re
from collections.abc import Mapping

import msgspec

from exporter.device import GPU_DRIVER, Device
from exporter.report import SCHEMA_VERSION, GpuHealth, NodeHealth
from exporter.slices import SliceDevice
from remediator.decide.case import Case
from remediator.decide.fleet import GpuPlace
from remediator.judge.fault import Fault, Unknown
from remediator.judge.scope import displaced
from remediator.judge.verdict import verdict
from remediator.objects.claims import Claim, holds
from remediator.objects.incident import Incident, of_gpu
from remediator.objects.nodes import NodeFacts
from remediator.objects.pods import PodFacts
from remediator.objects.taints import ForeignRule, Rule
from remediator.policy.table import Place


class NodeView(msgspec.Struct, frozen=True, kw_only=True):
    node: str
    report: NodeHealth | None = None
    stale: str = ""
    """Why the report cannot be believed now, "" when it is fresh."""
    inventory: tuple[SliceDevice, ...] = ()
    """Devices that this node publishes."""
    incidents: tuple[Incident, ...] = ()
    """Of this node, and of GPUs that it reports."""
    rules: tuple[Rule, ...] = ()
    """Ours, for this node."""
    claims: tuple[Claim, ...] = ()
    """At least every claim that holds a device of this node."""
    elsewhere: Mapping[str, tuple[str, ...]] = {}
    """GPU UUID to the other nodes that publish it, or report it and are heard of."""
    facts: NodeFacts | None = None
    """The Node as stored; None where it is gone, or Nodes are not read."""
    nodes_known: bool = False
    """Whether Nodes are read, so that None above means gone."""
    pods: tuple[PodFacts, ...] | None = None
    """Pods of the node; None while they were not listed."""
    foreign: tuple[ForeignRule, ...] = ()
    """Other people's rules that select a device of this node."""
    places: Mapping[str, GpuPlace] = {}
    """By GPU UUID."""
    suspects: Mapping[str, Fault] = {}
    """By GPU UUID: application XIDs that follow the GPU and not the job."""
    domains: Mapping[str, tuple[str, ...]] = {}
    """GPU UUID to its peers over NVLink or IMEX, as `node/uuid`."""


_UUID = re.compile(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""NVML's form. Objects are named after it, so another form cannot have a story."""


def cases(view: NodeView) -> tuple[Case, ...]:
    """Return a case for each GPU that the report, an incident or a rule speaks of.

    A GPU that moved is told of by the node that has it now.
    """
    own = tuple(device for device in view.inventory if _is_own(device, view.node))
    bound = msgspec.structs.replace(view, inventory=own)
    reported = {gpu.uuid: gpu for gpu in (view.report.gpus if view.report else ())}
    remembered = {one.spec.uuid for one in view.incidents if one.open}
    ruled = {rule.gpu for rule in view.rules}
    here = {*reported} | {uuid for uuid in remembered | ruled if not view.elsewhere.get(uuid)}
    here |= {rule.gpu for rule in view.rules if displaced(rule, bound.inventory)}
    uuids = sorted(uuid for uuid in here if _UUID.fullmatch(uuid))
    return tuple(_case(bound, uuid, reported.get(uuid)) for uuid in uuids)


def unnamed(view: NodeView) -> int:
    """Return how many GPUs the report speaks of without a UUID that can be acted on."""
    gpus = view.report.gpus if view.report else ()
    return sum(_UUID.fullmatch(gpu.uuid) is None for gpu in gpus)


def _is_own(device: SliceDevice, node: str) -> bool:
    """NVIDIA's driver names a pool after its node: another pool is another node's to speak of."""
    name = device.device
    return device.node == node and (name.driver != GPU_DRIVER or name.pool == node)


def _case(view: NodeView, uuid: str, gpu: GpuHealth | None) -> Case:
    rules = tuple(rule for rule in view.rules if rule.gpu == uuid)
    incidents = of_gpu(view.incidents, uuid)
    devices = {one.device for one in view.inventory if uuid in (one.uuid, one.parent_uuid)}
    devices |= {rule.device for rule in rules}
    devices |= {one.name for inc in incidents if inc.open for one in inc.spec.scope.devices}
    why = _unusable(view, uuid, gpu)
    reported_at = view.report.observed_at if view.report else None
    return Case(
        node=view.node,
        uuid=uuid,
        verdict=Unknown(why) if gpu is None else verdict(gpu, reported_at, why),
        gpu=None if why else gpu,
        inventory=view.inventory,
        incidents=incidents,
        rules=rules,
        holds=holds(view.claims, frozenset(devices)),
        place=_place(view, uuid),
        boot_id=view.report.boot_id if view.report and not why else "",
        pods=view.pods,
        foreign=tuple(one for one in view.foreign if any(_selects(one, dev) for dev in devices)),
    )


def _place(view: NodeView, uuid: str) -> Place:
    mine = [one for one in view.inventory if uuid in (one.uuid, one.parent_uuid)]
    known = view.places.get(uuid)
    return Place(
        node=view.node,
        drivers=frozenset(one.device.driver for one in mine),
        pools=frozenset(one.device.pool for one in mine),
        device_classes=known.classes if known else frozenset(),
        devices=frozenset({uuid, *(one.uuid for one in mine if one.uuid)}),
    )


def _selects(rule: ForeignRule, device: Device) -> bool:
    """An empty field selects everything."""
    return (
        rule.driver in ("", device.driver)
        and rule.pool in ("", device.pool)
        and rule.device in ("", device.device)
    )


def _unusable(view: NodeView, uuid: str, gpu: GpuHealth | None) -> str:
    """Return why nothing can be concluded about a GPU, "" when it can."""
    if view.report is None:
        return f"{view.node} has no report"
    if view.report.schema_version > SCHEMA_VERSION + 1:
        return f"the report's schema {view.report.schema_version} is newer than this version knows"
    if view.stale:
        return view.stale
    others = view.elsewhere.get(uuid, ())
    if others:
        return f"{uuid} is claimed by {view.node} and by {', '.join(others)}"
    if gpu is None:
        return f"the report of {view.node} does not speak of {uuid}"
    return ""
