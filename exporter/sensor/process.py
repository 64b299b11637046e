"""The sensor: NVML child, kernel log and kubelet on one side, the agent's socket on the other.

Root, no token, no port. Its feed keeps the last signals for the agent. It decides nothing.
"""

import logging
import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import msgspec

from exporter.model.node_health import SourceHealth
from exporter.model.readings import STARTING, DcgmReading, LastRead, NvmlReading, Observation
from exporter.model.signals import PASSING, Signal
from exporter.sensor.dcgm.requested_fields import left_to_dcgm
from exporter.sensor.dcgm.vendor import OFF, DcgmVendor
from exporter.sensor.feed import Feed
from exporter.sensor.gpu_processes import with_pods
from exporter.sensor.kernel_log import driver_lines
from exporter.sensor.kernel_log.cgroups import Cgroups
from exporter.sensor.kernel_log.config_space import ConfigWatch
from exporter.sensor.kernel_log.kmsg import KernelLogReader
from exporter.sensor.kernel_log.reload import DriverUse
from exporter.sensor.node_state import NodeState, NodeWatch, pause_of
from exporter.sensor.nvml.vendor import NvmlVendor
from exporter.sensor.supervisor.child import VendorChild, VendorState
from exporter.settings import Settings
from kubeapi import clock

_log = logging.getLogger(__name__)

FIRST_AGENT = 2.0
"""Seconds for which the first reading waits for an agent; both start together."""
_BOOT_SECONDS = 1.0
_KERNELS_OWN = Path("/proc")
"""What the kernel says of its boot cannot change while a process lives; a simulated node's can."""


