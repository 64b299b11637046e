"""What should be so for one GPU, by itself: its incident, its rules, and why.

- Unknown changes nothing: rules stay, no rule is added, and the soak time starts over. Only names
  that move are followed (`standing_rules`).
- During an incident effects only rise. A rule goes for four reasons (`standing_rules`), and when a
  source names the slice.
- Recovery is soaked on our own clock, without a gap, and it needs an incident that records it:
  rules without an incident get one first.
- A GPU that fails again and again, or of a sticky class, waits for a user after its recovery.
- A user outranks every ratchet: a lowered mode and `ignore` remove rules at once, whatever the
  verdict; `hold` stops new disruptions and removes nothing.

`grants` limits how much happens at once; `steps` orders it.

Where this program fails on a GPU, or its stored objects cannot be read, the GPU is unknown and all
stays as it stands: that costs this GPU its decision, and no other GPU theirs. What is tainted stays
tainted and still counts against the budgets, which are counted from what is stored.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import cached_property

import msgspec

from remediator.diagnose.fault import (
    FaultClass,
    Healthy,
    Unknown,
    attempt,
    faults_of,
    or_unknown,
)
from remediator.model import intent
from remediator.model.incident import Incident
from remediator.model.incident_status import with_changes
from remediator.model.taint_rule import Rule
from remediator.plan import (
    clocks,
    effects,
    hardware,
    history,
    incidents,
    needs,
    overrides,
    recovery,
    soak,
    standing_rules,
)
from remediator.plan.board import Board
from remediator.plan.effects import Demand
from remediator.plan.evictions import resumes
from remediator.plan.incidents import Lead
from remediator.plan.pods import SEEN_APART, look_again
from remediator.plan.signals import has_news, is_new, is_unseen, with_reported, youngest
from remediator.plan.stages import (
    Course,
    Deferral,
    Demanded,
    EvictionDemand,
    Record,
    Repair,
    Wake,
    first_wake,
)
from remediator.plan.unproven import unproven_faults
from remediator.plan.words import AWAY, class_of, some
from remediator.policy.table import Policy, Row


def decide_or_keep(board: Board, policy: Policy, now: datetime) -> tuple[Board, Demanded]:
    """Return what should be so for one GPU, whatever is wrong with this program.

    A bug about one GPU must not cost its neighbours their taints: it is unknown then, its rules
    stay, and the trace is in the verdict. What could not even be looked into stays as it stands.
    """
    if board.undecidable is not None:
        return keep(board, board.undecidable)
    answer = _decide(board, policy, now)
    if not isinstance(answer, Unknown):
        return answer
    # Decided once more as unknown: names may have moved, and only they are followed then.
    blind = msgspec.structs.replace(board, verdict=answer, gpu=None)
    return or_keep(blind, lambda: decide(blind, policy, now))


@or_unknown
def _decide(board: Board, policy: Policy, now: datetime) -> tuple[Board, Demanded]:
    board = recovery.without_pending(board, policy)
    return board, decide(board, policy, now)


def keep(board: Board, why: Unknown) -> tuple[Board, Demanded]:
    """Return the board of a GPU with an answer that changes nothing about it."""
    # Leftovers are rules to delete: they wait for a decision, too.
    rules = msgspec.structs.replace(board.rules, leftovers=())
    unclear = msgspec.structs.replace(board, verdict=why, gpu=None, rules=rules, undecidable=why)
    course = Course(kind="undecided", reason=why.why)
    stored = board.rules.stored
    return unclear, Demanded(uuid=board.uuid, course=course, rules=stored, undecided=why)


def or_keep(board: Board, answer: Callable[[], Demanded]) -> tuple[Board, Demanded]:
    """Return a board with its answer; where this program fails to give one, nothing changes."""
    demanded = attempt(answer)
    return keep(board, demanded) if isinstance(demanded, Unknown) else (board, demanded)


def decide(board: Board, policy: Policy, now: datetime) -> Demanded:
    """Return what should be so for one GPU."""
    standing = standing_rules.rules_that_may_stay(board, policy)
    # One node writes an incident: two would write over each other.
    if board.presence.decided_by:
        return _elsewhere(board, standing, policy, now)
    displaced = standing_rules.displaced_rules(board, policy)
    lead = incidents.lead(board, standing, displaced, policy, now)
    if isinstance(lead, str):
        course = Course(kind="no incident", reason=lead)
        return Demanded(uuid=board.uuid, course=course, rules=standing)
    demands = effects.demands_of(board, lead.incident, lead.faults, policy, now)
    news = any(is_new(board, lead.incident, fault) for fault in lead.faults)
    released = soak.is_released(board, lead.incident.status, news=news)
    parts = lead.incident.status.scope.hardware
    taints = (
        standing_rules.Taints(kept=standing, firm=standing, parts=parts)
        if released
        else standing_rules.follow_names(board, lead.incident, standing, demands, policy, now)
    )
    # A pod that is evicted must not land on the device for which a rule is only being made.
    if taints.extends:
        demands = effects.taint_first(demands)
    found = incidents.with_findings(board, lead.incident, demands, taints.firm, now)
    # Stored with the steps that rest on it: rules that a narrowed scope takes away must not come
    # back for what was tainted before.
    status = with_changes(found.status, scope={"hardware": taints.parts})
    incident = msgspec.structs.replace(found, status=status)
    begun = overrides.has_begun(board, lead.incident, (demand.fault for demand in demands))
    record = _record(board, incident, demands, policy, now, begun=begun)
    row = policy.row(class_of(incident.status.fault.fault_class), board.place)
    again = history.failures_after_repair(incident, board.verdict)
    repeats = bool(record.confirmation and history.repeats((row,), record.recurrence, again))
    awaiting = overrides.without_seen_ends(board, incident, record.intents)
    known = _Known(
        board=board,
        incident=overrides.with_read(awaiting, record.intents, now),
        lead=lead,
        demands=() if released else demands,
        taints=taints,
        record=record,
        repair=needs.needs(board, incident, demands, policy, now, repeats=repeats, failed=again),
        policy=policy,
        now=now,
        released=released,
    )
    # Ends come first: a GPU whose node is gone is unknown as well.
    return _ignore(known, _end(known) or _keep_unknown(known) or _verify(known))


# `dict=True`: a cached_property keeps its value in the instance's dict, which a Struct lacks.
class _Known(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """What is known of one incident, whatever is done about it."""

    board: Board
    incident: Incident
    """With what was found now."""
    lead: Lead
    demands: tuple[Demand, ...]
    taints: standing_rules.Taints
    record: Record
    repair: needs.Repair
    policy: Policy
    now: datetime
    released: bool
    """Verified recovery has set it free: nothing is demanded for what it has recovered from."""

    @cached_property
    def confirmed(self) -> intent.IntentRecord | None:
        """A user's confirmation that the GPU is repaired, while it counts."""
        return overrides.in_force(self.record.intents, "RepairConfirmed")

    def rules(self, demands: tuple[Demand, ...], kept: tuple[Rule, ...]) -> tuple[Rule, ...]:
        """Return the rules that faults demand, and what no proof has ended; under a hold, none."""
        board, incident = self.board, self.incident
        demands = () if self.hold else (*demands, *self.unproven)
        return effects.strongest_rules(board, incident, demands, kept)

    @cached_property
    def hold(self) -> intent.IntentRecord | None:
        return overrides.in_force(self.record.intents, "Hold")

    @cached_property
    def unproven(self) -> tuple[Demand, ...]:
        """What the incident holds against a GPU that reports no fault."""
        board, incident, policy = self.board, self.incident, self.policy
        if self.confirmed or self.released:
            return ()
        faults = unproven_faults(board, incident, policy, self.record.confirmation)
        return effects.demands_of(board, incident, faults, policy, self.now)

    @cached_property
    def refusal(self) -> Deferral | None:
        """What waits for an API server that refuses a rule which no fault demands now."""
        follow = effects.refusal(self.board, self.taints.refused)
        waits = (each.deferral for each in self.unproven if each.cap.name == "refused")
        return follow or (None if self.hold else next(waits, None))

    @cached_property
    def deferrals(self) -> tuple[Deferral, ...]:
        """What waits whatever the others do: for a user, for a cap, for the API server."""
        human = None
        if self.hold:
            why = f"new actions deferred: {intent.in_words(self.hold.kind, self.hold)}"
            human = Deferral("Human", why)
        cap, refusal = effects.deferral(self.board, self.demands), self.refusal
        again = cap is not None and refusal is not None and cap.by == refusal.by
        found = (human, cap, None if again else refusal)
        return tuple(deferral for deferral in found if deferral)

    def demanding(self, course: Course, **fields: object) -> Demanded:
        """Return the answer of a course; rules are none unless they are given."""
        standard = {
            "incident": self.incident,
            "eviction": EvictionDemand(notice=effects.notice(self.demands)),
            "renamed": self.taints.renamed,
            "repair": self.repair,
            "record": self.record,
        }
        return Demanded(
            uuid=self.board.uuid,
            course=course,
            duplicates=self.lead.duplicates,
            goal=effects.goal(self.demands),
            **(standard | fields),  # pyright: ignore[reportArgumentType] - fields of Demanded
        )

    def first_wake(self, *others: Wake | None) -> Wake | None:
        """Return the first of these, and of those that matter whatever is done."""
        status = self.incident.status
        twice = status.eviction.empty_since + SEEN_APART if status.eviction.empty_since else None
        dates = (
            (overrides.next_expiry(self.record.intents), "what a user wants expires"),
            (twice, "the devices were empty once"),
            (look_again(self.board, self.incident, self.now), "pods that hold no device still run"),
            (clocks.not_brought_back_at(status), "the GPU is missing after a reboot"),
            (recovery.word_needed_at(self.board, status, self.now), "a repair has had its time"),
        )
        own = (Wake(at, why) for at, why in dates if at is not None and at > self.now)
        return first_wake(*own, *others)


