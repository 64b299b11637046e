"""Which alert a claim raises that has no device, by the reason of `draguard why`. Pure.

A pending claim with a reason that is in no table here raises DraguardClaimPending.
"""

from collections.abc import Mapping

from allocation.layers.finding import WaitReason

CANNOT: Mapping[WaitReason, str] = {
    "ClassMissing": "its DeviceClass must be made, or the claim name another",
    "NoDevices": "a driver must publish devices of the class, or the class be corrected",
    "RequestSelector": "the selector must allow devices that exist",
    "SelectorFails": "the selector must be corrected: it ends with an error",
    "Constraint": "the constraint compares an attribute that the devices do not have",
    "TooFew": "fewer devices exist than the claim requests",
    "PoolInvalid": "a driver contradicts itself, and must publish its pool anew",
    "Fails": "the scheduler gives up with an error each time",
    "TemplateMissing": "the ResourceClaimTemplate must be made",
    "ClaimMissing": "the ResourceClaim must be made",
    "ClaimNotCreated": "a quota or a policy refuses the claim",
    "NotAllocated": "the pod was put on its node without the scheduler, and must be made anew",
}
"""No waiting cures these; what does, instead: DraguardClaimCannotBeAllocated."""
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
