"""Node-level acts are handed over: a condition of the Node says what is needed.

Draguard reboots and replaces nothing. Whoever does (medik8s, EKS or Karpenter
node repair, a person) may act on the condition at once, so it is a harm like an
eviction, and only said to be needed when

- a standing fault of an enforced incident needs a node-level act, and
- nothing holds it back (budget, correlation, maintenance, emergency stop, a person), and
- no pod holds a GPU of the node any more, or the deadline has passed.

Until then it is False and says what is waited for. Not knowing, of a GPU, of
the pods or of the stored condition, changes it in neither direction. Pure.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Literal

import msgspec

from remediator.decide.case import Case, Desired
from remediator.decide.neighbours import neighbours
from remediator.decide.plan import WriteNodeCondition
from remediator.decide.view import NodeView
from remediator.judge.fault import NEEDS, NODE_LEVEL, Healthy, Need, Sick, Unknown, most_needed
from remediator.objects.incident import Incident
from remediator.objects.nodes import (
    HARDWARE_READY,
    PROBLEM,
    REPAIR_NEEDED,
    NodeCondition,
)

MESSAGE_LIMIT = 1024
"""Bytes of a condition's message."""
NAMED_LIMIT = 5
"""GPUs, or pods, that a message names before it only counts."""

REASONS: Mapping[Need, str] = {
    "node-reboot": "NodeRebootNeeded",
    "replacement": "ReplacementNeeded",
}
"""While True, by the greatest need on the node."""
WAITING = "WaitingForNeighbours"
HELD = "Held"
VERIFYING = "RepairBeingVerified"
"""The hardware answers as healthy again; the incident is still being soaked."""
NOTHING_NEEDED = "NoRepairNeeded"
SWITCHED_OFF = "HandoverOff"


class HandoverOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the operator allows to be said on Nodes. Off: conditions are only taken back."""

    enabled: bool = False
    deadline: timedelta = timedelta(hours=1)
    """From when the act may be called for until pods on the node are waited for no longer."""
    accelerated_hardware_ready: bool = False
    """Also write EKS' and Karpenter's `AcceleratedHardwareReady`. Not beside an agent that writes
    it itself: two writers of one condition undo each other."""


OFF = HandoverOptions()


class _Due(msgspec.Struct, frozen=True):
    """A GPU, sick or unknown, whose enforced incident needs a node-level act."""

    case: Case
    incident: Incident
    need: Need
    held: str


class _Answer(msgspec.Struct, frozen=True):
    """What a condition should say."""

    needed: bool
    reason: str
    message: str


_SWITCHED_OFF = _Answer(False, SWITCHED_OFF, "Draguard was told not to write this condition")  # noqa: FBT003 - `needed`


def conditions(
    view: NodeView,
    pairs: Iterable[tuple[Case, Desired]],
    now: datetime,
    options: HandoverOptions = OFF,
    stopped: str = "",
) -> tuple[WriteNodeCondition, ...]:
    """Return the conditions that the node should get; none where nothing changes.

    `stopped` says why no new harm may be done on this node now, such as the
    emergency stop; "" when it may.
    """
    if view.facts is None or view.facts.conditions is None:
        return ()
    stored = {one.type: one for one in view.facts.conditions}
    told = tuple(pairs)
    due = _due(told)
    answer: _Answer | None = _SWITCHED_OFF
    if options.enabled:
        old = stored.get(REPAIR_NEEDED)
        answer = _answer(view, told, due, old, now, options.deadline, stopped)
    if answer is None:
        return ()
    alias = _alias(answer, due) if options.accelerated_hardware_ready else _SWITCHED_OFF
    wanted = ((REPAIR_NEEDED, answer), (HARDWARE_READY, alias))
    found = [_condition(kind, one, stored.get(kind), now) for kind, one in wanted]
    return tuple(WriteNodeCondition(view.node, one) for one in found if one is not None)


def called_since(
    view: NodeView,
    pairs: Iterable[tuple[Case, Desired]],
    now: datetime,
    options: HandoverOptions = OFF,
    stopped: str = "",
) -> Mapping[str, datetime]:
    """Return by GPU since when a node-level act may be called for: pods are waited for from then.

    A hold before anybody was called ends it, so that the whole wait comes after it.
    With the option off it does not begin.
    """
    said = _is_said(view)
    found: dict[str, datetime] = {}
    for one in _due(pairs):
        old, held = one.incident.status.needs_since, bool(one.held or stopped)
        begins = options.enabled and isinstance(one.case.verdict, Sick) and not held
        since = old or (now if begins else None)
        if since is not None and (said or not held):
            found[one.case.uuid] = since
    return found


def _is_said(view: NodeView) -> bool:
    """Whether somebody was called, as far as is known: not knowing takes nothing back."""
    stored = view.facts.conditions if view.facts else None
    return stored is None or any(
        one.type == REPAIR_NEEDED and one.status == PROBLEM[REPAIR_NEEDED] for one in stored
    )


def _due(pairs: Iterable[tuple[Case, Desired]]) -> tuple[_Due, ...]:
    found = [_due_of(case, wish, story) for case, wish, story in _enforced(pairs)]
    return tuple(sorted((one for one in found if one), key=lambda one: one.incident.name))


def _enforced(
    pairs: Iterable[tuple[Case, Desired]],
) -> Iterable[tuple[Case, Desired, Incident]]:
    """Yield the stories that go on in mode enforce, as stored: a message refers to them."""
    for case, wish in pairs:
        story = wish.incident
        if story is None or not story.metadata.uid or not story.open:
            continue
        ends = wish.closing or wish.ending
        ignored = any(one.kind == "ignore" and one.state == "InForce" for one in wish.answers)
        if story.status.mode == "enforce" and not ends and not ignored:
            yield case, wish, story


def _due_of(case: Case, wish: Desired, story: Incident) -> _Due | None:
    """What a sick GPU needs is what its faults ask for now; of an unknown one, what it was."""
    hold = any(one.kind == "hold" and one.state == "InForce" for one in wish.answers)
    held = wish.held or wish.call_held or ("a person holds it" if hold else "")
    match case.verdict:
        case Sick():
            need = wish.calls
        case Unknown():
            need = most_needed(one for one in NEEDS if one in {wish.needs, story.status.needs})
        case Healthy():
            return None
    return _Due(case, story, need, held) if need in NODE_LEVEL else None


def _soaked(pairs: Iterable[tuple[Case, Desired]]) -> tuple[str, ...]:
    found = (story for case, _, story in _enforced(pairs) if isinstance(case.verdict, Healthy))
    return tuple(sorted(f"{one.spec.uuid} (incident {one.name})" for one in found))


def _answer(  # noqa: PLR0917 - everything that the answer rests on
    view: NodeView,
    pairs: tuple[tuple[Case, Desired], ...],
    due: tuple[_Due, ...],
    old: NodeCondition | None,
    now: datetime,
    deadline: timedelta,
    stopped: str,
) -> _Answer | None:
    """Return what the condition should say, None where not knowing leaves it as it is."""
    standing = tuple(one for one in due if isinstance(one.case.verdict, Sick))
    unknown = len(standing) < len(due) or any(wish.undecided for _, wish in pairs)
    if not standing:
        return None if unknown else _answer_for_none(_soaked(pairs), old)
    said = old is not None and old.status == PROBLEM[REPAIR_NEEDED]
    free = tuple(one for one in standing if not one.held and not stopped)
    if free:
        answer = _answer_for(view, free, _deadline(free, deadline, now), now, said)
    else:
        answer = _held(standing, stopped)
    kept = said and (unknown or not free)  # not knowing, and a hold, take nothing back
    return None if kept and not answer.needed else answer


def _answer_for_none(soaked: tuple[str, ...], old: NodeCondition | None) -> _Answer:
    """Return what is said when nothing is due: what was needed is being proven, or over."""
    if soaked and old is not None and old.reason not in (NOTHING_NEEDED, SWITCHED_OFF):
        text = f"healthy again, proof is being collected: {_listed(soaked)}"
        return _Answer(needed=False, reason=VERIFYING, message=_bounded(text))
    return _Answer(needed=False, reason=NOTHING_NEEDED, message="no GPU needs a node-level repair")


def _held(standing: tuple[_Due, ...], stopped: str) -> _Answer:
    why = stopped or "; ".join(sorted({one.held for one in standing}))
    return _Answer(needed=False, reason=HELD, message=_bounded(f"{_needs(standing)}; held: {why}"))


def _answer_for(
    view: NodeView,
    standing: tuple[_Due, ...],
    until: datetime | None,
    now: datetime,
    said: bool,  # noqa: FBT001 - a fact, not a mode
) -> _Answer:
    """Return whether a node-level act may begin, in words that name who is in the way."""
    waited_for = neighbours(view, (one.incident for one in standing))
    overdue = until is not None and now >= until
    reason = REASONS[most_needed(one.need for one in standing)]
    if waited_for is None:
        who = "the pods of the node could not be listed"
        needed = overdue or said
    else:
        who = f"pods with GPUs: {_listed(waited_for)}" if waited_for else "no pod holds a GPU"
        needed = overdue or not waited_for
    if needed:
        text = f"{_needs(standing)}; {who}" + ("; waited until the deadline" if overdue else "")
        return _Answer(needed=True, reason=reason, message=_bounded(text))
    limit = f" until {until:%Y-%m-%dT%H:%M:%SZ} at most" if until else ""
    text = f"{_needs(standing)}; waiting{limit}: {who}"
    return _Answer(needed=False, reason=WAITING, message=_bounded(text))


def _deadline(free: tuple[_Due, ...], deadline: timedelta, now: datetime) -> datetime | None:
    """Return when waiting ends; None while no incident says since when the act is needed."""
    since = [one.incident.status.needs_since for one in free]
    return min((min(one, now) + deadline for one in since if one is not None), default=None)


def _alias(answer: _Answer, due: tuple[_Due, ...]) -> _Answer:
    """Return the same in the words of EKS' node monitoring agent, as far as it has them."""
    if not answer.needed:
        return answer
    causes = [one.incident.spec.cause for one in due if isinstance(one.case.verdict, Sick)]
    codes = [one.removeprefix("xid-") for one in causes if one.startswith("xid-")]
    known = [code for code in codes if code.isdecimal()]
    reason = f"NvidiaXID{known[0]}Error" if known else "NvidiaDeviceRepairNeeded"
    return msgspec.structs.replace(answer, reason=reason)