def _elsewhere(board: Board, standing: tuple[Rule, ...], policy: Policy, now: datetime) -> Demanded:
    """Return what is left to do for a GPU about which another node decides."""
    current = incidents.leading_incident(board)
    taints = standing_rules.Taints(kept=standing)
    if current and not soak.is_released(board, current.status, news=False):
        taints = standing_rules.follow_names(board, current, standing, (), policy, now)
    where = board.presence.decided_by
    course = Course(kind="elsewhere", reason=f"its incident is handled by {where}")
    refused = effects.refusal(board, taints.refused)  # only for when it is tried again
    return Demanded(
        uuid=board.uuid,
        course=course,
        rules=taints.kept,
        renamed=taints.renamed,
        deferrals=(refused,) if refused else (),
    )


def _record(
    board: Board,
    incident: Incident,
    demands: tuple[Demand, ...],
    policy: Policy,
    now: datetime,
    *,
    begun: bool,
) -> Record:
    """Return what an incident is to record, whatever is done about it.

    `begun`: a state that is a fault stands now, and did not before.
    """
    signal = youngest(board, incident, (demand.fault for demand in demands))
    before = incident.status.fault.seen_signals
    unseen = any(is_unseen(demand.fault.record, before) for demand in demands)
    row = policy.row(class_of(incident.status.fault.fault_class), board.place)

    def row_of(fault_class: FaultClass) -> Row:
        return policy.row(fault_class, board.place)

    count = history.recurrence(board.incidents, incident, row_of, now)
    relapses = history.counts_as_repeat(incident, row_of)
    rows = tuple(dict.fromkeys((row, *(demand.row for demand in demands))))
    # A class that another policy switched off waits for a user as before.
    counted = tuple(each for each in rows if each.mode != "off" or policy.disagrees)
    # A line that any program may have written makes no GPU wait for a user.
    again = history.failures_after_repair(incident, board.verdict)
    sticky = history.stickiness(
        incident, () if history.is_syslog_only(incident) else counted, count, again
    )
    worst = effects.worst_class(demands)
    news = has_news(board, before) or begun
    intents = overrides.read_intents(board, incident, signal, worst, now, news=news)
    confirmed = overrides.in_force(intents, "RepairConfirmed")
    leading = effects.leading_demand(demands)
    return Record(
        seen_through=signal,
        seen=with_reported(board, before),
        is_new=unseen,
        awaits=next((demand.awaits for demand in demands if demand.awaits), ""),
        row=leading.row.name if leading else row.name,
        recurrence=count,
        confirmation="" if confirmed else sticky,
        sticky=bool(sticky),
        unprovable=next((demand.unprovable for demand in demands if demand.unprovable), None),
        end_unreported=recovery.end_unreported(board, incident, confirmed, now),
        probation=row.probation if relapses else timedelta(),
        repair_seen="" if unseen else recovery.repair_seen(board, incident.status, signal),
        intents=intents,
        slices=effects.slices_to_record(incident, demands),
    )


