"""What is desired and what is stored into the steps for one GPU; `order` has them in order.

A plan that was cut off after any step is simply made again: what was done is not repeated. Pure.
"""

from collections.abc import Iterable

import msgspec

from remediator.diagnose.scope import displaced
from remediator.model.incident import AffectedPod, Incident, IncidentStatus
from remediator.model.incident_caps import capped
from remediator.model.node import NodeCondition
from remediator.model.taint_rule import Rule
from remediator.plan.case import Case, Desired
from remediator.plan.spared_pods import Spared, spared
from remediator.plan.tainted_hardware import lowered


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
    | WriteStatus
    | EvictPod
    | DeleteIncident
    | WriteNodeConditions
)


def steps_of(case: Case, desired: Desired, status: IncidentStatus | None) -> list[Step]:
    """Return the steps for one GPU; `status` is how its incident should read now, if it has one.

    A status records what is stored, so it follows the rules. What was found is recorded at once:
    the desired incident has it beside what is stored of the rest.
    """
    steps = list(_steps(case, desired))
    incident = desired.incident
    if incident is None or status is None or not incident.metadata.uid:
        return steps
    stored = next(candidate for candidate in case.incidents if candidate.name == incident.name)
    followed = not any(isinstance(step, _BEFORE_STATUS) for step in steps)
    new_status = capped(status if followed else incident.status)
    if stored.status != new_status:
        begins = new_status.evicting_at is not None and stored.status.evicting_at is None
        steps.append(WriteStatus(stored, new_status, spared(case, desired) if begins else ()))
    return steps


_BEFORE_STATUS = CreateRule | ChangeRule | DeleteRule


def _steps(case: Case, desired: Desired) -> Iterable[Step]:
    stored = {rule.device: rule for rule in case.rules}
    desired_rules = {rule.device: rule for rule in desired.rules}
    gone = [rule for device, rule in stored.items() if device not in desired_rules]
    adds = any(device not in stored for device in desired_rules)
    if desired.incident is not None and not desired.incident.metadata.uid:
        yield OpenIncident(desired.incident)
    for rule in gone:
        yield from _going(case, desired, rule, news=adds)
    yield from (DeleteRule(rule, desired.reason) for rule in case.leftovers)
    for device, rule in desired_rules.items():
        if device not in stored:
            yield CreateRule(rule)
        elif stored[device].stripped or _content(rule) != _content(stored[device]):
            yield ChangeRule(stored[device], rule)
    for pod in desired.eviction.pods:
        delete = pod.uid in desired.eviction.delete
        yield EvictPod(case.uuid, pod, delete=delete, unhurried=bool(desired.eviction.blocked))


def no_eviction_of_others(case: Case) -> Iterable[Step]:
    """Lower the rules of a GPU whose name is proven to stand for other hardware."""
    for rule in case.rules:
        if (mild := lowered(rule, case.inventory)) != rule:
            yield ChangeRule(rule, mild)


def _going(case: Case, desired: Desired, rule: Rule, *, news: bool) -> Iterable[Step]:
    """Remove a rule; one on other hardware evicts no pod there while its own GPU is handled.

    Its own hardware gets its rule first, and an incident that records what was tainted: the next
    writer must find it there.
    """
    known = {record.uid for record in desired.incident.status.rules} if desired.incident else None
    noted = known is None or rule.uid in known
    if not displaced(rule, case.inventory) or (noted and not news):
        yield DeleteRule(rule, desired.reason)
    elif (mild := lowered(rule, case.inventory)) != rule:
        yield ChangeRule(rule, mild)
    elif noted:
        yield DeleteRule(rule, desired.reason)


def written(step: Step) -> frozenset[str]:
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
        case DeleteRule(stored):
            return stored.gpu
        case EvictPod(gpu):
            return gpu
        case DeleteIncident(incident):
            return incident.spec.uuid
        case WriteNodeConditions():
            return ""
