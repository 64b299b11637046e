"""Random histories of hardware, people and crashes: what the design promises holds in each.

`make test` plays some hundreds, `make histories` at least 20,000.
"""

import os
from collections.abc import Iterable

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from remediator.decide.plan import (
    ChangeRule,
    CreateRule,
    DeleteRule,
    Step,
    gpu_of,
)
from remediator.decide.reconcile import NodeDecision, decide_node
from remediator.decide.view import NodeView
from remediator.judge.fault import Unknown
from remediator.objects.taints import EFFECTS
from remediator.policy.limits import limits_of
from remediator.policy.table import Mode
from tests.remediator.builders import Stored, policy
from tests.remediator.histories.machines import ACTIONS, SIGNALS, Machine, severity

HISTORIES = int(os.environ.get("HISTORIES", "300"))
INDEX = st.integers(0, 1)
THEN = st.sampled_from([0.1, 0.5, 1.0, 3.0, 11.0, 61.0, 601.0, 4000.0])
"""Seconds that pass after an event, before anybody looks."""
DIES = st.integers(0, 6)
"""Steps of the first tick that the dying controller still takes."""
MODES: tuple[Mode, ...] = ("enforce", "enforce", "enforce", "incident-only", "dry-run", "off")
LIMITS = limits_of({"evict_gpus_per_node": 1})
RULE_STEPS = (CreateRule, ChangeRule, DeleteRule)


