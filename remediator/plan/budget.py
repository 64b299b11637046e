"""How much may be done now, and what is deferred and why.

The unit is a physical GPU, whatever number of slices it has. Only new disruptions and restrictions
are deferred: what stands is not weakened here, and untaints are never deferred. Where something is
deferred, each device keeps its stored effect. Checked in this order, the first that applies is
reported:

1. the emergency stop and maintenance windows: no new rule, no stronger one;
2. the caps on tainted GPUs, and correlation where the policy lets it (`correlation.taint`): a GPU
   without a taint gets none;
3. correlation, then the caps on evictions: a GPU that does not evict yet, or evicts from further
   devices after it was drained, gets NoSchedule and no more. Correlation also stops the step from
   evictions by request (`Evict`) to NoExecute;
4. the same two for a request for repair of the node, which may stop running pods whatever the
   rules of the GPU are.

Everything is decided anew at each reconcile, so what was deferred needs no queue. Device-taint
eviction ignores PodDisruptionBudgets: these budgets are the only limit on it. `spending` says what
is counted, and on which assumption. Pure.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import partial

import msgspec

from remediator.diagnose.fault import NODE_LEVEL, Unknown, attempt
from remediator.model.taint_rule import EFFECTS, EVICTING, Effect, Rule
from remediator.plan.correlation import Waves
from remediator.plan.hardware import with_new_names
from remediator.plan.spending import EFFECT_OF, Action, RuleAction, Spending, place_of, suffers
from remediator.plan.stages import Course, Deferral, DeferredBy, Demanded, Granted
from remediator.plan.view import Fleet, GpuPlace, names_on
from remediator.policy.limits import KEYS, WORDS, Caps, Limits
from remediator.policy.place import ANYWHERE, Place
from remediator.policy.table import Policy


class Brake(msgspec.Struct, frozen=True, kw_only=True):
    """A limit of the fleet that applies to one GPU now: a cap on what begins there."""

    by: DeferredBy
    why: str
    limit: Effect | None
    """What a device may still get that has less; None: nothing."""
    until: datetime | None = None
    """When time alone ends it."""


class _Request(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be granted to one GPU, and where it is."""

    granted: Granted
    stored: tuple[Rule, ...]
    """Of the same GPU, and those that follow it to another name."""
    place: GpuPlace
    known: Place
    """The same for the policy, as the node's view has it."""


def budget(
    demands: Iterable[Granted],
    fleet: Fleet,
    policy: Policy,
    now: datetime,
    places: Mapping[str, Place] | None = None,
    *,
    calling: bool = False,
) -> tuple[Granted, ...]:
    """Return what may be done now for the GPUs of one node.

    They are granted in the order of their incidents' names, so that the answer does not depend on
    the order of observation. `places` says by GPU where the policy sees it; `calling`, whether
    repairs of nodes are called for.
    """
    in_turn = sorted(
        demands, key=lambda each: (each.incident.name if each.incident else "", each.uuid)
    )
    gpus = {each.uuid for each in in_turn if _needs_grant(each)}
    stored: dict[str, tuple[Rule, ...]] = {}
    for rule in fleet.rules:
        if rule.gpu in gpus:
            stored[rule.gpu] = (*stored.get(rule.gpu, ()), rule)
    spending, waves = Spending(fleet, now), Waves(fleet, policy.limits.correlation, now)
    brakes: tuple[Callable[[_Request], Brake | None], ...] = (
        partial(_emergency_stop, fleet=fleet, policy=policy),
        partial(_maintenance_window, policy=policy, now=now),
        partial(_cap_reached, action="taint", caps=policy.limits.taint, spending=spending),
        partial(_wave_of_taints, waves=waves, spending=spending, limits=policy.limits),
        partial(_correlation, waves=waves, spending=spending),
        partial(_cap_reached, action="evict", caps=policy.limits.evict, spending=spending),
    )

    def grant(demand: Granted) -> Granted:
        known = (places or {}).get(demand.uuid, ANYWHERE)
        request = _request(demand, stored.get(demand.uuid, ()), fleet, known)
        brake = next((found for rule in brakes if (found := rule(request))), None)
        given = _limit(request, brake) if brake else demand
        for action in EFFECT_OF:
            if _is_new(action, given, request.stored, spending):
                spending.grant(action, demand.uuid, request.place)
        if calling and brake is None and _calls(demand):
            return _grant_call(request, waves, spending, policy.limits)
        return given

    granted = tuple(_or_nothing(each, grant) if _needs_grant(each) else each for each in in_turn)
    return _one_call(granted) if calling else granted


