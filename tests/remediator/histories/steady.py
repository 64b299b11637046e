"""That decisions hold: what one did is not undone by the next while nothing has changed."""

from exporter.model.device import Device
from remediator.model.node import PROBLEM, NodeCondition
from remediator.model.taint_rule import EFFECTS, Rule
from remediator.plan.node_decision import NodeDecision
from remediator.plan.stages import Planned
from remediator.plan.steps import (
    ChangeRule,
    CreateRule,
    DeleteIncident,
    DeleteRule,
    OpenIncident,
    WriteNodeConditions,
)
from tests.remediator.histories.taints import in_force

Hardware = tuple[Device, str]
"""A device, and whose UUID its rule has."""


class Steady:
    """What was done since the world has changed; time alone takes away, and brings nothing back."""

    def __init__(self) -> None:
        self._made: set[Hardware] = set()
        self._gone: set[Hardware] = set()
        self._opened: set[str] = set()
        self._called_off: set[tuple[str, bool]] = set()
        self._called: dict[str, bool] = {}
        """By type of condition, whether a replacement was called for, and not a reboot."""
        self._moving = False

    def begin(self) -> None:
        """Let only time pass from now on."""
        self._moving = True

    def take(self, decision: NodeDecision) -> None:
        """Note what a decision does, and check it against those before it."""
        stated = in_force(decision)
        exempt = {planned.uuid for _, planned in decision.pairs if _is_exempt(planned)}
        for step in decision.steps:
            match step:
                case CreateRule(rule):
                    self._comes((rule.device, rule.uuid))
                case ChangeRule(stored, rule):
                    self._changes(stored, rule)
                case DeleteRule(stored):
                    here = stored.device, stored.uuid
                    assert here not in self._made or self._moving, f"made for nothing: {step}"
                    # Both end by themselves.
                    if "Ignore" not in stated.get(stored.gpu, ()) and stored.gpu not in exempt:
                        self._gone.add(here)
                case OpenIncident(incident):
                    self._opened.add(incident.name)
                case DeleteIncident(incident):
                    assert incident.name not in self._opened or self._moving
                case WriteNodeConditions(_, written):
                    for it in written:
                        self._condition(it)
                case _:
                    pass

    def _changes(self, stored: Rule, rule: Rule) -> None:
        here = rule.device, rule.uuid
        if stored.uuid != rule.uuid:
            self._comes(here)
        elif EFFECTS.index(rule.effect) < EFFECTS.index(stored.effect):
            assert here not in self._made or self._moving, f"lowered: {rule}"
        else:
            self._made.add(here)

    def _comes(self, here: Hardware) -> None:
        assert here not in self._gone, f"back again: {here}"
        self._made.add(here)

    def _condition(self, written: NodeCondition) -> None:
        """Note that a repair is called for, or no more: each at most once, by need.

        A reboot in vain is followed by the call for a replacement, which has its own deadline.
        """
        kind = written.type
        if written.status == PROBLEM[kind]:
            need = "replacement needed" in written.message
            assert (kind, need) not in self._called_off, f"{kind} is said again"
            self._called[kind] = need
        elif kind in self._called:
            assert self._moving, f"{kind} was said for nothing"
            self._called_off.add((kind, self._called[kind]))


def _is_exempt(planned: Planned) -> bool:
    return planned.record.row.startswith("exempt")
