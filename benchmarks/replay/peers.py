"""The policies of others, each as small as its source allows.

All play on the same happenings and leave `Taints`. What no code undoes, a person
does: `PERSON` seconds after the taint began, but not while the GPU is truly
unfit. That is an assumption in their favour. Sources are named per class; facts
are those of reference/nvidia-failures.md section 8. Pure.
"""

from typing import ClassVar

from benchmarks.replay.taints import Taints
from benchmarks.replay.truth import GPUS, WHOLE, Device, Happening, NodeHistory
from exporter.model import xid

PERSON = 24 * 3600.0
"""After so long somebody has looked, at the latest."""
APPLICATION = frozenset({13, 31, 43, 45, 68, 109})
"""Ignored by NVIDIA's DRA driver and device plugin; 109 by mistake (k8s-device-plugin#1974)."""


class Peer:
    """A policy that plays one node. Subclasses say what they make of each happening."""

    name: ClassVar[str]

    def __init__(self, history: NodeHistory) -> None:
        self.history = history
        self.taints = Taints()
        self.actions = [0] * GPUS
        """What field 230 reads."""

    def play(self) -> Taints:
        for one in self.history.happenings:
            self._person(one.at)
            if one.kind in {"asks", "reset", "booted", "nvml-up"}:
                self._follow(one)
            self.take(one)
        self._person(float("inf"))
        return self.taints

    def take(self, one: Happening) -> None:
        """Taint and free for one happening."""
        raise NotImplementedError

    def forget(self, device: Device) -> None:
        """A person cleared a device."""

    def whole(self, gpu: int) -> frozenset[Device]:
        return self.history.devices(gpu)

    def node(self) -> frozenset[Device]:
        return frozenset(device for gpu in range(GPUS) for device in self.whole(gpu))

    def resolved(self, one: Happening) -> frozenset[Device]:
        """Return the device that an NVML event names; none for a MIG GPU without instance."""
        if not self.history.mig:
            return frozenset({(one.gpu, WHOLE)})
        return frozenset() if one.gi is None else frozenset({(one.gpu, one.gi - 1)})

    def taint(self, devices: frozenset[Device], at: float) -> None:
        for device in sorted(devices):
            self.taints.taint(device, at)

    def free(self, devices: frozenset[Device], at: float) -> None:
        for device in sorted(devices):
            self.taints.free(device, at)

    def _follow(self, one: Happening) -> None:
        if one.kind == "asks":
            self.actions[one.gpu] = one.action
        elif one.kind == "reset":
            self.actions[one.gpu] = 0
        else:
            self.actions = [0] * GPUS

    def _person(self, now: float) -> None:
        for device in self.taints.standing:
            since = self.taints.since(device)
            at = max(since + PERSON, self._unfit_until(device, since + PERSON))
            if at <= now and at != float("inf"):
                self.taints.free(device, at)
                self.forget(device)

    def _unfit_until(self, device: Device, at: float) -> float:
        """Return when what ails a device at a moment is repaired, 0 when nothing does."""
        return max(
            (
                one.until
                for one in self.history.episodes
                if device in one.must and one.signalled and one.begin <= at < one.until
            ),
            default=0.0,
        )


class DraDriver(Peer):
    """dra-driver-nvidia-gpu at 2026-08-07, feature gate NVMLDeviceHealthCheck.

    NoSchedule on every XID that is not on the short list; the last event of a key
    overwrites, so an ignored XID after a fatal one frees the device; an XID
    without instance on a MIG GPU finds no device; a lost GPU taints all devices
    of the node; only a restart of the plugin takes taints away. Simplified: the
    plugin restarts with the node and with a driver upgrade.
    """

    name = "DRA driver, August 2026"

    def __init__(self, history: NodeHistory) -> None:
        super().__init__(history)
        self._by_xid: set[Device] = set()
        self._by_loss: set[Device] = set()

    def take(self, one: Happening) -> None:
        if one.kind == "xid" and not self._loses(one):
            self._event(one)
        elif (one.kind == "gone" and one.listed) or one.kind == "xid":
            self._by_loss |= self.node()
        elif one.kind in {"booted", "nvml-up"}:
            self._by_xid.clear()
            self._by_loss.clear()
        self._settle(one.at)

    def forget(self, device: Device) -> None:
        self._by_xid.discard(device)
        self._by_loss.discard(device)

    def _loses(self, one: Happening) -> bool:
        return one.code == 79  # the event's handle has no UUID any more

    def _event(self, one: Happening) -> None:
        if one.code in APPLICATION:
            self._by_xid -= self.resolved(one)
        else:
            self._by_xid |= self.resolved(one)

    def _settle(self, at: float) -> None:
        wanted = frozenset(self._by_xid | self._by_loss)
        self.free(self.taints.standing - wanted, at)
        self.taint(wanted, at)


