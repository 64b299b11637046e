"""What an incident's status should read, from what is desired and what is stored.

The status is written after the cluster has followed: rules appear in it with the
UIDs they have in the cluster, and a phase is entered when it is true. Its dates
are ours, but for `seenThrough` and `handledThrough`, which are compared with
the node's signals and so keep the node's clock. Pure.
"""

from datetime import datetime

import msgspec

from remediator.diagnose.fault import NEAR, UNPROVABLE, Healthy, Unknown
from remediator.model.claim import GANG
from remediator.model.incident import Incident
from remediator.model.incident_status import (
    EVICTION_BLOCKED,
    FOREIGN_LIMIT,
    INFORMED_LIMIT,
    PODS_LIMIT,
    RULES_NOT_SERVED,
    SCHEMA_VERSION,
    SIBLINGS_LIMIT,
    STATE_UNKNOWN,
    AffectedPod,
    Condition,
    EvictionStatus,
    HistoryStatus,
    IncidentStatus,
    PolicyStatus,
    RecoveryStatus,
    RepairRequest,
    RepairStatus,
    RuleRecord,
    ScopeStatus,
    StayStatus,
)
from remediator.model.taint_rule import EVICTING
from remediator.plan import clocks, soak
from remediator.plan.board import Board
from remediator.plan.caps import AWAITING, waits_since
from remediator.plan.needs import NODE_REPAIRS
from remediator.plan.overrides import in_force
from remediator.plan.phase import Progress, phase, progress, timeline
from remediator.plan.pods import affected_in_scope, empty_since, why_pods_incomplete
from remediator.plan.recovery import unseen_rules, why_unknown
from remediator.plan.spared import EVICTS_MONITOR, evicts_monitor
from remediator.plan.stages import Planned
from remediator.plan.words import AWAY, MODES, NEEDS, some
from remediator.policy.table import Mode

WORD_LIMIT = 160
"""Characters of one entry: names and values are written by others."""


def foreign_taints(board: Board) -> tuple[str, ...]:
    """Return taints in the slice, others' rules, and cordons of the node; the last one counts."""
    mine = {
        device.device
        for device in board.inventory
        if board.uuid in (device.uuid, device.parent_uuid)
    }
    taints = [
        f"taint {taint.key}={taint.value}:{taint.effect} on {device.device.device}"
        for device in board.inventory
        if device.device in mine
        for taint in device.taints
    ]
    rules = [
        f"rule {rule.name}: {rule.key}:{rule.effect}{' on some devices' * rule.narrowed}"
        for rule in board.rules.foreign
    ]
    facts = board.machine.facts
    cordons = facts.cordons if facts else ()
    found = sorted({text[:WORD_LIMIT] for text in (*taints, *rules, *cordons)})
    if len(found) <= FOREIGN_LIMIT:
        return tuple(found)
    left = len(found) - FOREIGN_LIMIT + 1
    return (*found[: FOREIGN_LIMIT - 1], f"and {left} more")


EVICTION_REFUSED = "EvictionRefused"
"""Condition of an incident: pods that the Eviction API does not evict now, each with the reason."""
REFUSED_NAMED = 5
"""Pods that it names; beyond that it has their number."""
REPAIR_DEFERRED = "RepairDeferred"
"""Condition of an incident: the repair of the node is needed and not requested yet."""
WOULD_REPAIR = "WouldRequestRepair"
"""Condition of an incident: a repair of the node that a milder mode than enforce spares."""
STICKY, NO_SOURCE, NO_ANSWER = "Sticky", "NoSource", "NoAnswer"
"""Reasons of the condition NeedsHuman: recovery alone does not untaint the GPU; no source will
report that its fault is over; it does not answer after a reboot."""
UNCONFIRMED = "FaultUnconfirmed"
"""Condition of an incident: only the kernel log reports the fault, and nothing can confirm it."""


