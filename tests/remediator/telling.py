"""Tells a story to the pure core: views in at a moment, steps taken by a store in memory."""

import msgspec

from remediator.decide.plan import Step
from remediator.decide.reconcile import NodeDecision, decide_node
from remediator.decide.view import NodeView
from remediator.objects.claims import (
    Allocation,
    Claim,
    ClaimMeta,
    ClaimStatus,
    ConsumerReference,
    DeviceAllocation,
    DeviceResult,
)
from remediator.objects.pods import PodFacts
from remediator.policy.table import Policy
from tests.remediator.builders import DRIVER, NODE, Stored, at, policy

ENFORCE = policy()


def claim(device: str, pod: str = "train-0") -> Claim:
    result = DeviceResult(DRIVER, NODE, device)
    return Claim(
        ClaimMeta(name=f"claim-of-{pod}", namespace="team"),
        ClaimStatus(
            Allocation(DeviceAllocation((result,))), (ConsumerReference(pod, "pods", f"u-{pod}"),)
        ),
    )


def pod(name: str = "train-0", **fields: object) -> PodFacts:
    """A running pod of the node, the one that `claim` speaks of."""
    standard = PodFacts(namespace="team", name=name, uid=f"u-{name}")
    return msgspec.structs.replace(standard, **fields)


def tick(stored: Stored, seen: NodeView, seconds: float, rows: Policy = ENFORCE) -> NodeDecision:
    """Reconcile once at T0 + seconds."""
    now = at(seconds)
    decision = decide_node(stored.over(seen), stored.fleet(), rows, now)
    for step in decision.steps:
        stored.take(step, now)
    return decision


def settle(stored: Stored, seen: NodeView, seconds: float, rows: Policy = ENFORCE) -> NodeDecision:
    """Reconcile until nothing is left to do at this moment."""
    for _ in range(8):
        decision = tick(stored, seen, seconds, rows)
        if not decision.steps:
            return decision
    raise AssertionError(f"never settles: {stored.taken[-3:]}")


def effect_of(step: Step) -> str:
    return getattr(getattr(step, "rule", None), "effect", "")
