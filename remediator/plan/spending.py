"""What is under way, what began lately and what stands, counted per ground and per time. Pure.

The unit is one physical GPU. Three things are counted, each for another limit:

- *Evicting now* (`evict`): a rule of ours evicts (Evict or NoExecute), and the GPU is not Drained:
  the incident has seen no pod on it, and has recorded every such rule. Under Evict it counts while
  evictions are requested and the time for them is not over, under NoExecute while it removes a pod.
- *Called for now* (`call`): it evicts now, or its incident records since when a repair of its node
  may be called for, for `CALL_LASTS`.
- *Standing* (`taint`): a rule of ours keeps new work away, Drained or not.

GPUs of nodes that were taken away are none of these: they are no capacity and hold no pod. What
began lately is counted by date, for the rates; of one node no more than the node's own cap, so that
it cannot use up the cluster's. What began there keeps its place in that cap meanwhile, also when
its rule is gone, because its name belongs to another board now or it is drained already.

An incident remembers the DeviceClasses of a GPU: without that a class would be refilled by the very
pods that leave it. All of it is read from what is stored, so a restart counts the same. One worker
decides node after node and the cache receives its own writes, so the rules of the fleet are
current: what the node before this one was granted is in them. For what another leader wrote,
`controller/takeover` waits.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Literal

import msgspec

from remediator.model.incident import Incident
from remediator.model.incident_status import (
    EVICTION_BLOCKED,
    IncidentStatus,
    RepairRequest,
)
from remediator.model.taint_rule import EFFECTS, Effect, Rule
from remediator.plan.clocks import are_interrupted
from remediator.plan.view import Emptied, Fleet, GpuPlace, names_on
from remediator.plan.words import MODES
from remediator.policy.limits import KEYS, WORDS, Caps, Ground, Limits

RuleAction = Literal["taint", "evict"]
Action = Literal["taint", "evict", "call"]
"""`call`: others may reboot or replace the node for this GPU, which stops all pods on it."""
EFFECT_OF: Mapping[RuleAction, Effect] = {"taint": "NoSchedule", "evict": "Evict"}
"""The effect with which an action begins."""
CALL_LASTS = timedelta(hours=2)
"""An hour of waiting for neighbours (the deadline as shipped), and one for the repair system to
act. A call that is not acted on by then waits for a part or a user, and defers no other call."""
_STRONG: Mapping[RuleAction, frozenset[str]] = {
    action: frozenset(EFFECTS[EFFECTS.index(effect) :]) for action, effect in EFFECT_OF.items()
}
_INCLUDED: Mapping[Action, tuple[Action, ...]] = {
    "taint": ("taint",),
    "evict": ("evict", "call"),
    "call": ("call",),
}
"""What an action counts as."""
_NONE = frozenset[str]()


class Full(msgspec.Struct, frozen=True):
    """A cap that one more GPU would exceed."""

    why: str
    """With the cap's key first, as the policy file has it."""
    until: datetime | None
    """When time alone makes room, if it does."""


