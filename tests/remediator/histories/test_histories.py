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
from remediator.decide.plan import ChangeRule, CreateRule, DeleteRule, EvictPod, Step, gpu_of
from remediator.decide.reconcile import NodeDecision, decide_node
from remediator.decide.trust import WatchedKind
from remediator.decide.view import NodeView
from remediator.judge.fault import Unknown
from remediator.objects.incident import intending
from remediator.objects.intent import KINDS, Intent, Kind
from remediator.objects.taints import EFFECTS, EVICTING
from remediator.policy.limits import limits_of
from remediator.policy.place import Area
from remediator.policy.table import AT_ONCE, Mode, Policy
from remediator.policy.windows import Once, Window
from tests.remediator.builders import Stored, at, policy
from tests.remediator.histories.machines import (
    ACTIONS,
    EVERYTHING,
    SIGNALS,
    WATCHED,
    Machine,
    severity,
    turned_round,
)
from tests.remediator.histories.taints import Taints, in_force, is_rebound, raises, told

HISTORIES = int(os.environ.get("HISTORIES", "120"))
INDEX, BLIND = st.integers(0, 1), st.frozensets(st.sampled_from(WATCHED), max_size=2)
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
        self.plan = AT_ONCE
        self.policy = policy(LIMITS)
        self.stopped = ""
        self.window: tuple[Window, ...] = ()
        self.classes: dict[str, int] = {}
        self.fenced_since: dict[tuple[str, str], float] = {}
        """By the UID of a rule that keeps work away, and its GPU."""
        self.taints = Taints()

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

    @rule(then=THEN, dies=DIES)
    def other_numbers(self, then: float, dies: int) -> None:
        self.machine.numbers_are_swapped()
        self._then(then, dies)

    @rule(then=THEN, dies=DIES)
    def another_release_of_the_driver(self, then: float, dies: int) -> None:
        self.machine.driver_is_released()
        self._then(then, dies)

    @rule(silent=st.booleans(), then=THEN, dies=DIES)
    def the_agent(self, silent: bool, then: float, dies: int) -> None:
        self.machine.silent = silent
        self._then(then, dies)

    @rule(kinds=BLIND, confirms=st.booleans(), then=THEN)
    def who_sees(self, kinds: frozenset[WatchedKind], *, confirms: bool, then: float) -> None:
        self.machine.blind, self.machine.confirms = kinds, confirms
        self._then(then, 0)

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
        self.policy = policy(LIMITS, mode=mode, evict=self.plan)
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
        until = at(self.machine.now + lasts) if lasts else None
        self._intend(index, {kind: Intent(until=until, by="ana", reason="a history")})
        self._then(then, dies)

    @rule(index=INDEX, then=THEN, dies=DIES)
    def a_person_takes_it_back(self, index: int, then: float, dies: int) -> None:
        self._intend(index, {})
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

    def _intend(self, index: int, wanted: dict[Kind, Intent]) -> None:
        gpu = self.machine.gpus[index].uuid
        for stored in (self.calm, self.dying):
            for name, one in stored.incidents.items():
                if one.open and one.spec.uuid == gpu:
                    changed = one
                    for kind in KINDS:
                        changed = intending(changed, kind, wanted.get(kind))
                    stored.incidents[name] = changed

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
            before = self.calm.evicting()
            decision = self._decide(self.calm, seen)
            self._look_at(decision, before)
            for step in decision.steps:
                self.calm.take(step, self.machine.time)
            for one in self.calm.rules.values():
                if one.effect != "None":
                    self.fenced_since.setdefault((one.uid, one.gpu), self.machine.now)
            self.taints.note(self.calm)
            if not _lasting(decision.steps):
                if all(row.mode == "enforce" for row in self.policy.rows):
                    self.taints.stand(self.calm, seen, decision)
                return
        raise AssertionError(f"never settles: {self.calm.taken[-4:]}")

    def _die(self, seen: NodeView, after: int) -> None:
        for step in self._decide(self.dying, seen).steps[:after]:
            self.dying.take(step, self.machine.time)
        for _ in range(12):
            steps = self._decide(self.dying, seen).steps
            for step in steps:
                self.dying.take(step, self.machine.time)
            if not _lasting(steps):
                return
        raise AssertionError("never settles after a crash")

    def _decide(self, stored: Stored, seen: NodeView) -> NodeDecision:
        return decide_node(stored.over(seen), stored.fleet(), self._rules(), self.machine.time)

    def _rules(self) -> Policy:
        return msgspec.structs.replace(self.policy, stopped=self.stopped, maintenance=self.window)

    def _look_at(self, decision: NodeDecision, before: set[str]) -> None:
        self._unknown_changes_nothing(decision)
        self._blindness_changes_nothing(decision)
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
                lowers = isinstance(step, ChangeRule) and step.stored.effect in EVICTING
                assert is_rebound(step, decision) or lowers or isinstance(step, DeleteRule), step

    def _blindness_changes_nothing(self, decision: NodeDecision) -> None:
        """Only a person takes rules down then; nobody is evicted without claims."""
        enforced = all(row.mode == "enforce" for row in self.policy.rows)
        said = in_force(decision)
        for step in decision.steps:
            if not (self.machine.unseen and enforced and isinstance(step, RULE_STEPS)):
                continue
            lowers = isinstance(step, ChangeRule) and step.stored.effect in EVICTING
            if not (lowers or is_rebound(step, decision)):
                assert isinstance(step, DeleteRule), step
                moved = step.stored.device in self.machine.names_of_others(step.stored.gpu)
                moved = moved and "slices" not in self.machine.blind
                assert moved or "Ignore" in said[step.stored.gpu], step
        if "claims" in self.machine.blind:
            assert not decision.begins

    def _nothing_goes_without_a_reason(self, decision: NodeDecision) -> None:
        """Verified recovery, other hardware, another board, a node gone for a week, or a person."""
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
                said = {one.kind for one in wish.intents if one.state == "InForce"}
                narrowed = (step.stored.fault, step.stored.effect) == ("contained", "NoSchedule")
                if wish.closing:
                    self._recovery_was_true(wish, said)
                elif wish.ending:
                    swapped = step.stored.gpu not in self.machine.boards()
                    swapped &= wish.ending.startswith("another board is in its place")
                    legal = swapped or self.machine.gone or "RepairConfirmed" in said
                    assert legal, wish.ending
                else:
                    assert other or "Ignore" in said or narrowed, step
            if isinstance(step, CreateRule):
                assert all(msgspec.structs.astuple(step.rule.device)), "a full selector, always"

    def _recovery_was_true(self, wish: Desired, said: set[str]) -> None:
        machine, gpu = self.machine, wish.uuid
        assert machine.now - machine.bad_at.get(gpu, -1e9) >= SOAK
        assert machine.now - machine.last_signal.get(gpu, -1e9) >= SOAK
        proven = machine.confirmed_at >= machine.bad_at.get(gpu, -1e9)
        assert (proven and gpu not in machine.owes_an_epoch) or "RepairConfirmed" in said

    def _nothing_begins_while_it_must_not(self, decision: NodeDecision) -> None:
        paused = any(one.when.open_until(self.machine.time) for one in self.window)
        answers = in_force(decision)
        for step in decision.steps:
            if isinstance(step, CreateRule) or (isinstance(step, ChangeRule) and raises(step)):
                said = answers[gpu_of(step)]
                follows = is_rebound(step, decision)
                assert follows or not (self.stopped or paused or "Hold" in said), step
                assert "Ignore" not in said, step

    def _fence_comes_first(self, decision: NodeDecision) -> None:
        for step in decision.steps:
            if isinstance(step, CreateRule):
                assert step.rule.effect not in EVICTING, "nothing is evicted before it is fenced"
            if isinstance(step, ChangeRule) and raises(step):
                (wish,) = [one for _, one in decision.pairs if one.uuid == step.rule.gpu]
                stored = {one.device for one in self.calm.rules.values() if one.effect != "None"}
                wanted = {one.device for one in wish.rules if one.effect != "None"}
                assert wanted <= stored
                settled = self.machine.now - SETTLE
                assert self.fenced_since[step.stored.uid, step.rule.gpu] <= settled + 1e-6

    def _budget_holds(self, steps: Iterable[Step], before: set[str]) -> None:
        raised = {step.rule.gpu for step in steps if isinstance(step, ChangeRule) and raises(step)}
        assert not raised - before or len(before | raised) <= 1

    def _order_of_observation_does_not_matter(self, decision: NodeDecision) -> None:
        turned = turned_round(self.calm.over(self.machine.view()))
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
            rank = severity(one.status.fault)
            assert rank >= self.classes.get(name, rank)
            self.classes[name] = rank


def _lasting(steps: Iterable[Step]) -> list[Step]:
    """Return what changes something that is stored: a request for an eviction does not."""
    return [one for one in steps if not isinstance(one, EvictPod)]


TestHistories = History.TestCase
TestHistories.settings = settings(
    max_examples=HISTORIES,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
