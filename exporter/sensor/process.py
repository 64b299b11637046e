"""The sensor: NVML child, kernel log and kubelet on one side, the agent's socket on the other.

Root, no token, no port. It keeps the last signals in a ring, so that an agent
that was away loses none, and decides nothing.
"""

import logging
import threading
import time
import uuid
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import msgspec

from exporter.model.node_health import Cursor, SourceHealth
from exporter.model.readings import STARTING, DcgmReading, NvmlReading, Observation
from exporter.model.signals import PASSING, Signal
from exporter.model.xid_dedup import Dedup, adds_nothing
from exporter.protocol import Signals
from exporter.sensor.dcgm.vendor import OFF, DcgmVendor
from exporter.sensor.dcgm.wanted import left_to_dcgm
from exporter.sensor.kernel_log import driver_lines
from exporter.sensor.kernel_log.cgroups import Cgroups
from exporter.sensor.kernel_log.config_space import ConfigWatch
from exporter.sensor.kernel_log.kmsg import KernelLogReader
from exporter.sensor.kernel_log.reload import DriverUse
from exporter.sensor.node_state import NodeState, NodeWatch, pause_of
from exporter.sensor.nvml.vendor import NvmlVendor
from exporter.sensor.processes import with_pods
from exporter.sensor.ring import Ring
from exporter.sensor.supervisor.child import VendorChild, VendorState
from exporter.settings import Settings
from kubeapi import clock

_log = logging.getLogger(__name__)

BATCH = 1000
"""Signals in one message."""
FIRST_AGENT = 2.0
"""Seconds for which the first reading waits for an agent; both start together."""
_BOOT_SECONDS = 1.0
_KERNELS_OWN = Path("/proc")
"""What the kernel says of its boot cannot change while a process lives; a simulated node's can."""


class Position(msgspec.Struct):
    """How far one agent was told."""

    run: str
    number: int
    state: int = 0
    backlog: list[Signal] = []
    """What it has not counted of the time before it came."""
    counted_to: int | None = None
    """The last kernel record that it counted before it came."""
    over: bool = False
    """Whether the agent is gone."""


