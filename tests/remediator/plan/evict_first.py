"""A GPU that pods hold, under a policy that evicts by the Eviction API first."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from remediator.model.claim import Claim, Toleration
from remediator.model.incident_status import EVICTION_BLOCKED
from remediator.model.pod import PodFacts
from remediator.plan.node_decision import NodeDecision
from remediator.plan.steps import EvictPod
from remediator.plan.view import NodeView
from remediator.policy.table import Evict, Policy, Then
from tests.remediator.builders import (
    Stored,
    dead,
    policy,
    view,
)
from tests.remediator.playing import claim, evicts_later, pod, tick

WITHIN = timedelta(minutes=10)
REFUSED = "The disruption budget web needs 1 healthy pods and has 1 currently"
START = 10.0
"""Seconds after T0 at which the first eviction is requested in these incidents."""


def rows(then: Then = "NoExecute", **fields: Any) -> Policy:
    return policy(evict=Evict(within=WITHIN, then=then), **fields)


def seen(*pods: PodFacts, claims: Iterable[Claim] | None = None, **fields: Any) -> NodeView:
    """A dead GPU that pods hold, each by a claim of its own unless said otherwise."""
    held = tuple(claim("gpu-0", facts.name) for facts in pods) if claims is None else tuple(claims)
    return view(dead(), claims=held, pods=pods, **fields)


def tolerating(name: str, *tolerations: Toleration) -> Claim:
    return claim("gpu-0", name, tolerations=tolerations)


def begun(node_view: NodeView, asks: Policy, stored: Stored | None = None) -> Stored:
    """Play a node until evictions may be requested, at START."""
    stored = stored or Stored()
    for second in (0.0, 0.5, 1.0):
        tick(stored, node_view, second, evicts_later(asks))
    tick(stored, node_view, 5.0, asks)
    assert set(stored.effects().values()) == {"Evict"}, stored.effects()
    return stored


def requested(decision: NodeDecision) -> list[str]:
    return [step.pod.pod for step in decision.steps if isinstance(step, EvictPod)]


def blocked(stored: Stored) -> str:
    found = stored.incident.status.conditions
    return next(
        (condition.message for condition in found if condition.type == EVICTION_BLOCKED), ""
    )


def play(  # noqa: PLR0917 - a world, and when it is looked at
    stored: Stored, node_view: NodeView, asks: Policy, first: float, last: float, every: float = 5.0
) -> list[NodeDecision]:
    """Decide again and again, as the loop does."""
    moments = [first + every * number for number in range(int((last - first) / every) + 1)]
    return [tick(stored, node_view, moment, asks) for moment in moments]


def shared(*names: str) -> tuple[NodeView, Claim]:
    """A claim that several pods share."""
    both = claim("gpu-0", "shared", reserved=names)
    return seen(*(pod(name) for name in names), claims=(both,)), both
