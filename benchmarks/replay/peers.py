"""The policies of others, each as small as its source allows.

All play on the same happenings and leave `Taints`. Sources are named per class; facts are those of
reference/nvidia-failures.md section 8, and of the repositories at the versions in `about`. Pure.
"""

from benchmarks.replay.peer import About, Peer
from benchmarks.replay.rates import DELAYS
from benchmarks.replay.truth import SLICES, Device, Happening, NodeHistory
from exporter.model import xid

APPLICATION = frozenset({13, 31, 43, 45, 68, 109})
"""Ignored by NVIDIA's DRA driver and device plugin; 109 by mistake (k8s-device-plugin#1974)."""


class DraDriver(Peer):
    """dra-driver-nvidia-gpu at 2026-08-07, feature gate NVMLDeviceHealthCheck (alpha, off).

    NoSchedule on every XID that is not on the short list; the last event of a key
    overwrites, so an ignored XID after a fatal one untaints the device; an XID
    without instance on a MIG GPU finds no device; a lost GPU taints all devices
    of the node; only a restart of the plugin removes taints. Simplified: the
    plugin restarts with the node, with a driver upgrade, and to publish new names.
    """

    name = "DRA driver, August 2026"
    about = About(
        "NVIDIA's DRA driver at 9593204 (2026-08-07), 12 days before v0.5.0",
        "`NVMLDeviceHealthCheck` on, no further XIDs ignored",
        "the gate is alpha and off: taints nothing",
    )

    def __init__(self, history: NodeHistory, delay: float = DELAYS[0]) -> None:
        super().__init__(history, delay)
        self._by_xid: set[Device] = set()
        self._by_loss: set[Device] = set()

    def take(self, happening: Happening) -> None:
        if happening.kind == "xid" and happening.code != 79:
            self._event(happening)
        elif happening.kind == "xid" or (happening.kind == "gone" and happening.listed):
            # The handle of a lost GPU has no UUID, and the wait for events fails.
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
    alone (#1316 open); nothing is untainted (#1455 open). Simplified: where the field
    cannot be read, it acts as the version before.
    """

    name = "DRA driver, main of September 2026"
    about = About(
        "its main branch after #1441 (2026-09-17), unreleased",
        "`NVMLDeviceHealthCheck` on, no further XIDs ignored",
        "the gate is alpha and off: taints nothing",
    )

    def _event(self, happening: Happening) -> None:
        if not self.history.reads_action:
            super()._event(happening)
        elif self.actions[happening.gpu]:
            self._by_xid |= self.resolved(happening)


class DevicePlugin(Peer):
    """k8s-device-plugin v0.20.0: the same short list, 94 is unhealthy, never recovers (#1014).

    It names GPUs by UUID. It keeps one slice per GPU, whichever it listed last: an event of
    another slice is dropped, and one without an instance marks that slice alone (#1929). A wait
    for events that fails, or an event whose handle has no UUID, marks all devices.
    """

    name = "k8s-device-plugin v0.20.0"
    about = About("v0.20.0 (2026-08-19)", "as installed", "health checks on")
    by_uuid = True

    def take(self, happening: Happening) -> None:
        if happening.kind == "xid" and happening.code == 79:
            self.taint(self.node(), happening.at)
        elif happening.kind == "xid" and happening.code not in APPLICATION:
            self.taint(self.marked(happening), happening.at)
        elif happening.kind == "gone" and happening.listed:
            self.taint(self.node(), happening.at)
        elif happening.kind in {"booted", "nvml-up"}:
            self.free_all_but(frozenset(), happening.at)

    def marked(self, happening: Happening) -> frozenset[Device]:
        if not self.history.mig:
            return self.whole(happening.gpu)
        # Go's maps have no order: any slice may be the last.
        kept = frozenset({(happening.gpu, (self.history.node + happening.gpu) % SLICES)})
        return kept & (self.resolved(happening) or kept)


class DevicePluginMain(DevicePlugin):
    """k8s-device-plugin after #1930: an event marks each slice that it may be of."""

    name = "k8s-device-plugin, main of September 2026"
    about = About(
        "its main branch after #1930 (2026-09), unreleased", "as installed", "health checks on"
    )

    def marked(self, happening: Happening) -> frozenset[Device]:
        return self.resolved(happening) or self.whole(happening.gpu)


class NvSentinel(Peer):
    """NVSentinel: the catalogue's spreadsheet says what is fatal, the node is cordoned.

    Unknown codes are fatal (they map to CONTACT_SUPPORT), and 45 is not since #1629; lines with
    `GPU-I` are not parsed; DCGM's watches report the recovery action and remaps; a reboot clears
    the faults from the log. Administrators opt a node out before they upgrade its driver, as its
    runbook says: DCGM's absence is no fault then. Simplified: its own reboots are those of the
    history; polls take no time; the analyzer's rules for bursts and the breaker are left out; the
    drain waits for jobs (AllowCompletion), so no pod is lost.
    """

    name = "NVSentinel, main of August 2026"
    about = About(
        "its main branch after #1629 (2026-08); 45 is fatal in v1.14.0",
        "fault-quarantine on, its rules as shipped; a reset is done by a reboot; "
        "`partialDrainEnabled` off: it would keep pods on the node's other GPUs, the cordon stays",
        "fault-quarantine is off: reports only",
    )
    by_log = True
    by_node = True
    by_reset = False
    _HARMLESS = frozenset({"RESTART_APP", "IGNORE", "XID_154_EVAL", "WORKFLOW_XID_45"})

    def __init__(self, history: NodeHistory, delay: float = DELAYS[0]) -> None:
        super().__init__(history, delay)
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
            case "asks" if self.history.reads_action:
                self._faults.add(("action", happening.gpu, 0))
            case "remap":
                self._faults.add(("remap", happening.gpu, 0))
            case "gone":
                self._faults.add(("lost", happening.gpu, 0))
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
    about = About(
        "4a8de33 (2026-08-22)",
        "a machine that it advises to reboot or inspect counts as tainted",
        "reports only",
    )
    by_log = True
    by_node = True
    by_reset = False
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

    def __init__(self, history: NodeHistory, delay: float = DELAYS[0]) -> None:
        super().__init__(history, delay)
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


PEERS: tuple[type[Peer], ...] = (
    DraDriver,
    DraDriverByAction,
    DevicePlugin,
    DevicePluginMain,
    NvSentinel,
    Gpud,
)
