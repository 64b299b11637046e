"""Which alert a claim raises that has no device, by the reason of `draguard why`. Pure.

A pending claim with a reason that is in no table here raises DraguardClaimPending.
"""

from collections.abc import Mapping

from allocation.layers.finding import WaitReason

CANNOT: tuple[WaitReason, ...] = (
    "ClassMissing",
    "NoDevices",
    "RequestSelector",
    "SelectorFails",
    "Constraint",
    "TooFew",
    "PoolInvalid",
    "Fails",
    "TemplateMissing",
    "ClaimMissing",
    "ClaimNotCreated",
    "NotAllocated",
)
"""These do not end by themselves: DraguardClaimCannotBeAllocated, whose runbook says what does."""
QUIET: Mapping[WaitReason, str] = {
    "NoPod": "no pod waits for it",
    "SchedulingGated": "a user or a queue gates the pod on purpose",
    "Deleting": "the pod is being deleted",
    "NotEvaluated": "it is not known what the pod waits for",
    "NotRead": "it is not known either; DraguardExplainerBlind fires",
}
"""These raise no alert on a claim that is pending or not bound; why not."""
NOT_PREPARED: tuple[WaitReason, ...] = (
    "DriverDown",
    "PreparationFailed",
    "Preparing",
    "CdiDeviceMissing",
)
"""Of claims whose pod is on a node. What comes after these is the pod's own: images, programs."""


def any_of(*tables: Mapping[WaitReason, str] | tuple[WaitReason, ...]) -> str:
    """Return a pattern that matches the reasons of these tables."""
    return "|".join(reason for table in tables for reason in table)