class Sensor:
    """Everything known of the node, and the threads that keep it so."""

    def __init__(self, settings: Settings, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._monotonic = monotonic
        self.feed = Feed(_boot_id(settings.boot_id_file), self._observation)
        self._deaf = {"nvml", "dcgm"}
        """Those of which no reading has come yet: they tell of nothing that happened before."""
        self._rejected: dict[str, int] = {}
        self._refused = 0
        self._cut = 0
        self._requested: tuple[int, ...] = ()
        self._named = False
        """An agent has named the fields that its page shows, or has been waited for."""
        self._nvml: VendorState[NvmlReading] = VendorState(
            source=SourceHealth(name="nvml", state="Down", reason=STARTING)
        )
        sources = ("nvml", "podresources", *(("dcgm",) if settings.dcgm != OFF else ()))
        self._reads: dict[str, tuple[int, float]] = dict.fromkeys(sources, (0, monotonic()))
        """How many times a source was read, and when last, by the monotonic clock."""
        self._use = DriverUse()
        self._kmsg = SourceHealth(name="kmsg", state="Down", reason=STARTING)
        self._node = NodeState()
        self._dcgm: VendorState[DcgmReading] | None = None
        self._cgroups = Cgroups(settings.proc_dir)
        nvml = NvmlVendor(settings, self._fields)
        self._child = VendorChild[NvmlReading](nvml, settings, self._on_nvml, self.add)
        self._dcgm_child: VendorChild[DcgmReading] | None = None
        if settings.dcgm != OFF:
            source = SourceHealth(name="dcgm", state="Down", reason=STARTING)
            self._dcgm = VendorState(source=source)
            dcgm = DcgmVendor(settings, self._fields_of_dcgm)
            self._dcgm_child = VendorChild[DcgmReading](dcgm, settings, self._on_dcgm, self.add)
        self._watch = NodeWatch(settings, self._on_node)
        self._config = ConfigWatch(settings.pci_devices_dir, pause_of(settings), self.feed.touch)
        self._reader = KernelLogReader(
            settings.kernel_log,
            on_record=self._on_record,
            on_rejected=self._reject,
            on_source=self._on_kernel_log,
            on_replaced=self._begin_run,
            boot_id=lambda: self.feed.ring.boot_id,
            pace=settings.interval,
            journals=settings.journals,
        )
        self._stopping = threading.Event()
        self._boot_watch = threading.Thread(target=self._watch_boot, name="boot id", daemon=True)

    def start(self) -> None:
        self._child.start()
        if self._dcgm_child is not None:
            self._dcgm_child.start()
        self._reader.start()
        self._watch.start()
        self._config.start()
        if not self._settings.boot_id_file.is_relative_to(_KERNELS_OWN):
            self._boot_watch.start()

    def stop(self) -> None:
        self._stopping.set()
        self._reader.stop()
        self._child.stop()
        if self._dcgm_child is not None:
            self._dcgm_child.stop()
        self._watch.stop()
        self._config.stop()
        if self._boot_watch.ident is not None:
            self._boot_watch.join(_BOOT_SECONDS + 1)

    def pass_lock(self) -> None:
        """Take the lock and release it; a deadlock blocks the caller."""
        with self.feed.changed:
            pass

    def add(self, signal: Signal) -> None:
        """Give a signal to the feed, and have the GPUs looked at because of it."""
        if signal.kind not in PASSING:
            with self.feed.changed:
                placed = _placed(signal, self._nvml.reading)
                # By DCGM's clock, or by one that was set back since, it may be yet to come.
                at = min(placed.at, clock.now())
                placed = msgspec.structs.replace(placed, at=at, booted_at=clock.boot_time())
                if not self.feed.add(placed, self._deaf if signal.past else ()):
                    return
        if signal.kind != "identity":
            self._ask()

    def refuse(self) -> None:
        """Count a frame that could not be read."""
        with self.feed.changed:
            self._refused += 1
            self.feed.touch()

    def want(self, fields: tuple[int, ...]) -> None:
        """Read these fields from now on, beside those that health needs."""
        with self.feed.changed:
            changes, self._requested = fields != self._requested, fields
            self._named = True
            self.feed.changed.notify_all()
        if changes:
            self._ask()

    def note_cut(self) -> int:
        """Count an observation of which a part is left out as it is too large; returns the sum."""
        with self.feed.changed:
            self._cut += 1
            return self._cut

    def _observation(self) -> Observation:
        at = clock.now()
        now, kmsg = self._monotonic(), self._kmsg
        looks, looked = self._reader.progress
        if kmsg.up:
            last = at - timedelta(seconds=max(0.0, now - looked))
            kmsg = msgspec.structs.replace(kmsg, last_success=last)
        reads = self._reads | {"kmsg": (looks, looked)}
        dcgm = (self._dcgm.source,) if self._dcgm else ()
        return Observation(
            at=at,
            booted_at=clock.boot_time(),
            reads={
                name: LastRead(number, max(0.0, now - since))
                for name, (number, since) in reads.items()
            },
            sources=(self._nvml.source, kmsg, self._node.pods, *dcgm),
            nvml=self._nvml.reading,
            hang=self._nvml.hang or (self._dcgm.hang if self._dcgm else None),
            dcgm=self._dcgm.reading if self._dcgm else None,
            dcgm_restarts=self._dcgm.restarts if self._dcgm else 0,
            pci_gpus=self._node.pci_gpus,
            pci_unbound=self._node.pci_unbound,
            pci_drivers=self._node.pci_drivers,
            pci_config=dict(self._config.answers()),
            containers=self._node.containers,
            rejected=dict(self._rejected),
            refused=self._refused,
            cut=self._cut,
            signals_dropped=self.feed.ring.dropped,
            restarts=self._nvml.restarts,
        )

    def _ask(self) -> None:
        """Have samples taken soon."""
        self._child.ask()
        self._config.ask()
        if self._dcgm_child is not None:
            self._dcgm_child.ask()

    def _fields(self) -> tuple[int, ...]:
        """Return what to read. The first reading waits for an agent that is just starting.

        Otherwise the first page, which is ready, would lack most fields until the second one.
        """
        with self.feed.changed:
            self.feed.changed.wait_for(lambda: self._named, FIRST_AGENT)
            self._named = True
            return self._requested

    def _fields_of_dcgm(self) -> tuple[int, ...]:
        with self.feed.changed:
            return left_to_dcgm(self._requested, self._nvml.reading)

    def _on_nvml(self, state: VendorState[NvmlReading]) -> None:
        if state.reading is not None:
            placed = with_pods(state.reading, self._cgroups)
            state = msgspec.structs.replace(state, reading=placed)
        with self.feed.changed:
            self._nvml = state
            self._use.note(self._monotonic(), answers=state.reading is not None)
            self._note_reading("nvml", state)
            self.feed.touch()

    def _on_dcgm(self, state: VendorState[DcgmReading]) -> None:
        with self.feed.changed:
            self._dcgm = state
            self._note_reading("dcgm", state)
            self.feed.touch()

    def _note_reading(
        self, source: str, state: VendorState[NvmlReading] | VendorState[DcgmReading]
    ) -> None:
        if state.reading is not None:
            self._deaf.discard(source)
            self._note_read(source)

    def _note_read(self, source: str) -> None:
        number, _ = self._reads[source]
        self._reads[source] = number + 1, self._monotonic()

    def _on_node(self, state: NodeState) -> None:
        with self.feed.changed:
            moved = state.containers != self._node.containers
            self._node = state
            self._note_read("podresources")
            self.feed.touch()
        if moved:
            # A pod on a partition made for it must not be shown on the one before.
            self._child.ask()

    def _on_kernel_log(self, source: SourceHealth) -> None:
        with self.feed.changed:
            self._kmsg = source
            self.feed.touch()

    def _on_record(self, raw: bytes, read_at: datetime | None, boot: datetime) -> None:
        try:
            record = driver_lines.split(raw)
        except driver_lines.Rejected as rejected:
            self._reject(rejected.reason)
            return
        try:
            signal = driver_lines.understand(record, boot)
        except driver_lines.Rejected as rejected:
            self._reject(rejected.reason)
            signal = None
        if signal is not None and self._is_ruled_out(signal, read_at):
            self._reject("contradicted")
            signal = None
        if signal is not None:
            # A record from the future has an absurd time stamp.
            at = read_at or min(signal.at, clock.now())
            fields = {"at": at, "source": self._reader.source, "past": read_at is None}
            self.add(msgspec.structs.replace(signal, **fields))
        self.feed.read_to(record.sequence)

    def _is_ruled_out(self, signal: Signal, read_at: datetime | None) -> bool:
        """Return whether a signal reports a driver load that, as NVML shows, did not happen.

        A load logged before this sensor started is older than its use of NVML: never ruled out.
        """
        if signal.kind != "driver-load" or read_at is None:
            return False
        with self.feed.changed:
            return self._use.rules_out_load(self._monotonic())

    def _reject(self, reason: str) -> None:
        with self.feed.changed:
            self._rejected[reason] = self._rejected.get(reason, 0) + 1
            # Sent with the next observation: a flood of garbage must not become a flood of frames.

    def _begin_run(self) -> None:
        """Start over, as after a reboot; the agent is let go and comes again."""
        self.feed.begin_run(_boot_id(self._settings.boot_id_file))

    def _watch_boot(self) -> None:
        while not self._stopping.wait(_BOOT_SECONDS):
            boot_id = _boot_id(self._settings.boot_id_file)
            if boot_id and boot_id != self.feed.ring.boot_id:
                _log.info("the boot id is now %s: the node was rebooted", boot_id)
                self._reader.restart()
                self._stopping.wait(_BOOT_SECONDS)


def _boot_id(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()[:64]
    except OSError:
        return ""


def _placed(signal: Signal, reading: NvmlReading | None) -> Signal:
    """Name a signal's GPU in both ways where NVML reported them."""
    if bool(signal.uuid) == bool(signal.bus_id) or reading is None:
        return signal
    for gpu in reading.gpus:
        if signal.uuid == gpu.uuid:
            return msgspec.structs.replace(signal, bus_id=gpu.bus_id)
    return signal
