"""The boards of a node, from the view of that node: here names are bound to hardware.

A report is bound only to devices that the reporting node publishes. A UUID that two nodes claim, or
that another node publishes, is Unknown for both: no node can get another node's device tainted by
naming it. Pure.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

import msgspec

from exporter.model.device import GPU_DRIVER, Device
from exporter.model.node_health import GpuHealth
from exporter.model.resource_slices import PoolKey, SliceDevice
from remediator.diagnose.fault import (
    Healthy,
    Surroundings,
    Unknown,
    attempt,
    or_unknown,
    surroundings,
)
from remediator.diagnose.links import remarks
from remediator.diagnose.readings import NOT_REPORTED, unlisted_gpus
from remediator.diagnose.scope import (
    gpus_named,
    published_parts,
    with_board_in_slot,
)
from remediator.diagnose.suspicion import with_suspicion
from remediator.diagnose.verdict import verdict
from remediator.model.claim import absent_consumers, affected_pods
from remediator.model.incident import GPU_UUID, Incident, concerns, of_gpu
from remediator.model.taint_rule import Rule, rule_name
from remediator.plan.board import (
    Agent,
    Board,
    BoardRules,
    Machine,
    OutOfReach,
    Presence,
    Roster,
    Users,
)
from remediator.plan.clocks import without_time_of_others
from remediator.plan.evictable import tolerations
from remediator.plan.overrides import with_confirmed
from remediator.plan.pods import claims_ignoring_taints, gang
from remediator.plan.signals import by_clock_of_now
from remediator.plan.view import NodeView, RefusedRule
from remediator.policy.table import Place

LOOK_AGAIN = timedelta(minutes=1)
"""When a name is looked at again that another GPU's rule has."""
_NVIDIAS = ".nvidia.com"
"""How the names of NVIDIA's DRA drivers end: that of GPUs, that of ComputeDomains."""


def bind_boards(view: NodeView, now: datetime, disagrees: str = "") -> tuple[Board, ...]:
    """Return a board for each GPU that the report, a slice it misses, an incident or a rule names.

    A GPU that was put into another node is still one of this node while a rule is left here: only
    this node's report shows that the rule can go. `disagrees` is that of the policy.
    """
    own = tuple(device for device in view.slices.inventory if _is_own(device, view))
    # What is known of slices may be old: it proves nothing, of any name.
    own = () if view.blind.get("slices") else own
    slots = attempt(_boards_by_slot, view)
    if not isinstance(slots, Unknown):  # else all that is shared fails, below
        own = tuple(with_board_in_slot(device, slots) for device in own)
    out_of_reach = () if view.blind else _out_of_reach(view)
    unbound = {out.device.parent_uuid or out.device.uuid or "": out.why for out in out_of_reach}
    slices = msgspec.structs.replace(
        view.slices,
        inventory=(*own, *_last_published(view)),
        unbound={**unbound, **view.slices.unbound},
    )
    bound = msgspec.structs.replace(view, slices=slices)
    gpus = view.agent.report.gpus if view.agent.report else ()
    reported = {gpu.uuid: gpu for gpu in gpus}
    if view.agent.report is not None:
        # Only the node's own slices list these; others' boards are not.
        found = unlisted_gpus(view.agent.report, own).items()
        reported = {
            uuid: gpu for uuid, gpu in found if not view.slices.elsewhere.get(uuid)
        } | reported
    remembered = {incident.spec.uuid for incident in view.stored.incidents if incident.open}
    ruled = {rule.gpu for rule in view.stored.rules}
    here = {*reported} | remembered | ruled
    # An incident is named after its GPU, so a UUID of another form can have none.
    uuids = sorted(uuid for uuid in here if GPU_UUID.fullmatch(uuid))
    # A bug in what all GPUs share makes each of them Unknown, with its rules as they stand, and
    # does not end the decision of the node.
    shared = attempt(_facts_of_node, bound, out_of_reach, now, disagrees)
    return tuple(_board_or_blank(bound, uuid, reported.get(uuid), shared) for uuid in uuids)