def conditions(
    board: Board, planned: Planned, incident: Incident, now: datetime, *, closed: bool
) -> tuple[Condition, ...]:
    """Return the conditions of an incident now; what is not so is False, as all is once closed."""
    old, waits = incident.status.conditions, waits_since(incident.status, now)
    unknown = board.verdict.why if isinstance(board.verdict, Unknown) else ""
    named = some(board.users.ignoring)
    ignored = f"allocated after the taint: {named}" if named else ""
    call = planned.granted.call
    found = (
        ("Deferred", planned.granted.deferred_by, planned.granted.deferred),
        (STATE_UNKNOWN, "ReportUnusable", unknown),
        ("NeedsHuman", *_needs_human(board, planned)),
        (AWAITING, "Doubtful", _awaited_evidence(planned, old, waits, now)),
        (EVICTION_REFUSED, "EvictionAPI", _refused_evictions(board, planned)),
        (EVICTION_BLOCKED, planned.blocked_by, planned.blocked),
        (REPAIR_DEFERRED, call.by, call.why) if call else (REPAIR_DEFERRED, "", ""),
        (WOULD_REPAIR, *_would_repair(board, planned, old)),
        (UNCONFIRMED, *_without_second_source(board, planned, old)),
        ("TaintIgnored", "SchedulerIgnoresTaints", ignored),
        ("AffectedPodsIncomplete", "NotKnown", why_pods_incomplete(board)),
    )
    stored = {known.type: known for known in old}
    if waits is None and AWAITING in stored and stored[AWAITING].status == "True":
        del stored[AWAITING]  # what is waited for now is another fault
    unseen = unseen_rules(board)
    if unseen or RULES_NOT_SERVED in stored:
        found += ((RULES_NOT_SERVED, "NotServed", unseen),)
    monitor = evicts_monitor(board, planned)
    if monitor or EVICTS_MONITOR in stored:
        found += ((EVICTS_MONITOR, "NoToleration", monitor),)
    return tuple(
        msgspec.structs.replace(
            condition(board, kind, (reason, "" if closed else message), stored.get(kind), now),
            observed_generation=incident.metadata.generation,
        )
        for kind, reason, message in found
    )


def _needs_human(board: Board, planned: Planned) -> tuple[str, str]:
    """Return why a user has to confirm the repair, or to look, as reason and sentence."""
    record = planned.record
    if record.confirmation:
        return STICKY, record.confirmation
    if planned.demanded.repair.away:
        return NO_ANSWER, AWAY
    answers = board.gpu is not None and board.gpu.presence == "Present"
    return NO_SOURCE if answers else NO_ANSWER, record.end_unreported


def condition(
    board: Board, kind: str, why: tuple[str, str], old: Condition | None, now: datetime
) -> Condition:
    """Return a condition, dated from when it last began or ended; `why`: reason and sentence."""
    reason, message = why
    state = "True" if message else "False"
    since = old.last_transition_time if old and old.status == state else None
    fact = clocks.unless_dated(board, since, fact=True)
    since = clocks.run("condition", since, now, fact=fact) or now
    return Condition(kind, state, reason if message else "AsExpected", since, message)


def _refused_evictions(board: Board, planned: Planned) -> str:
    """Return which pods the Eviction API does not evict now, and why."""
    found = sorted(
        f"{pod.namespace}/{pod.pod}: {board.users.refusals[pod.uid]}"
        for pod in planned.pods
        if pod.uid in board.users.refusals
    )
    more = f"; and {len(found) - REFUSED_NAMED} more" if len(found) > REFUSED_NAMED else ""
    return "; ".join(found[:REFUSED_NAMED]) + more


def _would_repair(board: Board, planned: Planned, old: tuple[Condition, ...]) -> tuple[str, str]:
    """Return the act on the node that enforce mode would request, as reason and sentence.

    While nothing is known, it is as it was before.
    """
    if isinstance(board.verdict, Unknown) and not (planned.course.is_over):
        return next(
            ((stored.reason, stored.message) for stored in old if stored.type == WOULD_REPAIR),
            ("", ""),
        )
    needed = NODE_REPAIRS.get(planned.demanded.repair.would_call)
    if needed is None or planned.course.is_over:
        return "", ""
    when = "once no pod holds a GPU of the node"
    when += ", or after the deadline" if planned.demanded.repair.would_insist else ""
    return (
        needed,
        f"mode enforce would ask for: {planned.demanded.repair.would_call} of {board.node}, {when}",
    )


def _without_second_source(
    board: Board, planned: Planned, old: tuple[Condition, ...]
) -> tuple[str, str]:
    """Return why no second source can confirm the fault, as reason and sentence.

    While nothing is known, it is as it was before.
    """
    if isinstance(board.verdict, Unknown) and not (planned.course.is_over):
        known = (stored for stored in old if stored.type == UNCONFIRMED and stored.status == "True")
        return next(((stored.reason, stored.message) for stored in known), ("", ""))
    why = planned.record.unprovable
    return (
        (why, f"only the kernel log reports the fault, and {UNPROVABLE[why]}") if why else ("", "")
    )


def _awaited_evidence(
    planned: Planned, old: tuple[Condition, ...], since: datetime | None, now: datetime
) -> str:
    """Return what is waited for, or was within the last minute.

    So a fault that comes and goes does not begin to wait anew each time.
    """
    if planned.record.awaits or planned.course.is_over:
        return planned.record.awaits
    if since is None or now - since > NEAR:
        return ""
    return next(known.message for known in old if known.type == AWAITING)