def _or_nothing(demand: Granted, grant: Callable[[Granted], Granted]) -> Granted:
    """Return what is granted; a GPU for which this program fails to count gets nothing new."""
    granted = attempt(grant, demand)
    if isinstance(granted, Unknown):
        course = Course(kind="undecided", reason=granted.why)
        nothing = Demanded(uuid=demand.uuid, course=course, undecided=granted)
        return Granted(demanded=nothing, rules=())
    return granted


def _grant_call(request: _Request, waves: Waves, spending: Spending, limits: Limits) -> Granted:
    """Return the same, with the reason why its call for repair of the node is deferred, if it is.

    A granted call costs nothing more, like an eviction that stands. A wave that comes up meanwhile
    defers it all the same, because the node has not been repaired yet.
    """
    granted, incident = request.granted, request.granted.incident
    wave = waves.wave_of(incident) if incident else None
    over = None
    if wave is None and not spending.called(granted.uuid):
        over = _over("call", limits.evict, request, spending)
    if wave is None and over is None:
        spending.grant("call", granted.uuid, request.place)
        return granted
    why = f"{_DEFERRED['call']} deferred: {wave.why}" if wave else over.why if over else ""
    by: DeferredBy = "Correlation" if wave else "Budget"
    wakes = (granted.wake_at, wave.until if wave else over.until if over else None)
    wake_at = min((at for at in wakes if at is not None), default=None)
    return msgspec.structs.replace(granted, call=Deferral(by, why), wake_at=wake_at)


def _one_call(plans: tuple[Granted, ...]) -> tuple[Granted, ...]:
    """Return the same; where one GPU may call for repair of its node, the others there join.

    The node is repaired once for all of its GPUs, so a further one costs nothing more.
    """
    free = (plan for plan in plans if not (plan.repair_held_back or plan.call))
    nodes = {_node(plan) for plan in free if _calls(plan)}
    return tuple(
        msgspec.structs.replace(plan, call=None)
        if plan.call and plan.call.by == "Budget" and _node(plan) in nodes
        else plan
        for plan in plans
    )


def _node(granted: Granted) -> str:
    return granted.incident.node if granted.incident else ""


def _needs_grant(granted: Granted) -> bool:
    """Whether there is anything to grant: most GPUs need nothing."""
    return bool(granted.rules or _calls(granted))


def _calls(granted: Granted) -> bool:
    """Whether a repair of the node is to be called for."""
    demanded = granted.demanded
    return demanded.repair.calls in NODE_LEVEL and not demanded.course.is_over


def _is_new(
    action: RuleAction, granted: Granted, stored: Iterable[Rule], spending: Spending
) -> bool:
    """Whether an action would begin on a GPU.

    After the last eviction ended it begins again on a further device, for pods that are there by
    now, and with NoExecute after evictions that wait.
    """
    devices = {rule.device for rule in granted.rules if suffers(rule, action)}
    standing = [rule for rule in stored if suffers(rule, action)]
    if not devices:
        return False
    if action == "evict" and standing and all(spending.drained(rule) for rule in standing):
        further = not devices <= {rule.device for rule in standing}
        return further or granted.resumes or _escalates(granted, standing)
    return not standing


def _escalates(granted: Granted, stored: Iterable[Rule]) -> bool:
    """Whether pods that were evicted by request would be deleted by NoExecute."""
    requested = {rule.device for rule in stored if rule.effect == "Evict"}
    return any(rule.effect == "NoExecute" and rule.device in requested for rule in granted.rules)


