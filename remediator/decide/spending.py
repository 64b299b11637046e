"""What harm stands already, counted per ground and per time. Pure.

The unit is one physical GPU. It counts as fenced while any rule of ours on it
is stronger than None, as evicting while any is NoExecute, and as one of a call
for repair of its node while it evicts or its incident says since when such a
call may be made. An incident remembers the DeviceClasses of a GPU: without that
a class would be refilled by the very pods that leave it. All of it is read
from what is stored, so a restart counts the same. One worker decides node after
node and the world hears its own writes, so the rules of the fleet are current:
what the node before this one was granted is in them.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from operator import attrgetter
from typing import Literal

import msgspec

from remediator.decide.fleet import Fleet, GpuPlace, names_on
from remediator.objects.incident import Incident
from remediator.objects.taints import EFFECTS, Effect, Rule
from remediator.policy.limits import Ground, Rate

RuleHarm = Literal["fence", "evict"]
Harm = Literal["fence", "evict", "call"]
"""`call`: others may reboot or replace the node for this GPU, which stops whoever is on it."""
EFFECT_OF: Mapping[RuleHarm, Effect] = {"fence": "NoSchedule", "evict": "NoExecute"}
"""The effect with which a harm begins."""
_STRONG: Mapping[RuleHarm, frozenset[Effect]] = {
    harm: frozenset(EFFECTS[EFFECTS.index(effect) :]) for harm, effect in EFFECT_OF.items()
}
_INCLUDED: Mapping[Harm, tuple[Harm, ...]] = {
    "fence": ("fence",),
    "evict": ("evict", "call"),
    "call": ("call",),
}
"""What a harm counts as."""


class Spending:
    """What one tick may still do is the limits less this; grants are added as they are made."""

    def __init__(self, fleet: Fleet, now: datetime) -> None:
        self._fleet = fleet
        self._now = now
        self._nodes: dict[Harm, dict[str, str]] = {}
        """By GPU that suffers a harm: the node that its rule or incident names."""
        self._standing: dict[Harm, dict[str, GpuPlace]] = {}
        self._counts: dict[tuple[Harm, Ground, str], int] = {}
        self._granted: dict[Harm, dict[str, GpuPlace]] = {harm: {} for harm in _INCLUDED}
        self._remembered: dict[str, frozenset[str]] | None = None

    def used(self, harm: Harm, ground: Ground, name: str) -> int:
        """Return how many GPUs of a ground suffer a harm now."""
        key = (harm, ground, name)
        if key not in self._counts:
            places = self._places(harm).values()
            here = (name in names_on(ground, place) for place in places)
            self._counts[key] = len(places) if ground == "cluster" else sum(here)
        return self._counts[key]

    def total(self, ground: Ground, name: str) -> int:
        """Return how many GPUs a ground has, 0 when nobody could count.

        One that an open incident was claimed through a class for is still of that class.
        """
        count = self._fleet.totals.get((ground, name), 0)
        if ground != "class":
            return count
        left = (gpu for gpu, classes in self._classes().items() if name in classes)
        return count + sum(name not in placed(gpu, "", self._fleet).classes for gpu in left)

    def suffers(self, harm: Harm, gpu: str) -> bool:
        """Whether a GPU suffers a harm now."""
        return gpu in self._granted[harm] or gpu in self._suffering(harm)

    def lately(self, harm: Harm, rate: Rate) -> list[datetime]:
        """Return when each GPU began to suffer a harm within the time of a rate, sorted."""
        since = self._now - rate.within
        begun = begins(self._fleet, "fence" if harm == "fence" else "evict", since, self._now)
        if harm == "call":
            called = ((one.spec.uuid, one.status.needs_since) for one in _called(self._fleet))
            begun = {gpu: at for gpu, at in called if at is not None and at > since} | begun
        begun |= dict.fromkeys(self._granted[harm], self._now)
        # What is dated later than now has begun: from that date on nothing could be reckoned.
        return sorted(min(at, self._now) for at in begun.values())

    def grant(self, harm: Harm, gpu: str, place: GpuPlace) -> None:
        """Count a GPU that begins to suffer a harm now."""
        for one in _INCLUDED[harm]:
            if self.suffers(one, gpu):
                continue
            self._granted[one][gpu] = place
            if one in self._standing:
                self._standing[one][gpu] = place
            for kind, ground, name in self._counts:
                if kind == one and name in names_on(ground, place):
                    self._counts[kind, ground, name] += 1

    def _suffering(self, harm: Harm) -> dict[str, str]:
        if harm not in self._nodes:
            known: RuleHarm = "fence" if harm == "fence" else "evict"
            found = {rule.gpu: rule.node for rule in self._fleet.rules if suffers(rule, known)}
            if harm == "call":
                found = {one.spec.uuid: one.spec.node for one in _called(self._fleet)} | found
            self._nodes[harm] = found
        return self._nodes[harm]

    def _places(self, harm: Harm) -> dict[str, GpuPlace]:
        """Return where the GPUs that suffer a harm count; asked only where a cap is set."""
        if harm not in self._standing:
            found = self._suffering(harm).items()
            known = {gpu: self._placed(gpu, node) for gpu, node in found}
            self._standing[harm] = known | self._granted[harm]
        return self._standing[harm]

    def _placed(self, gpu: str, node: str) -> GpuPlace:
        """Return where a GPU counts: also on the classes that its pods held it through."""
        place, left = placed(gpu, node, self._fleet), self._classes().get(gpu, frozenset[str]())
        if left <= place.classes:
            return place
        return msgspec.structs.replace(place, classes=place.classes | left)

    def _classes(self) -> dict[str, frozenset[str]]:
        """Return the DeviceClasses that open incidents remember, by GPU."""
        if self._remembered is None:
            self._remembered = {
                one.spec.uuid: frozenset(one.status.device_classes)
                for one in self._fleet.incidents
                if one.status.device_classes and one.open  # few have any, and this is asked often
            }
        return self._remembered


def placed(gpu: str, node: str, fleet: Fleet) -> GpuPlace:
    """Return where a GPU is. A rule's own node outranks what slices say of its GPU."""
    known = fleet.places.get(gpu)
    if known is None:
        return GpuPlace(node=node)
    return known if known.node == node else msgspec.structs.replace(known, node=node)


