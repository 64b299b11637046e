"""Between allocation and the node: allocated claims of a pod that has no node yet. Pure."""

from datetime import timedelta

from allocation.layers.finding import Finding, PodView
from allocation.model.claims import Claim
from allocation.model.nodes import NodeSelectorError

BINDING_TIMEOUT = timedelta(minutes=10)
"""Default of the scheduler (`bindingTimeout` of DynamicResourcesArgs): then it allocates anew."""
MOST_CONSUMERS = 256
"""Pods that a claim may be reserved for (`ResourceClaimReservedForMaxSize`)."""


def binding(view: PodView) -> Finding | None:
    """Return why a pod whose claims are allocated is not bound to a node."""
    if view.pod.spec.node_name:
        return None
    for claim in view.claims_of_pod():
        if claim.status.allocation is not None:
            found = _in_use(view, claim) or _conditions(claim) or _elsewhere(view, claim)
            if found is not None:
                return found
    return None


def _in_use(view: PodView, claim: Claim) -> Finding | None:
    consumers = claim.status.reserved_for
    mine = any(each.uid == view.pod.metadata.uid for each in consumers)
    if mine or len(consumers) < MOST_CONSUMERS:
        return None
    return Finding(
        layer="Binding",
        reason="ClaimInUse",
        message=f"claim {claim.metadata.name} is reserved for {len(consumers)} pods, the most that "
        "one claim can have",
        todo=("wait until one of them ends, or give this pod another claim",),
    )


def _conditions(claim: Claim) -> Finding | None:
    allocation = claim.status.allocation
    begun = allocation.allocation_timestamp if allocation else None
    missing: list[str] = []
    for result in claim.results:
        stated = claim.conditions(result) if result.binding_conditions else {}
        for kind in result.binding_failure_conditions:
            failed = stated.get(kind)
            if failed is not None and failed.status == "True":
                return Finding(
                    layer="Binding",
                    reason="BindingFailed",
                    message=f"driver {result.driver} reports {kind} of {result.name}",
                    since=failed.last_transition_time,
                    evidence=tuple(filter(None, (failed.reason, failed.message))),
                    todo=("the scheduler allocates anew; if that repeats, see the driver's log",),
                )
        for kind in result.binding_conditions:
            condition = stated.get(kind)
            if condition is None or condition.status != "True":
                why = f": {condition.message}" if condition and condition.message else ""
                missing.append(f"{kind} of {result.name}{why}")
    if not missing:
        return None
    until = f", until {begun + BINDING_TIMEOUT:%H:%M:%SZ} by default" if begun else ""
    return Finding(
        layer="Binding",
        reason="BindingPending",
        message=f"claim {claim.metadata.name} is allocated, and the scheduler waits for its driver "
        f"to make {len(missing)} device{'s' * (len(missing) > 1)} ready{until}",
        since=begun,
        evidence=tuple(missing),
        todo=("the driver sets these conditions in status.devices of the claim: see its log",),
    )


def _elsewhere(view: PodView, claim: Claim) -> Finding | None:
    """Return why the pod cannot run where its claim is allocated."""
    allocation = claim.status.allocation
    selector = allocation.node_selector if allocation else None
    if selector is None or not view.nodes:
        return None
    try:
        nodes = [node for node in view.nodes if node.meets(selector)]
        away = [(node.name, view.pod.why_not_on(node)) for node in nodes]
    except NodeSelectorError:
        return None
    if any(why is None for _, why in away):
        return None
    stated = [f"{name}: {' '.join(why)}".rstrip() for name, why in away if why]
    where = ", ".join(node.name for node in nodes) or "no node of the cluster"
    return Finding(
        layer="Binding",
        reason="ClaimElsewhere",
        message=f"claim {claim.metadata.name} is allocated on {where}, where this pod may not run",
        since=allocation.allocation_timestamp if allocation else None,
        evidence=tuple(stated),
        todo=(
            "change what keeps the pod from there, or free the claim: it is allocated anew once "
            "no pod uses it",
        ),
    )
