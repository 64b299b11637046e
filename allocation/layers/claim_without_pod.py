"""A claim that no pod uses: made by hand, or left behind. Pure."""

from allocation.layers.allocation import lines
from allocation.layers.finding import Finding
from allocation.model.claims import Claim
from allocation.summary import Summary


def claim_without_pod(claim: Claim, summary: Summary | None) -> Finding:
    """Return where a claim stands that no pod uses; `summary` is of one that is not allocated."""
    allocation, deleting = claim.status.allocation, claim.metadata.deletion_timestamp
    name = claim.metadata.name
    if claim.status.reserved_for:
        users = ", ".join(f"{each.resource} {each.name}" for each in claim.status.reserved_for)
        return Finding(
            layer="Running",
            reason="Reserved",
            message=f"it is reserved for {users}, and no pod that waits or runs is among these",
            since=allocation.allocation_timestamp if allocation else None,
        )
    if allocation is not None:
        devices = ", ".join(str(result.name) for result in claim.results)
        return Finding(
            layer="Running",
            reason="ClaimDeleting" if deleting else "Unused",
            message=f"no pod uses it, and it is allocated: {devices}",
            since=deleting or allocation.allocation_timestamp,
            todo=(f"kubectl delete resourceclaim {name} frees its devices",)
            if not deleting
            else (),
        )
    fits = summary is not None and summary.verdict == "Allocatable"
    return Finding(
        layer="Admission",
        reason="ClaimDeleting" if deleting else "NoPod",
        message="no pod uses it, and devices are allocated only when a pod does"
        + (f"; it would fit on {summary.node}" if summary and fits else ""),
        since=deleting or claim.metadata.creation_timestamp,
        evidence=() if summary is None or fits else tuple(lines(summary)),
        todo=(f"name it in spec.resourceClaims of a pod: resourceClaimName: {name}",),
    )