class _Shared(msgspec.Struct, frozen=True, kw_only=True):
    """What is the same for every GPU of a node."""

    now: datetime
    machine: Machine
    around: Surroundings
    repeated: frozenset[str]
    """UUIDs that the report has more than once."""


def _facts_of_node(
    view: NodeView, out_of_reach: tuple[OutOfReach, ...], now: datetime, disagrees: str
) -> _Shared:
    named = (
        Counter(gpu.uuid for gpu in view.agent.report.gpus) if view.agent.report else Counter[str]()
    )
    unbelieved = view.unbelieved
    report = None if unbelieved else view.agent.report
    machine = Machine(
        node=view.node,
        trust=view.trust(disagrees),
        gone=view.gone,
        boot_id=report.boot_id if report else "",
        reported_at=report.observed_at if report else None,
        believed=not unbelieved,
        nvml_up=_nvml_up(view),
        roster=_roster(view),
        agent=Agent(
            confirmable=bool(view.agent.report and view.agent.report.content_hash),
            renewals=view.agent.renewals,
            overtaken=view.agent.overtaken,
            behind=view.agent.behind,
        ),
        inventory=view.slices.inventory,
        # A name in a pool that belongs to another node is no name of this hardware.
        out_of_reach=tuple(out for out in out_of_reach if _may_be_of(out.device.device, view.node)),
        contested=frozenset() if view.blind else view.slices.contested,
        pods=view.usage.pods,
        facts=view.facts,
    )
    return _Shared(
        now=now,
        machine=machine,
        around=surroundings(view.agent.report),
        repeated=frozenset(uuid for uuid, times in named.items() if times > 1),
    )


def _boards_by_slot(view: NodeView) -> Mapping[str, str]:
    """Return the GPU that NVML lists in each PCI slot now, where it lists one."""
    roster = _roster(view)
    if roster is None:
        return {}
    listed = Counter(roster.slots.values())
    return {slot: uuid for uuid, slot in roster.slots.items() if slot and listed[slot] == 1}


def _out_of_reach(view: NodeView) -> tuple[OutOfReach, ...]:
    """Return the devices that a node publishes and must not have tainted, each with the reason."""
    found: list[OutOfReach] = []
    for device in view.slices.inventory:
        name = device.device
        where = f"pool {name.driver}/{name.pool}"
        others = f"others publish into {where} as well"
        why = others if _may_be_of(name, view.node) else f"{where} is not named after {view.node}"
        if not _is_own(device, view):
            found.append(OutOfReach(device, why))
    return tuple(found)


def _is_own(device: SliceDevice, view: NodeView) -> bool:
    """Whether a node may have a device tainted that it publishes.

    A rule names a pool and no node. A pool of a driver that names its pools as it likes belongs to
    no node while others publish into it: a node could have the devices of others emptied.
    """
    name = device.device
    mine = name.pool == view.node or (name.driver, name.pool) not in view.slices.contested
    return device.node == view.node and _may_be_of(name, view.node) and mine


def _last_published(view: NodeView) -> tuple[SliceDevice, ...]:
    """Return the devices whose names go on meaning their hardware while their driver is away.

    Pods hold a GPU by its name for as long as they run, and a rule for it ends them although no
    slice is left. The report knows the names, so they are no better than it; and only in the pool
    that is the node's by its name can it speak of no other node's devices.
    """
    if view.unbelieved:
        return ()
    return tuple(part for part in view.slices.last_published if part.device.pool == view.node)


def _may_be_of(name: Device, node: str) -> bool:
    """NVIDIA's drivers name a pool after its node: another pool belongs to another node."""
    return name.pool == node or not name.driver.endswith(_NVIDIAS)


def _unread(view: NodeView, uuid: str) -> Unknown | None:
    """Return why nothing is decided about a GPU of which a stored object cannot be read."""
    unread = sorted(name for name in view.stored.unread if concerns(name, uuid))
    if not unread:
        return None
    why = f"{', '.join(unread)} cannot be read; the log says what is wrong with it"
    return Unknown(f"{why}: mend or delete it")


