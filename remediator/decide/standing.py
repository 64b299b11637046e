"""Which stored rules may stay.

A rule goes for four reasons: verified recovery (`recovery`), proof of another
UUID under its name (or that its board is elsewhere), a node gone for a week
(`recovery`), and a person: a lowered policy, an answer, a deletion by hand.
Here are the proofs and the policy. Pure.
"""

import msgspec

from remediator.decide.case import Case
from remediator.decide.ladder import Demand, milder
from remediator.decide.words import class_of
from remediator.judge.scope import displaced
from remediator.objects.incident import Incident
from remediator.objects.taints import Effect, Rule
from remediator.policy.table import Policy, Row


def kept(case: Case, policy: Policy) -> tuple[Rule, ...]:
    """Return the stored rules that may stay, each within what the policy allows its class."""
    proper = [rule for rule in case.rules if not _proven_other(case, rule)]
    capped: list[tuple[Rule, Effect | None]] = [
        (rule, _ceiling(policy.row(class_of(rule.fault), case.place))) for rule in proper
    ]
    return tuple(
        msgspec.structs.replace(rule, effect=milder(rule.effect, ceiling))
        for rule, ceiling in capped
        if ceiling is not None
    )


def _proven_other(case: Case, rule: Rule) -> bool:
    """Whether the rule's name is proven to stand for other hardware, or for none of this board."""
    return displaced(rule, case.inventory) or (case.left and rule.node == case.node)


def _ceiling(row: Row) -> Effect | None:
    """Return the strongest effect that a stored rule of a class may keep, None for no rule."""
    ceiling: Effect | None = None if row.ceiling == "observe" else row.ceiling
    if row.mode == "enforce":
        return ceiling
    return "None" if row.mode == "dry-run" and ceiling else None


def narrowed(case: Case, story: Incident, rule: Rule, asked: tuple[Demand, ...]) -> bool:
    """Whether a later witness has named another slice than the one that this rule fences.

    Only a contained error, and only while nobody was moved.
    """
    contained = {story.spec.fault, rule.fault, *(one.fault.fault_class for one in asked)}
    wanted = {target.name for one in asked for target in one.targets}
    published = any(one.device == rule.device and one.uuid for one in case.inventory)
    mild = rule.effect != "NoExecute" and contained == {"contained"}
    return mild and published and bool(asked) and rule.device not in wanted
