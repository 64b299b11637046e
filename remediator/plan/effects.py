"""What the faults of one GPU demand now, each as far as its caps let it, and what follows.

For each device the strongest demand makes the rule, and none lowers what stands there. Evictions
wait until all that the faults taint is tainted.
"""

from collections.abc import Collection, Iterable
from datetime import datetime

import msgspec

from exporter.model.device import Device
from remediator.diagnose.fault import Fault, Healthy, Unprovable, weight
from remediator.model.incident import Incident
from remediator.model.incident_status import PLACED_LIMIT, Target, WouldTaint
from remediator.model.taint_rule import EFFECTS, EVICTING, LOST, Effect, Rule, stronger
from remediator.plan.board import Board
from remediator.plan.caps import (
    CAPS,
    LEAVES_OUT,
    LEVELS,
    NO_EVIDENCE,
    NO_RULE,
    SIBLINGS,
    UNSERVED_WHY,
    Cap,
    Limit,
    refusal_in_words,
)
from remediator.plan.finding import UNPUBLISHED, Finding, findings_of, tainted_since
from remediator.plan.pods import drained_in_words
from remediator.plan.signals import is_new
from remediator.plan.stages import Deferral, Notice, Wake
from remediator.plan.words import severity, some
from remediator.policy.table import Evict, Policy, Row, mildest_eviction


class Demand(msgspec.Struct, frozen=True):
    """What one fault demands now."""

    fault: Fault
    row: Row
    targets: tuple[Target, ...]
    cap: Cap
    """The least of its caps: it decides how far the fault goes."""
    goal: Effect
    """How far it goes in the end."""
    awaits: str = ""
    """Which evidence it waits for, or has waited for, while its scope is not tainted."""
    unprovable: Unprovable | None = None
    """Why no other source can confirm what only the kernel log reports, once the settle time is
    over: a user looks."""
    wake: Wake | None = None
    new: bool = False
    """The incident has not recorded its signal before."""
    served: bool = True
    """False: no rule can be written for it."""

    @property
    def effect(self) -> Limit:
        """None: nothing yet."""
        return self.cap.limit

    @property
    def is_written(self) -> bool:
        """Whether its rules are made, as far as its caps let it: in mode enforce, and served."""
        return self.row.mode == "enforce" and self.served

    @property
    def deferral(self) -> Deferral | None:
        """What its cap defers of mode enforce, where users are to know."""
        # Without a published device there is nothing to write, whatever is served.
        if self.cap.by is None or self.row.mode != "enforce" or not self.targets:
            return None
        if self.effect == self.goal:  # only the words of its rule are refused
            return None
        what = "a rule of effect None" if self.goal == "None" else self.goal
        return Deferral(self.cap.by, f"{what} deferred: {self.cap.reason}", self.cap.until)


def demands_of(
    board: Board, incident: Incident, faults: Iterable[Fault], policy: Policy, now: datetime
) -> tuple[Demand, ...]:
    """Return what each fault of an incident demands now, in each pool that has devices of it.

    Evictions are deferred until all devices that the faults of one GPU taint are tainted.
    """
    demands = [
        _demand(finding)
        for fault in faults
        for finding in findings_of(board, incident, fault, policy, now)
    ]
    # A fault in a milder mode, or one that waits for evidence, makes no taint to wait for: it must
    # not stop the eviction of a certain one.
    # Nor does a rule of effect None, which only marks.
    tainting = (
        demand
        for demand in demands
        if demand.is_written and LEVELS.index(demand.effect) >= LEVELS.index("NoSchedule")
    )
    everything = tuple(sorted({target for demand in tainting for target in demand.targets}))
    if not everything:
        return tuple(demands)
    whole = tainted_since(board.rules.stored, incident, everything) is not None
    return tuple(demands) if whole else taint_first(demands)


