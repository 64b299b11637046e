"""Reconciles one node: observe, decide, read again what a disruption rests on, apply.

`Reconciler` reads the cluster and takes its steps through a `ControlPlane`. `plan.node_decision`
decides which steps these are.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Protocol

import msgspec

from remediator.plan import node_condition
from remediator.plan.events import Event
from remediator.plan.node_condition import HandoverOptions
from remediator.plan.node_decision import NodeDecision, decide_node
from remediator.plan.stages import Wake, first_wake
from remediator.plan.steps import (
    Disruption,
    Step,
    disruption,
    goes_on,
    gpu_of,
    incident_written,
    untainting,
)
from remediator.plan.view import Fleet, NodeView
from remediator.policy.table import Policy

_FIRST_LOOK_AGAIN, _LAST_LOOK_AGAIN = timedelta(seconds=0.25), timedelta(seconds=30)
"""After a final check that found a difference: the watch needs some time to catch up."""


class ControlPlane(Protocol):
    """What a reconcile may read and do. A step that fails is planned again at the next one."""

    def confirm(self, view: NodeView, begins: Disruption, /) -> str:
        """Return what of a view differs on the API server now, "" when nothing does."""
        ...

    def observe(self, node: str) -> NodeView: ...

    def fleet(self) -> Fleet: ...

    def apply(self, step: Step) -> None: ...

    def post(self, event: Event, now: datetime) -> None: ...


class StepsFailedError(Exception):
    """Steps of some GPUs of a node failed; those of the others were taken."""

    def __init__(self, error: Exception, wake_at: datetime | None) -> None:
        super().__init__(str(error))
        self.error = error
        """The first of them."""
        self.wake_at = wake_at
        """When time alone changes the answer for a GPU whose steps were all taken."""


class Reconciler:
    """Brings a node from its observed to its desired state, one decision at a time."""

    def __init__(
        self,
        cluster: ControlPlane,
        policy: Callable[[], Policy],
        options: HandoverOptions = node_condition.OFF,
    ) -> None:
        self._cluster = cluster
        self._policy = policy
        self._options = options
        self._unconfirmed: dict[str, int] = {}
        """By node: how often in a row the final check found a difference."""

    def reconcile(self, node: str, now: datetime) -> NodeDecision:
        """Observe a node, take every step that its state needs, and return the decision.

        A step that fails ends the steps of its GPU, but for those that `goes_on` lets pass; the
        other GPUs go on. An Event is posted when the status that it reports is
        written. A refused eviction is that pod's own and raises nothing: the incident records it.
        The first error is raised at the end, in a StepsFailedError, so that the node is looked at
        again.
        """
        view = self._cluster.observe(node)
        # Before the fleet, which has the time of the policy's change: so a new policy never comes
        # with an old date.
        policy = self._policy()
        decision = decide_node(view, self._cluster.fleet(), policy, now, self._options)
        if decision.begins or decision.begins.continued:
            decision = self._confirm_disruption(view, decision, policy, now)
        decision = self._look_again(self._confirm_untaints(view, decision), now)
        failed: dict[str, list[tuple[Step, Exception]]] = {}
        # Events that report no incident wait for no write.
        done = {""}
        for step in decision.steps:
            gpu = gpu_of(step)
            if all(goes_on(step, before) for before, _ in failed.get(gpu, ())):
                try:
                    self._cluster.apply(step)
                    done |= incident_written(step)
                except Exception as error:  # noqa: BLE001 - raised below, after the other GPUs
                    failed.setdefault(gpu, []).append((step, error))
        for event in decision.events:
            if event.incident in done:
                self._cluster.post(event, now)
        if failed:
            _, first = next(iter(failed.values()))[0]
            others = [planned for _, planned in decision.pairs if planned.uuid not in failed]
            wake = first_wake(*(planned.wake for planned in others))
            # The steps that failed are retried with a backoff. A final check that found a
            # difference has a time of its own.
            again = decision.wake if decision.unconfirmed else wake
            raise StepsFailedError(first, again.at if again else None) from first
        return decision

    def _confirm_disruption(
        self, view: NodeView, decision: NodeDecision, policy: Policy, now: datetime
    ) -> NodeDecision:
        """Return a decision that begins a disruption only if what it rests on is still true.

        Otherwise the node is decided again, as one whose claims cannot be trusted, and looked at
        again when its watches have caught up.
        """
        differs = self._cluster.confirm(view, decision.begins)
        if not differs:
            return decision
        blind = msgspec.structs.replace(view, blind={**view.blind, "claims": differs})
        # Not just the same steps without the disruption: rules that would have been raised keep
        # their effect, and the incident records why.
        second = decide_node(blind, self._cluster.fleet(), policy, now, self._options)
        # With claims in doubt no eviction begins. A call for repair rests on other facts, too, and
        # one of these may differ: so it waits as well.
        steps = [
            step
            for step in second.steps
            if not disruption([step], (board for board, _ in second.pairs), ())
        ]
        return msgspec.structs.replace(
            second, steps=steps, begins=Disruption(), unconfirmed=differs
        )

    def _confirm_untaints(self, view: NodeView, decision: NodeDecision) -> NodeDecision:
        """Return a decision without the untaints that rest on what is no longer true.

        Those GPUs stay as they are until the watches have caught up; the others go on.
        """
        untaints = untainting(decision.steps, (planned.demanded for _, planned in decision.pairs))
        if not untaints:
            return decision
        differs = self._cluster.confirm(view, Disruption(untainted=frozenset(untaints.values())))
        if not differs:
            return decision
        return msgspec.structs.replace(
            decision,
            steps=[step for step in decision.steps if gpu_of(step) not in untaints],
            sentence=f"{decision.sentence}; untaint deferred: {differs}",
            unconfirmed=decision.unconfirmed or differs,
        )

    def _look_again(self, decision: NodeDecision, now: datetime) -> NodeDecision:
        """Return a decision that wakes again if its node's watches lag, later each time."""
        if not decision.unconfirmed:
            self._unconfirmed.pop(decision.node, None)
            return decision
        times = self._unconfirmed[decision.node] = self._unconfirmed.get(decision.node, 0) + 1
        # The power is bounded, too: a timedelta cannot be that long.
        again = now + min(_FIRST_LOOK_AGAIN * 2 ** min(times - 1, 16), _LAST_LOOK_AGAIN)
        wake = first_wake(Wake(again, decision.unconfirmed), decision.wake)
        return msgspec.structs.replace(decision, wake=wake)
