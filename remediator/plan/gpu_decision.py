"""One GPU's case into its desired state: its incident and its rules.

Level triggered: everything is computed anew from the verdict, the incident, the rules and the
claims as stored. Each fault has its own demand, by its own row of the policy and its own scope
(`escalation`); a device gets the strongest effect that any of them demands. Promises that hold
here:

- An Unknown verdict changes no rule, in either direction, but for names that move.
- What an incident has tainted stays tainted under each name that it gets, in every state but its
  ends, `ignore` and a milder policy (`tainted_hardware`).
- Inside one incident severity and effects only rise. A rule goes for one of four reasons
  (`retained_rules`), and when a source names the slice.
- Recovery is soaked on our own clock, without a gap, and it needs an incident that records it:
  rules without an incident get one first.
- A GPU that fails again and again, or of a sticky class, waits for a user after its recovery.
- A user outranks every ratchet: a lowered mode and `ignore` remove rules at once, whatever the
  verdict; `hold` stops new disruptions and removes nothing.

`budget` limits how much happens at once; `steps` orders it. Pure.
"""

from datetime import datetime

import msgspec

from remediator.diagnose.fault import Healthy, Unknown, or_unknown, weight
from remediator.model import intent
from remediator.model.incident import Incident
from remediator.model.taint_rule import Rule
from remediator.plan import (
    adoption,
    desired_rules,
    history,
    incident_spec,
    needs,
    overrides,
    recovery,
    retained_rules,
    tainted_hardware,
)
from remediator.plan.case import Case, Desired, Eviction, Record
from remediator.plan.drain import SEEN_APART, look_again
from remediator.plan.escalation import Demand, demand, placed, tainted_first, together, youngest
from remediator.plan.eviction_requests import resumes
from remediator.plan.signals import has_news, is_unseen, seen
from remediator.plan.undecided_gpu import or_undecided, undecided
from remediator.plan.words import class_of
from remediator.policy.table import Policy


def decided(case: Case, policy: Policy, now: datetime) -> tuple[Case, Desired]:
    """Return what should be so for one GPU, whatever is wrong with this program.

    A bug about one GPU must not cost its neighbours their taints: it is unknown then,
    its rules stay, and the trace is in the verdict. What could not even be looked into
    stays as it stands.
    """
    if case.blank is not None:
        return undecided(case, case.blank)
    answer = _answered(case, policy, now)
    if not isinstance(answer, Unknown):
        return answer
    blind = msgspec.structs.replace(case, verdict=answer, gpu=None)
    return or_undecided(blind, lambda: decide(blind, policy, now))


@or_unknown
def _answered(case: Case, policy: Policy, now: datetime) -> tuple[Case, Desired]:
    case = recovery.past_pending(case, policy)
    return case, decide(case, policy, now)


def decide(case: Case, policy: Policy, now: datetime) -> Desired:
    """Return what should be so for one GPU."""
    kept = retained_rules.kept(case, policy)
    opened = adoption.leading_first(incident_spec.open_incidents(case), case.rules)
    current = opened[0] if opened else None
    if case.elsewhere and not case.reported:
        return _elsewhere(case, current, kept, policy, now)
    faults = sorted(incident_spec.unhandled(case, policy, now), key=weight)
    empty = False
    if current is None or current.blank:
        adopted = (
            kept or retained_rules.displaced_here(case, policy) or (case.unseen if current else ())
        )
        empty = not adopted and not any(
            incident_spec.opens(case, fault, policy, now) for fault in faults
        )
        if current is None and empty:
            return Desired(uuid=case.uuid, reason="nothing to do")
        if current is None and _are_of_others(case, adopted):
            return Desired(uuid=case.uuid, rules=kept, reason="its rules are another node's")
        current = (
            overrides.inherited(case, incident_spec.begun(case, adopted), now)
            if current is None
            else adoption.restored(case, current, adopted, now)
        )
    faults = [fault for fault in faults if incident_spec.stood(fault, current, kept)]
    faults = incident_spec.credible(faults, current)
    rows = [(fault, policy.row(fault.fault_class, case.place)) for fault in faults]
    demands = together(
        case, current, [demand(case, current, fault, row, now) for fault, row in rows]
    )
    firm = tuple(
        rule for rule in kept if not retained_rules.narrowed(case, current, rule, demands, now)
    )
    gone = tuple(rule for rule in kept if rule not in firm)
    parts = tainted_hardware.tainted(case, current, now, demands, gone)
    rebound = tainted_hardware.rebound(case, current, parts, kept, policy)
    if tainted_hardware.extends(rebound, case.rules):
        demands = tainted_first(demands)
    kept, firm = (tainted_hardware.with_rebound(rules, rebound) for rules in (kept, firm))
    incident = incident_spec.recorded(case, current, demands, firm, now)
    # Stored with the steps that rest on it: rules that a narrowed scope takes away must not
    # come back for what was tainted before.
    incident = msgspec.structs.replace(
        incident, status=msgspec.structs.replace(incident.status, hardware=parts)
    )
    known = _known(case, incident, demands, policy, now)
    known = msgspec.structs.replace(
        known,
        duplicates=opened[1:],
        hardware=parts,
        rebound=rebound,
        ending=adoption.ends(case, empty=empty) or known.ending,
    )
    return _ignored(case, _course(case, known, demands, kept, firm, policy, now), now)


