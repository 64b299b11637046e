"""What allocated claims hold: whole devices, and shares of devices. Pure."""

from collections.abc import Iterable
from typing import Self

import msgspec

from allocation.capacity import Consumed, amount
from allocation.model.claims import Claim
from exporter.model.device import Device


class Share(msgspec.Struct, frozen=True):
    claim: str
    """`namespace/name`."""
    consumed: Consumed


class Usage(msgspec.Struct, frozen=True):
    """Admin access holds nothing: others may have the device at the same time."""

    whole: dict[Device, str]
    """The claim (`namespace/name`) that holds a device for itself."""
    shares: dict[Device, tuple[Share, ...]]

    @classmethod
    def of(cls, claims: Iterable[Claim]) -> Self:
        """Return what they hold. Raises CapacityError."""
        whole: dict[Device, str] = {}
        shares: dict[Device, list[Share]] = {}
        for claim in claims:
            for result in claim.results:
                if result.admin_access:
                    continue
                if result.share_id is None:
                    whole[result.name] = claim.key
                    continue
                consumed = {name: amount(given) for name, given in result.consumed_capacity.items()}
                shares.setdefault(result.name, []).append(Share(claim.key, consumed))
        return cls(whole, {device: tuple(held) for device, held in shares.items()})

    def is_used(self, device: Device) -> bool:
        return device in self.whole or device in self.shares

    def holders(self, device: Device) -> tuple[str, ...]:
        """Return the claims that hold it, or a share of it."""
        whole = (self.whole[device],) if device in self.whole else ()
        return whole + tuple(share.claim for share in self.shares.get(device, ()))

    def consumption(self, device: Device) -> Consumed:
        """Return what all shares of a device take of its capacities together."""
        return add_up(share.consumed for share in self.shares.get(device, ()))


def add_up(shares: Iterable[Consumed]) -> Consumed:
    found: dict[str, int] = {}
    for share in shares:
        for name, taken in share.items():
            found[name] = found.get(name, 0) + taken
    return found
