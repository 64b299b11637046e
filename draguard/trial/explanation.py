"""The remediator's response to a signal, step by step in words, with the policy rows. Pure."""

from collections.abc import Iterator
from datetime import datetime
from itertools import groupby

import msgspec

from draguard.trial.run import Outcome, Spot, TakenStep, Trial
from draguard.trial.signal import Signal
from exporter.model.device import GPU_DRIVER
from remediator.diagnose.fault import SEVERITY, Fault, Healthy, Unknown, faults_of
from remediator.plan.steps import (
    ChangeRule,
    CreateRule,
    DeleteRule,
    EvictPod,
    OpenIncident,
    Step,
    WriteNodeConditions,
    WriteStatus,
)
from remediator.policy.duration import spell
from remediator.policy.table import MODES, Place, Policy, Row


class ExplainedRow(msgspec.Struct, frozen=True, kw_only=True):
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


class ExplainedFault(msgspec.Struct, frozen=True, kw_only=True):
    fault_class: str
    cause: str
    evidence: str
    certain: bool
    """Whether the evidence suffices to evict pods."""
    doubt: str
    """What is missing if it does not."""
    over: bool
    """Whether the evidence itself shows that it is resolved."""
    needs: str
    row: ExplainedRow


class Line(msgspec.Struct, frozen=True):
    """An action; `after` in seconds since the report arrived."""

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
    """The reason for the verdict."""
    faults: tuple[ExplainedFault, ...]
    deferred: tuple[str, ...]
    """What defers something of it, such as the emergency stop, and what is behind that."""
    course: Course
    enforced: Course | None
    """The response in enforce mode; None if that is the mode, or there is no fault."""


def explain(signal: Signal, spot: Spot, policy: Policy, now: datetime) -> Explanation:
    """Simulate a signal under a policy, and under the same policy with every class enforced."""
    outcome = Trial(signal, spot, policy, now).run()
    ((board, _),) = outcome.first.pairs
    classes = frozenset({spot.device_class} if spot.device_class else ())
    place = msgspec.structs.replace(board.place, device_classes=classes)
    faults = faults_of(board.verdict)
    rows = [policy.row(fault.fault_class, place) for fault in faults]
    milder = any(row.mode != MODES[-1] for row in rows)
    enforced = Trial(signal, spot, _enforced(policy, place), now).run() if milder else None
    trials = (outcome, enforced) if enforced else (outcome,)
    why = ""
    if isinstance(board.verdict, Unknown):
        why = board.verdict.why
    elif isinstance(board.verdict, Healthy):
        why = board.verdict.evidence
    claimed = f", claimed through {spot.device_class}" if spot.device_class else ""
    return Explanation(
        signal=signal.in_words(),
        place=f"node {spot.node}, driver {GPU_DRIVER}, pool {spot.node}{claimed}",
        verdict=type(board.verdict).__name__,
        why=why,
        faults=tuple(_fault(fault, row) for fault, row in zip(faults, rows, strict=True)),
        deferred=tuple(dict.fromkeys(text for each in trials for text in each.deferrals)),
        course=_course(outcome),
        enforced=_course(enforced) if enforced else None,
    )


def _enforced(policy: Policy, place: Place) -> Policy:
    """Return the policy as it is at a place, but with every class enforced there."""
    rows = (policy.row(fault_class, place) for fault_class in SEVERITY)
    return msgspec.structs.replace(
        policy,
        rows=tuple(msgspec.structs.replace(row, mode=MODES[-1]) for row in rows),
        overrides=(),
        exempt=(),
    )


def _fault(fault: Fault, row: Row) -> ExplainedFault:
    return ExplainedFault(
        fault_class=fault.fault_class,
        cause=fault.cause,
        evidence=fault.evidence,
        certain=fault.certain,
        doubt=fault.doubt,
        over=fault.ended is not None,
        needs=fault.needs,
        row=_row(row),
    )


def _row(row: Row) -> ExplainedRow:
    return ExplainedRow(
        name=row.name,
        mode=row.mode,
        ceiling=row.ceiling,
        settle=spell(row.settle),
        soak=spell(row.soak),
        patient=row.patient,
        repeat=f"{row.repeat.count} in {spell(row.repeat.within)}",
        sticky=row.sticky,
        probation=spell(row.probation),
        evict=str(row.evict),
        why=row.why,
    )


def _course(outcome: Outcome) -> Course:
    ((_, planned),) = outcome.last.pairs
    return Course(
        lines=tuple(_lines(outcome.steps)),
        repaired_after=outcome.repaired_after,
        released_after=outcome.closed_after,
        end=planned.message,
    )


def _lines(steps: tuple[TakenStep, ...]) -> Iterator[Line]:
    """Give a line for each action; rules of one moment with the same effect share one."""
    phase = ""
    for (after, effect), group in groupby(steps, lambda taken: (taken.after, _effect(taken.step))):
        alike = [taken.step for taken in group]
        if effect:
            yield Line(after, _rules_in_words(alike, effect))
            continue
        for step in alike:
            texts = list(_in_words(step))
            if isinstance(step, WriteStatus):
                texts, phase = [text for text in texts if text != phase], texts[0]
            yield from (Line(after, text) for text in texts)


def _effect(step: Step) -> str:
    match step:
        case CreateRule(rule) | ChangeRule(_, rule):
            return rule.effect
        case DeleteRule():
            return "removed"
        case _:
            return ""


def _rules_in_words(steps: list[Step], effect: str) -> str:
    """Return one text for steps on taint rules that have the same effect."""
    rules = [
        step.stored if isinstance(step, DeleteRule) else step.rule
        for step in steps
        if isinstance(step, CreateRule | ChangeRule | DeleteRule)
    ]
    devices = ", ".join(sorted(rule.device.device for rule in rules))
    match steps[0]:
        case ChangeRule(stored, rule) if stored.effect == rule.effect:
            return f"taint rule on {devices} changed to {rule.fault}={rule.cause}"
        case DeleteRule(_, why):
            return f"taint rule removed from {devices}: {why}"
        case _:
            return f"taint rule {effect} on {devices}"


def _in_words(step: Step) -> Iterator[str]:
    match step:
        case WriteStatus(_, status):
            # A clause of a message may begin with the phase itself.
            again = f"{status.phase.lower()}: "
            clauses = (clause.removeprefix(again) for clause in status.message.split("; "))
            yield f"{status.phase}: {'; '.join(clauses)}"
        case OpenIncident(incident):
            yield f"incident {incident.name} opened"
            summary = incident.status.scope.summary
            yield from [f"scope: {summary}"] if summary else []
        case EvictPod(_, pod, delete):
            how = "deleted" if delete else "evicted by the Eviction API"
            yield f"pod {pod.namespace}/{pod.pod} is {how}"
        case WriteNodeConditions(node, conditions):
            for condition in conditions:
                text = f"{condition.type}={condition.status} ({condition.reason})"
                yield f"node {node}: {text}: {condition.message}"
        case _:
            return