def _board_or_blank(
    view: NodeView, uuid: str, gpu: GpuHealth | None, shared: _Shared | Unknown
) -> Board:
    """Return what is known of a GPU; where this program fails on it, its incidents and rules."""
    board = _board(view, uuid, gpu, shared) if isinstance(shared, _Shared) else shared
    if isinstance(board, Board):
        return board
    return Board(
        uuid=uuid,
        # The inventory is kept: where a rule evicts pods from other hardware, that ends all the
        # same.
        machine=Machine(node=view.node, inventory=view.slices.inventory),
        verdict=board,
        undecidable=board,
        incidents=of_gpu(view.stored.incidents, uuid),
        rules=BoardRules(stored=_rules(view, uuid)),
    )


@or_unknown
def _board(view: NodeView, uuid: str, gpu: GpuHealth | None, shared: _Shared) -> Board | Unknown:
    if unread := _unread(view, uuid):
        return unread
    rules, incidents = _rules(view, uuid), of_gpu(view.stored.incidents, uuid)
    parts = published_parts(uuid, gpu, view.slices.inventory)
    place = _place(view, uuid, parts, incidents, rules)
    elsewhere = view.slices.elsewhere.get(uuid, ())
    why = view.unbelieved or _unusable(view, uuid, gpu, shared.repeated)
    ruled = {rule.device for rule in rules}
    devices = {device.device for device in parts} | ruled
    devices |= _remembered_names(view, uuid, incidents)
    # Where the node's clock was set back, the agent has moved the dates of its report, and what an
    # incident copied from it has not moved yet.
    if view.agent.report and not why:
        incidents = tuple(
            by_clock_of_now(known, view.node, view.agent.report) for known in incidents
        )
    holders = affected_pods(view.usage.claims, frozenset(devices), view.usage.pods)
    incidents = tuple(without_time_of_others(known, holders) for known in incidents)
    # Before the verdict: a confirmation ends a fault in the decision that reads it, or pods could
    # be deleted after it.
    around = with_confirmed(shared.around, gpu, incidents, view.boot_id or "", shared.now)
    judged = Unknown(why) if gpu is None else verdict(gpu, around, why)
    judged = with_suspicion(judged, view.suspects.get(uuid))
    also_at = view.slices.also_at.get(uuid, ())
    # A user who confirms the repair has looked where the board is.
    if also_at and isinstance(judged, Healthy) and not around.repaired:
        others = ", ".join(also_at)
        doubt = f"{others} publishes it as well without a fresh report of it"
        way = f"delete the Node {others} or its ResourceSlices, or confirm the repair"
        judged = Unknown(f"{doubt}, so its health here proves nothing: {way}")
    named = [
        device for device in view.slices.inventory if uuid in (device.uuid, device.parent_uuid)
    ]
    return Board(
        uuid=uuid,
        machine=shared.machine,
        verdict=judged,
        gpu=None if why else gpu,
        incidents=incidents,
        rules=BoardRules(
            stored=rules,
            leftovers=tuple(rule for rule in view.stored.leftovers if rule.device in ruled),
            unseen=tuple(rule for rule in view.stored.unseen if rule.gpu == uuid),
            served=view.stored.rules_served,
            known=view.stored.rules_served and not view.blind.get("rules"),
            foreign=tuple(rule for rule in view.stored.foreign if any(map(rule.selects, devices))),
            refused={**view.stored.refused, **_names_in_use(view, uuid, parts, shared.now)},
            irremovable=view.stored.irremovable,
        ),
        users=Users(
            holders=holders,
            gang=gang(holders, view.usage.claims, view.usage.pods)
            # Peers are named by incidents alone, and the search for them walks all claims.
            if any(it.open for it in incidents)
            else (),
            absent=absent_consumers(
                view.usage.claims, devices, view.usage.pods, view.usage.pods_gone
            ),
            refusals=view.usage.refusals,
            tolerations=tolerations(rules, view.usage.claims, view.usage.pods),
            ignoring=claims_ignoring_taints(rules, view.usage.claims),
        ),
        place=place,
        unusable=why,
        presence=Presence(
            # An entry that was made of the slices, for a GPU that the report misses, is no report
            # of it.
            reported=gpu is not None and gpu.presence_reason != NOT_REPORTED,
            published=any(device not in view.slices.last_published for device in named),
            unbound=view.slices.unbound.get(uuid, ""),
            elsewhere=elsewhere,
            also_at=also_at,
            decided_by=view.slices.decided_by.get(uuid, ""),
            left=_has_left(view, uuid),
        ),
        peers=view.domains.get(uuid, ()),
        remarks=() if gpu is None or why else remarks(gpu, around),
    )


