"""Under which rules nobody is evicted any more, by what an incident says. Pure."""

from collections.abc import Iterator

import msgspec

from remediator.model.incident import EVICTION_BLOCKED, IncidentStatus

Emptied = tuple[str, str]
"""UID of a rule, and the effect under which nobody is left."""


def emptied(status: IncidentStatus) -> Iterator[Emptied]:
    """Yield the rules of an open incident that evict, and that nobody is left under.

    Under Evict also those that evict nobody now, and those whose time is over: who waits for a
    PodDisruptionBudget waits for as long as its owner likes.
    """
    drained = status.drained_at is not None and status.empty_since is not None
    waits = status.eviction_start_time is None or _blocked(status)
    over = {"NoExecute", "Evict"} if drained else {"Evict"} if waits else set[str]()
    for rule in status.rules:
        if rule.uid and rule.effect in over:
            yield rule.uid, rule.effect
            # One that was lowered since does less than what nobody is left under.
            yield rule.uid, "Evict"


class Turned(msgspec.Struct, frozen=True):
    """What a decision sees and its incident does not say yet."""

    filled: frozenset[Emptied] = frozenset()
    """Rules that pods are under again."""
    emptied: frozenset[Emptied] = frozenset()
    """Rules that nobody is evicted under any more: they leave the caps once that is noted."""


def turned(before: IncidentStatus, after: IncidentStatus) -> Turned:
    """Return which rules an incident will call emptied, and did not, and the other way round."""
    old, new = frozenset(emptied(before)), frozenset(emptied(after))
    return Turned(filled=old - new, emptied=new - old)


def _blocked(status: IncidentStatus) -> bool:
    return any(
        (condition.type, condition.status) == (EVICTION_BLOCKED, "True")
        for condition in status.conditions
    )