def _request(granted: Granted, stored: tuple[Rule, ...], fleet: Fleet, known_as: Place) -> _Request:
    known = fleet.places.get(granted.uuid)
    nodes = [rule.node for rule in granted.rules]
    nodes += [granted.incident.node] if granted.incident else []
    nodes += [known.node] if known else [""]
    place = place_of(granted.uuid, nodes[0], fleet)
    named = {f"{rule.device.driver}/{rule.device.pool}" for rule in (*granted.rules, *stored)}
    if not named <= place.pools:
        place = msgspec.structs.replace(place, pools=place.pools | named)
    # A rule that follows tainted hardware to another name takes nothing more out of service.
    stored = with_new_names(stored, granted.demanded.renamed)
    return _Request(granted=granted, stored=stored, place=place, known=known_as)


def _emergency_stop(request: _Request, *, fleet: Fleet, policy: Policy) -> Brake | None:
    stop = fleet.stopped or policy.stopped
    if not stop or not _would_begin(request):
        return None
    return Brake(
        by="EmergencyStop", why=f"new actions deferred: emergency stop: {stop}", limit=None
    )


def _maintenance_window(request: _Request, *, policy: Policy, now: datetime) -> Brake | None:
    if not _would_begin(request):
        return None
    place = _policy_place(request)
    why, until = policy.pause(place, now), policy.pause_ends(place, now)
    if not why:
        return None
    return Brake(by="Maintenance", why=f"new actions deferred: {why}", limit=None, until=until)


def _would_begin(request: _Request) -> bool:
    """Whether anything would begin: also a call for repair of the node, which others act on."""
    stored = {rule.device: rule for rule in request.stored}
    raises = any(_is_stronger(rule, stored.get(rule.device)) for rule in request.granted.rules)
    return raises or _calls(request.granted)


def _is_stronger(rule: Rule, stored: Rule | None) -> bool:
    """Whether a rule does more than the stored one. Another key is tolerated by other pods."""
    if stored is None:
        return True
    ranks = EFFECTS.index(rule.effect), EFFECTS.index(stored.effect)
    return ranks[0] > ranks[1] or (ranks[0] == ranks[1] and rule.fault != stored.fault)


def _policy_place(request: _Request) -> Place:
    """Return where the policy sees a GPU.

    The view remembers places that are no longer published; the desired rules name the devices that
    they taint.
    """
    named, known = [pool.partition("/") for pool in request.place.pools], request.known
    rules = (*request.granted.rules, *request.stored)
    return Place(
        node=request.place.node,
        drivers=known.drivers | {driver for driver, _, _ in named},
        pools=known.pools | {pool for _, _, pool in named},
        device_classes=known.device_classes | request.place.classes,
        devices=known.devices | {request.granted.uuid, *(rule.uuid for rule in rules)},
    )


def _cap_reached(
    request: _Request, *, action: RuleAction, caps: Caps, spending: Spending
) -> Brake | None:
    if not _is_new(action, request.granted, request.stored, spending):
        return None
    return _over(action, caps, request, spending)


def _wave_of_taints(
    request: _Request, *, waves: Waves, spending: Spending, limits: Limits
) -> Brake | None:
    """Return why a taint waits: one cause on many nodes, and enough of the product is tainted."""
    incident, cap = request.granted.incident, limits.correlation.taint
    if (
        cap is None
        or incident is None
        or not _is_new("taint", request.granted, request.stored, spending)
    ):
        return None
    for name in names_on("product", request.place):
        used = spending.used("taint", "product", name)
        limit = cap.of(spending.total("product", name))
        wave = waves.same_cause(incident) if used >= limit else None
        if wave is not None:
            why = f"NoSchedule deferred: {wave.why}, and {used} GPUs of {name} are tainted"
            why += f" (budget correlation.taint={cap}: {limit})"
            return Brake(by="Correlation", why=why, limit="None", until=wave.until)
    return None


def _correlation(request: _Request, *, waves: Waves, spending: Spending) -> Brake | None:
    granted, incident = request.granted, request.granted.incident
    begins = _is_new("evict", granted, request.stored, spending)
    begins = begins or _escalates(granted, request.stored)
    if incident is None or not begins:
        return None
    found = waves.wave_of(incident)
    if found is None:
        return None
    why = f"{_word_of(granted, 'evict')} deferred: {found.why}"
    return Brake(by="Correlation", why=why, limit="NoSchedule", until=found.until)


