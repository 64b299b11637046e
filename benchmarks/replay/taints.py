"""Taints of devices from when to when: what every policy leaves behind to be scored. Pure."""

import msgspec

from benchmarks.replay.truth import Device

FOREVER = float("inf")


class Taint(msgspec.Struct, frozen=True):
    """One device kept away from the scheduler without a gap.

    A policy taints a name, and its device is the number in it. `names` turns that into hardware.
    """

    device: Device
    begin: float
    end: float
    """FOREVER when the history ended first."""
    evicts_from: float = FOREVER
    """When evictions of its pods began."""
    evicts_until: float = FOREVER
    """When they ended though the taint stayed."""


class Taints:
    """Remembers a node's taints while a policy plays."""

    def __init__(self) -> None:
        self._open: dict[Device, Taint] = {}
        self.done: list[Taint] = []

    def __contains__(self, device: Device) -> bool:
        return device in self._open

    @property
    def standing(self) -> frozenset[Device]:
        return frozenset(self._open)

    def since(self, device: Device) -> float:
        return self._open[device].begin

    def taint(self, device: Device, at: float, *, evicting: bool = False) -> None:
        taint = self._open.get(device, Taint(device, at, FOREVER))
        begun = taint.evicts_from < FOREVER
        if evicting:
            since = min(taint.evicts_from, at)
            taint = msgspec.structs.replace(taint, evicts_from=since, evicts_until=FOREVER)
        elif begun and taint.evicts_until == FOREVER:
            taint = msgspec.structs.replace(taint, evicts_until=at)
        self._open[device] = taint

    def free(self, device: Device, at: float) -> None:
        if device in self._open:
            self.done.append(msgspec.structs.replace(self._open.pop(device), end=at))

    def all(self) -> list[Taint]:
        """Return every taint; one that was not removed ends at FOREVER."""
        return sorted(
            [*self.done, *self._open.values()], key=lambda taint: (taint.begin, taint.device)
        )