class History(RuleBasedStateMachine):
    """One controller that never dies and one that dies at any step; both must end alike."""

    def __init__(self) -> None:
        super().__init__()
        self.machine = Machine()
        self.calm, self.dying = Stored(), Stored()
        self.policy = policy(LIMITS)
        self.lowered = False
        self.classes: dict[str, int] = {}

    @rule(
        index=INDEX,
        code=st.sampled_from(SIGNALS),
        gi=st.sampled_from([None, 1, 5, 9]),
        then=THEN,
        dies=DIES,
    )
    def an_xid(self, index: int, code: int, gi: int | None, then: float, dies: int) -> None:
        self.machine.xid(index, code, gi)
        self._then(then, dies)

    @rule(index=INDEX, value=st.sampled_from(ACTIONS), then=THEN, dies=DIES)
    def a_recovery_action(self, index: int, value: int, then: float, dies: int) -> None:
        self.machine.wants(index, value)
        self._then(then, dies)

    @rule(index=INDEX, then=THEN, dies=DIES)
    def a_driver_without_recovery_action(self, index: int, then: float, dies: int) -> None:
        self.machine.has_no_recovery_action(index)
        self._then(then, dies)

    @rule(
        index=INDEX, presence=st.sampled_from(["Lost", "Unknown", "Present"]), then=THEN, dies=DIES
    )
    def a_gpu_goes_or_comes(self, index: int, presence: str, then: float, dies: int) -> None:
        self.machine.goes(index, presence)
        self._then(then, dies)

    @rule(index=INDEX, then=THEN, dies=DIES)
    def a_reset(self, index: int, then: float, dies: int) -> None:
        self.machine.is_reset(index)
        self._then(then, dies)

    @rule(then=THEN, dies=DIES)
    def a_reboot(self, then: float, dies: int) -> None:
        self.machine.reboots()
        self._then(then, dies)

    @rule(index=INDEX, then=THEN, dies=DIES)
    def another_board(self, index: int, then: float, dies: int) -> None:
        self.machine.board_is_swapped(index)
        self._then(then, dies)

    @rule(silent=st.booleans(), then=THEN, dies=DIES)
    def the_agent(self, silent: bool, then: float, dies: int) -> None:
        self.machine.silent = silent
        self._then(then, dies)

    @rule(index=INDEX, part=st.integers(0, 6), pod=st.integers(0, 2), then=THEN, dies=DIES)
    def a_pod_comes(self, index: int, part: int, pod: int, then: float, dies: int) -> None:
        self.machine.is_claimed(index, part, pod)
        self._then(then, dies)

    @rule(index=INDEX, part=st.integers(0, 6), then=THEN, dies=DIES)
    def a_pod_goes(self, index: int, part: int, then: float, dies: int) -> None:
        self.machine.is_let_go(index, part)
        self._then(then, dies)

    @rule(mode=st.sampled_from(MODES), then=THEN, dies=DIES)
    def the_mode(self, mode: Mode, then: float, dies: int) -> None:
        self.policy = policy(LIMITS, mode=mode)
        self._then(then, dies)

    @rule(then=THEN, dies=DIES)
    def nothing_happens(self, then: float, dies: int) -> None:
        self._then(then, dies)

    def _then(self, seconds: float, dies: int) -> None:
        self.machine.passes(seconds)
        seen = self.machine.view()
        self._live(seen)
        self._die(seen, dies)
        assert self.calm.effects() == self.dying.effects()
        assert told(self.calm) == told(self.dying)
        if all(row.mode == "off" for row in self.policy.rows):
            assert not self.calm.rules, "off leaves nothing behind"

    def _live(self, seen: NodeView) -> None:
        for _ in range(12):
            before = fences(self.calm)
            decision = self._decide(self.calm, seen)
            self._look_at(decision, before)
            for step in decision.steps:
                self.calm.take(step, self.machine.time)
            if not decision.steps:
                return
        raise AssertionError(f"never settles: {self.calm.taken[-4:]}")

    def _die(self, seen: NodeView, after: int) -> None:
        for step in self._decide(self.dying, seen).steps[:after]:
            self.dying.take(step, self.machine.time)
        for _ in range(12):
            steps = self._decide(self.dying, seen).steps
            for step in steps:
                self.dying.take(step, self.machine.time)
            if not steps:
                return
        raise AssertionError("never settles after a crash")

    def _decide(self, stored: Stored, seen: NodeView) -> NodeDecision:
        return decide_node(stored.over(seen), stored.fleet(), self.policy, self.machine.time)

    def _look_at(self, decision: NodeDecision, before: dict[str, set[str]]) -> None:
        self._unknown_changes_nothing(decision)
        self._fence_comes_first(decision)
        self._budget_holds(decision.steps, before)
        self._order_of_observation_does_not_matter(decision)

    def _unknown_changes_nothing(self, decision: NodeDecision) -> None:
        if not all(row.mode == "enforce" for row in self.policy.rows):
            return
        unknown = {case.uuid for case, _ in decision.pairs if isinstance(case.verdict, Unknown)}
        published = {one.device: one.uuid for one in self.machine.view().inventory}
        for step in decision.steps:
            if isinstance(step, RULE_STEPS) and gpu_of(step) in unknown:
                assert isinstance(step, DeleteRule), step
                assert published.get(step.stored.device) not in (None, step.stored.uuid), step

    def _fence_comes_first(self, decision: NodeDecision) -> None:
        for step in decision.steps:
            if isinstance(step, CreateRule):
                assert step.rule.effect != "NoExecute", "nothing is evicted before it is fenced"
            if isinstance(step, ChangeRule) and raises(step):
                (wish,) = [one for _, one in decision.pairs if one.uuid == step.rule.gpu]
                stored = {one.device for one in self.calm.rules.values() if one.effect != "None"}
                wanted = {one.device for one in wish.rules if one.effect != "None"}
                assert wanted <= stored

    def _budget_holds(self, steps: Iterable[Step], before: dict[str, set[str]]) -> None:
        raised = {step.rule.gpu for step in steps if isinstance(step, ChangeRule) and raises(step)}
        fresh = raised - before["NoExecute"]
        assert not fresh or len(before["NoExecute"] | fresh) <= 1

    def _order_of_observation_does_not_matter(self, decision: NodeDecision) -> None:
        seen = self.calm.over(self.machine.view())
        assert seen.report is not None
        turned = msgspec.structs.replace(
            seen,
            report=msgspec.structs.replace(
                seen.report,
                gpus=tuple(
                    msgspec.structs.replace(one, xids=one.xids[::-1])
                    for one in seen.report.gpus[::-1]
                ),
            ),
            inventory=seen.inventory[::-1],
            claims=seen.claims[::-1],
            rules=seen.rules[::-1],
            incidents=seen.incidents[::-1],
        )
        other = decide_node(turned, self.calm.fleet(), self.policy, self.machine.time)
        assert sorted(map(repr, other.steps)) == sorted(map(repr, decision.steps))

    @invariant()
    def only_what_gave_a_signal_is_tainted(self) -> None:
        for one in self.calm.rules.values():
            instances = self.machine.signalled.get(one.gpu)
            assert instances is not None, f"{one.gpu} gave no signal"

    @invariant()
    def severity_only_rises_within_an_episode(self) -> None:
        for name, one in self.calm.incidents.items():
            rank = severity(one.spec.fault)
            assert rank >= self.classes.get(name, rank)
            self.classes[name] = rank


def raises(step: ChangeRule) -> bool:
    return step.rule.effect == "NoExecute" != step.stored.effect


def fences(stored: Stored) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {effect: set() for effect in EFFECTS}
    for one in stored.rules.values():
        found[one.effect].add(one.gpu)
    return found


def told(stored: Stored) -> dict[str, tuple[str, str]]:
    return {name: (one.spec.fault, one.status.phase) for name, one in stored.incidents.items()}


TestHistories = History.TestCase
TestHistories.settings = settings(
    max_examples=HISTORIES,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