def taint_first(demands: Iterable[Demand]) -> tuple[Demand, ...]:
    """Return the same demands without their evictions."""
    return tuple(
        msgspec.structs.replace(demand, cap=SIBLINGS) if demand.effect in EVICTING else demand
        for demand in demands
    )


def _demand(finding: Finding) -> Demand:
    caps = [cap for rule in CAPS if (cap := rule(finding)) is not None]
    least = min(caps, key=lambda cap: LEVELS.index(cap.limit))
    # Of all caps, not of the least: where that one only defers, a ceiling still applies later.
    goal = EFFECTS[min(EFFECTS.index(cap.goal) for cap in caps)]
    demand = Demand(
        fault=finding.fault,
        row=finding.row,
        targets=finding.targets,
        cap=least,
        goal=goal,
        awaits="" if least.name in NO_RULE else finding.awaits,
        wake=Wake(least.until, least.reason) if least.until else None,
        new=is_new(finding.board, finding.incident, finding.fault),
        served=finding.board.rules.served,
    )
    asks = finding.fault.unprovable and least.limit is not None and goal not in EVICTING
    since = finding.tainted_since if asks else None
    if since is None:
        return demand
    # The settle time has brought no second source: a user looks.
    settled = since + finding.row.settle
    if finding.now < settled:
        wake = Wake(settled, "no second source has confirmed the fault")
        return msgspec.structs.replace(demand, wake=wake)
    return msgspec.structs.replace(demand, unprovable=finding.fault.unprovable)


def slices_to_record(incident: Incident, demands: Iterable[Demand]) -> tuple[Target, ...]:
    """Return the slices that instance faults of the incident meant when they were new.

    A contained error without a known slice means all of them: a later source names one.
    """
    recorded = incident.status.fault.seen_through is not None
    before = incident.status.scope.devices if recorded else ()
    known = before if incident.status.fault.slices is None else incident.status.fault.slices
    found = {
        target
        for demand in demands
        if demand.fault.fault_class == "contained" and demand.new
        for target in demand.targets
    }
    return (*known, *sorted(found - set(known)))[-PLACED_LIMIT:]


def strongest_rules(
    board: Board,
    incident: Incident,
    demands: tuple[Demand, ...],
    kept: tuple[Rule, ...],
) -> tuple[Rule, ...]:
    """Return for each device the strongest of its demands and of the rule that stands on it.

    What stands is recorded under the incident that leads.
    """
    held = {pod.device for pod in board.users.holders}
    desired = {rule.device: msgspec.structs.replace(rule, incident=incident.name) for rule in kept}
    # From the mildest class; among equals as an incident is named (`weight`).
    order = sorted(
        demands, key=lambda each: (severity(each.fault.fault_class), *weight(each.fault)[1:])
    )
    for demand in order:
        row = demand.row
        shown = row.mode == "dry-run" and row.ceiling != "observe" and demand.served
        for target in demand.targets:
            # The status of a None rule counts the pods that would be evicted: 0 on an idle device.
            unenforced: Effect | None = "None" if shown and str(target.name) in held else None
            effect = demand.effect if demand.is_written else unenforced
            if effect is not None:
                rule = _rule(board, incident, demand.fault, target, effect)
                desired[target.name] = _join_rules(rule, desired.get(target.name))
    return tuple(desired[device] for device in sorted(desired))


def _join_rules(rule: Rule, standing: Rule | None) -> Rule:
    """Return one rule for a device, in the words of the demand with the strongest effect.

    Among equals the standing rule keeps its words, if it has any, unless a worse class demands it.
    A rule must not name a class whose ceiling is below its effect: it would be lowered to it.
    """
    if standing is None:
        return rule
    effect = stronger(rule.effect, standing.effect)
    worse = severity(rule.fault) > severity(standing.fault)
    unanswered = standing.cause == LOST and standing.fault == rule.fault
    # Pods tolerate a taint by its key and value: other words would evict some that tolerate these.
    changes = effect == rule.effect and (worse or unanswered or standing.effect != effect)
    words_of = rule if changes else standing
    return msgspec.structs.replace(
        words_of, effect=effect, incident=rule.incident, uuid=rule.uuid, uid="", resource_version=""
    )


