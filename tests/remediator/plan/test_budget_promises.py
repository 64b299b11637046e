"""What holds for every budget, over random fleets, plans and limits."""

import random
from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from exporter.model.device import Device
from remediator.model.incident import Incident
from remediator.model.incident_status import IncidentStatus, RuleRecord
from remediator.model.taint_rule import EFFECTS, Effect, Rule
from remediator.plan.spending import RuleAction, Spending, place_of, suffers
from remediator.plan.stages import Demanded, Granted
from remediator.plan.view import Changed, Fleet, names_on
from remediator.policy.limits import GROUNDS, LIFTED, Cap, Caps, Correlation, Ground, Limits, Rate
from tests.remediator.builders import at, evictions, policy, repair_request, with_fields
from tests.remediator.plan.fleets import (
    NOW,
    an_incident,
    budget,
    desired,
    effects,
    gpu_of,
    grant,
    is_whole,
    place,
    places,
    rule,
    stored,
)

NODES = "abc"
NAMES = [f"{node}{number}" for node in NODES for number in range(2)]
EFFECT = st.sampled_from(EFFECTS)
CAUSES = st.sampled_from(["xid-95", "xid-79", "recovery-action-1"])
TIMES = st.integers(-3000, 0).map(at)
BOUNDED = Cap(30, percent=True, least=2, most=3)
CAPS = st.sampled_from([None, Cap(0), Cap(1), Cap(2), Cap(4), Cap(50, percent=True), BOUNDED])
RATES = st.none() | st.builds(Rate, st.integers(0, 4), st.just(timedelta(minutes=10)))
LIMITS_OF_HARM = st.builds(
    Caps, node=CAPS, pool=CAPS, device_class=CAPS, domain=CAPS, cluster=CAPS, rate=RATES
)
LIMITS = st.builds(
    Limits,
    evict=LIMITS_OF_HARM,
    taint=LIMITS_OF_HARM,
    correlation=st.sampled_from(
        [LIFTED.correlation, Correlation(nodes=2), Correlation(nodes=2, taint=Cap(1))]
    ),
)
PRODUCTS = st.sampled_from(["", "H100", "B200"])
DOMAINS = st.sampled_from(["", "d/1", "d/2"])
CLASSES = st.frozensets(st.sampled_from(["h100", "mig"]))


@st.composite
def rules_of(draw: st.DrawFn, name: str) -> tuple[Rule, ...]:
    """Up to three rules of one GPU."""
    found = draw(st.lists(EFFECT, max_size=3))
    return tuple(rule(name, effect, f"{name}-{n}") for n, effect in enumerate(found))


@st.composite
def all_desired_of(draw: st.DrawFn, node: str) -> tuple[Demanded, ...]:
    names = draw(st.lists(st.sampled_from(NAMES), unique=True))
    mine = [name for name in names if name.startswith(node)]
    return tuple(
        desired(
            name, rules=draw(rules_of(name)), incident=an_incident(name, draw(CAUSES), opened=NOW)
        )
        for name in mine
    )


def noted(rules: Iterable[Rule]) -> tuple[RuleRecord, ...]:
    return tuple(
        RuleRecord(taint_rule.name, taint_rule.uid, str(taint_rule.device), taint_rule.effect)
        for taint_rule in rules
    )


