"""What a history remembers of taints, to see that they stay with their hardware."""

from exporter.model.mig_names import placement_of
from exporter.model.node_health import MemorySlices
from exporter.model.resource_slices import SliceDevice
from remediator.diagnose.fault import faults_of
from remediator.model.incident import Incident
from remediator.model.taint_rule import EFFECTS, EVICTING, rule_name
from remediator.plan.node_decision import NodeDecision
from remediator.plan.steps import ChangeRule, CreateRule, Step
from remediator.plan.view import NodeView
from tests.remediator.builders import Stored
from tests.remediator.histories.slices import partition_of, shares_memory

GRAVE = frozenset({"gpu", "lost", "node"})
"""Classes whose taint waits for no second source."""


class Taints:
    """The hardware that each open incident has had a rule for, of whatever name."""

    def __init__(self) -> None:
        self._hardware: dict[str, set[str]] = {}
        """By incident: UUIDs of GPUs and slices."""
        self._places: dict[str, set[MemorySlices]] = {}
        """By incident: memory of instances whose place was recorded."""
        self._whole: set[str] = set()
        """Incidents that have tainted a whole GPU for want of a source that names the slice."""
        self._free: set[tuple[str, str, MemorySlices | None]] = set()
        """Incident, UUID and place of what was set free since."""

    def note(self, stored: Stored, decision: NodeDecision, *, lowered: bool) -> None:
        """Note what has rules now, and what was set free: by a lowered policy, a user, recovery.

        What was set free is tainted anew by a decision, and by no name.
        """
        for rule in stored.rules.values():
            incident = stored.incidents.get(rule.incident)
            if rule.effect != "None" and incident is not None and incident.open:
                meant = rule.uuid if rule.fault == "contained" else rule.gpu
                # Of partitions without UUIDs the incident says what is meant.
                if rule.fault != "contained" or rule.uuid != rule.gpu:
                    self._hardware.setdefault(rule.incident, set()).add(meant)
        for name, incident in stored.incidents.items():
            parts = [part for part in incident.status.scope.hardware if part.effect != "None"]
            places = {part.placement for part in parts if part.placement}
            whole = any(not (part.uuid or part.placement) for part in parts)
            self._whole = self._whole | {name} if whole else self._whole - {name}
            if incident.open and places:
                self._places.setdefault(name, set()).update(places)
        ignored = {uuid for uuid, kinds in in_force(decision).items() if "Ignore" in kinds}
        free: set[tuple[str, str, MemorySlices | None]] = set()
        for name, incident in stored.incidents.items():
            for part in incident.status.scope.hardware:
                key = name, part.uuid or incident.spec.uuid, part.placement
                free |= {key} if part.effect == "None" else set()
                if key in free - self._free and incident.open:
                    recovered = incident.status.recovery.released_at is not None
                    freed = lowered or recovered or incident.spec.uuid in ignored
                    assert freed, f"{key} was set free by nobody"
                    self._hardware.get(name, set()).discard(key[1])
                    self._places.get(name, set()).discard(part.placement)
        self._free = free

    def forget(self, name: str) -> None:
        """Expect nothing of an incident that is lost; what its rules say is noted again."""
        self._hardware.pop(name, None)
        self._places.pop(name, None)

    def stand(
        self, stored: Stored, seen: NodeView, decision: NodeDecision, *, keeps_only: bool = False
    ) -> None:
        """Check each device that the node publishes, or published last, once nothing is left to do.

        Names that cannot be trusted now are left alone.
        A slice may have been tainted for want of a source that names it: the incident says so.
        Another compute instance may be free beside one that an error meant when it was new, and so
        may be one of which neither its name nor a report says where it is.
        `keeps_only`: only the policy of the leader before enforces, so nothing new is tainted, such
        as what `ignore` has set free. Of that policy a leader knows a hash and no pool: whether it
        enforced in one in which the incident has no rule, this history knows, and no leader. There
        the incident has to say what the device waits for.
        """
        if seen.trust().refusal("rebind"):
            return
        has = {rule.device for rule in stored.rules.values() if rule.effect != "None"}
        for board, planned in decision.pairs:
            incident = planned.incident and stored.incidents.get(planned.incident.name)
            if not incident or not incident.open or planned.course.is_over:
                continue
            if keeps_only and not incident.status.scope.rules:
                continue
            if any(
                (intent.kind, intent.state) == ("Ignore", "InForce")
                for intent in planned.record.intents
            ):
                continue
            meant, ruled = self._hardware.get(incident.name, set()), incident.status.scope.rules
            pools = {record.device.rpartition("/")[0] for record in ruled}
            slices = {part.uuid for part in incident.status.scope.hardware} & meant
            failed = {target.uuid for target in incident.status.fault.slices or ()}
            reported = {part.uuid for part in board.gpu.instances} if board.gpu else set[str]()
            for device in board.inventory:
                gpu = device.parent_uuid or device.uuid
                placed = device.uuid in reported or placement_of(device.device.device)
                known = bool(placed) or device.kind != "mig" or device.placement_start is not None
                made_of = known and self._is_made_of(device, incident)
                made_of = made_of and not any(
                    other.uuid in failed
                    for other in board.inventory
                    if device.kind == other.kind == "mig" and shares_memory(device, other)
                )
                mine = gpu == planned.uuid and (gpu in meant or made_of)
                new = keeps_only and str(device.device).rpartition("/")[0] not in pools
                text = f"not every device of it is tainted: {device.device.device} waits, as "
                waits = new and text in incident.status.message
                if mine or device.uuid in slices:
                    refused = rule_name(device.device) in seen.stored.refused
                    because = {each.by for each in planned.granted.deferrals}
                    waits |= refused and "RuleRefused" in because
                    assert waits or device.device in has, (
                        f"{device.device} of {incident.name} is free"
                    )

    def miss_nothing(self, stored: Stored, seen: NodeView, decision: NodeDecision) -> None:
        """Check that each device of a GPU that is gravely sick is tainted, or a brake says why not.

        Also under names that are published no more while the driver cannot start.
        """
        has = {rule.device for rule in stored.rules.values() if rule.effect != "None"}
        for board, planned in decision.pairs:
            grave = any(
                fault.fault_class in GRAVE and fault.ended is None and not fault.forgeable
                for fault in faults_of(board.verdict)
            )
            stands = planned.course.kind == "stands" and not planned.granted.deferrals
            if grave and stands:
                # Names that were published last count in the pool that is the node's by its name.
                away = (it for it in seen.slices.last_published if it.device.pool == seen.node)
                free = [
                    part.device
                    for part in (*seen.slices.inventory, *away)
                    if board.uuid in (part.uuid, part.parent_uuid) and part.device not in has
                ]
                assert not free, f"{free} of {board.uuid} are free"

    def follows_name(self, step: Step, decision: NodeDecision) -> bool:
        """Whether a step follows hardware that is tainted to another name."""
        if not isinstance(step, CreateRule | ChangeRule) or step.rule.effect in EVICTING:
            return False
        rule = step.rule
        planned = next(planned for _, planned in decision.pairs if planned.uuid == rule.gpu)
        known = self._hardware.get(rule.incident, set()) & {rule.gpu, rule.uuid}
        unknown = rule.incident not in self._hardware | self._places
        placed = self._places.get(rule.incident) or rule.incident in self._whole
        return rule in planned.demanded.renamed and bool(known or unknown or placed)

    def _is_made_of(self, device: SliceDevice, incident: Incident) -> bool:
        """Whether a device is made of memory that an incident has tainted."""
        own = partition_of(device.device)
        places = self._places.get(incident.name, set())
        return bool(places) if own is None else any(own.intersects(place) for place in places)


def raises(step: ChangeRule) -> bool:
    """Whether pods begin to be evicted, or those to be deleted who would not be evicted."""
    after, before = EFFECTS.index(step.rule.effect), EFFECTS.index(step.stored.effect)
    return step.rule.effect in EVICTING and after > before


def reported(stored: Stored) -> dict[str, tuple[str, str]]:
    return {
        name: (incident.status.fault.fault_class, incident.status.phase)
        for name, incident in stored.incidents.items()
    }


def in_force(decision: NodeDecision) -> dict[str, set[str]]:
    """Return by GPU the kinds of answers that count now."""
    return {
        planned.uuid: {
            intent.kind for intent in planned.record.intents if intent.state == "InForce"
        }
        for _, planned in decision.pairs
    }