def _would_wait(board: Board, demand: Demand) -> list[str]:
    """Return what mode enforce would wait for where a milder mode spares devices.

    Pods that are not listed are left out: an incident that opens knows none yet.
    """
    devices = {str(target.name) for target in demand.targets}
    why = drained_in_words(board, devices) if demand.goal in EVICTING else ""
    return [f"it would be deferred: {why}"] if why else []


def _rule(board: Board, incident: Incident, fault: Fault, target: Target, effect: Effect) -> Rule:
    return Rule(
        device=target.name,
        effect=effect,
        fault=fault.fault_class,
        cause=fault.cause,
        incident=incident.name,
        uuid=target.uuid,
        gpu=board.uuid,
        node=board.node,
        classes=tuple(sorted(board.place.device_classes)),
    )


def would(demands: tuple[Demand, ...]) -> tuple[WouldTaint, ...]:
    """Return what enforce mode would do to each device, were rules served; more than is done."""
    spared: dict[str, Effect] = {}
    done = {
        (target.name, demand.goal)
        for demand in demands
        if demand.is_written
        for target in demand.targets
    }
    for demand in demands:
        ready = demand.effect is not None or demand.cap.name == "unserved"
        if ready and not demand.is_written:
            for target in demand.targets:
                if (target.name, demand.goal) in done:
                    continue
                name = str(target.name)
                spared[name] = stronger(demand.goal, spared.get(name, demand.goal))
    return tuple(WouldTaint(device, effect) for device, effect in sorted(spared.items()))


def pending(demands: tuple[Demand, ...]) -> bool:
    """Whether enforce mode has not reached its goal; what is only observed has none.

    A pod that is evicted under `Evict` need not be there for the next step.
    """
    return any(
        demand.effect not in (demand.goal, "Evict")
        for demand in demands
        if demand.is_written
        and demand.row.ceiling != "observe"
        and demand.cap.name not in LEAVES_OUT
    )


def deferral(board: Board, demands: tuple[Demand, ...]) -> Deferral | None:
    """Return what a cap defers of mode enforce, where users are to know; None where none does.

    A GPU that is healthy again waits for no taint that it has not had.
    """
    waiting = [demand for demand in demands if demand.deferral]
    furthest = max(waiting, key=lambda demand: EFFECTS.index(demand.goal), default=None)
    return None if furthest is None or isinstance(board.verdict, Healthy) else furthest.deferral


def refusal(board: Board, left_out: Collection[Rule]) -> Deferral | None:
    """Return what waits for an API server that refuses these rules; None for none of them."""
    found = [why for rule in left_out if (why := board.rules.refusal(rule.device))]
    if not found:
        return None
    strongest = max((rule.effect for rule in left_out), key=EFFECTS.index)
    why = refusal_in_words([rule.device for rule in left_out], found[0])
    until = min(each.until for each in found)
    return Deferral("RuleRefused", f"{strongest} deferred: {why}", until)


def refused_removal(board: Board, desired: Iterable[Rule]) -> Deferral | None:
    """Return what waits for an API server that keeps more than what is desired; None: nothing."""
    allowed: dict[Device, Limit] = {rule.device: rule.effect for rule in desired}
    stuck = {
        rule.device: why
        for rule in board.rules.stored
        if LEVELS.index(allowed.get(rule.device)) < LEVELS.index(rule.effect)
        and (why := board.rules.irremovable.get(rule.name))
    }
    if not stuck:
        return None
    named = some(device.device for device in stuck)
    first = next(iter(stuck.values()))
    why = f"the rule of {named} cannot be removed or lowered: {first.why}"
    return Deferral("RuleRefused", why, min(each.until for each in stuck.values()))


