"""Which stored rules may stay, and which names they follow.

A rule selects a device by its name, and names move: boards are renumbered, swapped and cut anew. As
long as an incident is open, each device that its node publishes of its tainted hardware
(`hardware`) has a rule, whatever else is known or deferred. Such a rule only keeps new work away:
to evict needs fresh evidence. What the policy or a user has set free since is no such hardware: a
taint of it is a new one, under every brake.

A rule goes for four reasons: verified recovery (`recovery`), proof of another UUID under its name
(or that its board is elsewhere), a node gone for a week (`recovery`), and a user: a lowered policy,
an intent. One that is deleted by hand is made again. Here are the proofs and the policy.
"""

from collections.abc import Iterable
from datetime import datetime

import msgspec

from exporter.model.resource_slices import SliceDevice
from remediator.diagnose.fault import Unknown
from remediator.diagnose.scope import hardware_of, is_displaced, is_unplaced
from remediator.model.incident import Incident
from remediator.model.incident_status import Hardware
from remediator.model.taint_rule import EFFECTS, RESTRICTION, Effect, Rule, milder, restricts
from remediator.plan import hardware
from remediator.plan.board import Board
from remediator.plan.effects import Demand
from remediator.plan.words import class_of, some
from remediator.policy.table import Policy


class Taints(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of a GPU that stand, under the names that its hardware has now."""

    kept: tuple[Rule, ...] = ()
    """All that may stay."""
    firm: tuple[Rule, ...] = ()
    """Those of them whose hardware is not recorded as free: a later source may name another slice.
    """
    renamed: tuple[Rule, ...] = ()
    """Those that follow tainted hardware to another name."""
    parts: tuple[Hardware, ...] = ()
    """The hardware that the incident has tainted."""
    refused: tuple[Rule, ...] = ()
    """Those that would follow it, and that the API server refuses to store."""
    unsettled: tuple[Rule, ...] = ()
    """Those that would follow it into a pool that both of two policies may only observe."""
    extends: bool = False
    """A rule will be created where nothing keeps work away now."""


def follow_names(  # noqa: PLR0917 - the facts, and when
    board: Board,
    incident: Incident,
    standing: tuple[Rule, ...],
    demands: tuple[Demand, ...],
    policy: Policy,
    now: datetime,
) -> Taints:
    """Return what stands of an incident, each part of its hardware under each of its names."""
    parts = hardware.tainted_hardware(board, incident, now, demands)
    parts = hardware.without_other_slices(board, incident, parts, standing, demands, now)
    tainted = [part for part in parts if restricts(part.effect)]
    found, unsettled = _rules_under_new_names(board, incident, tainted, standing, policy)
    refused = tuple(rule for rule in found if board.rules.refusal(rule.device))
    renamed = tuple(rule for rule in found if rule not in refused)
    has = {rule.device for rule in board.rules.stored if restricts(rule.effect)}
    firm = (rule for rule in standing if not hardware.is_free(board, incident, rule, demands))
    return Taints(
        kept=with_new_names(standing, renamed),
        firm=with_new_names(tuple(firm), renamed),
        renamed=renamed,
        refused=refused,
        unsettled=unsettled,
        parts=_without_freed(board, incident, parts, policy),
        extends=any(rule.device not in has for rule in renamed),
    )


def rules_that_may_stay(board: Board, policy: Policy) -> tuple[Rule, ...]:
    """Return the stored rules that may stay, each within what the policy allows its class."""
    # No rule stays under a name that is proven to stand for other hardware, or on a node that its
    # board has left.
    proper = [
        without_disruption(rule, board)
        for rule in board.rules.stored
        if (not is_displaced(rule, board.inventory) or _may_be_the_failed_one(rule, board))
        and not (board.presence.left and rule.node == board.node)
    ]
    # A milder file of a new leader may be an older one: until both agree it removes no taint.
    if policy.disagrees:
        return tuple(proper)
    capped: list[tuple[Rule, Effect | None]] = [
        (rule, _ceiling(rule, board, policy)) for rule in proper
    ]
    return tuple(
        msgspec.structs.replace(rule, effect=milder(rule.effect, ceiling))
        for rule, ceiling in capped
        if ceiling is not None
    )


def _may_be_the_failed_one(rule: Rule, board: Board) -> bool:
    """Whether a slice was made anew under a rule's name, and nothing says of which memory.

    The incident has recorded which memory has failed. Once the node's report or the name shows
    where the new slice is, that slice has a rule of its own or none.
    """
    recorded = any(
        part.placement
        for incident in board.incidents
        if incident.open
        for part in incident.status.scope.hardware
    )
    return (rule.fault == "contained" and recorded) and any(
        device.device == rule.device and is_unplaced(device, board.gpu)
        for device in board.inventory
        if board.uuid == device.parent_uuid
    )


def displaced_rules(board: Board, policy: Policy) -> tuple[Rule, ...]:
    """Return the rules whose names stand for other hardware now: their own is still to be found."""
    return tuple(
        rule
        for rule in board.rules.stored
        if not board.presence.left
        and is_displaced(rule, board.inventory)
        and (policy.disagrees or _ceiling(rule, board, policy))
    )


def _ceiling(rule: Rule, board: Board, policy: Policy) -> Effect | None:
    """Return the strongest effect that a stored rule may keep, None for no rule.

    By the pool of its own device, whatever others publish. While the GPU is Unknown every class of
    its incident may still stand, and the rule names the worst alone.
    """
    classes = {rule.fault}
    if isinstance(board.verdict, Unknown):
        classes |= {name for it in board.incidents if it.open for name in it.status.fault.classes}
    place = board.place.within(rule.device.driver, rule.device.pool)
    rows = [policy.row(class_of(name), place) for name in classes]
    found: list[Effect] = [
        row.highest if row.mode == "enforce" else "None"
        for row in rows
        if row.highest != "observe" and row.mode in {"enforce", "dry-run"}
    ]
    return max(found, key=EFFECTS.index) if found else None


def _rules_under_new_names(
    board: Board,
    incident: Incident,
    parts: Iterable[Hardware],
    standing: Iterable[Rule],
    policy: Policy,
) -> tuple[tuple[Rule, ...], tuple[Rule, ...]]:
    """Return the rules for devices of tainted hardware that nothing keeps work away from now.

    Only on the incident's own node: on another one a board is what that node's report lists.
    What the policy lets no class taint any more stays without a rule, and so does all while none
    are served. While two policies disagree only a pool counts in which the incident has had a rule:
    in another one both may only observe. Rules for those that wait for that come second.
    """
    if _cannot_follow(board, incident):
        return (), ()
    has = {rule.device for rule in standing if restricts(rule.effect)}
    found, unsettled = dict[str, Rule](), dict[str, Rule]()
    names = (*(record.device for record in incident.status.scope.rules), *map(str, has))
    pools = {name.rpartition("/")[0] for name in names} if policy.disagrees else set[str]()
    for part, device in hardware.devices_of(parts, board):
        if device.device in has:
            continue
        rule = _rule(board, incident, part, device)
        name, ceiling = str(device.device), _ceiling(rule, board, policy)
        if restricts(ceiling or "None") or name.rpartition("/")[0] in pools:
            found[name] = rule
        elif policy.disagrees:
            unsettled[name] = rule
    waits = unsettled.keys() - found.keys()
    return tuple(found[name] for name in sorted(found)), tuple(unsettled[n] for n in sorted(waits))


def _cannot_follow(board: Board, incident: Incident) -> bool:
    """Whether a device without a rule proves nothing, and none can be made for it."""
    away = incident.node != board.node or not board.rules.served
    return away or bool(board.trust.refusal("rebind"))


def _without_freed(
    board: Board, incident: Incident, parts: tuple[Hardware, ...], policy: Policy
) -> tuple[Hardware, ...]:
    """Return the parts; one of which the policy lets each device be free is tainted no more."""
    if policy.disagrees or _cannot_follow(board, incident):
        return parts
    has = {rule.device for rule in board.rules.stored if restricts(rule.effect)}
    tainted = [part for part in parts if restricts(part.effect)]
    found = [
        (
            part,
            device.device in has
            or restricts(_ceiling(_rule(board, incident, part, device), board, policy) or "None"),
        )
        for part, device in hardware.devices_of(tainted, board)
    ]
    # One pool may only observe what another one taints.
    kept = [part for part, may_be_tainted in found if may_be_tainted]
    freed = [part for part, _ in found if part not in kept]
    return hardware.set_free(parts, freed, incident)


def with_new_names(rules: tuple[Rule, ...], renamed: tuple[Rule, ...]) -> tuple[Rule, ...]:
    """Return rules, one for each device, with those of new names in their places."""
    anew = {rule.device for rule in renamed}
    return (*(rule for rule in rules if rule.device not in anew), *renamed)


def without_disruption(rule: Rule, board: Board) -> Rule:
    """Return a rule without its disruption where its name may be, or is, another device's.

    A rule names a pool and no node: in one into which others publish it evicts their pods as well.
    """
    pool = rule.device.driver, rule.device.pool
    shared = pool in board.machine.contested and rule.device.pool != rule.node
    if not shared and not is_displaced(rule, board.inventory):
        return rule
    return msgspec.structs.replace(rule, effect=milder(rule.effect, RESTRICTION))


def new_names_in_words(taints: Taints, disagrees: str) -> str:
    """Return under which names the hardware is tainted anew, and under which not; "" for none."""
    new, free = (
        some(rule.device.device for rule in rules) for rules in (taints.renamed, taints.unsettled)
    )
    follows = f"the taint follows the hardware to {new}" if new else ""
    waits = f"not every device of it is tainted: {free} waits, as {disagrees}" if free else ""
    return "; ".join(text for text in (follows, waits) if text)


def _rule(board: Board, incident: Incident, part: Hardware, device: SliceDevice) -> Rule:
    return Rule(
        device=device.device,
        effect=RESTRICTION,
        fault=part.fault,
        cause=part.cause,
        incident=incident.name,
        uuid=hardware_of(device, board.uuid),
        gpu=board.uuid,
        node=board.node,
        classes=tuple(sorted(board.place.device_classes)),
    )