@st.composite
def fleets(draw: st.DrawFn) -> Fleet:
    standing = stored(*(taint_rule for name in NAMES for taint_rule in draw(rules_of(name))))
    incidents = draw(
        st.lists(
            st.builds(
                an_incident,
                st.sampled_from(NAMES),
                CAUSES,
                opened=TIMES,
                evicting_at=st.none() | TIMES,
                tainted_at=st.none() | TIMES,
                drained_at=st.none() | TIMES,
                empty_since=st.none() | TIMES,
                by_device=(st.none() | TIMES).map(evictions),
                rules=st.sampled_from([(), noted(standing)]),
                node_gone_since=st.none() | TIMES,
                request=st.none() | st.builds(repair_request, TIMES),
                closed_at=st.none() | TIMES,
            ),
            unique_by=lambda incident: incident.name,
            max_size=6,
        )
    )
    # An incident records the rules of its own GPU.
    gpus = {taint_rule.uid: taint_rule.gpu for taint_rule in standing}
    incidents = [
        with_fields(
            incident,
            status=with_fields(
                incident.status,
                rules=tuple(
                    record
                    for record in incident.status.scope.rules
                    if gpus[record.uid] == incident.spec.uuid
                ),
            ),
        )
        for incident in incidents
    ]
    known = draw(st.lists(st.sampled_from(NAMES), unique=True))
    where = {
        gpu_of(name): place(
            name, domain=draw(DOMAINS), classes=draw(CLASSES), product=draw(PRODUCTS)
        )
        for name in known
    }
    changed = draw(st.none() | TIMES)
    return Fleet(
        rules=standing,
        incidents=tuple(incidents),
        places=where,
        totals={("cluster", ""): 6, ("domain", "d/1"): 5},
        changes={"node-a": Changed(driver_at=changed)} if changed else {},
        policy_changed_at=draw(st.none() | TIMES),
        stopped=draw(st.sampled_from(["", "", "", "ann: why"])),
    )


def after(fleet: Fleet, answers: tuple[Granted, ...]) -> Fleet:
    """Return the fleet when a node's grants are carried out."""
    gpus = {answer.uuid for answer in answers}
    others = tuple(taint_rule for taint_rule in fleet.rules if taint_rule.gpu not in gpus)
    new = stored(*(taint_rule for answer in answers for taint_rule in answer.rules))
    return with_fields(fleet, rules=(*others, *new))


def of_each_harm(limits: Limits) -> tuple[tuple[RuleAction, Caps], ...]:
    return ("taint", limits.taint), ("evict", limits.evict)


def over(status: IncidentStatus) -> frozenset[Effect]:
    """Return the effects of an incident's noted rules that evict nobody now.

    Where no eviction was recorded some may go on: the status may be lost.
    """
    if status.eviction.drained_at and status.eviction.empty_since:
        return frozenset(("NoExecute", "Evict"))
    ended = status.eviction.evicting_at and not status.eviction.started_at
    return frozenset[Effect](("Evict",)) if ended else frozenset[Effect]()


def counted(fleet: Fleet, action: RuleAction) -> dict[tuple[Ground, str], int]:
    """Count GPUs per ground, in the slow and obvious way."""
    reported = [incident for incident in fleet.incidents if incident.open]
    gone = {incident.node for incident in reported if incident.status.stay.node_gone_since}
    gone -= {incident.node for incident in reported if not incident.status.stay.node_gone_since}
    empty = {
        (record.uid, effect)
        for incident in reported
        for record in incident.status.scope.rules
        if record.effect in over(incident.status)
        for effect in (record.effect, "Evict")
    }
    sick = {
        taint_rule.gpu: taint_rule.node
        for taint_rule in fleet.rules
        if suffers(taint_rule, action)
        and taint_rule.node not in gone
        and (action == "taint" or (taint_rule.uid, taint_rule.effect) not in empty)
    }
    found: dict[tuple[Ground, str], int] = {}
    for gpu, node in sick.items():
        for ground in GROUNDS:
            for name in names_on(ground, place_of(gpu, node, fleet)):
                found[ground, name] = found.get((ground, name), 0) + 1
    return found


@given(
    fleets(),
    LIMITS,
    st.tuples(*(all_desired_of(node) for node in NODES)),
    st.permutations(range(3)),
)
def test_no_limit_is_exceeded_by_new_harm_whatever_the_order_of_nodes(
    fleet: Fleet, limits: Limits, all_desired: tuple[tuple[Demanded, ...], ...], order: list[int]
) -> None:
    for index in order:
        before = fleet
        answers = budget(all_desired[index], fleet, policy(limits), NOW)
        fleet = after(fleet, answers)
        for action, caps in of_each_harm(limits):
            was, now = counted(before, action), counted(fleet, action)
            for ground, cap in caps.by_ground():
                for key, count in now.items():
                    if key[0] == ground:
                        most = cap.of(fleet.totals.get(key, 0))
                        assert count <= max(most, was.get(key, 0)), (action, key)
            sick = {taint_rule.gpu for taint_rule in before.rules if suffers(taint_rule, action)}
            new = {
                taint_rule.gpu for taint_rule in fleet.rules if suffers(taint_rule, action)
            } - sick
            if caps.rate is not None and new:
                lately = len(Spending(before, NOW).lately(action, caps))
                assert lately + len(new) <= caps.rate.count + _again(before, new, action, NOW)