def _demands_that_evict(demands: tuple[Demand, ...]) -> list[Demand]:
    return [demand for demand in demands if demand.is_written and demand.effect in EVICTING]


def devices_to_evict(demands: tuple[Demand, ...]) -> tuple[Device, ...]:
    """Return the devices whose pods the faults have evicted now."""
    return tuple(
        sorted(
            {target.name for demand in _demands_that_evict(demands) for target in demand.targets}
        )
    )


def evict_plan(demands: tuple[Demand, ...]) -> Evict | None:
    """Return how they are evicted: the mildest plan of their classes."""
    plans = [demand.row.evict for demand in _demands_that_evict(demands)]
    return mildest_eviction(plans) if plans else None


def notice(demands: tuple[Demand, ...]) -> Notice | None:
    """Return what is to come for pods, at the earliest, once their devices are tainted."""
    return notice_of([each.row for each in demands if each.is_written and each.goal in EVICTING])


def notice_of(rows: Collection[Row]) -> Notice | None:
    """Return the same by the rows of the classes that evict."""
    if not rows:
        return None
    plans = [row.evict for row in rows]
    soonest = min(plans, key=lambda plan: (plan.then == "wait", plan.within))
    settle = min(row.settle for row in rows)
    return Notice(settle=settle, plan=mildest_eviction(plans), soonest=soonest)


def goal(demands: tuple[Demand, ...]) -> Effect:
    """Return the strongest effect that enforce mode goes for."""
    strongest: Effect = "None"
    for demand in demands:
        if demand.is_written:
            strongest = stronger(strongest, demand.goal)
    return strongest


def _is_enforced(demand: Demand) -> bool:
    return demand.row.mode == "enforce" and bool(demand.targets)


def leading_demand(demands: tuple[Demand, ...]) -> Demand | None:
    """Return the demand of the worst class, where it is enforced if anywhere."""
    return max(
        demands,
        key=lambda demand: (severity(demand.fault.fault_class), demand.row.mode == "enforce"),
        default=None,
    )


def worst_class(demands: tuple[Demand, ...]) -> str:
    """Return the worst class that waits for no evidence; "" for none."""
    known = (demand.fault.fault_class for demand in demands if demand.cap.name not in NO_EVIDENCE)
    return max(known, key=severity, default="")


def reason(board: Board, incident: Incident, demands: tuple[Demand, ...]) -> str:
    """Return the reason, from the demand that goes furthest."""
    # One that is enforced says what happens; the worst one may only be observed.
    first = leading_demand(tuple(filter(_is_enforced, demands)) or demands)
    parts: list[str] = []
    over = all(
        demand.cap.by or (demand.effect == demand.goal and demand.goal not in EVICTING)
        for demand in demands
    )
    if isinstance(board.verdict, Healthy) and over:
        return f"verifying: {board.verdict.evidence}"
    if first is not None and first.row.mode != "enforce":
        but = "" if first.served else f", but {UNSERVED_WHY}"
        parts.append(f"{first.row.mode}: enforce would go up to {first.goal}{but}")
        parts += _would_wait(board, first)
    elif first is not None:
        unbound = f": {board.presence.unbound}" if board.presence.unbound else ""
        nothing = UNPUBLISHED if first.fault.instance else f"no published device to taint{unbound}"
        parts += [] if first.targets else [nothing]
        parts += [first.cap.reason] if first.targets or first.cap.by else []
    beyond = {each.cap.reason for each in demands if each.cap.name in LEAVES_OUT}
    parts += [f"not every device of it is tainted: {why}" for why in sorted(beyond - {*parts})]
    if isinstance(board.verdict, Healthy):
        parts.append(f"verifying: {board.verdict.evidence}")
    stands = sorted({demand.fault.cause for demand in demands if demand.fault.ended is None})
    if first is not None and first.fault.ended is not None and stands:
        parts.append(f"not untainted while {', '.join(stands)} stands")
    return "; ".join(parts) or f"{incident.status.fault.cause} still stands"
