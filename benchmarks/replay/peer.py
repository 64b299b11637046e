"""A policy of others in the replay: what all of them share. Pure.

A taint that no code removes is removed by an administrator, `delay` seconds after it began, but
not while the GPU is truly unfit: this administrator knows at once what is repaired. That is an
assumption in their favour.
"""

from typing import ClassVar, NamedTuple

from benchmarks.replay.rates import DELAYS
from benchmarks.replay.taints import Taints
from benchmarks.replay.truth import GPUS, WHOLE, Device, Happening, NodeHistory


class About(NamedTuple):
    """What a row of the table is."""

    version: str
    settings: str
    default: str
    """What it does as it is installed."""


class Peer:
    """A policy that plays one node. Subclasses decide what follows from each happening."""

    name: ClassVar[str]
    about: ClassVar[About]
    by_log: ClassVar[bool] = False
    """Whether it reads XIDs from the kernel log; else from NVML's events."""
    by_node: ClassVar[bool] = False
    """Whether it taints whole nodes: administrators free none while a GPU of it is faulty."""
    by_reset: ClassVar[bool] = True
    """Whether a fault that a GPU reset repairs needs no reboot of the node."""
    by_uuid: ClassVar[bool] = False
    """Whether a taint is of the hardware whatever its name."""

    def __init__(self, history: NodeHistory, delay: float = DELAYS[0]) -> None:
        self.history = history
        self._delay = delay
        self.taints = Taints()
        self.actions = [0] * GPUS
        """What field 230 reads."""
        self._order = tuple(range(GPUS))
        """GPUs by the number in their names."""
        self._since: dict[Device, float] = {}
        """When taints began that have another name since then."""

    def play(self) -> Taints:
        for happening in self.history.happenings:
            self._administrator(happening.at)
            if happening.kind == "asks":
                self.actions[happening.gpu] = happening.action
            elif happening.kind == "reset":
                self.actions[happening.gpu] = 0
            elif happening.kind in {"booted", "nvml-up"}:
                self.actions = [0] * GPUS
            is_event = happening.kind == "xid" and not self.by_log
            if not is_event or happening.code not in self.history.unsent:
                self.take(happening)
            if happening.kind == "numbered":
                self._renumber(happening)
        self._administrator(float("inf"))
        return self.taints

    def take(self, happening: Happening) -> None:
        """Taint and untaint devices for one happening."""
        raise NotImplementedError

    def forget(self, device: Device) -> None:
        """An administrator cleared a device."""

    def whole(self, gpu: int) -> frozenset[Device]:
        return self.history.devices(gpu)

    def node(self) -> frozenset[Device]:
        return frozenset(device for gpu in range(GPUS) for device in self.whole(gpu))

    def resolved(self, happening: Happening) -> frozenset[Device]:
        """Return the device that an NVML event names; none for a MIG GPU without instance."""
        if not self.history.mig:
            return frozenset({(happening.gpu, WHOLE)})
        return (
            frozenset() if happening.gi is None else frozenset({(happening.gpu, happening.gi - 1)})
        )

    def taint(self, devices: frozenset[Device], at: float) -> None:
        for gpu, part in sorted(devices):
            if gpu in self._order:
                self.taints.taint((self._order.index(gpu), part), at)

    def free_all_but(self, devices: frozenset[Device], at: float) -> None:
        for name in sorted(self.taints.standing):
            if self._behind(name) not in devices:
                self._free(name, at)

    def _renumber(self, happening: Happening) -> None:
        began = {self._behind(name): self._began(name) for name in self.taints.standing}
        if not self.by_uuid:
            self._order = happening.order
            return
        self.free_all_but(frozenset(), happening.at)
        self._order = happening.order
        self._since = {device: at for device, at in began.items() if device}
        self.taint(frozenset(self._since), happening.at)

    def _began(self, name: Device) -> float:
        device, since = self._behind(name), self.taints.since(name)
        return self._since.get(device, since) if device else since

    def _behind(self, name: Device) -> Device | None:
        """Return which device has a tainted name now, None where no board has it."""
        number, part = name
        return (self._order[number], part) if number < len(self._order) else None

    def _free(self, name: Device, at: float) -> None:
        self.taints.free(name, at)
        if device := self._behind(name):
            self._since.pop(device, None)

    def _administrator(self, now: float) -> None:
        for name in self.taints.standing:
            device, at = self._behind(name), self._began(name) + self._delay
            while device and (repaired := self._unfit_until(device, at)) > at:
                at = repaired
            if at <= now and at != float("inf"):
                self._free(name, at)
                if device:
                    self.forget(device)

    def _unfit_until(self, device: Device, at: float) -> float:
        """Return when the faults of a device at a moment are repaired, 0 if it has none."""
        return max(
            (
                episode.until
                for episode in self.history.episodes
                if (episode.must if self.by_node else device in episode.must)
                and episode.signalled
                and episode.begin <= at < episode.until
            ),
            default=0.0,
        )