class Spending:
    """What one tick may still do is the limits less this; grants are added as they are made."""

    def __init__(self, fleet: Fleet, now: datetime) -> None:
        self._fleet = fleet
        self._now = now
        self._nodes: dict[Action, dict[str, str]] = {}
        """By GPU that counts now: the node that its rule or incident names."""
        self._standing: dict[Action, dict[str, GpuPlace]] = {}
        self._counts: dict[tuple[Action, Ground, str], int] = {}
        self._begun: dict[tuple[Action, timedelta], dict[str, datetime]] = {}
        self._granted: dict[Action, dict[str, GpuPlace]] = {action: {} for action in _INCLUDED}
        self._remembered: dict[str, frozenset[str]] | None = None
        self._node_by_gpu: dict[str, str] | None = None
        self._away: frozenset[str] | None = None
        self._emptied: frozenset[Emptied] | None = None

    def count(self, action: Action, ground: Ground, name: str) -> int:
        """Return how many GPUs of a ground count now."""
        key = (action, ground, name)
        if key not in self._counts:
            places = self._places(action).values()
            here = (name in names_on(ground, place) for place in places)
            self._counts[key] = len(places) if ground == "cluster" else sum(here)
        return self._counts[key]

    def total(self, ground: Ground, name: str) -> int:
        """Return how many GPUs a ground has, 0 when they could not be counted.

        A GPU that an open incident was claimed through a class for is still of that class.
        """
        count = self._fleet.totals.get((ground, name), 0)
        if ground != "class":
            return count
        left = (gpu for gpu, classes in self._classes().items() if name in classes)
        return count + sum(name not in place_of(gpu, "", self._fleet).classes for gpu in left)

    def is_called_for(self, gpu: str) -> bool:
        """Whether a repair of its node may be called for already, for a GPU."""
        return any(call.spec.uuid == gpu for call, _ in _calls_for_repair(self._fleet))

    def is_drained(self, rule: Rule) -> bool:
        """Whether no pod is evicted under a stored rule any more: seen, and recorded as it is now.

        A rule that was raised since its incident recorded it evicts by its new effect.
        """
        return self._is_emptied((rule.uid, rule.effect))

    def _is_emptied(self, rule: Emptied) -> bool:
        if self._emptied is None:
            statuses = (incident.status for incident in self._fleet.incidents if incident.open)
            self._emptied = frozenset(
                rule for status in statuses for rule in emptied_rules(status, self._now)
            )
        return rule in self._emptied

    def lately(self, action: Action, caps: Caps, but: str = "") -> list[datetime]:
        """Return when each GPU that counts for a rate began, sorted.

        Of one node no more count than its cap allows: the youngest.
        """
        by_node: defaultdict[str, list[datetime]] = defaultdict(list)
        for gpu, at in self._lately(action, caps).items():
            if gpu == but:
                continue
            by_node[self._node_of(action, gpu)].append(at)
        counted: list[datetime] = []
        for node, begun in by_node.items():
            most = None if caps.node is None else caps.node.of(self.total("node", node))
            counted += sorted(begun, reverse=True)[:most]
        return sorted(counted)

    def _lately_on(self, action: Action, caps: Caps, node: str, gpu: str) -> list[datetime]:
        """Return when others of a node began in the time of the rate and no longer count.

        They count in the node's cap as well. So a node that evicts again and again uses no more of
        the cluster's rate than its cap.
        """
        here = {*self._places(action), gpu}
        return sorted(
            at
            for spender, at in self._lately(action, caps).items()
            if spender not in here and self._node_of(action, spender) == node
        )

    def grant(self, action: Action, gpu: str, place: GpuPlace) -> None:
        """Count a GPU that begins now."""
        for included in _INCLUDED[action]:
            counted = gpu in self._current(included)
            if gpu in self._granted[included] or (counted and not included == action == "evict"):
                continue
            # Eviction may begin again, on a further device of a GPU that counts already. It counts
            # in the rate once more, but not in the caps.
            self._granted[included][gpu] = place
            if counted:
                continue
            if included in self._standing:
                self._standing[included][gpu] = place
            for kind, ground, name in self._counts:
                if kind == included and name in names_on(ground, place):
                    self._counts[kind, ground, name] += 1

    def full_cap(self, action: Action, caps: Caps, gpu: str, place: GpuPlace) -> Full | None:
        """Return which cap one more GPU would exceed, None when it fits under all of them."""
        for ground, cap in caps.by_ground():
            for name in sorted(names_on(ground, place)):
                over = self._lately_on(action, caps, name, gpu) if ground == "node" else []
                limit = cap.of(self.total(ground, name))
                others = self.count(action, ground, name)
                # A GPU that counts already takes no room from itself, such as one to which a pod
                # has come back after it was drained.
                mine = self._places(action).get(gpu)
                others -= int(mine is not None and name in names_on(ground, mine))
                used = others + len(over)
                if used >= limit:
                    where = f"{WORDS[ground]} {name}".strip()
                    where += f", {len(over)} of them lately" if over else ""
                    why = f"{KEYS[ground]}={cap} is used up ({used}/{limit} GPUs of {where})"
                    # Time makes room in a node's cap once enough of the oldest leave the rate.
                    leaves = over[used - limit] if used - limit < len(over) else None
                    return Full(why, leaves + caps.rate.within if leaves and caps.rate else None)
        return self._full_rate(action, caps, gpu)

    def _full_rate(self, action: Action, caps: Caps, gpu: str) -> Full | None:
        # The rate of calls counts evictions as well: that of its own GPU must not defer a call.
        begins = self.lately(action, caps, but=gpu if action == "call" else "")
        rate = caps.rate
        if rate is None or len(begins) < rate.count:
            return None
        # Not the oldest: after the rate was lowered, more may have begun than it allows.
        reopens = begins[-rate.count] + rate.within if rate.count else None
        return Full(f"rate={rate} is used up ({len(begins)}/{rate.count} GPUs lately)", reopens)

    def fullest(self, action: Action, caps: Caps) -> Iterator[tuple[str, int, int]]:
        """Yield (ground or `rate`, used, limit), of each ground for the one that is fullest.

        The cluster and the rate always; another ground only while anything counts there.
        """
        for ground, cap in caps.by_ground():
            places = self._places(action).values()
            names = {name for place in places for name in names_on(ground, place)}
            names |= {""} if ground == "cluster" else set[str]()
            found = [
                (self.count(action, ground, name), cap.of(self.total(ground, name)))
                for name in names
            ]
            if found:
                used, limit = max(found, key=lambda entry: (entry[0] / max(entry[1], 1), entry))
                yield KEYS[ground], used, limit
        if caps.rate is not None:
            yield "rate", len(self.lately(action, caps)), caps.rate.count

    def _lately(self, action: Action, caps: Caps) -> dict[str, datetime]:
        """Return when each GPU began within the time of the rate."""
        if caps.rate is None:
            return {}
        key = action, caps.rate.within
        if key not in self._begun:
            since = self._now - caps.rate.within
            begun = begins(self._fleet, "taint" if action == "taint" else "evict", since, self._now)
            if action == "call":
                for incident in self._fleet.incidents:
                    at = incident.status.repair.requested_at
                    if at is not None and at > since:
                        gpu = incident.spec.uuid
                        begun[gpu] = max(at, begun.get(gpu, at))
            # A date later than now (another clock) counts as now: the action has begun, and the
            # rate cannot be computed from a date in the future.
            self._begun[key] = {gpu: min(at, self._now) for gpu, at in begun.items()}
        return self._begun[key] | dict.fromkeys(self._granted[action], self._now)

    def _node_of(self, action: Action, gpu: str) -> str:
        """Return the node on which a GPU began."""
        if gpu in self._granted[action]:
            return self._granted[action][gpu].node
        if self._node_by_gpu is None:
            nodes = {incident.spec.uuid: incident.node for incident in self._fleet.incidents}
            self._node_by_gpu = nodes | {rule.gpu: rule.node for rule in self._fleet.rules}
        return self._node_by_gpu.get(gpu, "")

    def _current(self, action: Action) -> dict[str, str]:
        """Return the GPUs that count now without what this tick has granted, with their nodes."""
        if action not in self._nodes:
            self._nodes[action] = dict(self._counting(action))
        return self._nodes[action]

    def _counting(self, action: Action) -> Iterator[tuple[str, str]]:
        if action == "call":
            for call, request in _calls_for_repair(self._fleet):
                recent = self._now - request.first_time < CALL_LASTS
                if recent and call.node not in self._gone():
                    yield call.spec.uuid, call.node
        known: RuleAction = "taint" if action == "taint" else "evict"
        for gpu, node, rule in self._standing_rules():
            # A pod may be back on a drained GPU before its incident records it. To count it only
            # then would let the next GPU be evicted from in this decision.
            empty = (
                known == "evict" and self._is_emptied(rule) and rule not in self._fleet.filled_again
            )
            over = node in self._gone() or empty
            if rule[1] in _STRONG[known] and not over:
                yield gpu, node

    def _standing_rules(self) -> Iterator[tuple[str, str, Emptied]]:
        """Yield of each rule its GPU, its node, and its UID with its effect.

        While none are served those that incidents record still count: they may stand, and a call
        for repair must not take their room.
        """
        for rule in self._fleet.rules:
            yield rule.gpu, rule.node, (rule.uid, rule.effect)
        for incident in () if self._fleet.rules_served else self._fleet.incidents:
            for record in incident.status.scope.rules if incident.open else ():
                yield incident.spec.uuid, incident.node, (record.uid, record.effect)

    def _gone(self) -> frozenset[str]:
        """Return the nodes that were taken away, as all of their open incidents record.

        An incident that cannot be read or written keeps that record when its node is back. The node
        that is decided about is not among them if it is back: its incidents record it next.
        """
        if self._away is None:
            pairs = [
                (incident.node, incident.status)
                for incident in self._fleet.incidents
                if incident.open
            ]
            away = {node for node, status in pairs if status.stay.node_gone_since is not None}
            there = {node for node, status in pairs if status.stay.node_gone_since is None}
            self._away = frozenset(away - there - {self._fleet.seen_node})
        return self._away

    def _places(self, action: Action) -> dict[str, GpuPlace]:
        """Return where the GPUs that count now are; read only where a cap is set."""
        if action not in self._standing:
            found = self._current(action).items()
            known = {gpu: self._place(gpu, node) for gpu, node in found}
            self._standing[action] = self._granted[action] | known
        return self._standing[action]

    def _place(self, gpu: str, node: str) -> GpuPlace:
        """Return where a GPU counts: also on the classes that its pods held it through."""
        place, left = place_of(gpu, node, self._fleet), self._classes().get(gpu, _NONE)
        if left <= place.classes:
            return place
        return msgspec.structs.replace(place, classes=place.classes | left)

    def _classes(self) -> dict[str, frozenset[str]]:
        """Return the DeviceClasses that open incidents remember, by GPU."""
        if self._remembered is None:
            self._remembered = {
                incident.spec.uuid: frozenset(incident.status.policy.device_classes)
                for incident in self._fleet.incidents
                if incident.status.policy.device_classes
                and incident.open  # few have any, and this is called often
            }
        return self._remembered