def _end(known: _Known) -> Demanded | None:
    """Return the end of an incident without verified recovery: all rules go."""
    board, shut = known.board, known.board.trust.refusal("release")
    why = known.lead.ends
    if not (why or shut or recovery.unseen_rules(board)):
        why = recovery.end_without_recovery(board, known.incident, known.confirmed, known.now)
    return known.demanding(Course(kind="ends", reason=why)) if why else None


def _keep_unknown(known: _Known) -> Demanded | None:
    """Return the answer where too little is known: what stands stays."""
    why = recovery.why_unknown(known.board, known.incident, known.confirmed)
    # What has set it free has shown the end of each fault.
    if not why or (known.released and not isinstance(known.board.verdict, Unknown)):
        return None
    moved = standing_rules.new_names_in_words(known.taints, known.policy.disagrees)
    parts = (
        f"unknown, so nothing changes: {why}",
        AWAY if known.repair.away else known.record.end_unreported,
        moved,
    )
    reason = "; ".join(part for part in parts if part)
    # No fault is read that says how long its pods may stay: its class does.
    row = known.policy.row(class_of(known.incident.status.fault.fault_class), known.board.place)
    until = recovery.gone_until(known.board, known.incident)
    # A date that has passed would wake the node again and again, while a watch is blind for weeks.
    gone = Wake(until, "the node is gone") if until and until > known.now else None
    return known.demanding(
        Course(kind="unknown", reason=reason),
        eviction=EvictionDemand(notice=effects.notice_of([row])),
        rules=known.rules((), known.taints.kept),
        deferrals=(known.refusal,) if known.refusal else (),
        wake=known.first_wake(gone),
    )


