"""One node's agent in the replay: happenings into NodeHealth, through the exporter's own ledger.

Log lines and NVML events become signals, what NVML would answer becomes
readings, and `exporter.agent.report.ledger` makes the report of them, as on a real
node. Left out: sensor, pairing and pace, which are tested elsewhere. Pure.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple

import msgspec

from benchmarks.replay.truth import GPUS, SLICES, Happening, NodeHistory, State
from exporter.agent.report import ledger
from exporter.agent.report.inventory import Published
from exporter.model.device import GPU_DRIVER, Device
from exporter.model.node_health import NodeHealth, SourceHealth
from exporter.model.node_health_words import Via
from exporter.model.readings import (
    FabricReading,
    GpuReading,
    LinkReading,
    MigReading,
    NvmlReading,
    Observation,
)
from exporter.model.resource_slices import SliceDevice
from exporter.model.signals import Partner, Signal
from remediator.diagnose.xid_table import rule_of

ORIGIN = datetime(2026, 1, 1, tzinfo=UTC)

Log = Literal["kmsg", "journal", "syslog"]
VIA: dict[Log, Via] = {"kmsg": "Device", "journal": "Journal", "syslog": "Syslog"}
SWITCH = "0000:c2:00.0"
"""PCI slot of the node's NVSwitch."""


class Cut(NamedTuple):
    """How a GPU is cut into slices of one profile."""

    profile: str
    number: int
    """Of the profile, as NVML counts them."""
    size: int
    """Memory slices of one."""
    parts: int


AS_REQUESTED = Cut("1g.10gb", 19, 1, SLICES)
OTHERWISE = Cut("2g.20gb", 14, 2, 3)


class Inputs(msgspec.Struct, frozen=True, kw_only=True):
    """Which sources a node's agent has."""

    log: Log = "kmsg"
    """How the kernel log is read."""
    lost: int = 0
    """journald loses each so many-th line, and the exporter has it by syslog(2); 0: none."""
    events: bool = True
    """NVML's event of the same XID comes."""
    hangs: bool = False
    """NVML hangs as a whole from a hardware fault's line until the GPU is reset."""


EVERYTHING = Inputs()
OFF_BUS: State = "off the bus"
UNBOUND: dict[State, str] = {"nouveau": "nouveau", "no driver": ""}
"""The owner of a GPU that NVIDIA's driver has not, by its state."""
FABRIC: dict[State, tuple[int, int]] = {
    "fabric not started": (1, 0),
    "fabric waits": (2, 0),
    "fabric failed": (3, 999),
}
"""State and status of the registration with the fabric (nvmlGpuFabricInfo_v2_t); else 3 and 0."""


def moment(at: float) -> datetime:
    """Return a time of the history (seconds) as a date."""
    return ORIGIN + timedelta(seconds=at)


class _Gpu(msgspec.Struct):
    board: int = 0
    action: int = 0
    gone: bool = False
    listed: bool = True
    pending: bool = False
    failure: bool = False
    link_down: bool = False
    state: State = ""