class Used(msgspec.Struct, frozen=True):
    """How full one limit is."""

    budget: RuleAction
    ground: str
    """As the policy file calls it: `deviceClass`, `cluster`, `rate`."""
    used: int
    limit: int
    """Both in GPUs."""


def usage(fleet: Fleet, limits: Limits, now: datetime) -> tuple[Used, ...]:
    """Return how full each limit is, for users: of a ground, the fullest (see `fullest`)."""
    spending = Spending(fleet, now)
    of_each: tuple[tuple[RuleAction, Caps], ...] = ("evict", limits.evict), ("taint", limits.taint)
    return tuple(
        Used(action, *figures)
        for action, caps in of_each
        for figures in spending.fullest(action, caps)
    )


def place_of(gpu: str, node: str, fleet: Fleet) -> GpuPlace:
    """Return where a GPU is. A rule's own node outranks the node of the GPU's slices."""
    known = fleet.places.get(gpu)
    if known is None:
        return GpuPlace(node=node)
    # Else a node that publishes the GPU of another would move what that one costs.
    return known if known.node == node else msgspec.structs.replace(known, node=node)


def _calls_for_repair(fleet: Fleet) -> Iterable[tuple[Incident, RepairRequest]]:
    """Yield the incidents for which a repair of the node may be called for."""
    for incident in fleet.incidents:
        request = incident.status.repair.request
        if (
            request is not None
            and incident.open
            and incident.status.policy.mode == MODES["enforce"]
        ):
            yield incident, request


