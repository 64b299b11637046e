"""Whether a scheduler allocates devices although our taint is on them.

It may run without the feature gate, or be another scheduler. A claim that was allocated
well after the taint, and tolerates no taint of ours, is a hard sign of that. Pure.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from exporter.model.device import Device
from remediator.model.claim import Claim, tolerated
from remediator.model.taint_rule import Rule

SETTLED = timedelta(seconds=30)
"""A scheduler that had chosen the device before it saw the taint writes no later than this, and its
clock is not further from the API server's."""


def ignoring(rules: Iterable[Rule], claims: Iterable[Claim]) -> tuple[str, ...]:
    """Return the claims, as `namespace/name`, that were given a device after it was tainted.

    Nothing is concluded where the scheduler does not write the time of the allocation, or the API
    server the time of the taint.
    """
    since = {
        rule.device: rule.time_added
        for rule in rules
        if rule.effect != "None" and rule.time_added is not None
    }
    if not since:
        return ()
    return tuple(
        sorted(
            f"{claim.metadata.namespace}/{claim.metadata.name}"
            for claim in claims
            if _ignores(claim, since)
        )
    )


def _ignores(claim: Claim, since: dict[Device, datetime]) -> bool:
    allocation = claim.status.allocation if claim.status else None
    if allocation is None or allocation.allocation_timestamp is None:
        return False
    at = allocation.allocation_timestamp
    return any(
        result.name in since
        and at > since[result.name] + SETTLED
        and not tolerated(result.tolerations)
        for result in claim.results
    )
