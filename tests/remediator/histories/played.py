"""How a history is played: time passes, and two controllers decide until nothing is left to do.

One of them never dies, the other at any step. At the end of a history the world stands still.
"""

import re
from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec
from hypothesis.stateful import RuleBasedStateMachine

from remediator.controller.policy_on_lease import Policies, PolicyOnLease
from remediator.diagnose.fault import Unknown
from remediator.model.node import PROBLEM
from remediator.model.taint_rule import EVICTING
from remediator.plan.node_condition import HELD, OFF, WAITING
from remediator.plan.node_decision import NodeDecision, decide_node
from remediator.plan.node_pods import LEAVING
from remediator.plan.steps import (
    ChangeRule,
    CreateRule,
    DeleteIncident,
    DeleteRule,
    EvictPod,
    OpenIncident,
    Step,
)
from remediator.plan.view import Fleet, NodeView, RefusedRule
from remediator.policy.table import AT_ONCE, SHIPPED, Policy
from remediator.policy.windows import Window
from tests.remediator.builders import Stored, policy, with_fields
from tests.remediator.histories import late_leaders
from tests.remediator.histories.machines import Machine
from tests.remediator.histories.steady import Steady
from tests.remediator.histories.taints import Taints, reported
from tests.remediator.policy.budgets import limits_of

LIMITS = limits_of({"evict_gpus_per_node": 1})
XID_REASON = re.compile(r"NvidiaXID(\d+)Error")
MOST = 12
"""Decisions at one moment after which nothing is left to do."""
LOOKS, MORE_LOOKS = 14, 14
"""Moments at which a world that stands still is looked at: the first are further and further apart,
up to months, the others when it asks for it. An eviction's time only counts while it is tried."""
SHORTLY = timedelta(milliseconds=1)
TRIED_AGAIN = timedelta(seconds=60)
"""When a rule that the API server refused is tried again."""
CHANGES = (CreateRule, ChangeRule, DeleteRule, OpenIncident)