def suffers(rule: Rule, action: RuleAction) -> bool:
    return rule.effect in _STRONG[action]


def begins(fleet: Fleet, action: RuleAction, since: datetime, now: datetime) -> dict[str, datetime]:
    """Return when each GPU began to suffer an action, the last time that it did, if after `since`.

    The incident records this date and keeps it after its rules are gone. A rule that its incident
    has not recorded yet is new, whatever its date: the API server's clock is not ours. If the
    incident of a rule is not known, the taint's date counts; without a date the rule is new. An
    incident records only its first eviction. So if all of its evicting rules are younger than
    `since`, the eviction stopped in between and has begun again.
    """
    unrecorded = _incidents_without_date(fleet, action)
    young = [
        rule
        for rule in fleet.rules
        if suffers(rule, action)
        and (rule.incident in unrecorded or rule.time_added is None or rule.time_added > since)
    ]
    unnoted = {rule.incident for rule in young}
    again = set[str]()
    if action == "evict":
        # The incidents whose evicting rules all have a date, and one after `since`.
        again = {rule.incident for rule in young if rule.time_added is not None}
        again -= {
            rule.incident
            for rule in fleet.rules
            if suffers(rule, "evict") and (rule.time_added is None or rule.time_added <= since)
        }
    found: dict[str, datetime] = {}
    for incident in fleet.incidents:
        at = (
            incident.status.eviction.evicting_at
            if action == "evict"
            else incident.status.eviction.tainted_at
        )
        if at is not None:
            if at > since or incident.metadata.name not in again:
                unnoted.discard(incident.metadata.name)
            if at > since:
                found[incident.spec.uuid] = max(at, found.get(incident.spec.uuid, at))
    dated: dict[str, datetime] = {}
    for rule in young:
        if rule.incident in unnoted:
            at = now if rule.incident in unrecorded else rule.time_added or now
            dated[rule.gpu] = min(at, dated.get(rule.gpu, at))
    return found | {gpu: max(at, found.get(gpu, at)) for gpu, at in dated.items()}