def _are_of_others(case: Case, rules: tuple[Rule, ...]) -> bool:
    """Whether only rules of another node would open an incident here, of a GPU that is unknown.

    Two nodes may report one board. Its own node has made the rules, and opens the incident.
    """
    nobodys = not any(rule.node == case.node for rule in rules)
    return isinstance(case.verdict, Unknown) and bool(rules) and nobodys


def _elsewhere(
    case: Case, current: Incident | None, kept: tuple[Rule, ...], policy: Policy, now: datetime
) -> Desired:
    """Return what is left to do for a GPU about which another node decides."""
    rebound: tuple[Rule, ...] = ()
    if current is not None:
        parts = tainted_hardware.tainted(case, current, now)
        rebound = tainted_hardware.rebound(case, current, parts, kept, policy)
    why = f"its incident is handled by {', '.join(case.elsewhere)}, where the board is"
    rules = tainted_hardware.with_rebound(kept, rebound)
    return Desired(uuid=case.uuid, rules=rules, rebound=rebound, reason=why)


def _known(
    case: Case, incident: Incident, demands: tuple[Demand, ...], policy: Policy, now: datetime
) -> Desired:
    """Return what an incident is to record, whatever is done about it."""
    signal = youngest(case, incident, demands)
    before = incident.status.seen_signals
    unseen = any(is_unseen(fault_demand.fault.record, before) for fault_demand in demands)
    row = policy.row(class_of(incident.status.fault), case.place)
    count = history.recurrence(case.incidents, incident, row, now)
    rows = tuple(dict.fromkeys((row, *(fault_demand.row for fault_demand in demands))))
    # A class that another policy switched off waits for a user as before.
    counted = tuple(
        policy_row for policy_row in rows if policy_row.mode != "off" or policy.disagrees
    )
    sticky = history.stickiness(
        incident, () if history.is_syslog_only(incident) else counted, count
    )
    given = overrides.given(case, incident, signal, now, news=has_news(case, before))
    confirmed = overrides.in_force(given, "RepairConfirmed")
    leading = desired_rules.leading(demands)
    shut = case.distrust or recovery.unseen_rules(case)
    return Desired(
        uuid=case.uuid,
        incident=incident,
        goal=desired_rules.goal(demands),
        ending="" if shut else recovery.ending(case, incident, confirmed, now),
        eviction=Eviction(notice=desired_rules.notice(demands)),
        repair=needs.needs(case, incident, demands, policy, now),
        record=Record(
            seen_through=signal,
            seen=seen(case, before),
            is_new=unseen,
            awaits=next((expected.awaits for expected in demands if expected.awaits), ""),
            row=leading.row.name if leading else row.name,
            recurrence=count,
            confirmation="" if confirmed else sticky,
            sticky=bool(sticky),
            unprovable=any(fault_demand.needs_human for fault_demand in demands),
            probation=row.probation,
            repair_seen="" if unseen else recovery.repair_seen(case, incident.status, signal),
            intents=given,
            placed=placed(incident, demands),
        ),
    )


def _course(  # noqa: PLR0917 - two kinds of rules beside the facts
    case: Case,
    known: Desired,
    demands: tuple[Demand, ...],
    kept: tuple[Rule, ...],
    firm: tuple[Rule, ...],
    policy: Policy,
    now: datetime,
) -> Desired:
    """Return the incident's next state: its end, waiting, recovery or what its faults demand."""
    if known.ending:
        return msgspec.structs.replace(known, reason=known.ending)
    incident = known.incident
    if incident is None:
        return known
    confirmed = overrides.in_force(known.record.intents, "RepairConfirmed")
    why = recovery.unknown(case, incident, confirmed)
    if why:
        wakes = (recovery.gone_until(case, incident), *_wakes(case, known, now))
        parts = (f"unknown, so nothing changes: {why}", tainted_hardware.in_words(known.rebound))
        return msgspec.structs.replace(
            known,
            rules=kept,
            reason="; ".join(part for part in parts if part),
            wake_at=min((moment for moment in wakes if moment and moment > now), default=None),
        )
    quiet = known.record.seen_through == incident.status.seen_through and not known.record.is_new
    verified_at = recovery.verified_at(case, incident, policy, now) if quiet else None
    soaked = verified_at is not None and now >= verified_at
    waits = bool(known.record.confirmation)
    unproven = "" if confirmed else recovery.unproven(case, incident, waits_for_user=waits)
    if soaked and unproven:
        record = msgspec.structs.replace(known.record, unproven=unproven)
        known = msgspec.structs.replace(known, record=record)
        verified_at = now + recovery.LOOK_FOR_RENEWALS
    # What the agent has confirmed is stored first: a restart in between must not wait for it again.
    noted = confirmed is not None or incident.status.soak_confirmed_time is not None
    if verified_at and soaked and not unproven and not noted:
        # A schema of the release before does not store it.
        verified_at += recovery.NOTED_WITHIN
        noted = now >= verified_at
    verified = soaked and noted and not unproven
    unseen = recovery.unseen_rules(case)
    if verified and not (known.record.confirmation or unseen):
        return msgspec.structs.replace(
            known, closing=True, verified=True, reason=recovery.proof(case)
        )
    wakes = (*_wakes(case, known, now), None if verified else verified_at)
    known = msgspec.structs.replace(
        known,
        verified=verified and not unseen,
        wake_at=min((moment for moment in wakes if moment), default=None),
    )
    return _standing(case, incident, known, demands, firm, now)


