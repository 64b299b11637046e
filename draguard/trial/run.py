"""A signal on one simulated node into the steps that the remediator takes, in simulated time. Pure.

The decisions are the remediator's own (`plan.node_decision`). Only what lies between a decision
and its effect is simulated: an API server that accepts every step, and pods that leave a device
when they are evicted.
"""

from datetime import datetime, timedelta

import msgspec

from draguard.trial import signal as signals
from draguard.trial.signal import GPU, Signal
from exporter.model.device import GPU_DRIVER, Device
from remediator.model.claim import Claim
from remediator.model.node import NodeFacts
from remediator.model.pod import PodFacts
from remediator.plan.board import RENEWALS_NEEDED
from remediator.plan.node_decision import NodeDecision, decide_node
from remediator.plan.steps import ChangeRule, CreateRule, EvictPod, Step
from remediator.plan.view import (
    AgentView,
    Fleet,
    GpuPlace,
    NodeView,
    SliceView,
    StoreView,
    UsageView,
)
from remediator.policy.table import Policy
from remediator.step_store import StepStore

NAMESPACE = "default"
TURN = timedelta(milliseconds=50)
"""The duration of a reconcile with its writes here."""
TURNS = 500
"""More than any trial needs; a longer one ends here."""
FAULTY_FOR = timedelta(minutes=30)
"""How long the fault lasts before the repair."""
NEXT_READING = timedelta(seconds=15)
"""When NVML is read again; also for decisions that need two readings some seconds apart."""


class Spot(msgspec.Struct, frozen=True, kw_only=True):
    """Where the GPU is. NVIDIA's driver names a pool after its node."""

    node: str = "node-a"
    device_class: str = ""
    rules_served: bool = True
    """Whether its cluster serves DeviceTaintRules."""


class TakenStep(msgspec.Struct, frozen=True):
    """A step and when: `after` in seconds since the report arrived."""

    after: float
    step: Step


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    first: NodeDecision
    """The first decision: verdict and desired state."""
    steps: tuple[TakenStep, ...]
    repaired_after: float | None
    """When the GPU was repaired; None if the incident had closed before."""
    deferrals: tuple[str, ...]
    """What deferred something of it before the repair, each once."""
    closed_after: float | None
    """When the incident was closed; None if it stayed open."""
    last: NodeDecision


