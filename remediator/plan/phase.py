"""The phase of an incident: by what is true, never by what is only desired. Pure."""

from collections.abc import Callable
from datetime import datetime

import msgspec

from remediator.diagnose.fault import Healthy, Unknown
from remediator.model.incident import IncidentStatus, Phase
from remediator.model.taint_rule import EVICTING
from remediator.plan.board import Board
from remediator.plan.drain import seen_twice
from remediator.plan.stages import Planned


class Progress(msgspec.Struct, frozen=True):
    """How far the cluster has followed what is desired."""

    tainted: bool
    """Every desired taint is stored."""
    evicting: bool
    """Pods are evicted wherever that is desired: by NoExecute, or by the Eviction API."""
    empty: bool
    """No pod uses the devices: seen twice."""

    @property
    def drained(self) -> bool:
        return self.tainted and self.empty


def progress(board: Board, planned: Planned, old: IncidentStatus, now: datetime) -> Progress:
    stored = {rule.device: rule.effect for rule in board.rules.stored}
    taints = {rule.device for rule in planned.rules if rule.effect != "None"}
    moves = planned.granted.emptying
    return Progress(
        tainted=bool(taints) and all(stored.get(device, "None") != "None" for device in taints),
        evicting=bool(moves) and all(stored.get(device) in EVICTING for device in moves),
        empty=seen_twice(old, now),
    )


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What is true of an incident, as far as a phase depends on it."""

    ruled: bool
    """A rule of ours stands."""
    ended: bool
    """It ends without verified recovery."""
    verified: bool
    """Recovery is verified, and nothing else is waited for."""
    repairing: bool
    """A repair of the GPU is under way, and no pod is in its way."""
    unknown: bool
    healthy: bool
    human: bool
    """Nothing but a user takes it further."""
    settled: bool
    """Nothing more is to be tainted, and no pod to be evicted."""
    done: Progress


ROWS: tuple[tuple[Phase, str, Callable[[Facts], bool]], ...] = (
    (
        "Closed",
        "it ended without verified recovery and no rule is left; the message has the reason",
        lambda facts: facts.ended and not facts.ruled,
    ),
    (
        "Recovered",
        "recovery was verified and no rule is left",
        lambda facts: facts.verified and not facts.ended and not facts.ruled,
    ),
    (
        "Repairing",
        "no pod uses the devices and there are signs of a repair: the GPU is absent, or has a new "
        "boot or epoch",
        lambda facts: facts.repairing and not facts.ended and not facts.verified,
    ),
    (
        "NeedsHuman",
        "a user has to act: confirm the repair, or check the GPU",
        lambda facts: facts.human and not facts.verified,
    ),
    (
        "Verifying",
        "the GPU is healthy and no pod is left to evict; the soak time runs, or rules are deleted",
        lambda facts: facts.verified or (facts.healthy and facts.settled),
    ),
    (
        "Drained",
        "all desired rules exist, and no claim or pod uses the devices",
        lambda facts: facts.done.drained,
    ),
    (
        "Evicting",
        "pods are being deleted by NoExecute or evicted through the Eviction API, and some are "
        "left",
        lambda facts: facts.done.evicting,
    ),
    (
        "Tainted",
        "all desired rules exist, with NoSchedule or stronger",
        lambda facts: facts.done.tainted,
    ),
    (
        "Suspected",
        "a fault was detected; at least one desired rule does not exist yet, or none is desired",
        lambda _: True,
    ),
)
"""Each phase with what is true in it; the first row that is true holds."""


def phase(board: Board, planned: Planned, old: IncidentStatus, done: Progress) -> str:
    """Return the phase that is true now; while that cannot be known, the one before."""
    facts = _facts(board, planned, old, done)
    ends = facts.ended or facts.verified
    unclear = (facts.ended and facts.ruled) or (facts.unknown and not (ends or facts.repairing))
    return old.phase if unclear and old.phase else phase_of(facts)


def phase_of(facts: Facts) -> Phase:
    return next(phase for phase, _, holds in ROWS if holds(facts))


def _facts(board: Board, planned: Planned, old: IncidentStatus, done: Progress) -> Facts:
    healthy = isinstance(board.verdict, Healthy)
    waits = planned.course.verified or (not healthy and done.tainted and done.empty)
    joined = bool(planned.joined_too_often and planned.blocked)
    unprovable = planned.record.unprovable and done.tainted and not healthy
    moving = bool(planned.granted.emptying)
    emptied = old.drained_at is not None or not (moving or planned.course.pending)
    return Facts(
        ruled=bool(board.rules.stored),
        ended=planned.course.kind == "ends",
        verified=planned.course.kind == "closes",
        repairing=bool(planned.record.repair_seen) and not healthy and emptied,
        unknown=isinstance(board.verdict, Unknown),
        healthy=healthy,
        human=bool(planned.record.confirmation and waits) or unprovable or joined,
        settled=not planned.course.pending and (done.drained or not moving),
        done=done,
    )
