"""The steps for one GPU, and the order in which the steps for a node are taken.

A plan that was cut off after any step is simply made again: what was done is not repeated.

The order is the safety argument. New work is kept away first and recorded right after: a rule names
its own reason and gets its incident at the next tick if this one is cut off. Every NoSchedule of a
node precedes every NoExecute, and no NoExecute goes before its incident. Rules are removed before
an incident is closed. An incident that lost its status is filled from its rules before they change;
if that fails, only new rules of effect NoSchedule are made.

Before a disruption begins, and before an untaint, the facts that it rests on are read from the API
server once more: `disruption` and `untainting` say for which steps. Pure.
"""

from collections.abc import Iterable, Mapping

import msgspec

from exporter.model.device import Device
from remediator.diagnose.scope import is_displaced
from remediator.model.incident import Incident
from remediator.model.incident_caps import cut_to_limits
from remediator.model.incident_status import AffectedPod, IncidentStatus
from remediator.model.node import PROBLEM, REPAIR_NEEDED, NodeCondition
from remediator.model.taint_rule import EFFECTS, EVICTING, EditedRule, Rule
from remediator.plan.board import Board
from remediator.plan.brakes import is_stronger
from remediator.plan.spared import Spared, count_spared
from remediator.plan.stages import Demanded, Planned
from remediator.plan.standing_rules import without_disruption
from remediator.plan.view import LeftReport, NodeView


class OpenIncident(msgspec.Struct, frozen=True):
    incident: Incident


class CreateRule(msgspec.Struct, frozen=True):
    rule: Rule


class ChangeRule(msgspec.Struct, frozen=True):
    """Give a stored rule (uid, resourceVersion) another effect, key or value."""

    stored: Rule
    rule: Rule


class DeleteRule(msgspec.Struct, frozen=True):
    stored: Rule
    why: str


class DeleteEdited(msgspec.Struct, frozen=True):
    """Delete a rule whose selector was changed. Its own device gets its rule by the next plan.

    It is not turned back: an older client may have changed more of it than we know.
    """

    stored: EditedRule


class WriteStatus(msgspec.Struct, frozen=True):
    incident: Incident
    status: IncidentStatus
    spared: Spared = ()
    """Pods that are left alone, where an eviction begins with this status."""


class EvictPod(msgspec.Struct, frozen=True):
    """Evict one pod by the Eviction API; a PodDisruptionBudget may refuse for now."""

    gpu: str
    pod: AffectedPod
    delete: bool = False
    """Delete it without regard to PodDisruptionBudgets: NoExecute would, if it reached this pod."""
    unhurried: bool = False
    """Its eviction was refused for the whole time that the policy gives."""


class DeleteIncident(msgspec.Struct, frozen=True):
    """Prune an old closed incident."""

    incident: Incident


class DeleteReport(msgspec.Struct, frozen=True):
    """Prune the report of a node that is gone for good."""

    report: LeftReport


class WriteNodeConditions(msgspec.Struct, frozen=True):
    """Set conditions of the Node in one write; only where the role for it was granted.

    A leader that ends between two of them would leave a Node that contradicts itself.
    """

    node: str
    conditions: tuple[NodeCondition, ...]


Step = (
    OpenIncident
    | CreateRule
    | ChangeRule
    | DeleteRule
    | DeleteEdited
    | WriteStatus
    | EvictPod
    | DeleteIncident
    | DeleteReport
    | WriteNodeConditions
)


def steps_of(board: Board, planned: Planned, status: IncidentStatus | None) -> list[Step]:
    """Return the steps for one GPU; `status` is how its incident should read now, if it has one.

    A status records what is stored, so it follows the rules: beside a rule that is written here,
    only what was found is recorded, and phase, dates and conditions wait for the next decision. A
    step that was refused is none of these until it is tried again.
    """
    steps = [step for step in _steps(board, planned) if not _is_refused(board, step)]
    incident = planned.incident
    # An opening takes two writes: the API server ignores a status in the request that creates the
    # object.
    if incident is None or status is None or not incident.metadata.uid:
        return steps
    stored = next(candidate for candidate in board.incidents if candidate.name == incident.name)
    rules_follow = any(isinstance(step, CreateRule | ChangeRule | DeleteRule) for step in steps)
    findings_only = incident.status
    new_status = cut_to_limits(findings_only if rules_follow else status)
    if stored.status != new_status:
        begins = (
            new_status.eviction.evicting_at is not None
            and stored.status.eviction.evicting_at is None
        )
        steps.append(
            WriteStatus(stored, new_status, count_spared(board, planned) if begins else ())
        )
    return steps


