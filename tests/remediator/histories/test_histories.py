"""Random histories of hardware, people and crashes: what the design promises holds in each.

`make test` plays some hundreds, `make histories` at least 20,000.
"""

import os
from collections.abc import Iterable

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from remediator.decide.case import Desired
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
from remediator.objects.answers import KINDS, Kind, annotation
from remediator.objects.taints import EFFECTS
from remediator.policy.limits import limits_of
from remediator.policy.place import Area
from remediator.policy.table import Mode, Policy
from remediator.policy.windows import Once, Window
from tests.remediator.builders import Stored, at, policy
from tests.remediator.histories.machines import (
    ACTIONS,
    EVERYTHING,
    SIGNALS,
    Machine,
    severity,
)

HISTORIES = int(os.environ.get("HISTORIES", "300"))
INDEX = st.integers(0, 1)
THEN = st.sampled_from([0.1, 0.5, 1.0, 3.0, 11.0, 61.0, 601.0, 4000.0])
"""Seconds that pass after an event, before anybody looks."""
DIES = st.integers(0, 6)
"""Steps of the first tick that the dying controller still takes."""
MODES: tuple[Mode, ...] = ("enforce", "enforce", "enforce", "incident-only", "dry-run", "off")
LIMITS = limits_of({"evict_gpus_per_node": 1})
SETTLE, SOAK = 3.0, 600.0
"""Seconds, as in `builders.policy`."""
RULE_STEPS = (CreateRule, ChangeRule, DeleteRule)