def _again(fleet: Fleet, gpus: set[str], action: RuleAction, now: datetime) -> int:
    """Return how many of the GPUs have begun lately already: each counts once."""
    rate = timedelta(minutes=10)
    begun = [
        (
            incident.spec.uuid,
            incident.status.eviction.evicting_at
            if action == "evict"
            else incident.status.eviction.tainted_at,
        )
        for incident in fleet.incidents
    ]
    return len({gpu for gpu, moment in begun if moment and moment > now - rate} & gpus)


@given(fleets(), LIMITS, all_desired_of("a"))
def test_healing_is_never_held_and_what_stands_is_never_weakened(
    fleet: Fleet, limits: Limits, all_desired: tuple[Demanded, ...]
) -> None:
    answers = {desired.uuid: desired for desired in budget(all_desired, fleet, policy(limits), NOW)}

    for request in all_desired:
        standing = {rule.device: rule for rule in fleet.rules if rule.gpu == request.uuid}
        expected = {rule.device: rule for rule in request.rules}
        got = {rule.device: rule for rule in answers[request.uuid].rules}
        assert got.keys() <= expected.keys(), "a rule that should go stays"
        for device, rule_ in expected.items():
            requested, has = _rank(rule_), _rank(standing.get(device))
            given_ = _rank(got.get(device))
            assert min(requested, has) <= given_ <= requested
            assert given_ <= max(has, requested)
        if all(_rank(rule_) < _rank(standing.get(device)) for device, rule_ in expected.items()):
            assert is_whole(answers[request.uuid])


def _rank(rule: Rule | None) -> int:
    return -1 if rule is None else EFFECTS.index(rule.effect)


@given(fleets(), LIMITS, all_desired_of("a"), st.randoms(use_true_random=False))
def test_the_order_of_anything_does_not_matter(
    fleet: Fleet, limits: Limits, all_desired: tuple[Demanded, ...], chance: random.Random
) -> None:
    mixed = list(all_desired)
    rules, incidents = list(fleet.rules), list(fleet.incidents)
    for records in (mixed, rules, incidents):
        chance.shuffle(records)
    other = with_fields(fleet, rules=tuple(rules), incidents=tuple(incidents))

    first = budget(all_desired, fleet, policy(limits), NOW)
    second = budget(mixed, other, policy(limits), NOW)

    for one, two in zip(first, second, strict=True):
        assert with_fields(one, rules=sorted(one.rules, key=_device)) == (
            with_fields(two, rules=sorted(two.rules, key=_device))
        )


def _device(rule: Rule) -> Device:
    return rule.device


@given(fleets(), LIMITS, st.sampled_from(NAMES), st.data())
def test_a_larger_limit_never_grants_a_gpu_less(
    fleet: Fleet, limits: Limits, name: str, data: st.DataObject
) -> None:
    """For one GPU. Of several, the first may now take what two others on other grounds had.

    A larger cap of a node lets more of what it began lately count for the rate, on purpose.
    """
    one = desired(name, rules=data.draw(rules_of(name)))
    less = budget((one,), fleet, policy(limits), NOW)[0]
    for action, caps in of_each_harm(limits):
        fields = [cap for cap in Caps.__struct_fields__ if cap != "node" or caps.rate is None]
        field = data.draw(st.sampled_from(fields))
        larger_caps = with_fields(caps, **{field: more(getattr(caps, field))})
        larger = with_fields(limits, **{action: larger_caps})
        got = budget((one,), fleet, policy(larger), NOW)[0]
        assert _milder(less, got)