def _is_refused(board: Board, step: Step) -> bool:
    match step:
        case CreateRule(rule) | ChangeRule(_, rule) if not frees(step):
            return rule.name in board.rules.refused
        case ChangeRule(stored, _) | DeleteRule(stored):
            return stored.name in board.rules.irremovable
        case _:
            return False


def _steps(board: Board, planned: Planned) -> Iterable[Step]:
    stored = {rule.device: rule for rule in board.rules.stored}
    desired_rules = {rule.device: rule for rule in planned.rules}
    gone = [rule for device, rule in stored.items() if device not in desired_rules]
    adds = any(device not in stored for device in desired_rules)
    if planned.incident is not None and not planned.incident.metadata.uid:
        yield OpenIncident(planned.incident)
    for rule in gone:
        yield from _remove(board, planned, rule, creates=adds)
    for rule in board.rules.leftovers:
        yield DeleteRule(rule, planned.course.reason)
    for device, rule in desired_rules.items():
        if device not in stored:
            yield CreateRule(rule)
        elif stored[device].stripped or _content(rule) != _content(stored[device]):
            yield ChangeRule(stored[device], rule)
    for pod in planned.pods:
        delete = pod.uid in planned.delete
        yield EvictPod(board.uuid, pod, delete=delete, unhurried=bool(planned.blocked))


def no_eviction_of_others(board: Board) -> Iterable[Step]:
    """Lower the rules of a GPU whose name is proven to stand for other hardware."""
    for rule in board.rules.stored:
        if (mild := without_disruption(rule, board)) != rule:
            yield ChangeRule(rule, mild)


def _remove(board: Board, planned: Planned, rule: Rule, *, creates: bool) -> Iterable[Step]:
    """Remove a rule; one on other hardware evicts no pod there while its own GPU is handled.

    Its own hardware gets its rule first, and an incident that records what was tainted: the next
    writer must find it there. So such a rule goes once it is recorded and no rule is created
    beside it; until then it is lowered, so that it evicts no pod of the other hardware.
    """
    known = (
        {record.uid for record in planned.incident.status.scope.rules} if planned.incident else None
    )
    recorded = known is None or rule.uid in known
    if not is_displaced(rule, board.inventory) or (recorded and not creates):
        yield DeleteRule(rule, planned.course.reason)
    elif (mild := without_disruption(rule, board)) != rule:
        yield ChangeRule(rule, mild)
    elif recorded:
        yield DeleteRule(rule, planned.course.reason)


def frees(step: Step) -> bool:
    """Whether a step only removes or lowers a taint."""
    if isinstance(step, ChangeRule):
        return EFFECTS.index(step.rule.effect) < EFFECTS.index(step.stored.effect)
    return isinstance(step, DeleteRule | DeleteEdited)


def carries_proof(step: Step) -> bool:
    """Whether a step stores what other writes are about to make unseen, so that it cannot wait.

    That is what is set free, before its rules go, and a call, before its condition is taken back.
    """
    if not isinstance(step, WriteStatus):
        return False
    old, new = step.incident.status, step.status
    released = new.recovery.released_at and not old.recovery.released_at
    before, request = old.repair.request, new.repair.request
    called = request and request.called_time and not (before and before.called_time)
    answered = new.repair.answered > old.repair.answered
    left = {part.uuid for part in new.scope.hardware}
    freed = any(part.uuid not in left for part in old.scope.hardware)
    return bool(released or called or answered or freed)


def incident_written(step: Step) -> frozenset[str]:
    """Return the name of the incident whose status a step writes, if it writes one."""
    return frozenset({step.incident.name} if isinstance(step, WriteStatus) else ())


def _content(rule: Rule) -> tuple[str, str, str, str, str]:
    return (rule.effect, rule.fault, rule.cause, rule.incident, rule.uuid)


def gpu_of(step: Step) -> str:
    """Return the UUID of the GPU that a step is about, "" for a step about a node."""
    match step:
        case OpenIncident(incident) | WriteStatus(incident):
            return incident.spec.uuid
        case CreateRule(rule) | ChangeRule(_, rule):
            return rule.gpu
        case DeleteRule(stored) | DeleteEdited(stored):
            return stored.gpu
        case EvictPod(gpu):
            return gpu
        case DeleteIncident(incident):
            return incident.spec.uuid
        case WriteNodeConditions() | DeleteReport():
            return ""