def _called(fleet: Fleet) -> Iterable[Incident]:
    """Yield the incidents for which a call for repair of the node may be made, or was made."""
    for one in fleet.incidents:
        if one.open and one.status.needs_since is not None and one.status.mode == "enforce":
            yield one


def suffers(rule: Rule, harm: RuleHarm) -> bool:
    return rule.effect in _STRONG[harm]


def begins(fleet: Fleet, harm: RuleHarm, since: datetime, now: datetime) -> dict[str, datetime]:
    """Return when each GPU began to suffer a harm, the last time that it did, if after `since`.

    An incident says so also after its rules are gone. A rule that its incident
    has not noted yet is new, whatever its date: the API server's clock is not
    ours. One whose incident is not known says so by its taint's date, and
    without a date it is new, too. An incident notes its first eviction only:
    where every rule is younger, it was taken back in between and has begun again.
    """
    untold = _untold(fleet, harm)
    young = [
        rule
        for rule in fleet.rules
        if suffers(rule, harm) and (rule.incident in untold or _after(since, rule))
    ]
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
            at = now if rule.incident in untold else rule.time_added or now
            dated[rule.gpu] = min(at, dated.get(rule.gpu, at))
    return found | {gpu: max(at, found.get(gpu, at)) for gpu, at in dated.items()}


def _untold(fleet: Fleet, harm: RuleHarm) -> set[str]:
    """Return the open incidents that have not noted when a harm began."""
    noted = attrgetter("evicting_at" if harm == "evict" else "fenced_at")
    return {one.metadata.name for one in fleet.incidents if noted(one.status) is None and one.open}


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
