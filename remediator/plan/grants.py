"""What of the demands about a node is granted now: each GPU in turn, under one table of brakes.

Each device keeps what it has and may keep, and no untaint waits for a brake. Everything is decided
anew at each reconcile, so what was deferred needs no queue.

The unit is a physical GPU, whatever number of slices it has. They are granted in the order of their
incidents' names, so that the answer does not depend on the order of observation. Pure.
"""

from collections.abc import Iterable
from datetime import datetime

import msgspec

from exporter.model.device import Device
from remediator.diagnose.fault import Unknown, attempt
from remediator.model.taint_rule import Effect, Rule
from remediator.plan.board import Board
from remediator.plan.brakes import (
    CALL,
    FLEET,
    OWN,
    Account,
    Brake,
    Found,
    Question,
    calls,
    is_stronger,
    least_brake,
    open_account,
    rank,
)
from remediator.plan.effects import refused_removal
from remediator.plan.spending import place_of
from remediator.plan.stages import Course, Deferral, DeferredBy, Demanded, Granted
from remediator.plan.standing_rules import with_new_names
from remediator.plan.view import Fleet, GpuPlace
from remediator.policy.table import Policy


def put_brake(
    question: Question, brake: Brake, found: Found, behind: DeferredBy | None = None
) -> Granted:
    """Return what a GPU gets under a brake; `behind` it is another one."""
    granted = question.granted

    def is_meant(device: Device) -> bool:
        return found.devices is None or device in found.devices

    limited = (
        _at_most(brake.most, rule, question.by_device.get(rule.device))
        if is_meant(rule.device)
        else rule
        for rule in granted.rules
    )
    # Those that go on are stopped by their reason alone.
    resumed = granted.resumes and bool(brake.begins & {"eviction", "request"})
    evicts = tuple(device for device in granted.evicts if not (resumed and is_meant(device)))
    return msgspec.structs.replace(
        granted,
        rules=tuple(rule for rule in limited if rule is not None),
        evicts=evicts,
        deferrals=(
            *granted.deferrals,
            Deferral(found.by or brake.by, found.why, found.until, behind),
        ),
    )


def _at_most(most: Effect | None, rule: Rule, stored: Rule | None) -> Rule | None:
    """Return what a device gets instead of a rule: never less than what it has and may keep."""
    if not is_stronger(rule, stored):
        return rule
    if rank(rule.effect) <= rank(most):
        return rule
    # A deferred taint leaves no None rule in its place: no user requested one. Nor does a rule
    # change its key or value, which some pods tolerate, for an effect that may not begin yet.
    if most is None or most == "None" or (stored and rank(stored.effect) >= rank(most)):
        return stored
    return msgspec.structs.replace(rule, effect=most)


def grant_all(
    demands: Iterable[tuple[Board, Demanded]],
    fleet: Fleet,
    policy: Policy,
    now: datetime,
    *,
    calling: bool = False,
) -> tuple[Granted, ...]:
    """Return what may be done now for the GPUs of one node.

    A GPU for which this program fails to count gets nothing new. `calling`: repairs of nodes are
    called for.
    """
    in_turn = sorted(
        demands, key=lambda each: (each[1].incident.name if each[1].incident else "", each[1].uuid)
    )
    asking = {demanded.uuid for _, demanded in in_turn}
    by_gpu: dict[str, list[Rule]] = {}
    for rule in fleet.rules:
        if rule.gpu in asking:
            by_gpu.setdefault(rule.gpu, []).append(rule)
    account = open_account(fleet, policy, now, calling=calling)
    granted = tuple(
        _grant_or_nothing(board, demanded, by_gpu.get(demanded.uuid, ()), account)
        for board, demanded in in_turn
    )
    return _join_calls(granted) if calling else granted


def _grant_or_nothing(
    board: Board, demanded: Demanded, stored: Iterable[Rule], account: Account
) -> Granted:
    granted = attempt(_grant, board, demanded, stored, account)
    if not isinstance(granted, Unknown):
        return granted
    course = Course(kind="undecided", reason=granted.why)
    # Without rules nothing is deleted: `node_decision` keeps what stands of an undecided GPU.
    nothing = Demanded(uuid=demanded.uuid, course=course, undecided=granted)
    return Granted(demanded=nothing, rules=())


def _grant(board: Board, demanded: Demanded, stored: Iterable[Rule], account: Account) -> Granted:
    """Return what one GPU gets, and count what begins for it."""
    kept = refused_removal(board, demanded.rules)
    granted = Granted(
        demanded=demanded,
        rules=demanded.rules,
        deferrals=(*demanded.deferrals, kept) if kept else demanded.deferrals,
        evicts=demanded.eviction.devices,
    )
    # Most GPUs need nothing.
    if demanded.undecided is not None or not (granted.rules or calls(granted)):
        return granted
    question = _question(board, granted, stored, account)
    if found := least_brake(question, OWN):
        question = msgspec.structs.replace(question, granted=put_brake(question, *found))
    if found := least_brake(question, FLEET):
        others = least_brake(question, (brake for brake in FLEET if brake is not found[0]))
        behind = (others[1].by or others[0].by) if others else None
        question = msgspec.structs.replace(question, granted=put_brake(question, *found, behind))
    granted, place, spending = question.granted, question.place, account.spending
    if "taint" in question.beginnings:
        spending.grant("taint", granted.uuid, place)
    if "eviction" in question.beginnings:
        spending.grant("evict", granted.uuid, place)
    # What is held back calls for no repair, and takes no room from those that may.
    waits = found or granted.repair_held_back
    return granted if waits or "call" not in question.beginnings else _grant_call(question)


def _grant_call(question: Question) -> Granted:
    """Return the same, with what defers its call for repair of the node, if anything does."""
    granted, found = question.granted, least_brake(question, CALL)
    if found is None:
        question.account.spending.grant("call", granted.uuid, question.place)
        return granted
    brake, held = found
    return msgspec.structs.replace(granted, call=Deferral(brake.by, held.why, held.until))


def _question(board: Board, granted: Granted, stored: Iterable[Rule], account: Account) -> Question:
    fleet = account.fleet
    here = {rule.device: rule for rule in (*stored, *board.rules.stored)}
    # A rule that follows tainted hardware to another name takes nothing more out of service.
    standing = with_new_names(tuple(here.values()), granted.demanded.renamed)
    return Question(
        board=board,
        granted=granted,
        stored=standing,
        place=_place(board, granted, standing, fleet),
        account=account,
    )


def _place(board: Board, granted: Granted, stored: tuple[Rule, ...], fleet: Fleet) -> GpuPlace:
    """Return where a GPU counts: on the node that it is in, and also on the pools of its rules.

    A board that was moved may still have rules of the node that it was in.
    """
    place = place_of(granted.uuid, board.node, fleet)
    named = {f"{rule.device.driver}/{rule.device.pool}" for rule in (*granted.rules, *stored)}
    if named <= place.pools:
        return place
    return msgspec.structs.replace(place, pools=place.pools | named)


def _join_calls(granted: tuple[Granted, ...]) -> tuple[Granted, ...]:
    """Return the same; where one GPU may call for repair of its node, the others there join.

    The node is repaired once for all of its GPUs, so a further one costs nothing more.
    """
    free = (each for each in granted if not (each.repair_held_back or each.call))
    nodes = {_node(each) for each in free if calls(each)}
    return tuple(
        msgspec.structs.replace(each, call=None)
        if each.call and each.call.by == "Budget" and _node(each) in nodes
        else each
        for each in granted
    )


def _node(granted: Granted) -> str:
    return granted.incident.node if granted.incident else ""
