"""Between allocation and the node: allocated claims of a pod that has no node yet. Pure."""

from datetime import timedelta

from allocation.layers.finding import Finding, PodView
from allocation.model.claims import Claim
from kubeapi.types import EARLIEST, LATEST

BINDING_TIMEOUT = timedelta(minutes=10)
"""Default of the scheduler (`bindingTimeout` of DynamicResourcesArgs): then it allocates anew."""


def in_use(view: PodView) -> Finding | None:
    """Return that a claim has no room for the pod: the scheduler looks at no node then."""
    if view.pod.spec.node_name:
        return None
    for claim in view.claims_of_pod():
        if claim.is_full_for(view.pod.metadata.uid):
            return Finding(
                layer="Scheduling",
                reason="ClaimInUse",
                message=f"claim {claim.metadata.name} is reserved for "
                f"{len(claim.status.reserved_for)} pods, the most that one claim can have",
                todo=("wait until one of them ends, or give this pod another claim",),
            )
    return None


def binding(view: PodView) -> Finding | None:
    """Return why a pod whose claims are allocated is not bound to a node."""
    if view.pod.spec.node_name:
        return None
    for claim in view.claims_of_pod():
        if claim.status.allocation is not None:
            found = _conditions(claim)
            if found is not None:
                return found
    return _about_to_be_bound(view) or _elsewhere(view)


def _about_to_be_bound(view: PodView) -> Finding | None:
    """Return that a pod is about to be bound. Its condition still has the last refusal."""
    names, uid = view.pod.claim_names(), view.pod.metadata.uid
    claims = [*view.claims_of_pod()]
    missing = len({*names.values()}) - len(claims)
    if not names or missing or not all(each.is_reserved_for(uid) for each in claims):
        return None
    at = [each.status.allocation.allocation_timestamp for each in claims if each.status.allocation]
    return Finding(
        layer="Binding",
        reason="BindingPending",
        message="its claims are allocated and reserved for it, and the scheduler binds it to a "
        "node: volumes may come first",
        since=max(filter(None, at), default=None),
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
    until = ""
    if begun is not None and EARLIEST < begun < LATEST:
        until = f", until {begun + BINDING_TIMEOUT:%H:%M:%SZ} by default"
    return Finding(
        layer="Binding",
        reason="BindingPending",
        message=f"claim {claim.metadata.name} is allocated, and the scheduler waits for "
        f"conditions of its driver{until}",
        since=begun,
        evidence=tuple(missing),
        todo=("the driver sets these conditions in status.devices of the claim: see its log",),
    )


def _elsewhere(view: PodView) -> Finding | None:
    """Return why the pod cannot run where all of its claims are that are allocated."""
    there, names = view.elsewhere, [name for name, _ in view.demand.placed]
    if there is None:
        return None
    together = "" if there else "; no node has all of them, or none is left"
    return Finding(
        layer="Scheduling",
        reason="ClaimElsewhere",
        message=f"its claims {', '.join(names)} are allocated where it may not run{together}",
        evidence=tuple(f"{name}: {' '.join(why)}".rstrip() for name, why in there.items()),
        todo=(
            "change what keeps the pod from there, or free the claims: they are allocated anew "
            "once no pod uses them",
        ),
    )
