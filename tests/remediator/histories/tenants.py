"""The claims and pods of a made-up node: who holds a device, comes, joins, leaves or lingers."""

from datetime import datetime, timedelta

import msgspec

from exporter.model.device import Device
from remediator.model.claim import (
    Allocation,
    Claim,
    ClaimMeta,
    ConsumerReference,
    DeviceAllocation,
    Toleration,
)
from remediator.model.pod import PodFacts
from remediator.plan.pods import DRAINERS
from tests.remediator.playing import claim, pod

GRACE = timedelta(seconds=30)
"""Of a pod that sets none of its own."""
Place = tuple[int, int]
"""A GPU, and which of its devices."""


class Tenants:
    """Who uses the GPUs of one node."""

    def __init__(self) -> None:
        self.claims: dict[Place, Claim] = {}
        self.refusals: dict[str, str] = {}
        """By pod, why a PodDisruptionBudget refuses its eviction, or two of them do."""
        self.slow: set[str] = set()
        """Pods that take their time to end."""
        self.slurm: set[str] = set()
        """Pods of a Slinky NodeSet."""
        self.ending: dict[str, datetime] = {}
        """Of them, those that end, and until when they may."""
        self._lives: dict[str, int] = {}
        """How many pods have had a name: each has another UID, as a pod gives up no claim alive."""

    def users(self) -> tuple[str, ...]:
        """Return the pods that hold a device of the node."""
        return tuple(sorted({by.name for claim in self.claims.values() for by in claim.consumers}))

    def pods(self) -> tuple[PodFacts, ...]:
        """Return the pods as they are listed."""
        return tuple(
            pod(
                name,
                uid=self.uid(name),
                terminating=name in self.ending,
                grace_ends=self.ending.get(name),
                claims=self._claimed(name),
                owner_kind=next(iter(DRAINERS)) if name in self.slurm else "",
            )
            for name in self.users()
        )

    def of_slurm(self, device: Device) -> bool:
        """Whether a pod of a NodeSet has a device."""
        theirs = (
            it for it in self.claims.values() if self.slurm & {by.name for by in it.consumers}
        )
        return any(result.name == device for claim in theirs for result in claim.results)

    def uid(self, name: str) -> str:
        """Return the UID of the pod that has, or had, a name."""
        life = self._lives.get(name, 1)
        return f"u-{name}" if life == 1 else f"u-{name}-{life}"

    def _claimed(self, name: str) -> tuple[str, ...]:
        mine = [it for it in self.claims.values() if name in {by.name for by in it.consumers}]
        return tuple(sorted(it.metadata.name for it in mine))

    def comes(self, place: Place, device: str, name: str) -> None:
        """A pod gets a device; what used it before has ended."""
        self.lets_go(place)
        self._begins(name)
        made = claim(device, name)
        own = ClaimMeta(name=f"claim-{place[0]}-{place[1]}", namespace=made.metadata.namespace)
        self.claims[place] = Claim(own, made.status)
        self.joins(place, name)

    def _begins(self, name: str) -> None:
        """A name that no pod has now is that of a new pod."""
        if name not in self.users():
            self._lives[name] = self._lives.get(name, 0) + 1

    def joins(self, place: Place, name: str) -> None:
        """Another pod shares the claim of a device, which NoSchedule does not prevent."""
        one = self.claims.get(place)
        if one is None or one.status is None:
            return
        self._begins(name)
        others = tuple(by for by in one.consumers if by.name != name)
        both = (*others, ConsumerReference(name, "pods", self.uid(name)))
        status = msgspec.structs.replace(one.status, reserved_for=both)
        self.claims[place] = Claim(one.metadata, status)

    def tolerates(self, place: Place, seconds: int | None) -> None:
        """The tenant of a device tolerates NoExecute."""
        one = self.claims.get(place)
        if one is None or one.status is None or one.status.allocation is None:
            return
        ours = (Toleration(operator="Exists", effect="NoExecute", toleration_seconds=seconds),)
        results = tuple(msgspec.structs.replace(it, tolerations=ours) for it in one.results)
        allocation = Allocation(DeviceAllocation(results))
        self.claims[place] = Claim(
            one.metadata, msgspec.structs.replace(one.status, allocation=allocation)
        )

    def begins_to_end(self, name: str, now: datetime) -> None:
        """A pod is evicted or deleted: it ends at once, or when it is ready to."""
        if name in self.slow:
            self.ending.setdefault(name, now + GRACE)
        else:
            self.leaves(name)

    def leaves(self, name: str) -> None:
        """A pod has ended: what it held alone is free."""
        self.ending.pop(name, None)
        for place, stored in list(self.claims.items()):
            left = tuple(by for by in stored.consumers if by.name != name)
            if stored.status is None or left == stored.consumers:
                continue
            if left:
                status = msgspec.structs.replace(stored.status, reserved_for=left)
                self.claims[place] = Claim(stored.metadata, status)
            else:
                del self.claims[place]

    def lets_go(self, place: Place) -> None:
        """The pods that use a device end, and so free all that they have."""
        stored = self.claims.get(place)
        for by in stored.consumers if stored else ():
            self.leaves(by.name)
