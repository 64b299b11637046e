"""Taints of devices from when to when: what every policy leaves behind to be scored. Pure."""

import msgspec

from benchmarks.replay.truth import Device

FOREVER = float("inf")


class Taint(msgspec.Struct, frozen=True):
    """One device kept away from the scheduler without a gap."""

    device: Device
    begin: float
    end: float
    """FOREVER when the history ended first."""
    evicts_from: float = FOREVER
    """When evictions of its pods began."""


class Taints:
    """Remembers a node's taints while a policy plays."""

    def __init__(self) -> None:
        self._open: dict[Device, tuple[float, float]] = {}
        self.done: list[Taint] = []

    def __contains__(self, device: Device) -> bool:
        return device in self._open

    @property
    def standing(self) -> frozenset[Device]:
        return frozenset(self._open)

    def since(self, device: Device) -> float:
        return self._open[device][0]

    def taint(self, device: Device, at: float, *, evicting: bool = False) -> None:
        begin, evicts = self._open.get(device, (at, FOREVER))
        self._open[device] = (begin, min(evicts, at) if evicting else evicts)

    def free(self, device: Device, at: float) -> None:
        if device in self._open:
            begin, evicts = self._open.pop(device)
            self.done.append(Taint(device, begin, at, evicts))

    def all(self) -> list[Taint]:
        """Return every taint; one that was not removed ends at FOREVER."""
        standing = [Taint(device, begin, FOREVER, ev) for device, (begin, ev) in self._open.items()]
        return sorted([*self.done, *standing], key=lambda taint: (taint.begin, taint.device))
