"""Which stored rules may stay.

A rule goes for four reasons: verified recovery (`recovery`), proof of another UUID under its name
(or that its board is elsewhere), a node gone for a week (`recovery`), and a user: a lowered policy,
an intent, a deletion by hand. Here are the proofs and the policy. Pure.
"""

from datetime import datetime

import msgspec

from remediator.diagnose.scope import displaced, is_unplaced
from remediator.diagnose.surroundings import NEAR
from remediator.model.incident import Incident
from remediator.model.taint_rule import EVICTING, Effect, Rule
from remediator.plan import history
from remediator.plan.case import Case
from remediator.plan.escalation import Demand, milder
from remediator.plan.signals import named_before
from remediator.plan.tainted_hardware import lowered
from remediator.plan.words import class_of
from remediator.policy.table import Policy, Row


def kept(case: Case, policy: Policy) -> tuple[Rule, ...]:
    """Return the stored rules that may stay, each within what the policy allows its class."""
    # No rule stays under a name that is proven to stand for other hardware, or on a node that its
    # board has left.
    proper = [
        lowered(rule, case.inventory)
        for rule in case.rules
        if (not displaced(rule, case.inventory) or _may_be_the_failed_one(rule, case))
        and not (case.left and rule.node == case.node)
    ]
    if policy.disagrees:
        return tuple(proper)
    capped: list[tuple[Rule, Effect | None]] = [
        (rule, _ceiling(policy.row(class_of(rule.fault), case.place))) for rule in proper
    ]
    return tuple(
        msgspec.structs.replace(rule, effect=milder(rule.effect, ceiling))
        for rule, ceiling in capped
        if ceiling is not None
    )


def _may_be_the_failed_one(rule: Rule, case: Case) -> bool:
    """Whether a slice was made anew under a rule's name, and nothing says of which memory.

    The incident has recorded which memory has failed. Once the node's report or the name shows
    where the new slice is, that slice has a rule of its own or none.
    """
    recorded = any(
        part.placement
        for incident in case.incidents
        if incident.open
        for part in incident.status.hardware
    )
    return (rule.fault == "contained" and recorded) and any(
        device.device == rule.device and is_unplaced(device, case.gpu)
        for device in case.inventory
        if case.uuid == device.parent_uuid
    )


def displaced_here(case: Case, policy: Policy) -> tuple[Rule, ...]:
    """Return the rules whose names stand for other hardware now: their own is still to be found."""
    return tuple(
        rule
        for rule in case.rules
        if not case.left
        and displaced(rule, case.inventory)
        and (policy.disagrees or _ceiling(policy.row(class_of(rule.fault), case.place)))
    )


def _ceiling(row: Row) -> Effect | None:
    """Return the strongest effect that a stored rule of a class may keep, None for no rule."""
    highest = row.highest
    ceiling: Effect | None = None if highest == "observe" else highest
    if row.mode == "enforce":
        return ceiling
    return "None" if row.mode == "dry-run" and ceiling else None


def _whole_since(incident: Incident) -> datetime | None:
    """Return since when the whole GPU is tainted, whatever its slices have been since."""
    status = incident.status
    gpus = (part for part in status.hardware if not (part.uuid or part.placement))
    return next((part.tainted_time for part in gpus if part.tainted_time), status.tainted_at)


def narrowed(
    case: Case, incident: Incident, rule: Rule, demands: tuple[Demand, ...], now: datetime
) -> bool:
    """Whether a later source has named another slice than the one that this rule taints.

    Only a contained error, only before the first eviction, and only where the whole GPU was tainted
    just now for want of that source. An error that comes later proves nothing about the slice of an
    earlier one, also where that error is over by now.
    """
    if history.was_lost(incident) or not incident.status.phase:
        return False  # since when the whole GPU is tainted is not known, or not any more
    tainted_at, scope = _whole_since(incident), incident.status.scope.devices
    # By the hardware as well: a slice that has just got another name was tainted under the old one.
    names, hardware = {target.name for target in scope}, {target.uuid for target in scope} - {""}
    whole = all(
        device.device in names or device.uuid in hardware
        for device in case.inventory
        if device.parent_uuid == case.uuid
    )
    if not whole or (tainted_at is not None and now - tainted_at > NEAR):
        return False
    own = rule.uuid in named_before(case, incident.status.seen_signals)
    if own or not any(demand.new for demand in demands):
        return False  # a rule made anew, such as under another name, is no news of a slice
    contained = {
        incident.status.fault,
        rule.fault,
        *(demand.fault.fault_class for demand in demands),
    }
    desired = {target.name for demand in demands for target in demand.targets}
    mild = rule.effect not in EVICTING and contained == {"contained"}
    if not (mild and desired):
        return False
    if rule.uuid != rule.gpu and any(device.uuid == rule.uuid for device in case.inventory):
        # By its hardware: an older name of a slice that is not meant would bring its taint back.
        return all(target.uuid != rule.uuid for demand in demands for target in demand.targets)
    published = any(device.device == rule.device and device.uuid for device in case.inventory)
    return published and rule.device not in desired
