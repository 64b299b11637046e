"""How far one fault may go now: nothing yet, NoSchedule, Evict, or NoExecute.

Evict and NoExecute need three things at once: a class whose ceiling allows it, complete
evidence, and every device of the fault under a stored NoSchedule for the settle
time (write order is not effect order: the scheduler and the eviction controller
watch apart). The settle time counts for the very rules that the incident has
recorded by their UIDs, so a rule that is new or was made again starts it anew.
Pure.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from remediator.diagnose.fault import Fault
from remediator.diagnose.scope import scope
from remediator.diagnose.surroundings import NEAR
from remediator.model.claim import ADMIN
from remediator.model.incident import (
    HARDWARE_LIMIT,
    PLACED_LIMIT,
    RULES_NOT_SERVED,
    Incident,
    IncidentStatus,
    Target,
)
from remediator.model.taint_rule import EFFECTS, EVICTING, Effect, Rule
from remediator.plan.case import Case
from remediator.plan.eviction_requests import counted_from
from remediator.plan.signals import is_unseen
from remediator.policy.duration import spelled
from remediator.policy.table import Row
from remediator.policy.windows import moment

FRESH = timedelta(minutes=5)
"""A contained error has killed its process when it is written. A pod that took the slice later than
this came afterwards and is not evicted for it."""


ACTED = frozenset({"Tainted", "Evicting", "Drained"})
"""Phases in which the scope had been found."""
AWAITING = "AwaitingEvidence"
"""Condition of an incident: since when a doubtful fault of a patient class waits."""
FORGEABLE = (
    "any program of the node can forge what syslog(2) reads, and no second source bears it out"
)
UNPUBLISHED = "the failed MIG instance is not published"
LATER = "its process is dead, and whoever holds its devices came after it"
TAINTING = "every device in scope is tainted first"


class Demand(msgspec.Struct, frozen=True):
    """The demand of one fault now. `effect` None: nothing yet; `goal`: in the end."""

    fault: Fault
    row: Row
    targets: tuple[Target, ...]
    effect: Effect | None
    goal: Effect
    reason: str
    wake_at: datetime | None = None
    awaits: str = ""
    """Which evidence it waits for, or has waited for, while its scope is not tainted."""
    needs_human: bool = False
    """Only the kernel log reports it, no other source can confirm it, and the settle time is
    over."""
    new: bool = False
    """The incident has not recorded its signal before."""


def demand(case: Case, incident: Incident, fault: Fault, row: Row, now: datetime) -> Demand:
    """Return the demand of one fault of an incident now."""
    proposed = _proposed(case, incident, fault, row, now)
    return msgspec.structs.replace(proposed, new=is_new(case, incident, fault))


def _proposed(case: Case, incident: Incident, fault: Fault, row: Row, now: datetime) -> Demand:
    if case.gpu is None:
        return Demand(fault, row, (), None, "NoSchedule", "the GPU is not reported")
    found = scope(fault, case.gpu, case.inventory)
    targets = _recorded(case, incident, fault, found.targets)
    doubt = fault.doubt or ("" if found.exact else UNPUBLISHED)
    if not doubt and fault.ended is not None and abs(now - fault.last_seen) > FRESH:
        doubt = "its process died long ago, or the clocks differ"
    highest = row.highest
    if highest == "observe":
        return Demand(fault, row, targets, None, "None", "observed only: no rule is made for it")
    if fault.forgeable or not (targets or found.exact):
        goal, why = ("None", FORGEABLE) if fault.forgeable else ("NoSchedule", UNPUBLISHED)
        return Demand(fault, row, targets, None, goal, f"suspected only: {why}")
    later = LATER if _came_later(case, fault, targets) else ""
    goal = milder("NoSchedule" if doubt or later else "NoExecute", highest)
    tainted = {rule.device for rule in case.rules if rule.effect != "None"}
    awaits = bool(doubt) and row.patient and not all(target.name in tainted for target in targets)
    until = _patience(incident, row, now) if awaits else None
    if until is not None:
        why = f"waiting for better evidence: {doubt}"
        return Demand(fault, row, targets, None, goal, why, until, awaits=doubt)
    if goal not in EVICTING:
        why = f"{goal} only: {doubt or later or f'class {row.fault_class} goes no further'}"
        proposed = Demand(fault, row, targets, goal, goal, why, awaits=doubt if awaits else "")
        return _to_a_human(case, incident, proposed, now) if fault.unprovable else proposed
    return _to_evict(case, incident, Demand(fault, row, targets, "NoSchedule", goal, ""), now)


def _came_later(case: Case, fault: Fault, targets: tuple[Target, ...]) -> bool:
    """Whether an error is over, and all pods on its devices are known to have come after it.

    So also after a loss of every incident and rule, when no record says that it was handled. Admin
    access uses nothing, whenever it came.
    """
    if fault.ended is None:
        return False
    names = {str(target.name) for target in targets}
    ended = {pod.uid for pod in case.pods or () if not pod.running}
    here = [
        affected.uid
        for affected in case.affected
        if affected.device in names and affected.via != ADMIN and affected.uid not in ended
    ]
    begun = {pod.uid: pod.started for pod in case.pods or () if pod.uid in here}
    dates = [begun.get(uid) for uid in here]
    return bool(dates) and all(at is not None and at > fault.last_seen for at in dates)


def _to_evict(case: Case, incident: Incident, proposed: Demand, now: datetime) -> Demand:
    since = tainted_since(case.rules, incident, proposed.targets)
    if since is not None and proposed.fault.fault_class == "contained":
        since = _own_since(case, incident, proposed.targets, since)
    if since is None:
        return msgspec.structs.replace(proposed, reason=TAINTING)
    settled = since + proposed.row.settle
    if now < settled:
        why = f"settling for {proposed.row.settle.total_seconds():g} s"
        return msgspec.structs.replace(proposed, reason=why, wake_at=settled)
    if proposed.row.evicts_first:
        return _by_request(incident, proposed, now)
    why = "evidence complete, settle time over: pods are evicted"
    return msgspec.structs.replace(proposed, effect="NoExecute", reason=why)


def _by_request(incident: Incident, proposed: Demand, now: datetime) -> Demand:
    """Return the demand while pods are evicted by the Eviction API, and after it."""
    plan = proposed.row.evict
    since = counted_from(incident.status, plan, now)
    ends = plan.then == "NoExecute" and since is not None
    until = since + plan.within if ends and since else None
    if until is not None and now >= until:
        why = f"pods that are left {spelled(plan.within)} after the first eviction are deleted"
        return msgspec.structs.replace(proposed, effect="NoExecute", reason=why)
    why = "evidence complete and settled: pods are evicted by the Eviction API"
    why += f" until {moment(until)}, then deleted" if until else ""
    return msgspec.structs.replace(proposed, effect="Evict", reason=why, wake_at=until)


def _to_a_human(case: Case, incident: Incident, proposed: Demand, now: datetime) -> Demand:
    """Demand a user once the settle time has brought no second source."""
    since = tainted_since(case.rules, incident, proposed.targets)
    if since is None:
        return proposed
    settled = since + proposed.row.settle
    if now < settled:
        return msgspec.structs.replace(proposed, wake_at=settled)
    return msgspec.structs.replace(proposed, needs_human=True)


def together(case: Case, incident: Incident, demands: list[Demand]) -> tuple[Demand, ...]:
    """Defer every eviction until all devices that the faults of one GPU taint are tainted.

    A pod that is evicted from one slice must not land on a sibling that is about to be tainted.
    """
    tainting = [
        fault_demand
        for fault_demand in demands
        if fault_demand.row.mode == "enforce" and fault_demand.effect is not None
    ]
    everything = tuple(
        sorted({target for fault_demand in tainting for target in fault_demand.targets})
    )
    whole = tainted_since(case.rules, incident, everything) is not None
    return tuple(demands) if whole else tainted_first(demands)


def tainted_first(demands: Iterable[Demand]) -> tuple[Demand, ...]:
    """Return the same demands without their evictions."""
    return tuple(
        msgspec.structs.replace(demand, effect="NoSchedule", reason=TAINTING)
        if demand.effect in EVICTING
        else demand
        for demand in demands
    )


def tainted_since(
    rules: tuple[Rule, ...], incident: Incident, targets: tuple[Target, ...]
) -> datetime | None:
    """Return since when the targets' stored rules taint, as the incident has recorded them.

    A rule of the same GPU that is not recorded yet is new, also one that was deleted and made
    again: pods must not move to what it taints. The scheduler and the eviction controller may have
    lost the rules while they were not served, so that time starts over.
    """
    unserved = next(
        (
            condition
            for condition in incident.status.conditions
            if condition.type == RULES_NOT_SERVED
        ),
        None,
    )
    if unserved is not None and unserved.status == "True":
        return None
    recorded = {rule.uid for rule in incident.status.rules if rule.effect != "None"}
    tainting = [rule for rule in rules if rule.effect != "None"]
    if any(rule.uid not in recorded for rule in tainting):
        return None
    known = {rule.device for rule in tainting}
    whole = bool(targets) and all(target.name in known for target in targets)
    since = incident.status.tainted_at if whole else None
    return max(since, unserved.last_transition_time) if since and unserved else since


def _own_since(
    case: Case, incident: Incident, targets: tuple[Target, ...], since: datetime
) -> datetime | None:
    """Return since when slices are tainted themselves, and not only others under their names.

    A slice that was made anew is other hardware to a contained error, and has pods of its own.
    """
    parts = incident.status.hardware
    known = {part.uuid: part.tainted_time for part in parts if part.uuid}
    own = {target.uuid for target in targets} - {case.uuid}
    if own - known.keys() and len(parts) < HARDWARE_LIMIT:
        return None
    return max([since, *(at for uuid in own if (at := known.get(uuid)))])


def milder(effect: Effect, other: Effect) -> Effect:
    return effect if EFFECTS.index(effect) <= EFFECTS.index(other) else other


def stronger(effect: Effect, other: Effect) -> Effect:
    return other if milder(effect, other) == effect else effect


def _recorded(
    case: Case, incident: Incident, fault: Fault, targets: tuple[Target, ...]
) -> tuple[Target, ...]:
    """Return the slices that an instance fault meant when it was new.

    Instance ids are used again: after a change of the layout an old error must not be read as one
    of the slice that got its number. A recorded placement names the memory by itself.
    """
    if fault.instance is None or fault.placement is not None:
        return targets
    if not is_new(case, incident, fault):
        if incident.status.placed is not None:
            return tuple(target for target in targets if target in incident.status.placed)
        acted = any(entry.phase in ACTED for entry in incident.status.timeline)
        known = set(incident.status.scope.devices)
        return tuple(target for target in targets if target in known) if known or acted else targets
    earlier = [known for known in case.incidents if not is_new(case, known, fault)]
    before = [known.status.placed for known in earlier if known.status.placed is not None]
    meant = {target.uuid for part in before for target in part}
    return tuple(target for target in targets if target.uuid in meant) if before else targets


def is_new(case: Case, incident: Incident, fault: Fault) -> bool:
    """Whether the incident has not recorded a signal: by its record, or by a later date.

    Sources date one moment differently, so an error may be dated before one that came first.
    """
    later = is_later(fault.last_seen, incident.status.seen_through, case.reported_at)
    return later or is_unseen(fault.record, incident.status.seen_signals)


def is_later(signal: datetime, known: datetime | None, clock: datetime | None) -> bool:
    """Whether a signal is younger than the recorded ones; all three by the node's clock.

    A date ahead of that clock as it is now was written before the clock was set back: it proves
    nothing about later signals.
    """
    if known is None or signal > known:
        return True
    return clock is not None and signal <= clock < known


def youngest(case: Case, incident: Incident, demands: Iterable[Demand]) -> datetime | None:
    """Return the youngest signal of an incident, by the node's clock.

    A recorded signal ahead of that clock gives way to those that are still reported.
    """
    known, clock = incident.status.seen_through, case.reported_at
    seen = [fault_demand.fault.last_seen for fault_demand in demands]
    ahead = known is not None and clock is not None and known > clock
    if known is not None and not (seen and ahead):
        seen.append(known)
    return max(seen, default=None)


def placed(incident: Incident, demands: Iterable[Demand]) -> tuple[Target, ...]:
    """Return the slices that instance faults of the incident meant when they were new.

    A contained error without a known slice means all of them: a later source names one.
    """
    recorded = incident.status.seen_through is not None
    before = incident.status.scope.devices if recorded else ()
    known = before if incident.status.placed is None else incident.status.placed
    found = {
        target
        for fault_demand in demands
        if fault_demand.fault.fault_class == "contained" and fault_demand.new
        for target in fault_demand.targets
    }
    return (*known, *sorted(found - set(known)))[-PLACED_LIMIT:]


def _patience(incident: Incident, row: Row, now: datetime) -> datetime | None:
    """Return until when to wait for a second source, None when that time is over.

    It counts from when the incident began to wait (`incident_status`), which neither a repeated
    signal nor one that comes and goes moves.
    """
    opened = incident.metadata.creation_timestamp
    not_noted = opened if opened and not incident.status.conditions else now
    until = (waits_since(incident.status, now) or not_noted) + row.settle
    return until if now < until else None


def waits_since(status: IncidentStatus, now: datetime) -> datetime | None:
    """Return since when a doubtful fault waits, as noted; None: not, or it was over in between.

    It was over if the GPU had been healthy for more than a minute: what comes then is another.
    """
    found = (
        condition
        for condition in status.conditions
        if (condition.type, condition.status) == (AWAITING, "True")
    )
    since = next((condition.last_transition_time for condition in found), None)
    healthy = status.healthy_since
    over = since is not None and healthy is not None and since <= healthy < now - NEAR
    return None if over else since
