"""What the design promises of each decision, whatever has happened before."""

from collections.abc import Iterable

import msgspec
from hypothesis.stateful import invariant

from exporter.model.resource_slices import SliceDevice
from remediator.diagnose.fault import NEAR, SEVERITY, Unknown
from remediator.model.taint_rule import EFFECTS, EVICTING, Rule
from remediator.plan.node_decision import NodeDecision, decide_node
from remediator.plan.stages import Planned
from remediator.plan.steps import (
    ChangeRule,
    CreateRule,
    DeleteRule,
    Step,
    WriteStatus,
    frees,
    gpu_of,
)
from remediator.plan.view import NodeView
from tests.remediator.builders import with_fields
from tests.remediator.histories.calls import Calls
from tests.remediator.histories.errors import PENDING
from tests.remediator.histories.played import Played
from tests.remediator.histories.taints import in_force, raises

SETTLE, SOAK = 3.0, 600.0
"""Seconds, as in `builders.policy`."""
WEEK = 7 * 86400.0 - 4000.0
"""Seconds, less those that the leader's clock may be ahead."""
ROUNDED = 1e-3
"""Seconds by which the history's own time may be off: a decision counts in microseconds."""
RULE_STEPS = (CreateRule, ChangeRule, DeleteRule)


class Judged(Played):
    """Histories in which each decision is checked."""

    def __init__(self) -> None:
        super().__init__()
        self.classes: dict[str, int] = {}
        self.calls = Calls(self.machine, lambda: self.clock)

    def judge(self, seen: NodeView, decision: NodeDecision, before: set[str]) -> None:
        self._unknown_changes_nothing(decision)
        self._blindness_changes_nothing(seen, decision)
        self._nothing_goes_without_a_reason(seen, decision)
        self._nothing_ends_unseen(decision)
        self._nothing_begins_while_it_must_not(decision)
        self._taint_comes_first(decision)
        self._budget_holds(decision.steps, before)
        held = self.stopped or self.paused
        self.calls.judge(self.calm, decision, self.options, self.plan, held)
        self._what_is_refused_is_not_tried(decision)
        if self.afresh:
            self._order_of_observation_does_not_matter(seen, decision)

    def judge_rest(self) -> None:
        self.calls.judge_rest(self.calm, self.options, self.plan)

    def forget(self, name: str) -> None:
        """Expect nothing of an incident that was lost, or of what it reported."""
        self.classes.pop(name, None)
        self.taints.forget(name)

    def _unknown_changes_nothing(self, decision: NodeDecision) -> None:
        if not self.enforced:
            return
        unknown = {board.uuid for board, _ in decision.pairs if isinstance(board.verdict, Unknown)}
        for step in decision.steps:
            if isinstance(step, RULE_STEPS) and gpu_of(step) in unknown:
                lowers = isinstance(step, ChangeRule) and step.stored.effect in EVICTING
                assert (
                    self.taints.follows_name(step, decision)
                    or lowers
                    or isinstance(step, DeleteRule)
                ), step

    def _blindness_changes_nothing(self, seen: NodeView, decision: NodeDecision) -> None:
        """Only a person takes rules down then; nobody is evicted without claims."""
        stated = in_force(decision)
        for step in decision.steps:
            if not (self.machine.unseen and self.enforced and isinstance(step, RULE_STEPS)):
                continue
            lowers = isinstance(step, ChangeRule) and step.stored.effect in EVICTING
            if not (lowers or self.taints.follows_name(step, decision)):
                assert isinstance(step, DeleteRule), step
                there = [
                    device
                    for device in seen.slices.inventory
                    if device.device == step.stored.device
                ]
                moved = any(self._is_other(step.stored, device) for device in there)
                moved = moved and "slices" not in self.machine.blind
                assert moved or "Ignore" in stated[step.stored.gpu], step
        if "claims" in self.machine.blind:
            assert not decision.begins.devices

    def _is_other(self, rule: Rule, device: SliceDevice) -> bool:
        """Whether a device that has the name in a rule is other hardware than the rule is for.

        An error of one slice says nothing of the slice that was made in its place.
        """
        if rule.gpu != self.machine.board_of(device):
            return True
        return rule.fault == "contained" and rule.uuid not in (rule.gpu, device.uuid)

    def _nothing_goes_without_a_reason(self, seen: NodeView, decision: NodeDecision) -> None:
        """Verified recovery, other hardware, another board, a node gone for a week, or a person."""
        published = {
            it.device: self.machine.board_of(it) if it.kind == "vfio" else it.uuid or it.parent_uuid
            for it in seen.slices.devices
        }
        all_desired = {planned.uuid: planned for _, planned in decision.pairs}
        for step in decision.steps:
            if not (self.enforced and isinstance(step, ChangeRule | DeleteRule)):
                continue
            other = published.get(step.stored.device) not in (None, step.stored.uuid)
            if isinstance(step, ChangeRule) and step.rule.uuid == step.stored.uuid and not other:
                assert EFFECTS.index(step.rule.effect) >= EFFECTS.index(step.stored.effect)
            if isinstance(step, DeleteRule):
                planned = all_desired[step.stored.gpu]
                stated = {
                    intent.kind for intent in planned.record.intents if intent.state == "InForce"
                }
                mild = step.stored.effect in {"None", "NoSchedule"}
                narrowed = step.stored.fault == "contained" and mild
                narrowed &= not self._was_named(step.stored)
                if planned.course.kind == "closes":
                    self._recovery_was_true(planned, stated)
                elif planned.course.kind == "ends":
                    self._it_is_over(planned, stated)
                else:
                    assert other or "Ignore" in stated or narrowed, step

    def _nothing_ends_unseen(self, decision: NodeDecision) -> None:
        """An incident is closed by what is seen of its GPU, whether or not it had rules."""
        known = {planned.uuid: (board, planned) for board, planned in decision.pairs}
        for step in decision.steps:
            if not isinstance(step, WriteStatus) or not self.enforced:
                continue
            board, planned = known[step.incident.spec.uuid]
            mine = planned.incident is not None and planned.incident.name == step.incident.name
            if not mine or step.status.history.closed_at is None or not step.incident.open:
                continue
            stated = {intent.kind for intent in planned.record.intents if intent.state == "InForce"}
            if planned.course.kind == "closes":
                self._recovery_was_true(planned, stated)
            elif isinstance(board.verdict, Unknown):
                self._it_is_over(planned, stated)

    def _it_is_over(self, planned: Planned, stated: set[str]) -> None:
        """Check an end without verified recovery: another board, a node gone, or a person."""
        swapped = planned.uuid not in self.machine.boards()
        why = planned.course.reason
        # By now the name is another machine's, for a week since the Node of its own was deleted; or
        # the Node was made anew first, and then its boards went one by one.
        none_left_since = self.machine.forgotten_at.get(planned.uuid, self.machine.now)
        went_at = self.machine.stranded_at.get(planned.uuid, none_left_since)
        left = self.machine.now - went_at >= WEEK and why.startswith("the machine of")
        swapped &= why.startswith("another board is in its place") or left
        assert swapped or self.machine.gone or "RepairConfirmed" in stated, why

    def _was_named(self, rule: Rule) -> bool:
        """Whether a source has just named the slice that a rule is for."""
        named = self.machine.named.get((rule.gpu, rule.uuid))
        return named is not None and self.machine.now - named <= NEAR.total_seconds()

    def _recovery_was_true(self, planned: Planned, stated: set[str]) -> None:
        machine, gpu = self.machine, planned.uuid
        # What waits for a reset, and is only observed, holds back no slice of a contained error.
        alone = (
            planned.incident is not None
            and planned.incident.status.fault.fault_class == "contained"
        )
        # And it is no fault, past or present, of a GPU whose driver requests nothing.
        answered = any(
            health.uuid == gpu and health.recovery_action.value == 0 for health in machine.gpus
        )
        assert machine.now - machine.bad_at.get(gpu, -1e9) >= SOAK - ROUNDED
        assert (
            machine.now - machine.signal_of(gpu, pending=not (alone or answered)) >= SOAK - ROUNDED
        )
        proven = machine.confirmed_at >= machine.bad_at.get(gpu, -1e9)
        owed = machine.owes_an_epoch.get(gpu, frozenset()) - (PENDING if alone else set())
        assert (proven and not owed) or "RepairConfirmed" in stated
        if "RepairConfirmed" in stated:
            machine.is_vouched_for(gpu)

    def _nothing_begins_while_it_must_not(self, decision: NodeDecision) -> None:
        answers = in_force(decision)
        for step in decision.steps:
            if isinstance(step, CreateRule) or (isinstance(step, ChangeRule) and raises(step)):
                stated = answers[gpu_of(step)]
                follows = self.taints.follows_name(step, decision)
                assert follows or not (self.stopped or self.paused or "Hold" in stated), step
                assert "Ignore" not in stated, step

    def _taint_comes_first(self, decision: NodeDecision) -> None:
        for step in decision.steps:
            if isinstance(step, CreateRule):
                repaired = step.rule.gpu in self.machine.repaired
                assert self.taints.follows_name(step, decision) or not repaired, (
                    "a user said it is repaired"
                )
                assert step.rule.effect not in EVICTING, "nothing is evicted before it is tainted"
                assert all(msgspec.structs.astuple(step.rule.device)), "a full selector, always"
            if isinstance(step, ChangeRule) and step.rule.effect in EVICTING:
                self._slice_has_settled(step)
            if isinstance(step, ChangeRule) and raises(step):
                (planned,) = [
                    answer for _, answer in decision.pairs if answer.uuid == step.rule.gpu
                ]
                stored = [rule for rule in self.calm.rules.values() if rule.effect != "None"]
                expected = {rule.device for rule in planned.rules if rule.effect != "None"}
                assert expected <= {rule.device for rule in stored}
                settled = self.machine.now - SETTLE
                rules = [rule for rule in stored if rule.gpu == step.rule.gpu]
                for rule in rules:
                    since = self.tainted_since[rule.uid, rule.gpu]
                    in_time = since <= max(settled, self.clock_set_at) + 1e-6
                    assert in_time, "evicted before the settle time is over"

    def _slice_has_settled(self, step: ChangeRule) -> None:
        """Check the name, and the slice under whatever name: its GPU's number may change."""
        evicting = step.rule
        if evicting.fault != "contained":
            return
        name = [at for (uid, _), at in self.tainted_since.items() if uid == step.stored.uid]
        times = [
            self.tainted_since[rule.uid, rule.uuid]
            for rule in self.calm.rules.values()
            if rule.effect != "None" and rule.uuid == evicting.uuid
        ]
        settled = max(self.machine.now - SETTLE, self.clock_set_at)
        for since in (name, times):
            assert min(since, default=settled + 1) <= settled + 1e-6, (
                "another slice has not settled"
            )

    def _budget_holds(self, steps: Iterable[Step], before: set[str]) -> None:
        raised = {step.rule.gpu for step in steps if isinstance(step, ChangeRule) and raises(step)}
        assert not raised - before or len(before | raised) <= 1

    def _what_is_refused_is_not_tried(self, decision: NodeDecision) -> None:
        for step in decision.steps:
            if isinstance(step, CreateRule | ChangeRule) and not frees(step):
                assert step.rule.name not in self.not_made, step
            elif isinstance(step, ChangeRule | DeleteRule):
                assert step.stored.name not in self.not_removed, step

    def _order_of_observation_does_not_matter(self, seen: NodeView, decision: NodeDecision) -> None:
        turned = _turned_round(self.over(self.calm, seen))
        other = decide_node(turned, self.fleet(self.calm), self.in_use(), self.clock, self.options)
        assert sorted(map(repr, other.steps)) == sorted(map(repr, decision.steps))

    @invariant()
    def only_what_gave_a_signal_is_tainted(self) -> None:
        for rule in self.calm.rules.values():
            assert self.machine.may_taint(rule), f"{rule.uuid} gave no signal"

    @invariant()
    def severity_only_rises_within_an_incident(self) -> None:
        for name, incident in self.calm.incidents.items():
            if incident.blank:
                continue
            rank = [str(fault) for fault in SEVERITY].index(incident.status.fault.fault_class)
            assert rank >= self.classes.get(name, rank)
            self.classes[name] = rank


def _turned_round(seen: NodeView) -> NodeView:
    """Return a view in which everything was observed in another order."""
    assert seen.agent.report is not None
    gpus = (
        msgspec.structs.replace(health, xids=health.xids[::-1])
        for health in seen.agent.report.gpus[::-1]
    )
    return with_fields(
        seen,
        report=msgspec.structs.replace(seen.agent.report, gpus=tuple(gpus)),
        inventory=seen.slices.inventory[::-1],
        claims=seen.usage.claims[::-1],
        rules=seen.stored.rules[::-1],
        incidents=seen.stored.incidents[::-1],
    )
