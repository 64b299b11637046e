"""The policies of others, each as small as its source allows.

All play on the same happenings and leave `Taints`. A taint that no code removes is removed by an
administrator `PERSON` seconds after it began, but not while the GPU is truly unfit. That is an
assumption in their favour. Sources are named per class; facts are those of
reference/nvidia-failures.md section 8. Pure.
"""

from typing import ClassVar

from benchmarks.replay.taints import Taints
from benchmarks.replay.truth import GPUS, WHOLE, Device, Happening, NodeHistory
from exporter.model import xid

PERSON = 24 * 3600.0
"""Seconds after which an administrator has checked a GPU, at the latest."""
APPLICATION = frozenset({13, 31, 43, 45, 68, 109})
"""Ignored by NVIDIA's DRA driver and device plugin; 109 by mistake (k8s-device-plugin#1974)."""


class Peer:
    """A policy that plays one node. Subclasses decide what follows from each happening."""

    name: ClassVar[str]
    by_uuid: ClassVar[bool] = False
    """Whether a taint is of the hardware whatever its name."""

    def __init__(self, history: NodeHistory) -> None:
        self.history = history
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
            since, device = self._began(name), self._behind(name)
            unfit = self._unfit_until(device, since + PERSON) if device else 0.0
            at = max(since + PERSON, unfit)
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
                if device in episode.must
                and episode.signalled
                and episode.begin <= at < episode.until
            ),
            default=0.0,
        )


class DraDriver(Peer):
    """dra-driver-nvidia-gpu at 2026-08-07, feature gate NVMLDeviceHealthCheck.

    NoSchedule on every XID that is not on the short list; the last event of a key
    overwrites, so an ignored XID after a fatal one untaints the device; an XID
    without instance on a MIG GPU finds no device; a lost GPU taints all devices
    of the node; only a restart of the plugin removes taints. Simplified: the
    plugin restarts with the node, with a driver upgrade, and to publish new names.
    """

    name = "DRA driver, August 2026"

    def __init__(self, history: NodeHistory) -> None:
        super().__init__(history)
        self._by_xid: set[Device] = set()
        self._by_loss: set[Device] = set()

    def take(self, happening: Happening) -> None:
        if happening.kind == "xid" and happening.code != 79:
            self._event(happening)
        elif happening.kind == "xid" or (happening.kind == "gone" and happening.listed):
            # The event of an XID 79 has a handle without UUID.
            self._by_loss |= self.node()
        elif happening.kind in {"booted", "nvml-up", "numbered"}:
            self._by_xid.clear()
            self._by_loss.clear()
        unfit = frozenset(self._by_xid | self._by_loss)
        self.free_all_but(unfit, happening.at)
        self.taint(unfit, happening.at)

    def forget(self, device: Device) -> None:
        self._by_xid.discard(device)
        self._by_loss.discard(device)

    def _event(self, happening: Happening) -> None:
        if happening.code in APPLICATION:
            self._by_xid -= self.resolved(happening)
        else:
            self._by_xid |= self.resolved(happening)


class DraDriverByAction(DraDriver):
    """dra-driver-nvidia-gpu main after 2026-09-17 (#1441): field 230 decides.

    Action none is information; any other is NoSchedule on the resolved slice
    alone (#1316 open); nothing is untainted (#1455 open). Simplified: below R565 it
    acts as the version before.
    """

    name = "DRA driver, main of September 2026"

    def _event(self, happening: Happening) -> None:
        if not self.history.has_action:
            super()._event(happening)
        elif self.actions[happening.gpu]:
            self._by_xid |= self.resolved(happening)


class DevicePlugin(Peer):
    """k8s-device-plugin: the same short list, 94 is unhealthy, never recovers (#1014).

    It names GPUs by UUID. Simplified: an XID without instance on a MIG GPU marks all of its slices.
    """

    name = "k8s-device-plugin"
    by_uuid = True

    def take(self, happening: Happening) -> None:
        if happening.kind == "xid" and happening.code not in APPLICATION:
            self.taint(self.resolved(happening) or self.whole(happening.gpu), happening.at)
        elif happening.kind in {"booted", "nvml-up"}:
            self.free_all_but(frozenset(), happening.at)