def _remembered_names(
    view: NodeView, uuid: str, incidents: tuple[Incident, ...]
) -> frozenset[Device]:
    """Return the names in open incidents of a GPU, but those that stand for another board now.

    A kubelet that starts deletes all ResourceSlices of its node, and the pods run on, so claims are
    looked up by these, too. Pods that hold a name of another board are none of this one's.
    """
    scopes = (incident.status.scope.devices for incident in incidents if incident.open)
    names = {target.name for scope in scopes for target in scope}
    inventory = view.slices.inventory
    return frozenset(name for name in names if uuid in (gpus_named(name, inventory) or {uuid}))


def _names_in_use(
    view: NodeView, uuid: str, parts: Iterable[SliceDevice], now: datetime
) -> Mapping[str, RefusedRule]:
    """Return the rules that cannot be made, as another GPU's has the name and cannot go now.

    That rule keeps new work away. Else it is replaced in one write (`steps.in_order`).
    """
    stored = view.stored
    mine = {part.device for part in parts} if stored.irremovable or stored.unread else set[Device]()
    found: dict[str, RefusedRule] = {}
    for rule in stored.rules:
        if rule.device in mine and rule.gpu != uuid and rule.effect != "None":
            unread, stuck = _unread(view, rule.gpu), stored.irremovable.get(rule.name)
            why = unread.why if unread else stuck.why if stuck else ""
            until = stuck.until if stuck else now + LOOK_AGAIN
            if why:
                text = f"it has the rule of {rule.gpu}, which cannot go now: {why}"
                found[rule_name(rule.device)] = RefusedRule(text, until)
    return found


def _rules(view: NodeView, uuid: str) -> tuple[Rule, ...]:
    found = (rule for rule in view.stored.rules if rule.gpu == uuid)
    return tuple(sorted(found, key=lambda rule: rule.name))


def _place(
    view: NodeView,
    uuid: str,
    parts: list[SliceDevice],
    incidents: tuple[Incident, ...],
    rules: tuple[Rule, ...],
) -> Place:
    """Return where a GPU is."""
    open_incidents = [incident for incident in incidents if incident.open]
    pools = {(device.device.driver, device.device.pool) for device in parts}
    # What a driver publishes outranks what is remembered of it: another name, or another node that
    # the board was moved to, would leave its devices in two places for ever.
    drivers = {driver for driver, _ in pools}
    remembered = _pools_once_published(view, open_incidents, rules)
    pools |= {(driver, pool) for driver, pool in remembered if driver not in drivers}
    if not pools:
        # Where GPUs of this node are published; while none is, where NVIDIA's driver would.
        around = [device.device for device in view.slices.inventory if device.kind]
        pools = {(device.driver, device.pool) for device in around} or {(GPU_DRIVER, view.node)}
    # An exemption may name one slice, and holds also while its driver does not publish it.
    hardware = [entry.uuid for entry in (*parts, *rules)]
    hardware += [
        target.uuid for incident in open_incidents for target in incident.status.scope.devices
    ]
    return Place(
        node=view.node,
        pools=frozenset(pools),
        device_classes=_classes(view, uuid, open_incidents, rules),
        devices=frozenset({uuid, *(text for text in hardware if text)}),
    )


