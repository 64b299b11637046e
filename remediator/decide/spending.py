"""What harm stands already, counted per ground and per time. Pure.

The unit is one physical GPU. It counts as fenced while any rule of ours on it
is stronger than None, as evicting while any is NoExecute. All of it is read
from what is stored, so a restart counts the same. One worker decides node after
node and the world hears its own writes, so the rules of the fleet are current:
what the node before this one was granted is in them.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Literal

import msgspec

from remediator.decide.fleet import Fleet, GpuPlace, names_on
from remediator.objects.taints import EFFECTS, Effect, Rule
from remediator.policy.limits import Ground, Rate

Harm = Literal["fence", "evict"]
EFFECT_OF: Mapping[Harm, Effect] = {"fence": "NoSchedule", "evict": "NoExecute"}
"""The effect with which a harm begins."""


class Spending:
    """What one tick may still do is the limits less this; grants are added as they are made."""

    def __init__(self, fleet: Fleet, now: datetime) -> None:
        self._fleet = fleet
        self._now = now
        self._standing: dict[Harm, dict[str, GpuPlace]] = {}
        self._counts: dict[tuple[Harm, Ground, str], int] = {}
        self._granted: dict[Harm, set[str]] = {"fence": set(), "evict": set()}

    def used(self, harm: Harm, ground: Ground, name: str) -> int:
        """Return how many GPUs of a ground suffer a harm now."""
        key = (harm, ground, name)
        if key not in self._counts:
            places = self._places(harm).values()
            here = (name in names_on(ground, place) for place in places)
            self._counts[key] = len(places) if ground == "cluster" else sum(here)
        return self._counts[key]

    def total(self, ground: Ground, name: str) -> int:
        """Return how many GPUs a ground has, 0 when nobody could count."""
        return self._fleet.totals.get((ground, name), 0)

    def lately(self, harm: Harm, rate: Rate) -> list[datetime]:
        """Return when each GPU began to suffer a harm within the time of a rate, sorted."""
        since = self._now - rate.within
        begun = begins(self._fleet, harm, since, self._now)
        return sorted((begun | dict.fromkeys(self._granted[harm], self._now)).values())

    def grant(self, harm: Harm, gpu: str, place: GpuPlace) -> None:
        """Count a GPU that begins to suffer a harm now."""
        self._places(harm)[gpu] = place
        self._granted[harm].add(gpu)
        for kind, ground, name in self._counts:
            if kind == harm and name in names_on(ground, place):
                self._counts[kind, ground, name] += 1

    def _places(self, harm: Harm) -> dict[str, GpuPlace]:
        if harm not in self._standing:
            self._standing[harm] = {
                rule.gpu: placed(rule.gpu, rule.node, self._fleet)
                for rule in self._fleet.rules
                if suffers(rule, harm)
            }
        return self._standing[harm]


def placed(gpu: str, node: str, fleet: Fleet) -> GpuPlace:
    """Return where a GPU is. A rule's own node outranks what slices say of its GPU."""
    known = fleet.places.get(gpu)
    if known is None:
        return GpuPlace(node=node)
    return known if known.node == node else msgspec.structs.replace(known, node=node)


def suffers(rule: Rule, harm: Harm) -> bool:
    return EFFECTS.index(rule.effect) >= EFFECTS.index(EFFECT_OF[harm])


def begins(fleet: Fleet, harm: Harm, since: datetime, now: datetime) -> dict[str, datetime]:
    """Return when each GPU began to suffer a harm, the last time that it did, if after `since`.

    An incident says so also after its rules are gone. A rule whose incident has
    not noted it yet says so by its taint's date; one without a date is new, as
    far as anybody knows. An incident notes its first eviction only: where every
    rule is younger, it was taken back in between and has begun again.
    """
    young = [rule for rule in fleet.rules if suffers(rule, harm) and _after(since, rule)]
    unnoted = {rule.incident for rule in young}
    again = _dated(young) - _begun_before(fleet, since) if harm == "evict" else set[str]()
    found: dict[str, datetime] = {}
    for one in fleet.incidents:
        at = one.status.evicting_at if harm == "evict" else one.status.fenced_at
        if at is not None:
            if at > since or one.metadata.name not in again:
                unnoted.discard(one.metadata.name)
            if at > since:
                found[one.spec.uuid] = max(at, found.get(one.spec.uuid, at))
    dated: dict[str, datetime] = {}
    for rule in young:
        if rule.incident in unnoted:
            at = rule.time_added or now
            dated[rule.gpu] = min(at, dated.get(rule.gpu, at))
    return found | {gpu: max(at, found.get(gpu, at)) for gpu, at in dated.items()}


def _dated(rules: Iterable[Rule]) -> set[str]:
    """Return the incidents whose rules are known to be young, each by a date."""
    return {rule.incident for rule in rules if rule.time_added is not None}


def _begun_before(fleet: Fleet, since: datetime) -> set[str]:
    """Return the incidents of which a rule evicts since before a moment, or nobody knows when."""
    return {
        rule.incident
        for rule in fleet.rules
        if suffers(rule, "evict") and (rule.time_added is None or rule.time_added <= since)
    }


def _after(since: datetime, rule: Rule) -> bool:
    return rule.time_added is None or rule.time_added > since
