"""The remediator's real decisions on one made-up node, with time going on as fast as it can. Pure.

What stands between a decision and its effect is played here: an API server that
takes every step, and pods that leave a device when they are told to. Verdict,
scope, ladder, budget and plan are the remediator's own (`reconcile.decide_node`).
"""

from datetime import datetime, timedelta

import msgspec

from draguard.trial import signal as signals
from draguard.trial.signal import GPU, Signal
from exporter.model.device import GPU_DRIVER, Device
from exporter.model.node_health import GpuHealth, ObjectMeta
from remediator.diagnose.freshness import RENEWALS_NEEDED
from remediator.model.claim import Claim
from remediator.model.incident import Incident
from remediator.model.node import NodeFacts
from remediator.model.pod import PodFacts
from remediator.model.taint_rule import Rule
from remediator.plan.fleet import Fleet, GpuPlace
from remediator.plan.reconcile import NodeDecision, decide_node
from remediator.plan.steps import (
    ChangeRule,
    CreateRule,
    DeleteIncident,
    DeleteRule,
    EvictPod,
    OpenIncident,
    Step,
    WriteNodeConditions,
    WriteStatus,
)
from remediator.plan.view import NodeView
from remediator.policy.table import Policy

NAMESPACE = "default"
TURN = timedelta(milliseconds=50)
"""What a reconcile with its writes takes here."""
TURNS = 500
"""More than any story needs; one that is longer is told as far as it came."""
STANDS = timedelta(minutes=30)
"""How long the fault stands before it is repaired."""
LOOKED_AFTER = timedelta(seconds=15)
"""For what waits for two looks some seconds apart."""


class Spot(msgspec.Struct, frozen=True, kw_only=True):
    """Where the GPU is. NVIDIA's driver names a pool after its node."""

    node: str = "node-a"
    device_class: str = ""


class Happening(msgspec.Struct, frozen=True):
    """A step that was taken; `after` in seconds since the report came."""

    after: float
    step: Step