def _verify(known: _Known) -> Demanded:
    """Return the end of a verified recovery, or what its faults demand until then."""
    board, incident, record, now = known.board, known.incident, known.record, known.now
    confirmed = known.confirmed
    # A signal restarts the soak by the status, which is written after this decision.
    quiet = record.seen_through == incident.status.fault.seen_through and not record.is_new
    verified_at = soak.verified_at(board, incident, known.policy, now) if quiet else None
    soaked = verified_at is not None and now >= verified_at
    waits = bool(record.confirmation) and not known.released
    unproven = "" if confirmed else soak.missing_proof(board, incident, waits_for_user=waits)
    if soaked and unproven:
        verified_at = now + soak.LOOK_FOR_RENEWALS
    verified = soaked and not unproven
    unseen = recovery.unseen_rules(board)
    if verified and not (waits or unseen):
        if known.released or not board.rules.stored:
            closes = Course(kind="closes", reason=recovery.proof(board), verified=True)
            return known.demanding(closes)
        return _release(known)
    proof = unproven or "recovery is being verified"
    wake = Wake(verified_at, proof) if verified_at and not verified else None
    return _stand(known, wake, unproven if soaked else "", verified=verified and not unseen)


def _release(known: _Known) -> Demanded:
    """Record as free what has recovered, before its first rule goes: a later taint is a new one.

    Until then what stands does, and follows no name any more.
    """
    parts = hardware.set_free(known.taints.parts, known.taints.parts, known.lead.incident)
    freed = with_changes(
        known.incident.status, scope={"hardware": parts}, recovery={"released_at": known.now}
    )
    renamed = known.taints.renamed
    return known.demanding(
        Course(kind="releases", reason=recovery.proof(known.board), verified=True),
        incident=msgspec.structs.replace(known.incident, status=freed),
        rules=tuple(rule for rule in known.taints.firm if rule not in renamed),
        renamed=(),
    )


