"""The rules under which no pod is evicted any more, as an incident records it. Pure."""

from collections.abc import Iterator

import msgspec

from remediator.model.incident import EVICTION_BLOCKED, IncidentStatus

Emptied = tuple[str, str]
"""UID of a rule, and the effect under which no pod is left."""


def emptied(status: IncidentStatus) -> Iterator[Emptied]:
    """Yield the rules of an open incident that evict and under which no pod is left.

    Under Evict these include rules that evict no pod now, and rules whose time is over: a pod that
    waits for a PodDisruptionBudget waits for as long as its owner likes.
    """
    drained = status.drained_at is not None and status.empty_since is not None
    waits = status.eviction_start_time is None or any(
        (condition.type, condition.status) == (EVICTION_BLOCKED, "True")
        for condition in status.conditions
    )
    over = {"NoExecute", "Evict"} if drained else {"Evict"} if waits else set[str]()
    for rule in status.rules:
        if rule.uid and rule.effect in over:
            yield rule.uid, rule.effect
            # A rule that was lowered since does less than the rule under which no pod is left.
            yield rule.uid, "Evict"


class Turned(msgspec.Struct, frozen=True):
    """What a decision observes and its incident does not record yet."""

    filled: frozenset[Emptied] = frozenset()
    """Rules that pods are under again."""
    emptied: frozenset[Emptied] = frozenset()
    """Rules under which no pod is evicted any more: they leave the caps once that is recorded."""


def turned(before: IncidentStatus, after: IncidentStatus) -> Turned:
    """Return which rules an incident will call emptied, and did not, and the other way round."""
    old, new = frozenset(emptied(before)), frozenset(emptied(after))
    return Turned(filled=old - new, emptied=new - old)