class Story(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a signal."""

    first: NodeDecision
    """The first decision: verdict and desired state."""
    happenings: tuple[Happening, ...]
    repaired_after: float | None
    """When the repair was played; None when the story was over before."""
    released_after: float | None
    """When the incident was closed; None when it stayed open."""
    last: NodeDecision


class Trial:
    """One GPU, its pods, and what is stored about it."""

    def __init__(self, signal: Signal, spot: Spot, policy: Policy, now: datetime) -> None:
        self._signal, self._spot, self._policy = signal, spot, policy
        self._began = self._now = now
        self._sick = signals.sick(signal, now)
        self._repaired_at: datetime | None = None
        self._inventory = signals.published(self._sick, spot.node)
        self._held = {one.device for one in self._inventory}
        self._rules: dict[Device, Rule] = {}
        self._incidents: dict[str, Incident] = {}
        self._versions = 0
        self._looked_again = False
        """Whether a look without a reason was taken since the last step."""
        self._happenings: list[Happening] = []

    def story(self) -> Story:
        """Let the fault stand, then repair it, and tell what was done."""
        first = last = self._decide()
        last = self._until(self._began + STANDS) or last
        if self._open():
            self._repaired_at, self._looked_again = self._now, False
            last = self._until(None) or last
        closed = [one.status.closed_at for one in self._incidents.values()]
        done = [at for at in closed if at is not None] if not self._open() else []
        return Story(
            first=first,
            happenings=tuple(self._happenings),
            repaired_after=self._after(self._repaired_at) if self._repaired_at else None,
            released_after=self._after(max(done)) if done else None,
            last=last,
        )

    def _after(self, at: datetime) -> float:
        return (at - self._began).total_seconds()

    def _open(self) -> bool:
        return any(one.open for one in self._incidents.values())

    def _until(self, end: datetime | None) -> NodeDecision | None:
        """Decide and act until nothing more happens, or until a moment; returns the last."""
        decision: NodeDecision | None = None
        for _ in range(TURNS):
            decision = self._decide()
            for step in decision.steps:
                self._happenings.append(Happening(self._after(self._now), step))
                self._take(step)
            if decision.steps:
                self._now += TURN
                self._looked_again = False
            elif not self._later(decision, end):
                return decision
        return decision

    def _later(self, decision: NodeDecision, end: datetime | None) -> bool:
        """Go on to when something may change; returns whether anything may before `end`."""
        moved = {one for one in self._held if self._moves(one)}
        if moved:
            self._held -= moved  # the eviction controller has deleted their pods
            self._now += TURN
            return True
        if decision.wake_at is None and self._looked_again:
            return False
        wake = decision.wake_at or self._now + LOOKED_AFTER
        self._looked_again = decision.wake_at is None
        if end is not None and wake > end:
            self._now = end
            return False
        self._now = max(wake, self._now + TURN)
        return True

    def _moves(self, device: Device) -> bool:
        return device in self._rules and self._rules[device].effect == "NoExecute"

    def _decide(self) -> NodeDecision:
        fleet = Fleet(
            rules=tuple(self._rules.values()),
            incidents=tuple(self._incidents.values()),
            places={GPU: self._place()},
        )
        return decide_node(self._view(), fleet, self._policy, self._now)

    def _place(self) -> GpuPlace:
        claimed = self._held and self._spot.device_class
        classes = {self._spot.device_class} if claimed else set[str]()
        pools = frozenset({f"{GPU_DRIVER}/{self._spot.node}"})
        return GpuPlace(node=self._spot.node, pools=pools, classes=frozenset(classes))

    def _gpu(self) -> GpuHealth:
        if self._repaired_at is None:
            return self._sick
        return signals.repaired(self._sick, self._signal, self._repaired_at, self._now)

    def _view(self) -> NodeView:
        told_at = self._began if self._repaired_at is None else self._now
        return NodeView(
            node=self._spot.node,
            report=signals.report(self._gpu(), self._signal, told_at),
            inventory=self._inventory,
            incidents=tuple(self._incidents.values()),
            rules=tuple(self._rules.values()),
            claims=tuple(_claim(one) for one in sorted(self._held)),
            facts=NodeFacts(name=self._spot.node, uid="node", conditions=()),
            nodes_known=True,
            renewals=(self._now,) * RENEWALS_NEEDED,
            pods=tuple(_pod(one) for one in sorted(self._held)),
            places={GPU: self._place()},
        )

    def _take(self, step: Step) -> None:
        self._versions += 1
        match step:
            case OpenIncident(incident):
                meta = ObjectMeta(
                    name=incident.name,
                    uid=f"uid-{incident.name}",
                    resource_version=str(self._versions),
                    creation_timestamp=self._now,
                )
                self._incidents[incident.name] = Incident(meta, incident.spec)
            case WriteStatus(incident, status):
                self._write(incident.name, status=status)
            case CreateRule(rule):
                self._rules[rule.device] = self._stamped(rule, f"uid-{self._versions}")
            case ChangeRule(stored, rule):
                self._rules[rule.device] = self._stamped(rule, stored.uid)
            case DeleteRule(stored):
                self._rules.pop(stored.device, None)
            case DeleteIncident(incident):
                self._incidents.pop(incident.name, None)
            case EvictPod(_, pod):
                self._held = {one for one in self._held if _name(one) != pod.pod}
            case WriteNodeConditions():
                pass

    def _stamped(self, rule: Rule, uid: str) -> Rule:
        return msgspec.structs.replace(
            rule, uid=uid, resource_version=str(self._versions), time_added=self._now
        )

    def _write(self, name: str, **fields: object) -> None:
        stored = self._incidents[name]
        meta = msgspec.structs.replace(stored.metadata, resource_version=str(self._versions))
        self._incidents[name] = msgspec.structs.replace(stored, metadata=meta, **fields)


def _name(device: Device) -> str:
    return f"pod-on-{device.device}"


def _pod(device: Device) -> PodFacts:
    name = _name(device)
    return PodFacts(namespace=NAMESPACE, name=name, uid=f"uid-{name}", claims=(name,))


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