class Agent:
    def __init__(self, history: NodeHistory, inputs: Inputs = EVERYTHING) -> None:
        self._history = history
        self._inputs = inputs
        self._hung = False
        self.name = f"node-{history.node:04d}"
        self._gpus = [_Gpu() for _ in range(GPUS)]
        self._order = tuple(range(GPUS))
        """GPUs by number, in names and of NVML; absent ones are not in it."""
        self._boot, self._driver, self._nvml_up, self._number = 1, history.driver, True, 0
        self._lines = 0
        self.alive = True
        """Whether the node reports at all."""
        self._rename()
        self.report = self._begin(-3600.0)

    seen: Observation
    """The last sample."""
    published: Published
    """What of `inventory` the agent knows."""
    inventory: tuple[SliceDevice, ...]
    """What NVIDIA's driver publishes."""
    gpu_of: dict[str, int]
    """GPU index by UUID, former boards too."""

    def take(self, happening: Happening) -> None:
        """Let one thing happen; signals are counted at once, readings wait for `look`."""
        match happening.kind:
            case "xid":
                hangs = self._inputs.hangs and rule_of(happening.code).fault is not None
                self._hung = self._hung or hangs
                self._count(self._signals(happening))
            case "sxid":
                about = {"bus_id": SWITCH, "code": happening.code, "fatal": True}
                line = self._signal(happening.at, kind="sxid", source=self._log(), **about)
                self._count([line])
            case "down":
                self.alive = False
            case "booted":
                self._reboot(happening)
            case "numbered":
                # The driver's slices change at once, readings with the next sample.
                self._order = happening.order
                self._rename()
            case "nvml-down":
                self._nvml_up = False
            case "nvml-up":
                # The driver was upgraded.
                self._nvml_up, self._driver = True, self._driver[:-1] + "9"
                self._gpus = [_Gpu(board=gpu.board, failure=gpu.failure) for gpu in self._gpus]
                self._hung = False
                self._count([self._signal(happening.at, kind="driver-load", source=self._log())])
            case _:
                self._change(self._gpus[happening.gpu], happening)

    def _change(self, gpu: _Gpu, happening: Happening) -> None:
        """Let one thing happen to one GPU."""
        match happening.kind:
            case "link-down":
                gpu.link_down = True
            case "asks":
                gpu.action = happening.action
            case "gone":
                gpu.gone, gpu.listed = True, happening.listed
            case "reset":
                self._hung = False
                self._gpus[happening.gpu] = _Gpu(board=gpu.board)
                self._rename()
            case "remap":
                # Neither ends but by a reset, a boot, a driver load or another board.
                gpu.pending = gpu.pending or not happening.failure
                gpu.failure = gpu.failure or happening.failure
            case "state":
                gpu.state = happening.state
                self._rename()
            case kind:
                raise ValueError(f"no GPU shows {kind}")

    def look(self, at: float) -> None:
        """Take a sample of all GPUs, as the sensor does after an XID and every 30 s."""
        why = "Hung" if self._hung else "" if self._nvml_up else "DriverNotLoaded"
        nvml = None
        if self._nvml_up and not self._hung:
            readings = tuple(self._reading(index) for index in self._order if self._lists(index))
            nvml = NvmlReading(at=moment(at), driver_version=self._driver, gpus=readings)
        self.seen = Observation(
            at=moment(at),
            sources=(
                SourceHealth(name="nvml", state="Down" if why else "Up", reason=why),
                SourceHealth(name="kmsg", state="Up", via=VIA[self._inputs.log]),
            ),
            nvml=nvml,
            pci_gpus=tuple(bus_id(i) for i in self._present if self._gpus[i].state != OFF_BUS),
            pci_unbound=tuple(self._unbound),
            pci_drivers=self._unbound,
        )
        self.report = ledger.observe(self.report, self.seen, published=self.published)

    @property
    def _present(self) -> list[int]:
        return sorted(self._order)

    @property
    def _unbound(self) -> dict[str, str]:
        """Return the GPUs that NVIDIA's driver is not bound to, with the driver that is, if any."""
        states = {bus_id(index): self._gpus[index].state for index in self._present}
        return {bus: UNBOUND[state] for bus, state in states.items() if state in UNBOUND}

    @property
    def misses(self) -> bool:
        """Whether NVML answers, but the presence of a GPU is unknown."""
        return (
            self._nvml_up
            and not self._hung
            and any(gpu.presence == "Unknown" for gpu in self.report.gpus)
        )

    def _begin(self, at: float) -> NodeHealth:
        report = ledger.begin(f"boot-{self._boot}", "replay", moment(at))
        self.report = report
        self.look(at)
        return self.report

    def _reboot(self, happening: Happening) -> None:
        self._hung = False
        self._boot += 1
        self.alive = True
        self._gpus = [_Gpu(board=gpu.board, failure=gpu.failure) for gpu in self._gpus]
        for index in happening.boards:
            self._gpus[index] = _Gpu(board=self._gpus[index].board + 1)
        self._rename()
        self._begin(happening.at)

    def _rename(self) -> None:
        if not hasattr(self, "gpu_of"):
            self.gpu_of = {}
        self.gpu_of |= {self.uuid(index): index for index in range(GPUS)}
        whole = self._slices if self._history.mig else self._whole
        offered = [i for i in self._present if self._gpus[i].state != "not published"]
        self.inventory = tuple(device for index in offered for device in whole(index))
        uuids = frozenset(self.uuid(index) for index in offered)
        by_bus = {bus_id(index): self.uuid(index) for index in offered}
        self.published = Published(uuids=uuids, by_bus=by_bus)

    def _number_of(self, index: int) -> int:
        return self._order.index(index)

    def uuid(self, index: int) -> str:
        board = self._gpus[index].board
        return f"GPU-{self._history.node:08x}-{index:04x}-{board:04x}-0000-000000000000"

    def _mig_uuid(self, index: int, part: int) -> str:
        board = self._gpus[index].board
        return f"MIG-{self._history.node:08x}-{index:04x}-{board:04x}-{part:04x}-000000000000"

    def _whole(self, index: int) -> tuple[SliceDevice, ...]:
        name = Device(GPU_DRIVER, self.name, f"gpu-{self._number_of(index)}")
        uuid, bus = self.uuid(index), bus_id(index)
        return (SliceDevice(device=name, kind="gpu", uuid=uuid, pci_bus_id=bus, node=self.name),)

    def _cut(self, index: int) -> Cut:
        return OTHERWISE if self._gpus[index].state == "cut otherwise" else AS_REQUESTED

    def _slices(self, index: int) -> tuple[SliceDevice, ...]:
        cut = self._cut(index)
        name = f"gpu-{self._number_of(index)}-mig-{cut.profile.replace('.', '')}-{cut.number}"
        return tuple(
            SliceDevice(
                device=Device(GPU_DRIVER, self.name, f"{name}-{part}"),
                kind="mig",
                uuid=self._mig_uuid(index, part),
                parent_uuid=self.uuid(index),
                profile=cut.profile,
                pci_bus_id=bus_id(index),
                node=self.name,
            )
            for part in range(cut.parts)
        )

    def _lists(self, index: int) -> bool:
        gpu = self._gpus[index]
        if gpu.state == OFF_BUS or gpu.state in UNBOUND:
            return False
        return not gpu.gone or gpu.listed

    def _reading(self, index: int) -> GpuReading:
        gpu, mig, number = self._gpus[index], self._history.mig, self._number_of(index)
        if gpu.gone:
            return GpuReading(
                index=number, uuid=self.uuid(index), bus_id=bus_id(index), minor=number, lost=True
            )
        fabric = FABRIC.get(gpu.state, (3, 0))
        return GpuReading(
            index=number,
            uuid=self.uuid(index),
            bus_id=bus_id(index),
            minor=number,
            product=self._history.product,
            mig=mig,
            recovery_supported=self._history.action_supported,
            recovery_action=gpu.action if self._history.reads_action else None,
            fabric=FabricReading(state=fabric[0], status=fabric[1]),
            links=() if mig else (LinkReading(link=0, up=not gpu.link_down),),
            # NVML hides remaps while MIG instances exist.
            remap_pending=None if mig else gpu.pending,
            remap_failure=None if mig else gpu.failure,
            instances=self._instances(index) if mig else (),
        )

    def _instances(self, index: int) -> tuple[MigReading, ...]:
        cut = self._cut(index)
        return tuple(
            MigReading(
                uuid=self._mig_uuid(index, part),
                gi=part + 1,
                ci=0,
                profile=cut.profile,
                gi_profile_id=cut.number,
                placement_start=part * cut.size,
                placement_size=cut.size,
            )
            for part in range(cut.parts)
        )

    def _signals(self, happening: Happening) -> Iterable[Signal]:
        """A log line, and the NVML event of it if the driver sends one."""
        ci = None if happening.gi is None else 0
        line = self._signal(
            happening.at,
            kind="xid",
            source=self._log(),
            bus_id=bus_id(happening.gpu),
            code=happening.code,
            gi=happening.gi if happening.gi_printed else None,
            ci=ci if happening.gi_printed else None,
            reset=happening.reset,
            drain_reset=happening.drain_reset,
            caused_by=happening.caused_by,
            message=happening.message,
            recovery_to=happening.action if happening.code == 154 else None,
        )
        yield line
        sent = happening.code not in self._history.unsent
        if self._inputs.events and sent and not self._hung:
            yield self._signal(
                happening.at,
                kind="xid",
                source="nvml",
                uuid=self.uuid(happening.gpu),
                bus_id=bus_id(happening.gpu),
                code=happening.code,
                gi=happening.gi,
                ci=ci,
                partner=Partner(line.number, line.gi, line.ci),
            )

    def _log(self) -> Literal["kmsg", "syslog"]:
        """Return which log has the next line: by /dev/kmsg and the journal, records are whole."""
        self._lines += 1
        lost = self._inputs.lost and self._lines % self._inputs.lost == 0
        return "syslog" if lost or self._inputs.log == "syslog" else "kmsg"

    def _signal(self, at: float, **fields: object) -> Signal:
        self._number += 1
        return Signal(at=moment(at), number=self._number, **fields)  # pyright: ignore[reportArgumentType] - fields of Signal, named above

    def _count(self, signals: Iterable[Signal]) -> None:
        self.report = ledger.take(self.report, signals, run="run", kernel_sequence=self._number)


def bus_id(index: int) -> str:
    """Return where on PCI a GPU of the replay is."""
    return f"0000:{0x10 + index:02x}:00.0"
