"""Who was fenced from when to when: what every policy leaves behind to be scored. Pure."""

import msgspec

from benchmarks.replay.truth import Device

FOREVER = float("inf")


class Fence(msgspec.Struct, frozen=True):
    """One device kept away from the scheduler without a gap."""

    device: Device
    begin: float
    end: float
    """FOREVER when the history ended first."""
    evicts_from: float = FOREVER
    """When pods began to be moved off it."""


class Fences:
    """Remembers a node's fences while a policy plays."""

    def __init__(self) -> None:
        self._open: dict[Device, tuple[float, float]] = {}
        self.done: list[Fence] = []

    def __contains__(self, device: Device) -> bool:
        return device in self._open

    @property
    def standing(self) -> frozenset[Device]:
        return frozenset(self._open)

    def since(self, device: Device) -> float:
        return self._open[device][0]

    def fence(self, device: Device, at: float, *, evicting: bool = False) -> None:
        begin, evicts = self._open.get(device, (at, FOREVER))
        self._open[device] = (begin, min(evicts, at) if evicting else evicts)

    def free(self, device: Device, at: float) -> None:
        if device in self._open:
            begin, evicts = self._open.pop(device)
            self.done.append(Fence(device, begin, at, evicts))

    def all(self) -> list[Fence]:
        """Return every fence, those that still stand with an endless end."""
        standing = [Fence(one, begin, FOREVER, ev) for one, (begin, ev) in self._open.items()]
        return sorted([*self.done, *standing], key=lambda one: (one.begin, one.device))
