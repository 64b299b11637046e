"""Random histories of three nodes under one budget, with crashes between any two steps.

`make test` plays some hundred, `make histories` as many as HISTORIES says.
"""

import os
from datetime import timedelta

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from exporter.model.node_health import GpuHealth, RecoveryAction
from remediator.model.taint_rule import EFFECTS, Effect
from remediator.plan.node_decision import NodeDecision, decide_node
from remediator.plan.steps import ChangeRule, CreateRule
from remediator.plan.view import Fleet, GpuPlace, NodeView
from remediator.policy.limits import Cap, Caps, Correlation, Limits, Rate
from tests.remediator.builders import (
    DRIVER,
    Stored,
    at,
    gpu,
    policy,
    report,
    view,
    with_fields,
    xid,
)

HISTORYS = int(os.environ.get("HISTORIES", "120")) // 3
NODES = ("node-a", "node-b", "node-c")
GPUS = 3
TAINTED, EVICTING, EVICTING_ON_NODE = 4, 2, 1
RATE = Rate(1, timedelta(minutes=2))
LIMITS = Limits(
    taint=Caps(cluster=Cap(TAINTED)),
    evict=Caps(cluster=Cap(EVICTING), node=Cap(EVICTING_ON_NODE), rate=RATE),
    correlation=Correlation(nodes=3, within=timedelta(minutes=10)),
)
RULES = policy(LIMITS)
NODE, WHICH = st.sampled_from(NODES), st.integers(0, GPUS - 1)
THEN = st.sampled_from([0.5, 3.0, 11.0, 61.0, 601.0])
ORDER = st.permutations(NODES)
EVERYTHING = 10_000
DIES = st.integers(0, 8)
"""Steps of each node's first tick that are still taken."""