def _condition(
    kind: str, answer: _Answer, old: NodeCondition | None, now: datetime
) -> NodeCondition | None:
    """Return what to write, None when it says so already or a healthy Node would get it."""
    told = answer.needed or (kind == REPAIR_NEEDED and answer.reason in (WAITING, HELD))
    if old is None and not told:
        return None
    status = PROBLEM[kind] if answer.needed else _GOOD[PROBLEM[kind]]
    if old and (old.status, old.reason, old.message) == (status, answer.reason, answer.message):
        return None
    since = old.last_transition_time if old and old.status == status else None
    return NodeCondition(
        type=kind,
        status=status,
        reason=answer.reason,
        message=answer.message,
        last_transition_time=since or now.replace(microsecond=0),
    )


_GOOD: Mapping[Literal["True", "False"], Literal["True", "False"]] = {
    "True": "False",
    "False": "True",
}


def _needs(due: tuple[_Due, ...]) -> str:
    return f"{most_needed(one.need for one in due)} needed by {_names(due)}"


def _names(due: tuple[_Due, ...]) -> str:
    return _listed(
        f"{one.case.uuid} ({one.incident.spec.cause}, incident {one.incident.name})" for one in due
    )


def _listed(names: Iterable[str]) -> str:
    found = tuple(names)
    more = len(found) - NAMED_LIMIT
    return ", ".join(found[:NAMED_LIMIT]) + (f" and {more} more" if more > 0 else "")


def _bounded(text: str) -> str:
    """Cut to what a condition may hold, never inside a character."""
    if len(text.encode()) <= MESSAGE_LIMIT:
        return text
    return text.encode()[: MESSAGE_LIMIT - 3].decode(errors="ignore") + "..."