def _wakes(case: Case, known: Desired, now: datetime) -> tuple[datetime | None, ...]:
    """Return when what users want expires, and when to look whether the devices are empty."""
    empty_since = known.incident.status.empty_since if known.incident else None
    again = empty_since + SEEN_APART if empty_since else None
    look = look_again(case, known.incident, now) if known.incident else None
    missed = needs.look_again(known.incident.status) if known.incident else None
    ends = (overrides.next_expiry(known.record.intents), again, look, missed)
    return tuple(end for end in ends if end is not None and end > now)


def _standing(  # noqa: PLR0917 - the facts, and when
    case: Case,
    incident: Incident,
    known: Desired,
    demands: tuple[Demand, ...],
    firm: tuple[Rule, ...],
    now: datetime,
) -> Desired:
    hold = overrides.in_force(known.record.intents, "Hold")
    # A hold keeps what stands: nothing new is demanded as long as it counts.
    rules = desired_rules.rules(case, incident, () if hold else demands, firm)
    wakes = [
        moment
        for moment in (known.wake_at, *(fault_demand.wake_at for fault_demand in demands))
        if moment
    ]
    devices = () if hold else desired_rules.evicting(demands)
    repair, remarks = known.repair, _remarks(case, known)
    step = () if known.verified else (desired_rules.reason(case, incident, demands),)
    return msgspec.structs.replace(
        known,
        rules=rules,
        pending=desired_rules.pending(demands),
        wake_at=min(wakes, default=None),
        reason="; ".join((*step, *remarks)),
        remarks=remarks,
        eviction=msgspec.structs.replace(
            known.eviction,
            plan=None if hold else desired_rules.evict_plan(demands),
            devices=devices,
            resumes=resumes(case, incident, devices, now),
        ),
        repair=msgspec.structs.replace(repair, needs="human") if known.verified else repair,
        record=msgspec.structs.replace(known.record, would=desired_rules.would(demands)),
        deferred=f"new actions deferred: {intent.in_words(hold.kind, hold)}" if hold else "",
        deferred_by="Human" if hold else "Budget",
    )


def _remarks(case: Case, known: Desired) -> tuple[str, ...]:
    if known.verified:
        verified = "healthy for the whole soak time, and waits for a user to confirm the repair"
        return (f"{known.record.confirmation}: {verified} (spec.repairConfirmed)",)
    parts: list[str] = []
    if known.record.unproven:
        parts.append(known.record.unproven)
    if known.record.confirmation:
        parts.append(f"a user must confirm the repair: {known.record.confirmation}")
    if case.clock_doubt and isinstance(case.verdict, Healthy):
        parts.append(f"the soak time waits: {case.clock_doubt}")
    if isinstance(case.verdict, Healthy) and (unseen := recovery.unseen_rules(case)):
        parts.append(f"not closed: {unseen}")
    if known.record.repair_seen and not isinstance(case.verdict, Healthy):
        parts.append(known.record.repair_seen)
    if known.rebound:
        parts.append(tainted_hardware.in_words(known.rebound))
    return tuple(parts)


def _ignored(case: Case, desired: Desired, now: datetime) -> Desired:
    """Remove all rules of ours where a user says that there is no fault."""
    ignored = overrides.in_force(desired.record.intents, "Ignore")
    if ignored is None or desired.closing or desired.ending:
        return desired
    why = f"not acted on: {intent.in_words(ignored.kind, ignored)}"
    wakes = [moment for moment in (desired.wake_at, *_wakes(case, desired, now)) if moment]
    return msgspec.structs.replace(
        desired,
        rules=(),
        rebound=(),
        eviction=msgspec.structs.replace(desired.eviction, devices=(), resumes=False),
        pending=False,
        goal="None",
        deferred="",
        deferred_by="Budget",
        wake_at=min(wakes, default=None),
        reason=why,
    )