def status(
    board: Board, planned: Planned, mode: Mode, request: RepairRequest | None, now: datetime
) -> IncidentStatus:
    """Return what the incident should read now; `request` is what `needs.repair_request` returns.

    What was found is in the desired incident (`incidents`); the rest of it is as stored. It is not
    written in a decision that writes a rule of the GPU (`steps.steps_of`).
    """
    incident = planned.incident
    if incident is None:
        raise ValueError(f"{board.uuid} has no incident to write a status for")
    old, done = incident.status, progress(board, planned, incident.status, now)
    closes = planned.course.kind == "closes"
    # Rules go first: a crash in between leaves an open incident that goes on, and no rule without
    # one.
    closed = planned.course.is_over and not board.rules.stored
    relapses = closed and closes and planned.record.probation
    stands = phase(board, planned, old, done)
    signal = planned.record.seen_through or old.fault.seen_through
    news = planned.record.is_new or (signal is not None and signal != old.fault.seen_through)
    new = IncidentStatus(
        schema_version=SCHEMA_VERSION,
        observed_generation=incident.metadata.generation,
        phase=stands,
        phase_since=old.phase_since if stands == old.phase and old.phase_since else now,
        message=planned.message,
        fault=msgspec.structs.replace(
            old.fault,
            seen_through=signal,
            seen_signals=planned.record.seen,
            slices=planned.record.slices,
        ),
        scope=_scope(board, planned, incident, over=closed or closes),
        stay=_stay(board, incident, now, news=news),
        eviction=_eviction(board, planned, incident, done, now, closed=closed),
        repair=_repair(board, planned, incident, request, now, news=news),
        recovery=_recovery(board, planned, incident, now, news=news),
        policy=PolicyStatus(
            mode=MODES[mode],
            device_classes=tuple(sorted(board.place.device_classes)),
            intents=planned.record.intents,
        ),
        history=HistoryStatus(
            recurrence=planned.record.recurrence,
            closed_at=now if closed else None,
            handled_through=signal if closed else None,
            # Only verified recovery from a taint can relapse.
            probation_until=(now + planned.record.probation) if relapses else None,
        ),
        conditions=conditions(board, planned, incident, now, closed=closed),
    )
    return msgspec.structs.replace(new, timeline=timeline(old, new, planned, now))


def _repair(
    board: Board,
    planned: Planned,
    incident: Incident,
    request: RepairRequest | None,
    now: datetime,
    *,
    news: bool,
) -> RepairStatus:
    old = incident.status.repair
    before, here = old.request, clocks.stay_of_machine(board)
    begins = request is not None and (before is None or request.since_time != before.since_time)
    # By another boot, healed or not: a GPU that falls away and comes back answers no call. That of
    # a board that seems to be away is kept, in whichever boot its node is.
    answered = (
        before is not None
        and before.called_time is not None
        and (begins or request is None)
        and here.new_boot(clocks.Stay(boot_id=before.boot_id))
    )
    return RepairStatus(
        needs=NEEDS[planned.demanded.repair.needs],
        request=request,
        requested_at=request.since_time if request and begins else old.requested_at,
        answered=old.answered + answered,
        missing_since=clocks.missing_since(board, incident.status, now, signal=news),
    )


def _scope(board: Board, planned: Planned, incident: Incident, *, over: bool) -> ScopeStatus:
    old, affected = incident.status, affected_in_scope(board, incident)
    spared = old.scope.would_taint if isinstance(board.verdict, Unknown) else planned.record.would
    return msgspec.structs.replace(
        old.scope,
        rules=_records(board, old),
        would_taint=() if over else spared,
        affected=affected[:PODS_LIMIT],
        affected_left_out=max(len(affected) - PODS_LIMIT, 0),
        informed=board.peers[:INFORMED_LIMIT],
        foreign=foreign_taints(board),
    )


def _stay(board: Board, incident: Incident, now: datetime, *, news: bool) -> StayStatus:
    old = incident.status
    stay = clocks.stay_to_record(board, old, signal=news)
    reported = board.gpu if board.presence.reported else None
    return StayStatus(
        node=incident.node,
        node_uid=stay.node_uid,
        boot_id=stay.boot_id,
        epoch=stay.epoch,
        # Another board in its slot, or none, shows what a repair has done.
        pci_bus_id=(reported.pci_bus_id if reported else "") or old.stay.pci_bus_id,
        siblings=_siblings(board, old.stay),
        node_gone_since=clocks.node_gone_since(board, old, now),
        clock_set_back_ms=old.stay.clock_set_back_ms,
    )


