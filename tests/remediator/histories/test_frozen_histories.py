"""The same histories while watches of slices and claims lag behind what is so, unnoticed."""

from datetime import datetime

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule

from exporter.model.device import Device
from remediator.model.claim import Claim
from remediator.model.incident import Incident
from remediator.plan.node_decision import NodeDecision
from remediator.plan.steps import ChangeRule, disruption
from remediator.plan.view import NodeView, WatchedKind
from remediator.reconcile import Reconciler
from tests.remediator.builders import NODE, Stored, with_fields
from tests.remediator.histories.frozen import LaggingCluster, Truth
from tests.remediator.histories.outside import DIES, INDEX, THEN
from tests.remediator.histories.taints import raises
from tests.remediator.histories.test_evict_histories import EvictHistory
from tests.remediator.histories.test_histories import HISTORYS

LISTED = 150.0
"""Seconds of silence after which one list shows what a watch has missed."""
KINDS = st.frozensets(st.sampled_from(("slices", "claims")), min_size=1)
WHO = st.sampled_from(["pod-9", "slurm-9"])


class FrozenHistory(EvictHistory):
    """What the remediator has seen of devices and their users is not always what is so."""

    def __init__(self) -> None:
        super().__init__()
        self.frozen: frozenset[WatchedKind] = frozenset()
        self.copy: NodeView | None = None
        self.frozen_at = 0.0
        self.unconfirmed = 0
        """Decisions that a last look has stopped."""

    @rule(kinds=KINDS, then=THEN, dies=DIES)
    def watches_freeze(self, kinds: frozenset[WatchedKind], then: float, dies: int) -> None:
        self.freezes(kinds)
        self.then(then, dies)

    @rule(then=THEN, dies=DIES)
    def watches_go_on(self, then: float, dies: int) -> None:
        self.frozen = frozenset()
        self.then(then, dies)

    @rule(kinds=KINDS, index=INDEX, moves=st.booleans(), who=WHO, late=THEN, then=THEN, dies=DIES)
    def a_gpu_is_lost_unseen_by_others(  # noqa: PLR0917 - a scene
        self,
        kinds: frozenset[WatchedKind],
        index: int,
        moves: bool,
        who: str,
        late: float,
        then: float,
        dies: int,
    ) -> None:
        """Its name, or its user, is another one by now, and no watch has reported it."""
        self.machine.tenants.slurm.add("slurm-9")
        self.machine.is_claimed(index, 0, f"pod-{index}")
        self.then(late, dies)
        self.freezes(kinds)
        if moves:
            self.machine.numbers_are_swapped()
        else:
            self.machine.is_claimed(index, 0, who)
        self.machine.goes(index, "Lost")
        for seconds in (1.0, 4.0, 4.0, then):
            self.then(seconds, dies)

    def freezes(self, kinds: frozenset[WatchedKind]) -> None:
        """Keep what is seen now of some kinds of object."""
        self.copy, self.frozen_at = self.view(), self.machine.now
        self.frozen = kinds

    def view(self) -> NodeView:
        seen = super().view()
        if self.machine.now - self.frozen_at > LISTED:
            self.frozen = frozenset()
        if self.copy is None:
            return seen
        if "slices" in self.frozen:
            seen = with_fields(seen, inventory=self.copy.slices.inventory)
        if "claims" in self.frozen:
            seen = with_fields(seen, claims=self.copy.usage.claims)
        return seen

    def decide(self, stored: Stored, seen: NodeView, now: datetime | None = None) -> NodeDecision:
        """Decide as a replica does that lost its memory of looks that saw something else."""
        truth = self.truth(tuple(stored.incidents.values()))
        cluster = LaggingCluster(stored, self.fleet(stored), self.over(stored, seen), truth)
        reconciler = Reconciler(cluster, self.in_use, self.options)
        return reconciler.reconcile(NODE, now or self.clock)

    def truth(self, incidents: tuple[Incident, ...] = ()) -> Truth:
        """Return what the API server has now."""
        tenants, claims = self.machine.tenants, tuple(self.machine.tenants.claims.values())
        report = super().view().agent.report
        return Truth(self.machine.published(), claims, tenants.pods(), incidents, report)

    def teardown(self) -> None:
        self.frozen = frozenset()
        super().teardown()

    def judge(self, seen: NodeView, decision: NodeDecision, before: set[str]) -> None:
        super().judge(seen, decision, before)
        truth = super().view()
        lags = (seen.slices.inventory, seen.usage.claims) != (
            truth.slices.inventory,
            truth.usage.claims,
        )
        assert lags or not decision.unconfirmed, decision.unconfirmed
        self.unconfirmed += bool(decision.unconfirmed)
        self._nothing_begins_on_what_was(seen, decision)

    def _nothing_begins_on_what_was(self, seen: NodeView, decision: NodeDecision) -> None:
        """A disruption begins where the hardware is, and of who is there."""
        truth, tenants = self.truth(), self.machine.tenants
        hardware = {it.device: self.machine.board_of(it) for it in truth.devices}
        for step in decision.steps:
            if isinstance(step, ChangeRule) and raises(step):
                device, gpu = step.rule.device, step.rule.gpu
                assert not tenants.of_slurm(device), f"behind Slurm's back: {step}"
                assert hardware.get(device, gpu) == gpu, f"of other hardware: {step}"
        cases = [board for board, _ in decision.pairs]
        begins = disruption(decision.steps, cases, self.calm.conditions.values())
        whole = (
            [it.device for it in (*truth.devices, *seen.slices.inventory)] if begins.repair else []
        )
        for device in {*begins.devices, *whole}:
            held = {_of(device, seen.usage.claims), _of(device, truth.claims)}
            assert len(held) == 1, f"of other pods: {device}"

    def _order_of_observation_does_not_matter(self, seen: NodeView, decision: NodeDecision) -> None:
        if not decision.unconfirmed:
            super()._order_of_observation_does_not_matter(seen, decision)


def _of(device: Device, claims: tuple[Claim, ...]) -> frozenset[str]:
    """Return the UIDs of the pods that have a device."""
    held = (claim for claim in claims if any(it.name == device for it in claim.results))
    return frozenset(by.uid for claim in held for by in claim.consumers)


TestFrozenHistories = FrozenHistory.TestCase
TestFrozenHistories.settings = settings(
    max_examples=max(HISTORYS // 6, 10),
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