def _incidents_without_date(fleet: Fleet, action: RuleAction) -> set[str]:
    """Return the open incidents that have not noted when an action began."""
    noted = attrgetter("evicting_at" if action == "evict" else "tainted_at")
    return {
        incident.metadata.name
        for incident in fleet.incidents
        if noted(incident.status.eviction) is None and incident.open
    }


def emptied_rules(status: IncidentStatus, now: datetime) -> Iterator[Emptied]:
    """Yield the rules of an open incident that evict and under which no pod is left to evict.

    Under Evict these include rules that evict no pod now, and rules whose time is over: a pod that
    waits for a PodDisruptionBudget waits for as long as its owner likes. Under NoExecute, rules
    where nothing that is done removes any of the pods that are left (`evictions`).
    """
    drained = status.eviction.drained_at is not None and status.eviction.empty_since is not None
    blocked = {
        condition.reason
        for condition in status.conditions
        if (condition.type, condition.status) == (EVICTION_BLOCKED, "True")
    }
    waits = bool(blocked) or are_interrupted(status, now)
    stay = "PodsStay" in blocked
    over = {"NoExecute", "Evict"} if drained or stay else {"Evict"} if waits else set[str]()
    for rule in status.scope.rules:
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


def compare_emptied(before: IncidentStatus, after: IncidentStatus, now: datetime) -> Turned:
    """Return which rules an incident will call emptied, and did not, and the other way round."""
    old, new = frozenset(emptied_rules(before, now)), frozenset(emptied_rules(after, now))
    return Turned(filled=old - new, emptied=new - old)