class DraDriverByAction(DraDriver):
    """dra-driver-nvidia-gpu main after 2026-09-17 (#1441): field 230 decides.

    Action none is information; any other is NoSchedule on the resolved slice
    alone (#1316 open); nothing is untainted (#1455 open). Simplified: below R565 it
    acts as the version before.
    """

    name = "DRA driver, main of September 2026"

    def _event(self, one: Happening) -> None:
        if not self.history.has_action:
            super()._event(one)
        elif self.actions[one.gpu]:
            self._by_xid |= self.resolved(one)


class DevicePlugin(Peer):
    """k8s-device-plugin: the same short list, 94 is unhealthy, never recovers (#1014).

    Simplified: an XID without instance on a MIG GPU marks all of its slices.
    """

    name = "k8s-device-plugin"

    def take(self, one: Happening) -> None:
        if one.kind == "xid" and one.code not in APPLICATION:
            self.taint(self.resolved(one) or self.whole(one.gpu), one.at)
        elif one.kind in {"booted", "nvml-up"}:
            self.free(self.node(), one.at)


class NvSentinel(Peer):
    """NVSentinel's defaults: the catalogue's spreadsheet says what is fatal, the node is cordoned.

    Unknown codes and 45 are fatal (they map to CONTACT_SUPPORT); lines with
    `GPU-I` are not parsed; DCGM's watches tell of the recovery action, of remaps
    and of a lost DCGM; a reboot clears what the log said. Simplified: its own reboots are
    those of the history; bursts and the breaker are left out, the drain waits for
    jobs (AllowCompletion), so no pod is lost.
    """

    name = "NVSentinel defaults"
    _HARMLESS = frozenset({"RESTART_APP", "IGNORE", "XID_154_EVAL"})

    def __init__(self, history: NodeHistory) -> None:
        super().__init__(history)
        self._faults: set[tuple[str, int, int]] = set()

    def take(self, one: Happening) -> None:
        if one.kind == "booted":
            self._faults.clear()
        elif one.kind == "reset":
            self._faults = {fault for fault in self._faults if fault[1] != one.gpu}
        else:
            self._note(one)
        if self._faults:
            self.taint(self.node(), one.at)
        else:
            self.free(self.node(), one.at)

    def _note(self, one: Happening) -> None:
        match one.kind:
            case "xid" if not one.gi_printed and self._fatal(one):
                self._faults.add(("log", one.gpu, one.code))
            case "asks":
                self._faults.add(("action", one.gpu, 0))
            case "remap" if one.failure is not None:
                self._faults.add(("remap", one.gpu, 0))
            case "remap":
                self._faults.discard(("remap", one.gpu, 0))
            case "gone":
                self._faults.add(("lost", one.gpu, 0))
            case "nvml-down":
                self._faults.add(("dcgm", -1, 0))
            case "nvml-up":
                self._faults.discard(("dcgm", -1, 0))
            case _:
                pass

    def forget(self, device: Device) -> None:
        del device  # it is the node that a person uncordons
        self._faults.clear()

    def _fatal(self, one: Happening) -> bool:
        if one.code == 154:
            return one.action != 0
        return xid.lookup(one.code).immediate_action not in self._HARMLESS


class Gpud(Peer):
    """gpud as a machine-level taint: one state for the whole machine, the worst XID of it.

    A reboot clears it, twice per XID; then a person sets it healthy. 63 and 64
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

    def take(self, one: Happening) -> None:
        match one.kind:
            case "xid" if not one.gi_printed and self._fatal(one.code):
                self._codes.add(one.code)
            case "remap" if one.failure is not None:
                self._codes.add(64 if one.failure else 63)
            case "gone":
                self._codes.add(79)
            case "booted":
                self._rebooted()
            case _:
                pass
        if self._codes:
            self.taint(self.node(), one.at)
        else:
            self.free(self.node(), one.at)

    def forget(self, device: Device) -> None:
        del device  # it is the machine that a person sets healthy
        self._codes.clear()
        self._reboots.clear()

    def _fatal(self, code: int) -> bool:
        return code != 64 and xid.lookup(code).immediate_action in self._FATAL

    def _rebooted(self) -> None:
        for code in self._codes:
            self._reboots[code] = self._reboots.get(code, 0) + 1
        self._codes = {code for code in self._codes if self._reboots[code] > 2}


PEERS: tuple[type[Peer], ...] = (DraDriver, DraDriverByAction, DevicePlugin, NvSentinel, Gpud)
