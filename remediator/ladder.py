"""How far one GPU's fault may go now: nothing yet, NoSchedule, or NoExecute.

NoExecute needs three things at once: a class whose ceiling allows it, complete
evidence, and every device in scope under NoSchedule for the settle time (write
order is not effect order: the scheduler and the eviction controller watch
apart). Pure.
"""

from datetime import datetime, timedelta

import msgspec

from remediator.case import Case
from remediator.fault import Fault
from remediator.incident import Incident, Target
from remediator.policy import Row
from remediator.scope import scope
from remediator.taints import EFFECTS, Effect, Rule


class Rung(msgspec.Struct, frozen=True):
    """Where enforce mode stands; `effect` None is below the first rung."""

    effect: Effect | None
    reason: str
    wake_at: datetime | None = None


def rung(case: Case, story: Incident, row: Row, doubt: str, now: datetime) -> Rung:
    """Return how far a story may go; `doubt` is what its evidence lacks."""
    until = _patience(story, row, now) if doubt else None
    if until is not None:
        return Rung(None, f"waiting for better evidence: {doubt}", until)
    if row.ceiling != "NoExecute":
        return Rung(row.ceiling, f"class {row.fault_class} goes no further than {row.ceiling}")
    if doubt:
        return Rung("NoSchedule", f"kept from new work only: {doubt}")
    fenced_at = story.status.fenced_at
    if fenced_at is None or not all_fenced(case.rules, story.spec.scope.devices):
        return Rung("NoSchedule", "fencing every device in scope first")
    settled = fenced_at + row.settle
    if now < settled:
        return Rung("NoSchedule", f"settling for {row.settle.total_seconds():g} s", settled)
    return Rung("NoExecute", "evidence complete and settled: pods are moved")


def doubt_of(case: Case, story: Incident, faults: tuple[Fault, ...]) -> str:
    """Return what the evidence for a story's class lacks, "" when it is complete.

    A contained error is over as soon as it is written, and still a reason to
    move its pod; of every other class only what stands now counts.
    """
    leading = [
        fault
        for fault in faults
        if fault.fault_class == story.spec.fault
        and (fault.ended is None or fault.fault_class == "contained")
    ]
    if not leading:
        return "nothing stands any more"
    doubts = [fault.doubt for fault in leading if not fault.certain]
    if doubts:
        return doubts[0]
    if case.gpu is not None and not scope(leading, case.gpu, case.inventory, case.node).exact:
        return "the instance that the error names is not published"
    return ""


def all_fenced(rules: tuple[Rule, ...], targets: tuple[Target, ...]) -> bool:
    """Whether every device carries a stored rule of NoSchedule or more."""
    fenced = {rule.device for rule in rules if rule.effect != "None"}
    return bool(targets) and all(target.name in fenced for target in targets)


def milder(one: Effect, other: Effect) -> Effect:
    return one if EFFECTS.index(one) <= EFFECTS.index(other) else other


def stronger(one: Effect, other: Effect) -> Effect:
    return other if milder(one, other) == one else one


def _patience(story: Incident, row: Row, now: datetime) -> datetime | None:
    """Return until when a patient class waits for its second witness, None when it need not."""
    opened = story.metadata.creation_timestamp or now
    until = opened + row.settle + timedelta(seconds=1)  # creation stamps have whole seconds
    return until if row.patient and story.status.fenced_at is None and now < until else None
