"""Under which rules nobody is evicted any more, by what an incident says. Pure."""

from collections.abc import Iterator

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


def filled_again(before: IncidentStatus, after: IncidentStatus) -> frozenset[Emptied]:
    """Return the rules under which pods are there again, as a decision sees and will note it."""
    return frozenset(emptied(before)) - frozenset(emptied(after))


def _blocked(status: IncidentStatus) -> bool:
    return any((one.type, one.status) == (EVICTION_BLOCKED, "True") for one in status.conditions)