class Played(RuleBasedStateMachine):
    """One controller that never dies and one that dies at any step; both must end alike."""

    def __init__(self) -> None:
        super().__init__()
        self.machine = Machine()
        self.calm, self.dying = Stored(), Stored()
        self.plan = AT_ONCE
        self.policy = policy(LIMITS)
        self.changed: tuple[datetime, Policies] | None = None
        """When the policy permitted more last, and the policies before that."""
        self.lease = self.leads()
        """Which policy the leader obeys, and whether the leader before obeyed another one."""
        self.enforced_before = True
        """The leader before enforced each class."""
        self.options = OFF
        self.stopped = ""
        self.window: tuple[Window, ...] = ()
        self.not_made: frozenset[str] = frozenset()
        self.not_removed: frozenset[str] = frozenset()
        """Names of rules that the API server refuses to create or raise; to lower or remove."""
        self.tainted_since: dict[tuple[str, str], float] = {}
        """By the UID of a rule that keeps work away, and its GPU or its slice."""
        self.clock_set_at = -1e9
        """When the leader's clock last jumped: the few seconds of the settle time are by it."""
        self.taints = Taints()
        self.steady = Steady()
        self.sound = True
        """No step of the history has failed."""
        self.afresh = False
        """It is the first decision about something that has happened."""

    def view(self) -> NodeView:
        """Return what the remediator sees now."""
        return self.machine.view()

    @property
    def clock(self) -> datetime:
        """What time it is for the leader."""
        return self.machine.time

    @property
    def paused(self) -> str:
        open_now = any(window.when.open_until(self.clock) for window in self.window)
        return "maintenance" if open_now else ""

    def judge(self, seen: NodeView, decision: NodeDecision, before: set[str]) -> None:
        """Check one decision about what was seen; `before` are GPUs that are evicted from."""
        raise NotImplementedError

    def judge_rest(self) -> None:
        """Check what is stored once nothing is left to do."""
        raise NotImplementedError

    def judge_end(self, decision: NodeDecision) -> None:
        """Check the last decision about a world that has stood still for long."""

    def both(self) -> tuple[Stored, Stored]:
        return self.calm, self.dying

    def leads(self) -> PolicyOnLease:
        """Return what a replica that begins to lead knows of policies."""
        steady = self.machine
        return PolicyOnLease(self._changes, lambda: steady.time, lambda: steady.now)

    def _changes(self, at: datetime, before: Policies) -> None:
        self.changed = at, before

    @property
    def disagrees(self) -> str:
        """Why the policy in force takes nothing down now."""
        now = self.policy.at(self.clock)
        self.lease.on_policy_loaded(now)
        return self.lease.why_disagrees(now)

    @property
    def enforced(self) -> bool:
        """Whether no policy takes anything down."""
        now = self.policy.at(self.clock)
        return enforces(now) or (bool(self.disagrees) and self.enforced_before)

    def then(self, seconds: float, dies: int) -> None:
        """Let time pass, and both controllers look."""
        self.sound = False
        self.machine.passes(seconds)
        self.machine.is_read_by_numbers(self.calm.incidents.values())
        seen = self.view()
        if self.machine.gone:
            for stored in self.both():
                stored.conditions.clear()
        self.steady, self.afresh = Steady(), True
        known = all(not isinstance(case.verdict, Unknown) for case, _ in self._live(seen).pairs)
        self._die(seen, dies)
        assert self.calm.effects() == self.dying.effects()
        assert reported(self.calm) == reported(self.dying)
        first, second = (_stated(stored, why=known) for stored in self.both())
        for kind in first | second:
            same = first.get(kind) == second.get(kind)
            assert same or _one_gives_pods_time(*self.both(), kind), (first, second)
        if all(row.mode == "off" for row in self.policy.rows) and not self.disagrees:
            left = {rule.name for rule in self.calm.rules.values()}
            assert left <= self.not_removed, "off leaves nothing behind"
        self.sound = True

    def teardown(self) -> None:
        if self.sound:
            self._stands_still()

    def _live(self, seen: NodeView) -> NodeDecision:
        for _ in range(MOST):
            before = self.calm.evicting()
            decision = self.decide(self.calm, seen)
            self.judge(seen, decision, before)
            if self.enforced:
                late_leaders.taint_nothing_that_was_set_free(
                    self.calm, seen, decision, self.decide, self.clock
                )
            self.afresh = False
            self.steady.take(decision)
            for step in decision.steps:
                self.calm.take(step, self.machine.time)
            for rule in self.calm.rules.values():
                if rule.effect != "None":
                    for uuid in (rule.gpu, rule.uuid):
                        self.tainted_since.setdefault((rule.uid, uuid), self.machine.now)
            self.taints.note(self.calm, decision, lowered=not self.enforced)
            if not lasting(decision.steps):
                self._rests(seen, decision)
                return decision
        raise AssertionError(f"never settles: {self.calm.taken[-4:]}")

    def _rests(self, seen: NodeView, decision: NodeDecision) -> None:
        wake_at = decision.wake_at
        assert wake_at is None or wake_at > self.clock, "looked at again for nothing"
        own = enforces(self.policy.at(self.clock))
        if self.enforced:
            self.taints.stand(self.calm, self.over(self.calm, seen), decision, keeps_only=not own)
        if own:
            self.taints.miss_nothing(self.calm, seen, decision)
        self.judge_rest()

    def _die(self, seen: NodeView, after: int) -> None:
        for step in self.decide(self.dying, seen).steps[:after]:
            self.dying.take(step, self.machine.time)
        for _ in range(MOST):
            steps = self.decide(self.dying, seen).steps
            for step in steps:
                self.dying.take(step, self.machine.time)
            if not lasting(steps):
                return
        raise AssertionError("never settles after a crash")

    def _stands_still(self) -> None:
        """Look at what stays as it is at the moments that decisions ask for, and at the end."""
        seen = self.view()
        self.steady.begin()
        decision, wrote = self._live(seen), list[Step]()
        for look in range(LOOKS + MORE_LOOKS):
            self._nothing_is_missed(seen, decision)
            if decision.wake_at is None:
                break
            ahead = (decision.wake_at - self.machine.time).total_seconds()
            self.machine.passes(max(ahead, 3.0**look if look < LOOKS else 60.0))
            self.machine.looks()
            taken = len(self.calm.taken)
            decision = self._live(seen)
            wrote = [step for step in lasting(self.calm.taken[taken:]) if not _prunes(step)]
        else:
            assert not wrote, f"writes for ever: {wrote}"
        self.judge_end(decision)

    def _nothing_is_missed(self, seen: NodeView, decision: NodeDecision) -> None:
        """Check that time alone changes no rule before the moment that a decision asks for.

        What is only reported may wait for the next look at all nodes, within a minute.
        """
        last = decision.wake_at or self.machine.time + timedelta(days=25)
        due = self.decide(self.calm, seen, last - SHORTLY)
        missed = [step for step in due.steps if isinstance(step, CHANGES) and not _renames(step)]
        assert not missed, f"missed: {missed}"

    def over(self, stored: Stored, seen: NodeView) -> NodeView:
        """Return a view with what is stored in it, on the Node as well."""
        until = self.clock + TRIED_AGAIN
        refused, stuck = (
            {name: RefusedRule("by a policy", until) for name in names}
            for names in (self.not_made, self.not_removed)
        )
        view = with_fields(stored.over(seen), refused=refused, irremovable=stuck)
        if view.facts is None:
            return view
        stated = tuple(stored.conditions.values())
        facts = msgspec.structs.replace(view.facts, conditions=stated)
        return msgspec.structs.replace(view, facts=facts)

    def decide(self, stored: Stored, seen: NodeView, now: datetime | None = None) -> NodeDecision:
        view, now = self.over(stored, seen), now or self.clock
        return decide_node(view, self.fleet(stored), self.in_use(), now, self.options)

    def fleet(self, stored: Stored) -> Fleet:
        """Return the cluster as a leader sees it."""
        self.lease.on_policy_loaded(self.policy.at(self.clock))
        at, before = self.changed or (None, None)
        return with_fields(stored.fleet(), policy_changed_at=at, policies_before=before)

    def in_use(self) -> Policy:
        now = {"stopped": self.stopped, "maintenance": self.window, "disagrees": self.disagrees}
        return with_fields(self.policy.at(self.clock), **now)