class History(RuleBasedStateMachine):
    """One controller that never dies and one that dies at any step; both must end alike."""

    def __init__(self) -> None:
        super().__init__()
        self.machine = Machine()
        self.calm, self.dying = Stored(), Stored()
        self.policy = policy(LIMITS)
        self.stopped = ""
        self.window: tuple[Window, ...] = ()
        self.classes: dict[str, int] = {}
        self.fenced_since: dict[str, float] = {}
        """By the UID of a rule that keeps work away."""

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
    def an_agent_that_forgets(self, then: float, dies: int) -> None:
        self.machine.forgets()
        self._then(then, dies)

    @rule(index=INDEX, dies=DIES)
    def an_old_driver_whose_agent_forgets(self, index: int, dies: int) -> None:
        self.machine.has_no_recovery_action(index)
        self.machine.xid(index, 95, None)
        self._then(1.0, dies)
        self.machine.forgets()
        for seconds in (5.0, SOAK):
            self._then(seconds, dies)

    @rule(then=THEN, dies=DIES)
    def another_layout(self, then: float, dies: int) -> None:
        self.machine.slices_are_made_anew(1)
        self._then(then, dies)

    @rule(index=INDEX, hidden=st.booleans(), then=THEN, dies=DIES)
    def a_driver_that_publishes(self, index: int, hidden: bool, then: float, dies: int) -> None:
        (self.machine.unpublished.add if hidden else self.machine.unpublished.discard)(index)
        self._then(then, dies)

    @rule(gone=st.booleans(), then=st.sampled_from([1.0, 61.0, 8 * 86400.0]), dies=DIES)
    def a_node_that_goes(self, gone: bool, then: float, dies: int) -> None:
        self.machine.gone = self.machine.silent = gone
        self._then(then, dies)

    @rule(
        index=INDEX,
        kind=st.sampled_from(KINDS),
        lasts=st.sampled_from([None, 2.0, 700.0]),
        then=THEN,
        dies=DIES,
    )
    def a_person_says(
        self, index: int, kind: Kind, lasts: float | None, then: float, dies: int
    ) -> None:
        until = f"{at(self.machine.now + lasts):%Y-%m-%dT%H:%M:%SZ}" if lasts else "forever"
        self._annotate(index, {annotation(kind): f"{until}; by=ana; why=a history"})
        self._then(then, dies)

    @rule(index=INDEX, then=THEN, dies=DIES)
    def a_person_takes_it_back(self, index: int, then: float, dies: int) -> None:
        self._annotate(index, {})
        self._then(then, dies)

    @rule(which=st.integers(0, 7), then=THEN, dies=DIES)
    def a_person_deletes_a_rule(self, which: int, then: float, dies: int) -> None:
        devices = sorted(self.calm.rules)
        if devices:
            device = devices[which % len(devices)]
            del self.calm.rules[device], self.dying.rules[device]
        self._then(then, dies)

    @rule(stopped=st.booleans(), then=THEN, dies=DIES)
    def the_emergency_stop(self, stopped: bool, then: float, dies: int) -> None:
        self.stopped = "ana: a history" if stopped else ""
        self._then(then, dies)

    @rule(lasts=st.sampled_from([2.0, 700.0]), then=THEN, dies=DIES)
    def maintenance(self, lasts: float, then: float, dies: int) -> None:
        opens = Once(self.machine.time, at(self.machine.now + lasts))
        window = Window(name="m", area=Area(nodes=("*",)), when=opens)
        self.window = (window,)
        self._then(then, dies)

    def _annotate(self, index: int, notes: dict[str, str]) -> None:
        gpu = self.machine.gpus[index].uuid
        for stored in (self.calm, self.dying):
            for name, one in stored.incidents.items():
                if one.open and one.spec.uuid == gpu:
                    meta = msgspec.structs.replace(one.metadata, annotations=notes)
                    stored.incidents[name] = msgspec.structs.replace(one, metadata=meta)

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
            for one in self.calm.rules.values():
                if one.effect != "None":
                    self.fenced_since.setdefault(one.uid, self.machine.now)
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
        return decide_node(stored.over(seen), stored.fleet(), self._rules(), self.machine.time)

    def _rules(self) -> Policy:
        return msgspec.structs.replace(self.policy, stopped=self.stopped, maintenance=self.window)

    def _look_at(self, decision: NodeDecision, before: dict[str, set[str]]) -> None:
        self._unknown_changes_nothing(decision)
        self._nothing_goes_without_a_reason(decision)
        self._nothing_begins_while_it_must_not(decision)
        self._fence_comes_first(decision)
        self._budget_holds(decision.steps, before)
        self._order_of_observation_does_not_matter(decision)

    def _unknown_changes_nothing(self, decision: NodeDecision) -> None:
        if not all(row.mode == "enforce" for row in self.policy.rows):
            return
        unknown = {case.uuid for case, _ in decision.pairs if isinstance(case.verdict, Unknown)}
        for step in decision.steps:
            if isinstance(step, RULE_STEPS) and gpu_of(step) in unknown:
                assert isinstance(step, DeleteRule), step

    def _nothing_goes_without_a_reason(self, decision: NodeDecision) -> None:
        """Verified recovery, other hardware, a node gone for a week, or a person."""
        enforced = all(row.mode == "enforce" for row in self.policy.rows)
        published = {one.device: one.uuid for one in self.machine.view().inventory}
        wishes = {wish.uuid: wish for _, wish in decision.pairs}
        for step in decision.steps:
            if (
                isinstance(step, ChangeRule)
                and enforced
                and step.rule.uuid == step.stored.uuid  # else it is of other hardware
            ):
                assert EFFECTS.index(step.rule.effect) >= EFFECTS.index(step.stored.effect)
            if isinstance(step, DeleteRule) and enforced:
                wish = wishes[step.stored.gpu]
                other = published.get(step.stored.device) not in (None, step.stored.uuid)
                said = {one.kind for one in wish.answers if one.state == "InForce"}
                narrowed = (step.stored.fault, step.stored.effect) == ("contained", "NoSchedule")
                if wish.closing:
                    self._recovery_was_true(wish, said)
                elif wish.ending:
                    assert self.machine.gone or "confirmed-repaired" in said, wish.ending
                else:
                    assert other or "ignore" in said or narrowed, step
            if isinstance(step, CreateRule):
                assert all(msgspec.structs.astuple(step.rule.device)), "a full selector, always"

    def _recovery_was_true(self, wish: Desired, said: set[str]) -> None:
        machine, gpu = self.machine, wish.uuid
        assert machine.now - machine.bad_at.get(gpu, -1e9) >= SOAK
        assert machine.now - machine.last_signal.get(gpu, -1e9) >= SOAK
        assert gpu not in machine.owes_an_epoch or "confirmed-repaired" in said

    def _nothing_begins_while_it_must_not(self, decision: NodeDecision) -> None:
        paused = any(one.when.open_until(self.machine.time) for one in self.window)
        answers = {wish.uuid: wish.answers for _, wish in decision.pairs}
        for step in decision.steps:
            if isinstance(step, CreateRule) or (isinstance(step, ChangeRule) and raises(step)):
                said = {one.kind for one in answers[gpu_of(step)] if one.state == "InForce"}
                forbidden = self.stopped or paused or said & {"hold", "ignore"}
                assert not forbidden, step

    def _fence_comes_first(self, decision: NodeDecision) -> None:
        for step in decision.steps:
            if isinstance(step, CreateRule):
                assert step.rule.effect != "NoExecute", "nothing is evicted before it is fenced"
            if isinstance(step, ChangeRule) and raises(step):
                (wish,) = [one for _, one in decision.pairs if one.uuid == step.rule.gpu]
                stored = {one.device for one in self.calm.rules.values() if one.effect != "None"}
                wanted = {one.device for one in wish.rules if one.effect != "None"}
                assert wanted <= stored
                settled = self.machine.now - SETTLE
                assert self.fenced_since[step.stored.uid] <= settled + 1e-6

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
        other = decide_node(turned, self.calm.fleet(), self._rules(), self.machine.time)
        assert sorted(map(repr, other.steps)) == sorted(map(repr, decision.steps))

    @invariant()
    def only_what_gave_a_signal_is_tainted(self) -> None:
        for one in self.calm.rules.values():
            meant = self.machine.signalled.get(one.gpu)
            assert meant is not None, f"{one.gpu} gave no signal"
            assert EVERYTHING in meant or one.uuid in meant, f"{one.uuid} gave no signal"

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
