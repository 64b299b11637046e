"""Which GPUs of a node need a node-level act, and until when pods are waited for.

Pure.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from remediator.diagnose.fault import NEEDS, NODE_LEVEL, Healthy, Need, Sick, most_needed
from remediator.model.incident import Incident
from remediator.plan.api_words import MODES, need_of
from remediator.plan.case import Case, Desired


class Due(msgspec.Struct, frozen=True):
    """A GPU, sick or unknown, whose enforced incident needs a node-level act."""

    case: Case
    incident: Incident
    need: Need
    held: str
    joins: bool
    """Nothing but a budget holds it: it joins the call that another GPU of the node may make."""
    stands: bool
    """The need is known now. Otherwise the GPU is unknown, and the need is that of before."""
    insists: Need
    """What a class that may evict asks for: for that, pods are waited for until the deadline."""

    def until(self, deadline: timedelta, now: datetime) -> datetime | None:
        """Return until when pods are waited for; None: without an end."""
        since = self.incident.status.deadline_start_time
        if since is None or self.insists not in NODE_LEVEL:
            return None
        return min(since, now) + deadline

    def is_overdue(self, deadline: timedelta, now: datetime) -> bool:
        until = self.until(deadline, now)
        return until is not None and now >= until


def due_gpus(pairs: Iterable[tuple[Case, Desired]]) -> tuple[Due, ...]:
    """Return the GPUs of these stories, by the name of the incident."""
    found = [_of_gpu(case, wish, story) for case, wish, story in enforced(pairs)]
    return tuple(sorted((one for one in found if one), key=lambda one: one.incident.name))


def enforced(
    pairs: Iterable[tuple[Case, Desired]],
) -> Iterable[tuple[Case, Desired, Incident]]:
    """Yield the stories that go on in mode enforce, as stored: a message refers to them."""
    for case, wish in pairs:
        story = wish.incident
        if story is None or not story.metadata.uid or not story.open:
            continue
        ends = wish.closing or wish.ending
        ignored = any(one.kind == "Ignore" and one.state == "InForce" for one in wish.intents)
        if story.status.mode == MODES["enforce"] and not ends and not ignored:
            yield case, wish, story


def _of_gpu(case: Case, wish: Desired, story: Incident) -> Due | None:
    """What a GPU needs is what is asked for now; of an unknown one, what it was before."""
    hold = any(one.kind == "Hold" and one.state == "InForce" for one in wish.intents)
    held = wish.held or wish.call_held or ("a person holds it" if hold else "")
    if isinstance(case.verdict, Healthy):
        return None
    need, stands = wish.calls, isinstance(case.verdict, Sick) or wish.calls in NODE_LEVEL
    if not stands:
        need = most_needed(one for one in NEEDS if one in {wish.needs, need_of(story.status.needs)})
    if need not in NODE_LEVEL:
        return None
    joins = not hold and wish.held_by == wish.call_held_by == "Budget"
    return Due(case, story, need, held, joins, stands, wish.insists)