_MOST: Mapping[Action, Effect] = {"taint": "None", "evict": "NoSchedule", "call": "NoExecute"}
"""What costs less than an action."""
_DEFERRED: Mapping[Action, str] = {
    "taint": "NoSchedule",
    "evict": "NoExecute",
    "call": "call for repair",
}
_CAPPED_BY: Mapping[Action, str] = {"taint": "taint", "evict": "evict", "call": "evict"}
"""The action whose caps count for this one."""


def _word_of(granted: Granted, action: Action) -> str:
    """Return the word for an action that is deferred: `Evict` where no NoExecute is demanded."""
    only_evict = {rule.effect for rule in granted.rules} & EVICTING == {"Evict"}
    return "Evict" if action == "evict" and only_evict else _DEFERRED[action]


def _over(action: Action, caps: Caps, request: _Request, spending: Spending) -> Brake | None:
    """Return which cap one more GPU would exceed, None when it fits under all of them.

    What began on a node within the time of the rate also counts in that node's cap. So a node that
    evicts again and again uses no more of the cluster's rate than its cap.
    """
    deferred = f"{_word_of(request.granted, action)} deferred: budget {_CAPPED_BY[action]}"
    for ground, cap in caps.by_ground():
        for name in sorted(names_on(ground, request.place)):
            used, limit = spending.used(action, ground, name), cap.of(spending.total(ground, name))
            mine = request.granted.uuid
            begun = spending.lately_on(action, caps, name, mine) if ground == "node" else []
            used += len(begun)
            used -= spending.counts_on(action, mine, ground, name)
            if used >= limit:
                where = f"{WORDS[ground]} {name}".strip()
                where += f", {len(begun)} of them lately" if begun else ""
                why = f"{deferred}.{KEYS[ground]}={cap} is used up ({used}/{limit} GPUs of {where})"
                # Time alone makes room for one more GPU in a node's cap.
                enough = caps.rate is not None and used - limit < len(begun)
                reopens = begun[used - limit] + caps.rate.within if enough and caps.rate else None
                return Brake(by="Budget", why=why, limit=_MOST[action], until=reopens)
    rate = caps.rate
    begins = spending.lately(action, caps, but=request.granted.uuid if action == "call" else "")
    if rate is None or len(begins) < rate.count:
        return None
    reopens = begins[-rate.count] + rate.within if rate.count else None
    why = f"{deferred}.rate={rate} is used up ({len(begins)}/{rate.count} GPUs lately)"
    return Brake(by="Budget", why=why, limit=_MOST[action], until=reopens)


def _limit(request: _Request, brake: Brake) -> Granted:
    """Return what a GPU gets under a brake: each device keeps what it has and may keep."""
    granted = request.granted
    stored = {rule.device: rule for rule in request.stored}
    kept = (_at_most(brake.limit, rule, stored.get(rule.device)) for rule in granted.rules)
    wakes = (at for at in (granted.wake_at, brake.until) if at is not None)
    return msgspec.structs.replace(
        granted,
        rules=tuple(rule for rule in kept if rule is not None),
        evicts=() if granted.resumes else granted.evicts,
        deferrals=(*granted.deferrals, Deferral(brake.by, brake.why)),
        wake_at=min(wakes, default=None),
    )


def _at_most(most: Effect | None, rule: Rule, stored: Rule | None) -> Rule | None:
    """Return what a device gets instead of a rule: never less than what it has and may keep."""
    if not _is_stronger(rule, stored):
        return rule
    if most is None:
        return stored
    level, allowed = EFFECTS.index(rule.effect), EFFECTS.index(most)
    if level <= allowed:
        return rule
    has = EFFECTS.index(stored.effect) if stored else -1
    # A deferred taint leaves no None rule in its place: no user requested one. Nor does a rule
    # change its key or value, which some pods tolerate, for an effect that may not begin yet.
    if most == "None" or allowed <= has:
        return stored
    return msgspec.structs.replace(rule, effect=most)