def _stand(known: _Known, wake: Wake | None, unproven: str, *, verified: bool) -> Demanded:
    """Return what the faults of an incident demand that goes on."""
    board, incident, demands, hold = known.board, known.incident, known.demands, known.hold
    # A hold keeps what stands: nothing new is demanded as long as it counts.
    rules = known.rules(demands, known.taints.firm)
    devices = () if hold else effects.devices_to_evict(demands)
    remarks = _remarks(known, unproven, verified=verified)
    step = () if verified else (effects.reason(board, incident, demands),)
    repair = known.repair
    return known.demanding(
        Course(
            kind="stands",
            reason="; ".join((*step, *remarks)),
            remarks=remarks,
            verified=verified,
            pending=effects.pending(demands),
        ),
        rules=rules,
        wake=known.first_wake(wake, *(demand.wake for demand in demands)),
        eviction=EvictionDemand(
            notice=effects.notice(demands),
            plan=None if hold else effects.evict_plan(demands),
            devices=devices,
            resumes=resumes(board, incident, devices, known.now),
        ),
        repair=msgspec.structs.replace(repair, needs="human") if verified else repair,
        record=msgspec.structs.replace(known.record, would=effects.would(demands)),
        deferrals=known.deferrals,
    )


def _remarks(known: _Known, unproven: str, *, verified: bool) -> tuple[str, ...]:
    board, record = known.board, known.record
    if verified:
        healthy = "healthy for the whole soak time, and waits for a user to confirm the repair"
        return (f"{record.confirmation}: {healthy} (spec.repairConfirmed)",)
    parts = [unproven] if unproven else []
    if record.confirmation:
        parts.append(f"a user must confirm the repair: {record.confirmation}")
    if record.end_unreported:
        parts.append(record.end_unreported)
    if isinstance(board.verdict, Healthy):
        if doubt := board.trust.refusal("end a soak"):
            parts.append(f"the soak time waits: {doubt}")
        if unseen := recovery.unseen_rules(board):
            parts.append(f"not closed: {unseen}")
    elif record.repair_seen:
        parts.append(record.repair_seen)
    # Nothing is demanded for these, and a GPU that has one is not well.
    standing = [fault for fault in faults_of(board.verdict) if fault.ended is None]
    classes_off = {
        fault.cause
        for fault in standing
        if known.policy.row(fault.fault_class, board.place).mode == "off"
    }
    if classes_off:
        parts.append(f"not untainted while {some(sorted(classes_off))} stands, whose class is off")
    if moved := standing_rules.new_names_in_words(known.taints, known.policy.disagrees):
        parts.append(moved)
    return tuple(parts)


def _ignore(known: _Known, demanded: Demanded) -> Demanded:
    """Remove all rules of ours where a user says that there is no fault."""
    ignored = overrides.in_force(known.record.intents, "Ignore")
    # An incident that is ignored still ends when its GPU has recovered.
    if ignored is None or demanded.course.is_over:
        return demanded
    why = f"not acted on: {intent.in_words(ignored.kind, ignored)}"
    course = msgspec.structs.replace(demanded.course, kind="ignored", reason=why, pending=False)
    eviction = msgspec.structs.replace(demanded.eviction, devices=(), resumes=False)
    # Once a user takes that back, the taint is a new one.
    parts = known.taints.parts
    freed = with_changes(
        known.incident.status,
        scope={"hardware": hardware.set_free(parts, parts, known.lead.incident)},
    )
    return msgspec.structs.replace(
        demanded,
        incident=msgspec.structs.replace(known.incident, status=freed),
        course=course,
        rules=(),
        renamed=(),
        goal="None",
        deferrals=(),
        wake=known.first_wake(demanded.wake),
        eviction=eviction,
        # Nothing is called for, so nothing here makes room for a call that a neighbour waits for.
        repair=Repair(needs=demanded.repair.needs),
    )