class Sensor:
    """Everything known of the node, and the threads that keep it so."""

    def __init__(self, settings: Settings, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._monotonic = monotonic
        self.changed = threading.Condition()
        self._state = 0
        self._kernel_sequence: int | None = None
        self._boot_id = _boot_id(settings.boot_id_file)
        self._ring = Ring(uuid.uuid4().hex, self._boot_id)
        self._dedup = Dedup()
        self._deaf = {"nvml", "dcgm"}
        """Those of which no reading has come yet: they tell of nothing that happened before."""
        self._rejected: dict[str, int] = {}
        self._refused = 0
        self._cut = 0
        self._wanted: tuple[int, ...] = ()
        self._named = False
        """An agent has named the fields that its page shows, or has been waited for."""
        self._nvml: VendorState[NvmlReading] = VendorState(
            source=SourceHealth(name="nvml", state="Down", reason=STARTING)
        )
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
        self._config = ConfigWatch(
            settings.pci_devices_dir, pause_of(settings), self._on_config_space
        )
        self._reader = KernelLogReader(
            settings.kernel_log,
            on_record=self._on_record,
            on_rejected=self._reject,
            on_source=self._on_kernel_log,
            on_replaced=self._begin_run,
            boot_id=lambda: self._boot_id,
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
        with self.changed:
            pass

    def add(self, signal: Signal) -> None:
        """Number a signal, pair it, keep it, and have the GPUs looked at because of it."""
        if signal.kind not in PASSING:
            with self.changed:
                numbered = self._placed(signal, self._ring.number_next())
                paired = self._dedup.pair(numbered, self._deaf if signal.past else ())
                if adds_nothing(paired):
                    return
                self._ring.append(paired)
                self.changed.notify_all()
        if signal.kind != "identity":
            self._ask()

    def refuse(self) -> None:
        """Count a frame that could not be read."""
        with self.changed:
            self._refused += 1
            self._touch()

    def want(self, fields: tuple[int, ...]) -> None:
        """Read these fields from now on, beside those that health needs."""
        with self.changed:
            changes, self._wanted = fields != self._wanted, fields
            self._named = True
            self.changed.notify_all()
        if changes:
            self._ask()

    def resume(self, cursor: Cursor, boot_id: str) -> tuple[Position, str]:
        """Return where an agent with this cursor stands, and the boot id."""
        with self.changed:
            position = Position(
                run=self._ring.run,
                number=self._ring.last_number,
                state=-1,
                backlog=self._ring.resume(cursor, boot_id),
                counted_to=self._ring.counted_to(cursor, boot_id),
            )
            return position, self._boot_id

    def since(self, position: Position) -> tuple[Signals | None, Observation | None]:
        """Wait for what is new since a position, and move it.

        A position of another run (the node was rebooted), or whose agent is gone, gets nothing.
        """
        with self.changed:
            self.changed.wait_for(
                lambda: (
                    position.backlog
                    or position.state != self._state
                    or position.number < self._ring.last_number
                    or not self._is_live(position)
                )
            )
            if not self._is_live(position):
                return None, None
            signals = self._take(position)
            if position.state == self._state:
                return signals, None
            position.state = self._state
            return signals, self._observation()

    def is_current(self, position: Position) -> bool:
        with self.changed:
            return self._is_live(position)

    def let_go(self, position: Position) -> None:
        """Wake who waits for news of this position: its agent is gone."""
        with self.changed:
            position.over = True
            self.changed.notify_all()

    def note_cut(self) -> int:
        """Count an observation of which a part is left out as it is too large; returns the sum."""
        with self.changed:
            self._cut += 1
            return self._cut

    def _is_live(self, position: Position) -> bool:
        return position.run == self._ring.run and not position.over

    def _take(self, position: Position) -> Signals | None:
        waiting = position.backlog + self._ring.after(position.number, position.counted_to)
        position.number = self._ring.last_number
        batch, position.backlog = waiting[:BATCH], waiting[BATCH:]
        if not batch:
            return None
        read = [signal.kernel_sequence for signal in batch]
        if not position.backlog:
            # Not with a backlog: the cursor would cover records whose signals are still to be sent.
            read.append(self._kernel_sequence)
        # `_kernel_sequence` may be behind the batch: it is set after a record's signal is added.
        last = max((sequence for sequence in read if sequence is not None), default=None)
        return Signals(tuple(batch), last)

    def _observation(self) -> Observation:
        at = clock.now()
        # A log that is read waits for its next record until now.
        kmsg = self._kmsg
        if kmsg.up:
            kmsg = msgspec.structs.replace(kmsg, last_success=clock.now())
        dcgm = (self._dcgm.source,) if self._dcgm else ()
        return Observation(
            at=at,
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
            signals_dropped=self._ring.dropped,
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
        with self.changed:
            self.changed.wait_for(lambda: self._named, FIRST_AGENT)
            self._named = True
            return self._wanted

    def _fields_of_dcgm(self) -> tuple[int, ...]:
        with self.changed:
            return left_to_dcgm(self._wanted, self._nvml.reading)

    def _touch(self) -> None:
        self._state += 1
        self.changed.notify_all()

    def _on_nvml(self, state: VendorState[NvmlReading]) -> None:
        if state.reading is not None:
            placed = with_pods(state.reading, self._cgroups)
            state = msgspec.structs.replace(state, reading=placed)
        with self.changed:
            self._nvml = state
            self._use.note(self._monotonic(), answers=state.reading is not None)
            self._note_reading("nvml", state)
            self._touch()

    def _on_dcgm(self, state: VendorState[DcgmReading]) -> None:
        with self.changed:
            self._dcgm = state
            self._note_reading("dcgm", state)
            self._touch()

    def _note_reading(
        self, source: str, state: VendorState[NvmlReading] | VendorState[DcgmReading]
    ) -> None:
        if state.reading is not None:
            self._deaf.discard(source)

    def _on_node(self, state: NodeState) -> None:
        with self.changed:
            moved = state.containers != self._node.containers
            self._node = state
            self._touch()
        if moved:
            # A pod on a partition made for it must not be shown on the one before.
            self._child.ask()

    def _on_config_space(self) -> None:
        with self.changed:
            self._touch()

    def _placed(self, signal: Signal, number: int) -> Signal:
        """Number a signal, and name its GPU in both ways where NVML told them."""
        signal = msgspec.structs.replace(signal, number=number)
        if bool(signal.uuid) == bool(signal.bus_id) or self._nvml.reading is None:
            return signal
        for gpu in self._nvml.reading.gpus:
            if signal.uuid == gpu.uuid:
                return msgspec.structs.replace(signal, bus_id=gpu.bus_id)
        return signal

    def _on_kernel_log(self, source: SourceHealth) -> None:
        with self.changed:
            self._kmsg = source
            self._touch()

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
        with self.changed:
            # After its signal: the agent's cursor must not run ahead of what it counts.
            self._kernel_sequence = record.sequence

    def _is_ruled_out(self, signal: Signal, read_at: datetime | None) -> bool:
        """Return whether a signal reports a driver load that, as NVML shows, did not happen.

        A load logged before this sensor started is older than its use of NVML: never ruled out.
        """
        if signal.kind != "driver-load" or read_at is None:
            return False
        with self.changed:
            return self._use.rules_out_load(self._monotonic())

    def _reject(self, reason: str) -> None:
        with self.changed:
            self._rejected[reason] = self._rejected.get(reason, 0) + 1
            # Told with the next observation: a flood of garbage must not become a flood of frames.

    def _begin_run(self) -> None:
        """Start over, as after a reboot; the agent is let go and comes again."""
        with self.changed:
            self._boot_id = _boot_id(self._settings.boot_id_file)
            self._ring = Ring(uuid.uuid4().hex, self._boot_id)
            self._dedup = Dedup()
            self._kernel_sequence = None
            self._touch()

    def _watch_boot(self) -> None:
        while not self._stopping.wait(_BOOT_SECONDS):
            boot_id = _boot_id(self._settings.boot_id_file)
            if boot_id and boot_id != self._boot_id:
                _log.info("the boot id is now %s: the node was rebooted", boot_id)
                self._reader.restart()
                self._stopping.wait(_BOOT_SECONDS)


def _boot_id(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()[:64]
    except OSError:
        return ""
