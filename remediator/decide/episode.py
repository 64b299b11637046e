"""One GPU's case into what should be so: its incident and its rules.

Level triggered: everything is computed anew from the verdict, the incident, the
rules and the claims as stored. Each fault asks for itself, by its own row of
the policy and its own scope (`ladder`); a device gets the strongest that any of
them asks for. Promises that hold here:

- An Unknown verdict changes no rule, in either direction.
- Inside one episode severity and effects only rise. A rule goes for one of four
  reasons (`standing`), and when a witness names the slice.
- Recovery is soaked on our own clock, without a gap, and it needs an incident
  that says so: rules without a story get one first.
- A GPU that fails again and again, or of a sticky class, waits for a person
  after its recovery.
- A person outranks every ratchet: a lowered mode and `ignore` take rules down
  at once, whatever the verdict; `hold` stops new harm and takes nothing down.

How much at once is `budget`; in which order, `plan`. Pure.
"""

from datetime import datetime

import msgspec

from remediator.decide import history, person, recovery, standing, story, wanted
from remediator.decide.case import Case, Desired
from remediator.decide.emptiness import SEEN_APART, look_again
from remediator.decide.ladder import Demand, demand, placed, together, youngest
from remediator.decide.undecided import or_undecided, undecided
from remediator.decide.words import class_of
from remediator.judge.fault import (
    NEEDS,
    Healthy,
    Need,
    Sick,
    Unknown,
    baffled,
    most_needed,
    weight,
)
from remediator.objects import answers
from remediator.objects.incident import AnswerRecord, Incident
from remediator.objects.taints import Rule
from remediator.policy.table import Policy


def decided(case: Case, policy: Policy, now: datetime) -> tuple[Case, Desired]:
    """Return what should be so for one GPU, whatever is wrong with this program.

    A bug about one GPU must not cost its neighbours their fences: it is unknown then,
    its rules stay, and the trace is in the verdict. What could not even be looked into
    stays as it stands.
    """
    if case.blank is not None:
        return undecided(case, case.blank)
    try:
        return case, decide(case, policy, now)
    except Exception as error:  # noqa: BLE001 - the other GPUs of the node go on
        blind = msgspec.structs.replace(case, verdict=baffled(error), gpu=None)
    return or_undecided(blind, lambda: decide(blind, policy, now))


def decide(case: Case, policy: Policy, now: datetime) -> Desired:
    """Return what should be so for one GPU."""
    kept = standing.kept(case, policy)
    if case.elsewhere and not case.reported:
        why = f"its story is told by {', '.join(case.elsewhere)}, where the board is"
        return Desired(uuid=case.uuid, rules=kept, reason=why)
    faults = sorted(story.unhandled(case, policy, now), key=weight)
    opened = story.open_incidents(case)
    current = opened[0] if opened else None
    if current is None:
        if not kept and not any(story.opens(case, fault, policy, now) for fault in faults):
            return Desired(uuid=case.uuid, reason="nothing to do")
        current = story.begun(case, kept)
    faults = [fault for fault in faults if story.stood(fault, current, kept)]
    rows = [(one, policy.row(one.fault_class, case.place)) for one in faults]
    asked = together(case, current, [demand(case, current, one, row, now) for one, row in rows])
    firm = tuple(rule for rule in kept if not standing.narrowed(case, current, rule, asked, now))
    told = story.told(case, current, asked, firm, now)
    known = _known(case, told, asked, policy, now)
    known = msgspec.structs.replace(known, duplicates=opened[1:])
    return _ignored(case, _course(case, known, asked, kept, firm, policy, now), now)


def _known(
    case: Case, told: Incident, asked: tuple[Demand, ...], policy: Policy, now: datetime
) -> Desired:
    """Return what is to be said of a story, whatever is done about it."""
    signal = youngest(case, told, asked)
    row = policy.row(class_of(told.spec.fault), case.place)
    count = history.recurrence(case.incidents, told, row, now)
    rows = tuple(dict.fromkeys((row, *(one.row for one in asked))))
    sticky = history.stickiness(told, tuple(one for one in rows if one.mode != "off"), count)
    given = _answers(case, told, signal, now)
    confirmed = person.in_force(given, "confirmed-repaired")
    leading = wanted.leading(asked)
    return Desired(
        uuid=case.uuid,
        incident=told,
        seen_through=signal,
        goal=wanted.goal(asked),
        awaits=next((one.awaits for one in asked if one.awaits), ""),
        row=leading.row.name if leading else row.name,
        recurrence=count,
        sticky=bool(sticky),
        person="" if confirmed else sticky,
        probation=row.probation,
        repair=recovery.repair_seen(case, told.status, signal),
        needs=_needs(case, told, asked),
        calls=_calls(case, asked),
        answers=given,
        placed=placed(told, asked),
        deleted=person.deletions(case, told, signal, now),
        ending=recovery.ending(case, told, confirmed, now),
    )


def _answers(
    case: Case, told: Incident, signal: datetime | None, now: datetime
) -> tuple[AnswerRecord, ...]:
    """Return what people said of this story, and of the GPU before, which theirs of now outrank."""
    own = person.given(case, told, signal, now)
    heard = {one.kind for one in own if one.state != "Unreadable"}
    told_of = {(one.kind, one.said) for one in told.status.answers}
    left = history.answers_left(case.incidents)
    meta = msgspec.structs.replace(told.metadata, annotations=left)
    alone = msgspec.structs.replace(case, incidents=())
    before = person.given(alone, msgspec.structs.replace(told, metadata=meta), signal, now)
    return own + tuple(
        one
        for one in before
        if one.kind not in heard and (one.state == "InForce" or (one.kind, one.said) in told_of)
    )