def more(cap: Cap | Rate | None) -> Cap | Rate | None:
    if isinstance(cap, Rate):
        return Rate(cap.count + 1, cap.within)
    return cap and msgspec.structs.replace(cap, amount=cap.amount + 10)


def _milder(expected: Granted, other: Granted) -> bool:
    got = {rule.device: _rank(rule) for rule in other.rules}
    return all(_rank(rule) <= got.get(rule.device, -1) for rule in expected.rules)


@given(fleets(), LIMITS, all_desired_of("a"))
def test_everything_reopens_by_itself_when_the_others_are_well_again(
    fleet: Fleet, limits: Limits, all_desired: tuple[Demanded, ...]
) -> None:
    """Hours later, the stop let go, the first GPU in line gets what no limit of 0 forbids."""
    later = NOW + timedelta(hours=3)
    well = with_fields(fleet, rules=(), stopped="")
    for request in all_desired[:1]:
        (answer,) = budget((request,), well, policy(limits), later)
        nothing = [cap for caps in (limits.taint, limits.evict) for cap in _zeros(caps)]
        assert nothing or is_whole(answer)


def _zeros(caps: Caps) -> list[object]:
    zero = [cap for _, cap in caps.by_ground() if not cap.amount]
    return [*zero, *([caps.rate] if caps.rate and not caps.rate.count else [])]


@given(fleets(), LIMITS, all_desired_of("a"))
def test_whatever_is_held_says_by_whom_and_why_and_the_rest_says_nothing(
    fleet: Fleet, limits: Limits, all_desired: tuple[Demanded, ...]
) -> None:
    for answer in budget(all_desired, fleet, policy(limits), NOW):
        assert bool(answer.deferred) == (answer.rules != answer.demanded.rules)


CALM = Limits()


@given(
    causes=st.lists(CAUSES | st.integers(0, 999).map("xid-{}".format), max_size=60),
    granted=st.lists(st.sampled_from(["NoSchedule", "NoExecute"]), min_size=20, max_size=60),
    domains=st.lists(st.sampled_from(["", "d/1", "d/2", "d/3"]), min_size=60, max_size=60),
)
def test_a_node_that_lies_never_holds_another_nodes_first_taint_or_eviction(
    causes: list[str], granted: list[Effect], domains: list[str]
) -> None:
    """It invents GPUs, causes and domains, and has used up whatever its own caps allow."""
    lies = [an_incident(f"a{number}", cause) for number, cause in enumerate(causes)]
    where = {gpu_of(f"a{n}"): place(f"a{n}", domain=domain) for n, domain in enumerate(domains)}
    fleet = Fleet(places=where | places("b0", domain="d/1"), incidents=tuple(lies))
    greedy = tuple(
        desired(f"a{number}", effect, incident=an_incident(f"a{number}", "xid-95"))
        for number, effect in enumerate(granted)
    )
    fleet = after(fleet, budget(greedy, fleet, policy(CALM), NOW))

    tainted = grant(CALM, fleet, desired("b0", "NoSchedule"))["b0"]
    fleet = after(fleet, (tainted,))
    evicted = grant(CALM, fleet, desired("b0", "NoExecute", incident=an_incident("b0")))["b0"]

    assert (effects(tainted), effects(evicted)) == (["NoSchedule"], ["NoExecute"])


def test_incidents_are_all_that_a_restart_needs() -> None:
    """Nothing is remembered: the same fleet gives the same answer in a new process."""
    lately: list[Incident] = [an_incident(name, evicting_at=at(-60)) for name in ("a0", "b0")]
    fleet = Fleet(incidents=tuple(lately), rules=stored(rule("c0", "NoSchedule")))
    slow = msgspec.structs.replace(LIFTED, evict=Caps(rate=Rate(2, timedelta(minutes=10))))

    answers = {grant(slow, fleet, desired("c0", "NoExecute"))["c0"].deferred for _ in range(2)}

    assert answers == {
        "NoExecute deferred: budget evict.rate=2 in 10m is used up (2/2 GPUs lately)"
    }
