"""Which GPUs of a node need a node-level act, since when, and until when pods are waited for.

Pure.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

import msgspec

from remediator.diagnose.fault import NEEDS, NODE_LEVEL, Healthy, Need, Sick, most_needed
from remediator.model.incident import Incident
from remediator.plan.api_words import MODES, need_of
from remediator.plan.case import ONLY_NEW, Case, Desired
from remediator.plan.needs import Waiting, deadline_start
from remediator.plan.view import NodeView


class Due(msgspec.Struct, frozen=True):
    """A GPU, sick or unknown, whose enforced incident needs a node-level act."""

    case: Case
    incident: Incident
    need: Need
    deferred: str
    joins: bool
    """Nothing but a budget holds it: it joins the call that another GPU of the node may make."""
    stands: bool
    """The need is known now. Otherwise the GPU is unknown, and the need is that of before."""
    insists: Need
    """The need of a class that may evict: for that, pods are waited for until the deadline."""

    def until(self, deadline: timedelta, now: datetime) -> datetime | None:
        """Return until when pods are waited for; None: without an end, as by a wrong clock."""
        since = self.incident.status.deadline_start_time
        if since is None or self.insists not in NODE_LEVEL or self.case.clock_doubt:
            return None
        return min(since, now) + deadline

    def is_overdue(self, deadline: timedelta, now: datetime) -> bool:
        until = self.until(deadline, now)
        return until is not None and now >= until


def due_gpus(pairs: Iterable[tuple[Case, Desired]]) -> tuple[Due, ...]:
    """Return the GPUs of these incidents, by the name of the incident."""
    found = [_of_gpu(case, desired, incident) for case, desired, incident in enforced(pairs)]
    return tuple(
        sorted((due_gpu for due_gpu in found if due_gpu), key=lambda due_gpu: due_gpu.incident.name)
    )


def called_since(
    view: NodeView,
    pairs: Iterable[tuple[Case, Desired]],
    now: datetime,
    stopped: str,
    *,
    calling: bool,
) -> Mapping[str, Waiting]:
    """Return by GPU since when a node-level act may be called for, and the deadline counts.

    A hold before the first call ends both; without `calling` neither begins. Nor does it while our
    clock is not trusted: once the clock is right, the deadline would be over at once.
    """
    found: dict[str, Waiting] = {}
    for due_gpu in due_gpus(pairs):
        old, held = due_gpu.incident.status.needs_since, bool(due_gpu.deferred or stopped)
        free = not (held or due_gpu.case.brakes_unknown)
        begins = calling and due_gpu.stands and free
        since = old or (now if begins else None)
        deadline = due_gpu.incident.status.deadline_start_time
        if due_gpu.stands:
            deadline = deadline_start(deadline, due_gpu.insists, now if begins else None)
        if since is not None and (view.repair_called or not held):
            found[due_gpu.case.uuid] = Waiting(since, deadline)
    return found


def enforced(
    pairs: Iterable[tuple[Case, Desired]],
) -> Iterable[tuple[Case, Desired, Incident]]:
    """Yield the incidents that go on in mode enforce, as stored: a message refers to them."""
    for case, desired in pairs:
        incident = desired.incident
        if incident is None or not incident.metadata.uid or not incident.open:
            continue
        ends = desired.closing or desired.ending
        ignored = any(
            intent.kind == "Ignore" and intent.state == "InForce"
            for intent in desired.record.intents
        )
        if incident.status.mode == MODES["enforce"] and not ends and not ignored:
            yield case, desired, incident


def _of_gpu(case: Case, desired: Desired, incident: Incident) -> Due | None:
    """The need of a GPU is its need now; of an unknown one, what it was before."""
    hold = any(
        intent.kind == "Hold" and intent.state == "InForce" for intent in desired.record.intents
    )
    held = (
        desired.repair_held_back or desired.repair.deferred or ("on hold by a user" if hold else "")
    )
    if isinstance(case.verdict, Healthy):
        return None
    need, stands = (
        desired.repair.calls,
        isinstance(case.verdict, Sick) or desired.repair.calls in NODE_LEVEL,
    )
    if not stands:
        need = most_needed(
            kind for kind in NEEDS if kind in {desired.repair.needs, need_of(incident.status.needs)}
        )
    if need not in NODE_LEVEL:
        return None
    joins = not hold and desired.deferred_by in ONLY_NEW and desired.repair.deferred_by == "Budget"
    return Due(case, incident, need, held, joins, stands, desired.repair.insists)
