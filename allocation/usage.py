"""What allocated claims hold: whole devices, and shares of devices. Pure."""

from collections.abc import Iterable
from typing import Self

import msgspec

from allocation.capacity import Consumed, amount
from allocation.model.claims import Claim
from exporter.model.device import Device

PoolName = tuple[str, str]
"""Driver and name."""


class Share(msgspec.Struct, frozen=True):
    claim: str
    """`namespace/name`."""
    consumed: Consumed


class Usage(msgspec.Struct, frozen=True):
    """Admin access holds nothing: others may have the device at the same time."""

    whole: dict[PoolName, dict[str, str]]
    """By device: the claim (`namespace/name`) that holds it for itself."""
    shares: dict[Device, tuple[Share, ...]]

    @classmethod
    def of(cls, claims: Iterable[Claim]) -> Self:
        """Return what they hold. Raises CapacityError."""
        whole: dict[PoolName, dict[str, str]] = {}
        shares: dict[Device, list[Share]] = {}
        for claim in claims:
            for result in claim.results:
                if result.admin_access:
                    continue
                if result.share_id is None:
                    whole.setdefault((result.driver, result.pool), {})[result.device] = claim.key
                    continue
                consumed = {name: amount(given) for name, given in result.consumed_capacity.items()}
                shares.setdefault(result.name, []).append(Share(claim.key, consumed))
        return cls(whole, {device: tuple(held) for device, held in shares.items()})

    def holder(self, device: Device) -> str | None:
        """Return the claim that holds it for itself."""
        return self.whole.get((device.driver, device.pool), {}).get(device.device)

    def is_used(self, device: Device) -> bool:
        return self.holder(device) is not None or device in self.shares

    def holders(self, device: Device) -> tuple[str, ...]:
        """Return the claims that hold it, or a share of it."""
        whole = self.holder(device)
        shares = tuple(share.claim for share in self.shares.get(device, ()))
        return shares if whole is None else (whole, *shares)

    def consumption(self, device: Device) -> Consumed:
        """Return what all shares of a device take of its capacities together."""
        shares = self.shares.get(device)
        return add_up(share.consumed for share in shares) if shares else {}


def add_up(shares: Iterable[Consumed]) -> Consumed:
    found: dict[str, int] = {}
    for share in shares:
        for name, taken in share.items():
            found[name] = found.get(name, 0) + taken
    return found