def _classes(
    view: NodeView, uuid: str, open_incidents: list[Incident], rules: tuple[Rule, ...]
) -> frozenset[str]:
    """Return the DeviceClasses of a GPU: while an incident is open, those recorded at its opening.

    Evictions end the claims of the GPU's pods, and that must not end an override by DeviceClass. A
    later claim may tolerate our taints and name any class, so it does not count. Rules record the
    classes as well, for an incident that has lost its status.
    """
    # Without a phase the status is not written yet, or lost: no classes there would not mean that
    # there were none.
    recorded = next(
        (incident.status for incident in open_incidents if incident.status.phase_since), None
    )
    if recorded is not None:
        return frozenset(recorded.policy.device_classes)
    marked = [rule.classes for rule in rules if rule.classes is not None]
    if marked:
        return frozenset(name for classes in marked for name in classes)
    known = view.places.get(uuid)
    return frozenset(known.classes if known else ())


def _pools_once_published(
    view: NodeView, open_incidents: list[Incident], rules: tuple[Rule, ...]
) -> set[PoolKey]:
    """Return where a GPU was published on this node, as far as rules and open incidents record.

    A driver that restarts and a Node that is registered again unpublish a device for a while. That
    lowers no mode and ends no exemption: no user has requested it.
    """
    names = {rule.device for rule in rules if rule.node == view.node}
    names |= {
        target.name for incident in open_incidents for target in incident.status.scope.devices
    }
    return {(device.driver, device.pool) for device in names if _may_be_of(device, view.node)}


def _has_left(view: NodeView, uuid: str) -> bool:
    """Whether this node, with a fresh report and NVML up, lacks a board that another node has."""
    if not view.slices.elsewhere.get(uuid) or view.agent.report is None or view.unbelieved:
        return False
    reported = any(gpu.uuid == uuid for gpu in view.agent.report.gpus)
    offered = any(uuid in (device.uuid, device.parent_uuid) for device in view.slices.inventory)
    return _nvml_up(view) and not reported and not offered


def _nvml_up(view: NodeView) -> bool:
    # Where NVML lists a GPU without a name, that one may be the one that seems to be missing.
    if view.agent.report is None or view.agent.report.inventory.unidentified:
        return False
    return any(source.name == "nvml" and source.up for source in view.agent.report.sources)


def _roster(view: NodeView) -> Roster | None:
    """Return which GPUs the node has, None while that is unknown."""
    if view.agent.report is None or view.unbelieved or not _nvml_up(view):
        return None
    gpus, inventory = view.agent.report.gpus, view.agent.report.inventory
    # A VFIO device has a UUID of its PCI address: it names no board.
    boards = [device for device in view.slices.inventory if device.kind != "vfio"]
    published = {device.parent_uuid or device.uuid or "" for device in boards}
    named = {gpu.uuid for gpu in gpus} | {gpu.pci_bus_id for gpu in gpus} | published
    named |= {device.pci_bus_id for device in boards if device.parent_uuid or device.uuid}
    all_listed = None if inventory.on_bus is None else inventory.on_bus == inventory.seen
    return Roster(
        boot_id=view.agent.report.boot_id,
        slots={gpu.uuid: gpu.pci_bus_id for gpu in gpus if gpu.presence == "Present"},
        known=frozenset({gpu.uuid for gpu in gpus} | published - {""}),
        aside=bool(inventory.set_aside),
        # A board is taken for a new one only against a full list: where one is added, numbers move,
        # and it may get the number of a dead one that is still there.
        complete=False if inventory.set_aside or inventory.missing else all_listed,
        nameless=bool(inventory.set_aside) or not named.issuperset(inventory.missing),
    )


def _unusable(view: NodeView, uuid: str, gpu: GpuHealth | None, repeated: frozenset[str]) -> str:
    """Return why a report that is believed shows nothing about a GPU, "" when it does."""
    others = view.slices.elsewhere.get(uuid, ())
    if others:
        # In one order, or two nodes would write over each other.
        return f"{uuid} is claimed by {' and by '.join(sorted((view.node, *others)))}"
    if gpu is None:
        return f"the report of {view.node} does not speak of {uuid}"
    if uuid in repeated:
        return f"the report of {view.node} speaks of {uuid} more than once"
    return ""