MOST_OPEN = 64
"""Open incidents of one node, more than it has GPUs: a node that reports ever new ones is lying."""

_ORDER: tuple[type[Step], ...] = (
    CreateRule,
    # After what replaces it: hardware that gets another name is tainted without a gap.
    DeleteRule,
    OpenIncident,
    # It may begin an eviction, so all that keeps pods away or sets a device free comes first.
    ChangeRule,
    WriteStatus,
    # After the status, which has the start of its time: the next leader counts from there.
    EvictPod,
    WriteNodeConditions,
    DeleteIncident,
    DeleteReport,
)
_FIRST = -1
"""What stops a disruption waits for nothing."""


def in_order(steps: Iterable[Step], stored: Iterable[Rule] = ()) -> list[Step]:
    """Return the steps for one node, in the order in which they must be taken.

    `stored` are our rules of the node, of which a step may find another GPU's under its name.
    """
    return sorted(_in_place(tuple(steps), stored), key=_rank)


def _in_place(steps: tuple[Step, ...], stored: Iterable[Rule]) -> Iterable[Step]:
    """Rewrite rules whose name another GPU's rule needs, in one write, so that none is missing.

    A stored rule that cannot be removed yet keeps work away from that GPU as well, so the new rule
    waits. A stored rule of effect None keeps nothing away, so the new rule replaces it at once.
    """
    there = {rule.device: rule for rule in stored}
    made = {step.rule.device for step in steps if isinstance(step, CreateRule)}
    going = {step.stored.device: step for step in steps if isinstance(step, DeleteRule)}
    replaced = [going[device] for device in made & going.keys()]
    for step in steps:
        # A rule has the name of its device, so one must go before the other can be made. Two writes
        # would leave the device without a taint in between.
        if isinstance(step, CreateRule) and step.rule.device in going:
            yield ChangeRule(going[step.rule.device].stored, step.rule)
        elif isinstance(step, CreateRule) and (other := there.get(step.rule.device)):
            if other.effect == "None":
                yield ChangeRule(other, step.rule)
        elif step not in replaced:
            yield step


def goes_on(step: Step, failed: Step) -> bool:
    """Whether a step is taken after one of the same GPU that failed.

    Untainting waits for nothing, and nothing for it. NoSchedule waits neither for the rule of
    another device nor for a lost status that cannot be filled. Nor does an incident that is about
    other devices, too: their rules name it.
    """
    if isinstance(step, DeleteRule | DeleteEdited) or frees(failed):
        return True
    # Beside a rule it says nothing of that rule.
    if carries_proof(step) and isinstance(failed, CreateRule | ChangeRule):
        return True
    if isinstance(step, OpenIncident) and isinstance(failed, CreateRule):
        devices = {target.name for target in step.incident.status.scope.devices}
        return bool(devices - {failed.rule.device})
    keeps_away = isinstance(step, CreateRule) and step.rule.effect not in EVICTING
    return keeps_away and (isinstance(failed, CreateRule) or _fills_lost_status(failed))


def _fills_lost_status(step: Step) -> bool:
    """Whether a status is written that was lost: it has no phase yet."""
    return isinstance(step, WriteStatus) and not step.status.phase


def _rank(step: Step) -> tuple[int, int]:
    """Order of steps; the second number puts milder effects first."""
    # It is filled from the rules that stand, so none may change before it is stored.
    if _fills_lost_status(step):
        return _FIRST, 1
    if isinstance(step, DeleteEdited):  # a rule for its own device needs its name
        return _FIRST, 0
    effect = step.rule.effect if isinstance(step, CreateRule | ChangeRule) else EFFECTS[0]
    if isinstance(step, ChangeRule | DeleteRule):
        before = step.stored.effect
        # The pods may be those of healthy hardware that has got the name.
        if before in EVICTING and EFFECTS.index(effect) < EFFECTS.index(before):
            return _FIRST, 0
    # For the GPU that it is given to this is a new taint.
    if isinstance(step, ChangeRule) and step.stored.gpu != step.rule.gpu:
        return _ORDER.index(CreateRule), EFFECTS.index(effect)
    return _ORDER.index(type(step)), EFFECTS.index(effect)