class FleetHistory(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.stored = Stored()
        self.gpus: dict[tuple[str, int], GpuHealth] = {
            (node, index): gpu(index, node=node) for node in NODES for index in range(GPUS)
        }
        self.boots: dict[str, int] = dict.fromkeys(NODES, 1)
        self.listed: set[str] = set()
        """Nodes of which it is known that no pod holds a GPU: what is evicted there is drained."""
        self.begun: list[float] = []
        self.stopped = ""

    @rule(node=NODE, which=WHICH, code=st.sampled_from([79, 95, 120]), order=ORDER, then=THEN)
    def a_fault(self, node: str, which: int, code: int, order: list[str], then: float) -> None:
        moment = at(self.now)
        asks = RecoveryAction(support="Supported", value=1, since=moment, observed_at=moment)
        self._becomes(node, which, xids=(xid(code, self.now),), recovery_action=asks)
        self._everybody_is_looked_at(order, EVERYTHING, then)

    @rule(node=NODE, which=WHICH, order=ORDER, then=THEN)
    def a_repair(self, node: str, which: int, order: list[str], then: float) -> None:
        old, moment = self.gpus[node, which], at(self.now)
        none = RecoveryAction(support="Supported", value=0, since=moment, observed_at=moment)
        there = {"presence": "Present", "presence_since": moment}
        there |= {"epoch": old.epoch + 1, "epoch_started": moment, "recovery_action": none}
        self._becomes(node, which, **there)
        self._everybody_is_looked_at(order, EVERYTHING, then)

    @rule(node=NODE, which=WHICH, order=ORDER, days=st.sampled_from([0.01, 2.0, 9.0]), then=THEN)
    def a_board_waits_for_its_replacement(
        self, node: str, which: int, order: list[str], days: float, then: float
    ) -> None:
        """It has left the bus, no pod is on it, and nobody comes for days."""
        lost = {"presence": "Lost", "presence_since": at(self.now)}
        self._becomes(node, which, recovery_action=RecoveryAction(), **lost)
        self.listed.add(node)
        for seconds in (1.0, 4.0, days * 86400.0, then):
            self._everybody_is_looked_at(order, EVERYTHING, seconds)

    @rule(node=NODE, order=ORDER, then=THEN)
    def a_node_is_replaced(self, node: str, order: list[str], then: float) -> None:
        """Under the same name, with other boards in the same slots."""
        self.boots[node] += 1
        for which in range(GPUS):
            old = self.gpus[node, which]
            new = gpu(self.boots[node] * GPUS + which, node=node)
            healthy = msgspec.structs.replace(new, minor=old.minor, pci_bus_id=old.pci_bus_id)
            self.gpus[node, which] = healthy
        self.listed.discard(node)
        self._everybody_is_looked_at(order, EVERYTHING, then)

    @rule(stopped=st.booleans())
    def the_emergency_stop(self, stopped: bool) -> None:
        self.stopped = "ana: a history" if stopped else ""

    @rule(order=ORDER, dies=DIES, then=THEN)
    def a_crash(self, order: list[str], dies: int, then: float) -> None:
        self._everybody_is_looked_at(order, dies, then)

    def _everybody_is_looked_at(self, order: list[str], dies: int, then: float) -> None:
        self.now += then
        for node in order:
            self._takes(node, dies)
        for node in order:
            self._settles(node)
        self._healing_is_not_held()

    def _takes(self, node: str, most: int) -> bool:
        before = self._suffering("NoExecute")
        decision = self._decide(node)
        self._a_budget_counts_what_goes_on(node, decision)
        for step in decision.steps[:most]:
            if isinstance(step, CreateRule):
                assert not self.stopped
            self.stored.take(step, at(self.now))
            self.the_budget_holds()
        self.begun += [self.now for _ in self._suffering("NoExecute") - before]
        return bool(decision.steps)

    def _a_budget_counts_what_goes_on(self, node: str, decision: NodeDecision) -> None:
        """Drained boards and nodes that are gone stop no eviction, there or elsewhere."""
        evicts = [step.rule for step in decision.steps if isinstance(step, ChangeRule)]
        begins = {rule.gpu for rule in evicts if rule.effect == "NoExecute"}
        evicting = self.stored.evicting()
        here = [gpu for where, gpu in self._suffering("NoExecute") if where == node]
        for _, planned in decision.pairs:
            if (
                planned.granted.deferred_by == "Budget"
                and "NoExecute deferred" in planned.granted.deferred
            ):
                full = len(evicting) >= EVICTING or len(evicting & set(here)) >= EVICTING_ON_NODE
                assert full or begins or self._began_lately(), (
                    f"nothing goes on: {planned.granted.deferred}"
                )

    def _began_lately(self) -> list[float]:
        return [moment for moment in self.begun if self.now - moment < RATE.within.total_seconds()]

    def _settles(self, node: str) -> None:
        for _ in range(12):
            if not self._takes(node, EVERYTHING):
                return
        raise AssertionError(f"never settles: {self.stored.taken[-4:]}")

    def _decide(self, node: str) -> NodeDecision:
        seen = self._view(node)
        places = {
            health.uuid: GpuPlace(node=where, pools=frozenset({f"{DRIVER}/{where}"}))
            for (where, _), health in self.gpus.items()
        }
        fleet = Fleet(
            rules=tuple(self.stored.rules.values()),
            incidents=tuple(self.stored.incidents.values()),
            places=places,
            totals={("cluster", ""): len(places)},
            stopped=self.stopped,
        )
        return decide_node(seen, fleet, RULES, at(self.now))

    def _view(self, node: str) -> NodeView:
        mine = [health for (where, _), health in self.gpus.items() if where == node]
        dated = {"observed_at": at(self.now), "boot_id": f"boot-{self.boots[node]}"}
        reported = report(*mine, **dated)
        return view(
            *mine,
            node=node,
            report=reported,
            pods=() if node in self.listed else None,
            rules=tuple(
                taint_rule for taint_rule in self.stored.rules.values() if taint_rule.node == node
            ),
            incidents=tuple(
                incident for incident in self.stored.incidents.values() if incident.node == node
            ),
        )

    def _healing_is_not_held(self) -> None:
        """Whatever is held or stopped: who was looked at healthy for the soak time is free."""
        for incident in self.stored.incidents.values():
            since = incident.status.recovery.healthy_since
            if (
                incident.open
                and since is not None
                and incident.status.recovery.untaint != "OnConfirmation"
            ):
                assert (at(self.now) - since).total_seconds() < 600

    @invariant()
    def the_budget_holds(self) -> None:
        assert len(self._suffering("NoSchedule")) <= TAINTED
        evicting = self.stored.evicting()
        assert len(evicting) <= EVICTING
        nodes = [node for node, gpu in self._suffering("NoExecute") if gpu in evicting]
        assert all(nodes.count(node) <= EVICTING_ON_NODE for node in NODES)
        assert len(self._began_lately()) <= RATE.count

    @invariant()
    def only_the_sick_are_tainted(self) -> None:
        given = {
            health.uuid
            for health in self.gpus.values()
            if health.xids or health.epoch > 1 or health.presence == "Lost"
        }
        assert {taint_rule.gpu for taint_rule in self.stored.rules.values()} <= given

    def _suffering(self, least: Effect) -> set[tuple[str, str]]:
        return {
            (taint_rule.node, taint_rule.gpu)
            for taint_rule in self.stored.rules.values()
            if EFFECTS.index(taint_rule.effect) >= EFFECTS.index(least)
        }

    def _becomes(self, node: str, which: int, **fields: object) -> None:
        self.gpus[node, which] = with_fields(self.gpus[node, which], **fields)


TestFleetHistories = FleetHistory.TestCase
TestFleetHistories.settings = settings(
    max_examples=HISTORYS,
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
