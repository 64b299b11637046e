"""What is desired and what is stored into ordered steps.

The order is the safety argument: new work is kept away first and told of right
after, because a rule says itself what it is for and gets its story at the next
tick if this one is cut off; every NoSchedule of a node precedes every NoExecute,
and no NoExecute goes before its incident; rules are taken away before an
incident is closed, and announced in its status before that, so that a rule that
is gone without a word was taken by a person. A plan that was cut off after any
step is simply made again: what was done is not repeated. Pure.
"""

from collections.abc import Iterable

import msgspec

from remediator.decide.case import Case, Desired
from remediator.decide.casefile import removing
from remediator.objects.incident import Incident, IncidentStatus, PodHold
from remediator.objects.nodes import NodeCondition
from remediator.objects.taints import EFFECTS, Rule


class OpenIncident(msgspec.Struct, frozen=True):
    incident: Incident


class UpdateIncident(msgspec.Struct, frozen=True):
    """Write the spec; `incident` carries the resourceVersion it was decided on."""

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


class WriteStatus(msgspec.Struct, frozen=True):
    incident: Incident
    status: IncidentStatus
    before_removal: bool = False
    """It announces deletions of this plan, so it goes before them."""


class EvictPod(msgspec.Struct, frozen=True):
    """Move one pod by the Eviction API; a PodDisruptionBudget may refuse for now."""

    gpu: str
    pod: PodHold


class DeleteIncident(msgspec.Struct, frozen=True):
    """Prune an old closed incident."""

    incident: Incident


class WriteNodeCondition(msgspec.Struct, frozen=True):
    """Set a condition of the Node; only where the role for it was granted."""

    node: str
    condition: NodeCondition


Step = (
    OpenIncident
    | UpdateIncident
    | CreateRule
    | ChangeRule
    | DeleteRule
    | WriteStatus
    | EvictPod
    | DeleteIncident
    | WriteNodeCondition
)


def ordered(steps: Iterable[Step]) -> list[Step]:
    """Return the steps for one node, in the order in which they must be taken."""
    return sorted(steps, key=_rank)


def steps_of(case: Case, desired: Desired, status: IncidentStatus | None) -> list[Step]:
    """Return the steps for one GPU; `status` is how its incident should read now, if it has one.

    A status tells what is stored: it follows the rules. And two writes of one object in one
    plan would carry one resourceVersion.
    """
    steps = list(_steps(case, desired))
    story = desired.incident
    if story is None or status is None or not story.metadata.uid or story.status == status:
        return steps
    if not any(isinstance(one, _BEFORE_STATUS) for one in steps):
        steps.append(WriteStatus(story, status))
    return steps


_BEFORE_STATUS = CreateRule | ChangeRule | DeleteRule | UpdateIncident


def _steps(case: Case, desired: Desired) -> Iterable[Step]:
    stored = {rule.device: rule for rule in case.rules}
    wanted = {rule.device: rule for rule in desired.rules}
    gone = [rule for device, rule in stored.items() if device not in wanted]
    gone += case.leftovers
    announced = tuple(_announced(desired.incident, gone))
    yield from announced
    # Two writes of one object would carry one resourceVersion: a new spec waits for the next tick.
    if desired.incident is not None and not announced:
        yield from _story(case, desired.incident)
    yield from (DeleteRule(rule, desired.reason) for rule in gone)
    for device, rule in wanted.items():
        if device not in stored:
            yield CreateRule(rule)
        elif stored[device].stripped or _content(rule) != _content(stored[device]):
            yield ChangeRule(stored[device], rule)
    for pod in desired.evict:
        yield EvictPod(case.uuid, pod)


def announced(step: Step) -> frozenset[str]:
    """Return the UIDs of the rules of which a step says, first of all, that they are to go."""
    if not isinstance(step, WriteStatus) or not step.before_removal:
        return frozenset()
    before = {one.uid for one in step.incident.status.rules if one.leaving}
    return frozenset(one.uid for one in step.status.rules if one.leaving) - before


def _announced(incident: Incident | None, gone: list[Rule]) -> Iterable[WriteStatus]:
    """Say in the status which rules go before they do, once."""
    if incident is None or not incident.metadata.uid:
        return
    uids = frozenset(rule.uid for rule in gone)
    status = removing(incident.status, uids)
    if status != incident.status:
        yield WriteStatus(incident, status, before_removal=True)


def _story(case: Case, incident: Incident) -> Iterable[Step]:
    if not incident.metadata.uid:
        yield OpenIncident(incident)
        return
    stored = next(one for one in case.incidents if one.name == incident.name)
    if stored.spec != incident.spec:
        yield UpdateIncident(incident)


def _content(rule: Rule) -> tuple[str, str, str, str, str]:
    return (rule.effect, rule.fault, rule.cause, rule.incident, rule.uuid)


_ORDER: tuple[type[Step], ...] = (
    DeleteRule,
    CreateRule,
    OpenIncident,
    ChangeRule,
    UpdateIncident,
    WriteStatus,
    EvictPod,
    WriteNodeCondition,
    DeleteIncident,
)
"""A rule goes before another is made, because another board under its name gets a rule of the
same name."""


_FIRST = -1


def _rank(step: Step) -> tuple[int, int]:
    """Order of steps; the second number puts milder effects first."""
    effect = step.rule.effect if isinstance(step, CreateRule | ChangeRule) else EFFECTS[0]
    if isinstance(step, WriteStatus) and step.before_removal:
        return _FIRST, 0
    return _ORDER.index(type(step)), EFFECTS.index(effect)


def gpu_of(step: Step) -> str:
    """Return the UUID of the GPU that a step is about, "" for a step about a node."""
    match step:
        case OpenIncident(incident) | UpdateIncident(incident) | WriteStatus(incident):
            return incident.spec.uuid
        case CreateRule(rule) | ChangeRule(_, rule):
            return rule.gpu
        case DeleteRule(stored):
            return stored.gpu
        case EvictPod(gpu):
            return gpu
        case DeleteIncident(incident):
            return incident.spec.uuid
        case WriteNodeCondition():
            return ""
