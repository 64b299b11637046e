"""What the remediator would make of a signal, step by step, and which row says so. Pure."""

from collections.abc import Iterator
from datetime import datetime

import msgspec

from draguard.trial.run import Happening, Spot, Story, Trial
from draguard.trial.signal import Signal
from exporter.model.device import GPU_DRIVER
from remediator.diagnose.fault import SEVERITY, Fault, Healthy, Unknown, faults_of
from remediator.model.incident import IncidentStatus
from remediator.model.taint_rule import Rule
from remediator.plan.case import Case
from remediator.plan.steps import (
    ChangeRule,
    CreateRule,
    DeleteRule,
    EvictPod,
    OpenIncident,
    WriteNodeConditions,
    WriteStatus,
)
from remediator.policy.duration import spelled
from remediator.policy.table import MODES, Place, Policy, Row


class RowTold(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the policy, spelled as the file spells it."""

    name: str
    """Which lines of the file it comes from."""
    mode: str
    ceiling: str
    settle: str
    soak: str
    patient: bool
    repeat: str
    sticky: bool
    probation: str
    evict: str
    why: str


class FaultTold(msgspec.Struct, frozen=True, kw_only=True):
    fault_class: str
    cause: str
    evidence: str
    certain: bool
    """Whether the evidence suffices to move pods."""
    doubt: str
    """What is missing while it does not."""
    over: bool
    """Whether the evidence itself says that it is over."""
    needs: str
    row: RowTold


class Line(msgspec.Struct, frozen=True):
    """Something that is done; `after` in seconds since the report came."""

    after: float
    text: str


class Course(msgspec.Struct, frozen=True, kw_only=True):
    lines: tuple[Line, ...]
    repaired_after: float | None
    released_after: float | None
    end: str
    """Why it ended so."""


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    signal: str
    place: str
    verdict: str
    why: str
    """What stands behind the verdict."""
    faults: tuple[FaultTold, ...]
    held: tuple[str, ...]
    """What holds new harm back now: the emergency stop, a maintenance window."""
    course: Course
    enforced: Course | None
    """What would be done in enforce mode; None where that is the mode, or nothing is found."""


def explain(signal: Signal, spot: Spot, policy: Policy, now: datetime) -> Explanation:
    """Try a signal under a policy, and beside it under the same with every class enforced."""
    story = Trial(signal, spot, policy, now).story()
    ((case, _),) = story.first.pairs
    place = _place(case, spot)
    faults = faults_of(case.verdict)
    rows = [policy.row(one.fault_class, place) for one in faults]
    milder = any(row.mode != MODES[-1] for row in rows)
    enforced = Trial(signal, spot, _enforced(policy, place), now).story() if milder else None
    return Explanation(
        signal=signal.in_words(),
        place=_place_in_words(spot),
        verdict=type(case.verdict).__name__,
        why=_why(case),
        faults=tuple(_fault(one, row) for one, row in zip(faults, rows, strict=True)),
        held=tuple(_held(policy, place, now)),
        course=_course(story),
        enforced=_course(enforced) if enforced else None,
    )


def _enforced(policy: Policy, place: Place) -> Policy:
    """Return the policy as it is at a place, but that every class is enforced there."""
    rows = (policy.row(one, place) for one in SEVERITY)
    return msgspec.structs.replace(
        policy,
        rows=tuple(msgspec.structs.replace(row, mode=MODES[-1]) for row in rows),
        overrides=(),
        exempt=(),
        highest_mode=MODES[-1],
    )


def _place(case: Case, spot: Spot) -> Place:
    classes = frozenset({spot.device_class} if spot.device_class else ())
    return msgspec.structs.replace(case.place, device_classes=classes)


def _held(policy: Policy, place: Place, now: datetime) -> Iterator[str]:
    if policy.stopped:
        yield f"emergency stop: {policy.stopped}"
    pause = policy.pause(place, now)
    if pause:
        yield pause


def _place_in_words(spot: Spot) -> str:
    claimed = f", claimed through {spot.device_class}" if spot.device_class else ""
    return f"node {spot.node}, driver {GPU_DRIVER}, pool {spot.node}{claimed}"


def _why(case: Case) -> str:
    match case.verdict:
        case Unknown(why):
            return why
        case Healthy():
            return case.verdict.evidence
        case _:
            return ""


def _fault(fault: Fault, row: Row) -> FaultTold:
    return FaultTold(
        fault_class=fault.fault_class,
        cause=fault.cause,
        evidence=fault.evidence,
        certain=fault.certain,
        doubt=fault.doubt,
        over=fault.ended is not None,
        needs=fault.needs,
        row=told(row),
    )


def told(row: Row) -> RowTold:
    return RowTold(
        name=row.name,
        mode=row.mode,
        ceiling=row.ceiling,
        settle=spelled(row.settle),
        soak=spelled(row.soak),
        patient=row.patient,
        repeat=f"{row.repeat.count} in {spelled(row.repeat.within)}",
        sticky=row.sticky,
        probation=spelled(row.probation),
        evict=str(row.evict),
        why=row.why,
    )


def _course(story: Story) -> Course:
    ((_, desired),) = story.last.pairs
    return Course(
        lines=tuple(_lines(story.happenings)),
        repaired_after=story.repaired_after,
        released_after=story.released_after,
        end=desired.held or desired.reason,
    )


def _lines(happenings: tuple[Happening, ...]) -> Iterator[Line]:
    """Give a line for each thing that a person would notice; rules of one moment share one."""
    said = ""
    for index, one in enumerate(happenings):
        if isinstance(one.step, WriteStatus):
            text = _phase(one.step.status)
            if text != said:
                yield Line(one.after, text)
            said = text
        elif not _goes_on(happenings, index):
            yield from _step(one, _together(happenings, index))


def _phase(status: IncidentStatus) -> str:
    """Say a phase and why; a clause of a message may begin with the phase itself."""
    again = f"{status.phase.lower()}: "
    clauses = (one.removeprefix(again) for one in status.message.split("; "))
    return f"{status.phase}: {'; '.join(clauses)}"


def _goes_on(happenings: tuple[Happening, ...], index: int) -> bool:
    """Whether the step before this one has told of it already."""
    if index == 0:
        return False
    one, before = happenings[index], happenings[index - 1]
    return _effect(one) == _effect(before) != "" and one.after == before.after


def _effect(one: Happening) -> str:
    match one.step:
        case CreateRule(rule) | ChangeRule(_, rule):
            return rule.effect
        case DeleteRule():
            return "removed"
        case _:
            return ""


def _together(happenings: tuple[Happening, ...], index: int) -> tuple[Rule, ...]:
    """Return the rules of a step and of those after it that do the same at the same moment."""
    first = happenings[index]
    alike: list[Rule] = []
    for one in happenings[index:]:
        if (one.after, _effect(one)) != (first.after, _effect(first)):
            break
        match one.step:
            case CreateRule(rule) | ChangeRule(_, rule):
                alike.append(rule)
            case DeleteRule(stored):
                alike.append(stored)
            case _:
                break
    return tuple(alike)


def _step(one: Happening, rules: tuple[Rule, ...]) -> Iterator[Line]:
    devices = ", ".join(sorted(rule.device.device for rule in rules))
    match one.step:
        case ChangeRule(stored, rule) if stored.effect == rule.effect:
            yield Line(one.after, f"taint rule on {devices} changed to {rule.fault}={rule.cause}")
        case CreateRule() | ChangeRule():
            yield Line(one.after, f"taint rule {_effect(one)} on {devices}")
        case DeleteRule(_, why):
            yield Line(one.after, f"taint rule removed from {devices}: {why}")
        case OpenIncident(incident):
            yield Line(one.after, f"incident {incident.name} opened")
            yield from _would(incident.status.scope.summary, one.after)
        case EvictPod(_, pod, delete):
            how = "deleted" if delete else "evicted by the Eviction API"
            yield Line(one.after, f"pod {pod.namespace}/{pod.pod} is {how}")
        case WriteNodeConditions(node, conditions):
            for condition in conditions:
                text = f"{condition.type}={condition.status} ({condition.reason})"
                yield Line(one.after, f"node {node}: {text}: {condition.message}")
        case _:
            return


def _would(summary: str, after: float) -> Iterator[Line]:
    if summary:
        yield Line(after, f"scope: {summary}")