class Trial:
    """One GPU, its pods, and what is stored about it."""

    def __init__(self, signal: Signal, spot: Spot, policy: Policy, now: datetime) -> None:
        self._signal, self._spot, self._policy = signal, spot, policy
        self._began = self._now = now
        self._sick = signals.sick(signal, now)
        self._repaired_at: datetime | None = None
        self._inventory = signals.published(self._sick, spot.node)
        self._allocated = {part.device for part in self._inventory}
        self._stored = StepStore()
        self._idle = False
        """Whether a decision since the last step found nothing to do and nothing to wait for."""
        self._steps: list[TakenStep] = []
        self._deferrals: dict[str, None] = {}

    def run(self) -> Outcome:
        """Let the fault last for a while, then repair the GPU, and return what was done."""
        first = last = self._decide()
        last = self._until(self._began + FAULTY_FOR) or last
        if self._open():
            self._repaired_at, self._idle = self._now, False
            last = self._until(None) or last
        closed = [incident.status.history.closed_at for incident in self._stored.incidents.values()]
        done = [at for at in closed if at is not None] if not self._open() else []
        return Outcome(
            first=first,
            steps=tuple(self._steps),
            deferrals=tuple(self._deferrals),
            repaired_after=self._after(self._repaired_at) if self._repaired_at else None,
            closed_after=self._after(max(done)) if done else None,
            last=last,
        )

    def _after(self, at: datetime) -> float:
        return (at - self._began).total_seconds()

    def _open(self) -> bool:
        return any(incident.open for incident in self._stored.incidents.values())

    def _until(self, end: datetime | None) -> NodeDecision | None:
        """Decide and act until nothing changes, or until a time; returns the last decision."""
        decision: NodeDecision | None = None
        for _ in range(TURNS):
            decision = self._decide()
            for step in decision.steps:
                self._steps.append(TakenStep(self._after(self._now), step))
                self._take(step)
            if decision.steps:
                self._now += TURN
                self._idle = False
            elif not self._advance(decision, end):
                return decision
        return decision

    def _advance(self, decision: NodeDecision, end: datetime | None) -> bool:
        """Advance to when something may change; returns whether anything may before `end`."""
        no_execute = {d for d, rule in self._stored.rules.items() if rule.effect == "NoExecute"}
        if no_execute & self._allocated:
            self._allocated -= no_execute  # the eviction controller has deleted their pods
            self._now += TURN
            return True
        if decision.wake_at is None and self._idle:
            return False
        reading = self._began + NEXT_READING
        wake = decision.wake_at or self._now + NEXT_READING
        if self._now < reading <= wake:
            wake, self._idle = reading, False
        else:
            self._idle = decision.wake_at is None
        if end is not None and wake > end:
            self._now = end
            return False
        self._now = max(wake, self._now + TURN)
        return True

    def _decide(self) -> NodeDecision:
        fleet = Fleet(
            rules=tuple(self._stored.rules.values()),
            incidents=tuple(self._stored.incidents.values()),
            places={GPU: self._place()},
            rules_served=self._spot.rules_served,
        )
        decision = decide_node(self._view(), fleet, self._policy, self._now)
        if self._repaired_at is None:
            each = (each for _, planned in decision.pairs for each in planned.granted.deferrals)
            self._deferrals |= dict.fromkeys(deferral.in_words for deferral in each)
        return decision

    def _place(self) -> GpuPlace:
        claimed = self._allocated and self._spot.device_class
        classes = {self._spot.device_class} if claimed else set[str]()
        pools = frozenset({f"{GPU_DRIVER}/{self._spot.node}"})
        return GpuPlace(node=self._spot.node, pools=pools, classes=frozenset(classes))

    def _view(self) -> NodeView:
        gpu, reported_at = self._sick, self._began
        if self._now >= self._began + NEXT_READING:
            reported_at = self._now
            gpu = signals.read_again(gpu, self._signal, self._now)
        if self._repaired_at is not None:
            reported_at = self._now
            gpu = signals.repaired(gpu, self._signal, self._repaired_at, self._now)
        names = [_name(device) for device in sorted(self._allocated)]
        return NodeView(
            node=self._spot.node,
            agent=AgentView(
                report=signals.report(gpu, self._signal, reported_at),
                renewals=(self._now,) * RENEWALS_NEEDED,
                behind=timedelta(),
            ),
            slices=SliceView(
                inventory=self._inventory,
            ),
            stored=StoreView(
                incidents=tuple(self._stored.incidents.values()),
                rules=tuple(self._stored.rules.values()),
                rules_served=self._spot.rules_served,
            ),
            usage=UsageView(
                claims=tuple(_claim(device) for device in sorted(self._allocated)),
                pods=tuple(
                    PodFacts(
                        namespace=NAMESPACE,
                        name=name,
                        uid=f"uid-{name}",
                        claims=(name,),
                        started=self._began - signals.LONG_AGO,
                    )
                    for name in names
                ),
            ),
            facts=NodeFacts(name=self._spot.node, uid="node", conditions=()),
            nodes_known=True,
            places={GPU: self._place()},
        )

    def _take(self, step: Step) -> None:
        self._stored.take(step, self._now)
        match step:
            case CreateRule(rule) | ChangeRule(_, rule):
                # The API server adds the time to a taint.
                stored = self._stored.rules[rule.device]
                self._stored.rules[rule.device] = msgspec.structs.replace(
                    stored, time_added=self._now
                )
            case EvictPod(_, pod):
                self._allocated = {device for device in self._allocated if _name(device) != pod.pod}
            case _:
                pass


def _name(device: Device) -> str:
    return f"pod-on-{device.device}"


def _claim(device: Device) -> Claim:
    name = _name(device)
    content = {
        "metadata": {"name": name, "namespace": NAMESPACE},
        "status": {
            "allocation": {"devices": {"results": [msgspec.to_builtins(device)]}},
            "reservedFor": [{"resource": "pods", "name": name, "uid": f"uid-{name}"}],
        },
    }
    return msgspec.convert(content, Claim)