class NvSentinel(Peer):
    """NVSentinel's defaults: the catalogue's spreadsheet says what is fatal, the node is cordoned.

    Unknown codes and 45 are fatal (they map to CONTACT_SUPPORT); lines with
    `GPU-I` are not parsed; DCGM's watches report the recovery action, remaps
    and a lost DCGM; a reboot clears the faults from the log. Simplified: its own reboots are
    those of the history; bursts and the breaker are left out, the drain waits for
    jobs (AllowCompletion), so no pod is lost.
    """

    name = "NVSentinel defaults"
    _HARMLESS = frozenset({"RESTART_APP", "IGNORE", "XID_154_EVAL"})

    def __init__(self, history: NodeHistory) -> None:
        super().__init__(history)
        self._faults: set[tuple[str, int, int]] = set()

    def take(self, happening: Happening) -> None:
        if happening.kind == "booted":
            self._faults.clear()
        elif happening.kind == "reset":
            self._faults = {fault for fault in self._faults if fault[1] != happening.gpu}
        else:
            self._note(happening)
        if self._faults:
            self.taint(self.node(), happening.at)
        else:
            self.free_all_but(frozenset(), happening.at)

    def _note(self, happening: Happening) -> None:
        match happening.kind:
            case "xid" if not happening.gi_printed and self._fatal(happening):
                self._faults.add(("log", happening.gpu, happening.code))
            case "asks":
                self._faults.add(("action", happening.gpu, 0))
            case "remap":
                self._faults.add(("remap", happening.gpu, 0))
            case "gone":
                self._faults.add(("lost", happening.gpu, 0))
            case "nvml-down":
                self._faults.add(("dcgm", -1, 0))
            case "nvml-up":
                self._faults.discard(("dcgm", -1, 0))
            case _:
                pass

    def forget(self, device: Device) -> None:
        del device  # it is the node that an administrator uncordons
        self._faults.clear()

    def _fatal(self, happening: Happening) -> bool:
        if happening.code == 154:
            return happening.action != 0
        return xid.lookup(happening.code).immediate_action not in self._HARMLESS


class Gpud(Peer):
    """gpud as a machine-level taint: one state for the whole machine, the worst XID of it.

    A reboot clears it, twice per XID; then an administrator sets it healthy. 63 and 64
    are taken from NVML's remaps, 94 never escalates, lines with `GPU-I` are not
    parsed, a missing GPU is counted. Simplified: the codes of severity fatal are
    those whose catalogue action is a reset, a restart or a workflow of the link.
    """

    name = "gpud, advice as a taint"
    _FATAL = frozenset(
        {
            "RESET_GPU",
            "RESTART_BM",
            "RESTART_VM",
            "WORKFLOW_XID_48",
            "WORKFLOW_NVLINK_ERR",
            "WORKFLOW_NVLINK5_ERR",
        }
    )

    def __init__(self, history: NodeHistory) -> None:
        super().__init__(history)
        self._codes: set[int] = set()
        self._reboots: dict[int, int] = {}

    def take(self, happening: Happening) -> None:
        match happening.kind:
            case "xid" if not happening.gi_printed and self._fatal(happening.code):
                self._codes.add(happening.code)
            case "remap":
                self._codes.add(64 if happening.failure else 63)
            case "gone":
                self._codes.add(79)
            case "booted":
                for code in self._codes:
                    self._reboots[code] = self._reboots.get(code, 0) + 1
                self._codes = {code for code in self._codes if self._reboots[code] > 2}
            case _:
                pass
        if self._codes:
            self.taint(self.node(), happening.at)
        else:
            self.free_all_but(frozenset(), happening.at)

    def forget(self, device: Device) -> None:
        del device  # it is the machine that an administrator sets healthy
        self._codes.clear()
        self._reboots.clear()

    def _fatal(self, code: int) -> bool:
        return code != 64 and xid.lookup(code).immediate_action in self._FATAL


PEERS: tuple[type[Peer], ...] = (DraDriver, DraDriverByAction, DevicePlugin, NvSentinel, Gpud)