def _needs(case: Case, told: Incident, asked: tuple[Demand, ...]) -> Need:
    """Return what would repair it: as it was while nothing is known, nothing once healthy."""
    match case.verdict:
        case Unknown():
            known: dict[str, Need] = {one: one for one in NEEDS}
            return known.get(told.status.needs, "nothing")
        case Healthy():
            return "nothing"
        case Sick():
            return most_needed(one.fault.needs for one in asked)


def _calls(case: Case, asked: tuple[Demand, ...]) -> Need:
    """Return what would repair what a class in mode enforce speaks of, while it is sick."""
    if not isinstance(case.verdict, Sick):
        return "nothing"
    return most_needed(one.fault.needs for one in asked if one.row.mode == "enforce")


def _course(  # noqa: PLR0917 - two kinds of rules beside the facts
    case: Case,
    known: Desired,
    asked: tuple[Demand, ...],
    kept: tuple[Rule, ...],
    firm: tuple[Rule, ...],
    policy: Policy,
    now: datetime,
) -> Desired:
    """Return the way that the story takes: its end, waiting, recovery or what is asked for."""
    if known.ending:
        return msgspec.structs.replace(known, reason=known.ending)
    told = known.incident
    if told is None:
        return known
    confirmed = person.in_force(known.answers, "confirmed-repaired")
    why = recovery.unknown(case, told, confirmed)
    if why:
        wakes = (recovery.gone_until(case, told), *_wakes(case, known, now))
        return msgspec.structs.replace(
            known,
            rules=kept,
            reason=f"unknown, so nothing changes: {why}",
            wake_at=min((one for one in wakes if one), default=None),
        )
    quiet = known.seen_through == told.status.seen_through
    verified_at = recovery.verified_at(case, told, policy, now) if quiet else None
    verified = verified_at is not None and now >= verified_at
    if verified and not known.person:
        return msgspec.structs.replace(
            known, closing=True, verified=True, reason=recovery.proof(case)
        )
    wakes = (*_wakes(case, known, now), None if verified else verified_at)
    known = msgspec.structs.replace(
        known, verified=verified, wake_at=min((one for one in wakes if one), default=None)
    )
    return _standing(case, told, known, asked, firm)


def _wakes(case: Case, known: Desired, now: datetime) -> tuple[datetime | None, ...]:
    """Return when people's words run out, and when to look whether the devices are empty."""
    deleted = [one.respected_until for one in known.deleted]
    empty_since = known.incident.status.empty_since if known.incident else None
    again = empty_since + SEEN_APART if empty_since else None
    look = look_again(case, known.incident, now) if known.incident else None
    ends = (person.next_expiry(known.answers), min(deleted, default=None), again, look)
    return tuple(one for one in ends if one is not None and one > now)


def _standing(
    case: Case, told: Incident, known: Desired, asked: tuple[Demand, ...], firm: tuple[Rule, ...]
) -> Desired:
    hold = person.in_force(known.answers, "hold")
    # A hold keeps what stands: nothing is asked for as long as it counts.
    rules = wanted.rules(case, told, () if hold else asked, firm, known.deleted)
    wakes = [one for one in (known.wake_at, *(one.wake_at for one in asked)) if one]
    return msgspec.structs.replace(
        known,
        rules=rules,
        would=wanted.would(asked),
        pending=wanted.pending(asked),
        wake_at=min(wakes, default=None),
        reason=_reason(case, told, known, asked),
        needs="person" if known.verified else known.needs,
        held=f"new harm held: {answers.in_words(hold)}" if hold else "",
        held_by="Human" if hold else "Budget",
    )


def _reason(case: Case, told: Incident, known: Desired, asked: tuple[Demand, ...]) -> str:
    if known.verified:
        key = answers.annotation("confirmed-repaired")
        return f"{known.person}: healthy for the whole soak time, and waits for a person ({key})"
    parts = [wanted.reason(case, told, asked)]
    if known.person:
        parts.append(f"a person will have to confirm the repair: {known.person}")
    if known.repair and not isinstance(case.verdict, Healthy):
        parts.append(known.repair)
    if known.deleted:
        until = max(one.respected_until for one in known.deleted)
        devices = ", ".join(one.device for one in known.deleted[:3])
        parts.append(f"a person took rules away ({devices}): not made again before {until:%FT%TZ}")
    return "; ".join(parts)


def _ignored(case: Case, desired: Desired, now: datetime) -> Desired:
    """Take everything of ours down where a person says that the fault is none."""
    ignored = person.in_force(desired.answers, "ignore")
    if ignored is None or desired.closing or desired.ending:
        return desired
    why = f"not acted on: {answers.in_words(ignored)}"
    wakes = [one for one in (desired.wake_at, *_wakes(case, desired, now)) if one]
    return msgspec.structs.replace(
        desired,
        rules=(),
        pending=False,
        goal="None",
        held="",
        held_by="Budget",
        wake_at=min(wakes, default=None),
        reason=why,
    )