def _eviction(
    board: Board,
    planned: Planned,
    incident: Incident,
    done: Progress,
    now: datetime,
    *,
    closed: bool,
) -> EvictionStatus:
    old, evicted = incident.status.eviction, _evicted_pods(board, incident.status)
    # A rule that evicts although nothing calls for it any more has a date, too: a lost status must
    # not make it new, and count in each rate, for as long as it stands.
    stands = not planned.granted.emptying and any(
        rule.effect in EVICTING for rule in board.rules.stored
    )
    evicting = clocks.unless_dated(board, old.evicting_at, fact=done.evicting or stands)
    empty = done.drained or (stands and done.empty)
    drained = clocks.unless_dated(board, old.drained_at, fact=empty)
    return EvictionStatus(
        tainted_at=clocks.whole_taint_since(board, incident.status, now, tainted=done.tainted),
        evicting_at=clocks.run("evicting", old.evicting_at, now, fact=evicting),
        by_device=() if closed else planned.evictions,
        empty_since=empty_since(board, planned.granted, incident, now),
        drained_at=clocks.run("drained", old.drained_at, now, fact=drained),
        evicted=evicted[:PODS_LIMIT],
        # Carried on, unlike the number of affected pods: those beyond the limit are stored nowhere.
        evicted_left_out=old.evicted_left_out + max(len(evicted) - PODS_LIMIT, 0),
    )


def _recovery(
    board: Board, planned: Planned, incident: Incident, now: datetime, *, news: bool
) -> RecoveryStatus:
    old = incident.status.recovery
    untaint = "OnConfirmation" if planned.record.sticky else "Automatic"
    released = soak.is_released(board, incident.status, news=news)
    doubt = not isinstance(board.verdict, Healthy) or board.trust.refusal("end a clock")
    # Not knowing ends no soak that is over. A gap that shows later does.
    if planned.course.kind == "closes" or (released and doubt):
        return msgspec.structs.replace(old, untaint=untaint)
    # Health that may not be proves nothing until the end of each fault is seen.
    word = in_force(planned.record.intents, "RepairConfirmed")
    kept = old.released_at if released else None
    unseen = "" if released else why_unknown(board, incident, word)
    found = soak.Soak() if unseen else soak.run_soak(board, incident.status, now, news=news)
    return RecoveryStatus(
        untaint=untaint,
        healthy_since=found.since,
        confirmed_at=found.confirmed_at,
        released_at=kept,
        soak_epoch=found.epoch,
        dbe_volatile=found.dbe_volatile,
        dbe_aggregate=found.dbe_aggregate,
    )


def _siblings(board: Board, old: StayStatus) -> tuple[str, ...] | None:
    """Return the other GPUs of the node; frozen while this one is missing, or is about to be.

    More than can be kept are none, and so are those beside one without a name: a GPU that is left
    out would look like a new board.
    """
    roster = board.machine.roster
    if roster is None or roster.nameless or not board.presence.reported:
        return old.siblings
    # A board that takes the place of this one must not be counted among its old neighbours.
    if old.siblings is not None and board.uuid not in roster.slots:
        return old.siblings
    found = {*(old.siblings or ()), *roster.known} - {board.uuid}
    return tuple(sorted(found)) if len(found) <= SIBLINGS_LIMIT else None


def _records(board: Board, old: IncidentStatus) -> tuple[RuleRecord, ...]:
    """Return the rules that stand; one that cannot be seen now is as it was last seen."""
    found = {
        rule.name: RuleRecord(rule.name, rule.uid, str(rule.device), rule.effect)
        for rule in (*board.rules.unseen, *board.rules.stored)
    }
    # A process that has not listed the rules yet must not overwrite what another one has recorded.
    if not board.rules.known:
        found = {record.name: record for record in old.scope.rules} | found
    return tuple(sorted(found.values(), key=lambda record: record.device))


def _evicted_pods(board: Board, old: IncidentStatus) -> tuple[AffectedPod, ...]:
    """Return those that have left a device while its rule evicted, however many."""
    holding = {_key(pod) for pod in board.users.holders}
    evicting = {str(rule.device) for rule in board.rules.stored if rule.effect in EVICTING}
    known = {_key(pod) for pod in old.eviction.evicted}
    gone = [
        pod
        for pod in old.scope.affected
        # A gang peer holds none of the devices, so none has been taken from it.
        if pod.pod and pod.via != GANG and pod.device in evicting and _key(pod) not in holding
    ]
    new = (pod for pod in gone if _key(pod) not in known)
    return tuple(sorted({*old.eviction.evicted, *new}))


def _key(pod: AffectedPod) -> tuple[str, str, str, str, str]:
    return (pod.namespace, pod.pod, pod.uid, pod.claim, pod.device)