def within_limit(view: NodeView, steps: list[Step]) -> list[Step]:
    """Leave out incidents beyond a node's limit, first those of GPUs that no node publishes."""
    new = [step for step in steps if isinstance(step, OpenIncident)]
    room = max(0, MOST_OPEN - sum(incident.open for incident in view.stored.incidents))
    # A real GPU is published, so it comes before what a node has made up.
    new.sort(key=lambda step: not step.incident.status.scope.devices)
    over = {step.incident.name for step in new[room:]}
    return [
        step
        for step in steps
        if not (isinstance(step, OpenIncident) and step.incident.name in over)
    ]


class Disruption(msgspec.Struct, frozen=True):
    """What steps would do to running pods, or end: its facts are read anew before."""

    devices: frozenset[Device] = frozenset()
    """Of which pods would begin to be evicted."""
    repair: bool = False
    """A repair of the node would be called for."""
    continued: frozenset[AffectedPod] = frozenset()
    """Pods of which an eviction is requested that has begun: only users may have stopped it."""
    untainted: frozenset[str] = frozenset()
    """Names of the incidents that verified recovery would end, with their rules."""

    def __bool__(self) -> bool:
        """Whether something begins."""
        return bool(self.devices or self.repair)

    @property
    def of_intents(self) -> frozenset[Device]:
        """Return the devices for which what users want matters."""
        return self.devices | {_device(pod) for pod in self.continued}


def disruption(
    steps: Iterable[Step], cases: Iterable[Board], conditions: Iterable[NodeCondition]
) -> Disruption:
    """Return what steps begin, and go on with: that was confirmed when it began."""
    begun = {
        (board.uuid, device)
        for board in cases
        for incident in board.incidents
        for device in _confirmed_devices(board, incident)
    }
    reported = _calls(conditions)
    devices: set[Device] = set()
    continued: set[AffectedPod] = set()
    repair = False
    for step in steps:
        match step:
            case CreateRule(rule) if _disrupts(rule, None):
                devices.add(rule.device)
            case ChangeRule(stored, rule) if _disrupts(rule, stored):
                devices.add(rule.device)
            case EvictPod(gpu, pod) if (gpu, pod.device) in begun:
                continued.add(pod)
            case EvictPod(_, pod):
                devices.add(_device(pod))
            case WriteNodeConditions(_, written):
                # A condition that says so already is only worded anew: that calls for nothing.
                repair |= bool(_calls(written) - reported)
            case _:
                pass
    return Disruption(frozenset(devices), repair, frozenset(continued))


def _calls(conditions: Iterable[NodeCondition]) -> set[tuple[str, str]]:
    """Return the types of conditions that call for a repair, ours each with its need.

    The reason of the other one names an XID.
    """
    return {
        (condition.type, condition.reason if condition.type == REPAIR_NEEDED else "")
        for condition in conditions
        if condition.status == PROBLEM.get(condition.type)
    }


def untainting(steps: Iterable[Step], all_demanded: Iterable[Demanded]) -> Mapping[str, str]:
    """Return which GPUs steps set free after verified recovery, with the incidents that end."""
    going = {step.stored.gpu for step in steps if isinstance(step, DeleteRule)}
    return {
        demanded.uuid: demanded.incident.name
        for demanded in all_demanded
        if demanded.incident
        and (
            demanded.course.kind == "releases"
            or (demanded.course.kind == "closes" and demanded.uuid in going)
        )
    }


def _disrupts(rule: Rule, stored: Rule | None) -> bool:
    """Whether a rule begins to evict pods, or to delete those that would not be evicted."""
    return rule.effect in EVICTING and is_stronger(rule, stored)


def _confirmed_devices(board: Board, incident: Incident) -> set[str]:
    """Return the devices from which pods are being evicted, which was confirmed when it began."""
    status = incident.status.eviction
    if not incident.open or status.evicting_at is None:
        return set()
    # Without its clock an eviction by request begins anew. NoExecute needs no clock.
    deleting = {str(rule.device) for rule in board.rules.stored if rule.effect == "NoExecute"}
    return deleting | {entry.device for entry in status.by_device if entry.start_time}


def _device(pod: AffectedPod) -> Device:
    # A pool's name may have slashes; those of a driver and a device have none.
    driver, _, rest = pod.device.partition("/")
    pool, _, device = rest.rpartition("/")
    return Device(driver, pool, device)