def enforces(one: Policy) -> bool:
    """Whether each class is enforced everywhere, up to where it is shipped."""
    shipped = {row.fault_class: row.ceiling for row in SHIPPED}
    return not one.exempt and all(
        (row.mode, row.ceiling) == ("enforce", shipped[row.fault_class]) for row in one.rows
    )


def lasting(steps: Iterable[Step]) -> list[Step]:
    """Return what changes something that is stored: a request for an eviction does not."""
    return [step for step in steps if not isinstance(step, EvictPod)]


def _renames(step: Step) -> bool:
    """Whether a rule only gets the words of another fault."""
    return isinstance(step, ChangeRule) and step.rule.effect == step.stored.effect


def _prunes(step: Step) -> bool:
    """Whether a step takes away what was closed long ago, a few at a time."""
    return isinstance(step, DeleteIncident)


def _one_gives_pods_time(first: Stored, second: Stored, kind: str) -> bool:
    """Whether a repair is requested after its deadline, and in the other waits for evicted pods.

    Their time counts from what is stored, and a leader that dies between two writes stores it
    later: a rule that is made again, an eviction that a budget had deferred until then.
    """
    messages = [
        stored.conditions[kind].message for stored in (first, second) if kind in stored.conditions
    ]
    waits = [LEAVING in message for message in messages]
    overdue = ["waited until the deadline" in message for message in messages]
    return sorted(waits) == sorted(overdue) == [False, True] and waits != overdue


def _stated(stored: Stored, *, why: bool) -> dict[str, tuple[str, str]]:
    """Return what the Node's conditions read. An unknown state leaves a reason as it was last.

    Of a call and an eviction under one cap the first that is written goes. So while pods are
    evicted, a leader that died may have left the call deferred that waits for those pods. The cause
    of an incident depends on what its leader lived to see, as in `reported`: a reason that names it
    has to be one that its message names.
    """
    evicts = any(rule.effect in EVICTING for rule in stored.rules.values())
    same = {HELD: WAITING} if evicts else {}
    for condition in stored.conditions.values():
        if code := XID_REASON.fullmatch(condition.reason):
            assert f"(xid-{code[1]}, " in condition.message
            same[condition.reason] = "NvidiaDeviceRepairNeeded"
    return {
        kind: (condition.status, same.get(condition.reason, condition.reason) if known else "")
        for kind, condition in stored.conditions.items()
        for known in (why or condition.status == PROBLEM[kind],)
    }
