"""How much may be done now, and what is held back and why.

The unit is a physical GPU, whatever number of slices it has. What already
stands is never taken back here, and healing is never held: a budget only stops
new harm. Held work is retried at every reconcile, so a budget re-opens by
itself. Device-taint eviction ignores PodDisruptionBudgets, which makes this the
only brake. Pure.
"""

from collections.abc import Iterable
from datetime import datetime

import msgspec

from remediator.decide.case import Desired
from remediator.decide.fleet import Fleet
from remediator.objects.taints import EFFECTS, Rule
from remediator.policy.table import Limits, Policy


class Spent(msgspec.Struct, frozen=True):
    """GPUs that carry rules of ours: with anything but None, and with NoExecute."""

    fenced: frozenset[str]
    evicting: frozenset[str]


def spent(rules: Iterable[Rule]) -> Spent:
    mine = tuple(rules)
    return Spent(
        frozenset(rule.gpu for rule in mine if rule.effect != "None"),
        frozenset(rule.gpu for rule in mine if rule.effect == "NoExecute"),
    )


def budget(
    desired: Iterable[Desired], fleet: Fleet, policy: Policy, now: datetime
) -> tuple[Desired, ...]:
    """Return the same wishes of one node, cut to what the limits leave.

    Wishes are granted in the order of their incidents' names, so that the
    answer does not depend on the order of observation.
    """
    del now
    limits = policy.limits
    wishes = tuple(desired)
    nodes = {wish.incident.spec.node for wish in wishes if wish.incident}
    here = spent(rule for rule in fleet.rules if rule.node in nodes)
    everywhere = spent(fleet.rules)
    granted: list[Desired] = []
    for wish in sorted(wishes, key=_by_incident):
        answer = _grant(wish, here, everywhere, limits)
        granted.append(answer)
        new = spent(answer.rules)
        here = Spent(here.fenced | new.fenced, here.evicting | new.evicting)
        everywhere = Spent(everywhere.fenced | new.fenced, everywhere.evicting | new.evicting)
    return tuple(granted)


def _by_incident(wish: Desired) -> str:
    return wish.incident.name if wish.incident else ""


def _grant(wish: Desired, here: Spent, everywhere: Spent, limits: Limits) -> Desired:
    asked = spent(wish.rules)
    too_many_fenced = len(everywhere.fenced | asked.fenced) > limits.fence_gpus_per_cluster
    if asked.fenced - everywhere.fenced and too_many_fenced:
        why = f"fence_gpus_per_cluster={limits.fence_gpus_per_cluster} is used up"
        return msgspec.structs.replace(wish, rules=(), held=f"NoSchedule held: {why}")
    if asked.evicting <= everywhere.evicting:
        return wish
    why = _evictions_left(asked, here, everywhere, limits)
    if not why:
        return wish
    return msgspec.structs.replace(
        wish, rules=tuple(_without_eviction(rule) for rule in wish.rules), held=why
    )


def _evictions_left(asked: Spent, here: Spent, everywhere: Spent, limits: Limits) -> str:
    if len(here.evicting | asked.evicting) > limits.evict_gpus_per_node:
        return f"NoExecute held: evict_gpus_per_node={limits.evict_gpus_per_node} is used up"
    if len(everywhere.evicting | asked.evicting) > limits.evict_gpus_per_cluster:
        return f"NoExecute held: evict_gpus_per_cluster={limits.evict_gpus_per_cluster} is used up"
    return ""


def _without_eviction(rule: Rule) -> Rule:
    if EFFECTS.index(rule.effect) < EFFECTS.index("NoExecute"):
        return rule
    return msgspec.structs.replace(rule, effect="NoSchedule")
