"""A made-up node whose hardware breaks, is repaired, moved and misread; it knows the truth."""

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Literal, get_args

import msgspec

from exporter.agent.join.bindings import Bindings, bind, with_last_published
from exporter.agent.report.xid_counts import Layout, completed, counted
from exporter.model.device import Device
from exporter.model.last_published import last_published
from exporter.model.node_health import (
    GpuHealth,
    MigInstance,
    RecoveryAction,
)
from exporter.model.resource_slices import SliceDevice
from exporter.model.signals import Partner, Signal
from exporter.model.xid_dedup import PATIENCE
from remediator.model.incident import Incident
from remediator.model.node import NodeFacts
from remediator.model.taint_rule import Rule
from remediator.plan.view import NEEDED, NodeView, WatchedKind
from tests.remediator.builders import (
    ALWAYS_CONFIRMED,
    DRIVER,
    NODE,
    at,
    gpu,
    mig_gpu,
    report,
    view,
    with_fields,
)
from tests.remediator.histories import errors
from tests.remediator.histories.slices import (
    memory_of,
    numbered_now,
    partition_of,
    static_slices,
)
from tests.remediator.histories.tenants import Tenants
from tests.remediator.test_hardware import partitions

Twin = Literal["second driver", "virtual machines"]
"""By another DRA driver, in a pool of its own; or by NVIDIA's, named after its address."""
SECOND_DRIVER = "gpu.example.com"
DRIVERS = frozenset({DRIVER, SECOND_DRIVER})
EVERYTHING = "*"
"""Stands for a GPU with all that is on it."""
WATCHED: tuple[WatchedKind, ...] = get_args(WatchedKind)
XidSource = Literal["kmsg", "syslog", "nvml"]
ACTIONS = (0, 0, 1, 2, 3, 4, 7, 42)


def _twin_of(health: GpuHealth) -> SliceDevice:
    """Return what NVIDIA's driver publishes of a GPU for virtual machines, named by its address."""
    return SliceDevice(
        device=Device(DRIVER, NODE, f"gpu-vfio-{health.minor}"),
        kind="vfio",
        uuid=f"vfio-{health.pci_bus_id}",
        pci_bus_id=health.pci_bus_id,
        node=NODE,
    )


class Machine:
    """One node with one whole GPU and one GPU with seven slices."""

    def __init__(self) -> None:  # noqa: PLR0915 - a list of what can be so
        self.now = 0.0
        self.gpus: list[GpuHealth] = [gpu(0), mig_gpu(1)]
        self.silent = False
        self.blind: frozenset[WatchedKind] = frozenset()
        """Kinds of object that nobody can see now."""
        self.confirmed_at = -1e9
        self.watched = True
        """The policy is not off: what is reported becomes an incident."""
        self.confirms = True
        """Its agent renews its Lease and says by it what it sees."""
        self.tenants = Tenants()
        self.dynamic = False
        """Every partition that could be made of the second GPU is published, and it beside them."""
        self.placing = False
        """Its agent records with an error where the instance lies."""
        self.placed: set[str] = set()
        """Memory of which a reading has said that the instance of an error lies there."""
        self.named: dict[tuple[str, str], float] = {}
        """When a source last named a slice, by GPU and slice."""
        self.asks_node: set[str] = set()
        """GPUs that may need a reboot in spite of pods, until they are found to be healthy."""
        self.boot = 1
        self._boards = 2
        self.unpublished: set[int] = set()
        self.gone = False
        """There is no Node of this name."""
        self.signalled: dict[str, set[str]] = {}
        """GPUs that gave a signal which may lead to a taint, and the hardware that it may mean."""
        self.forgotten: set[str] = set()
        """GPUs for which no object says any more which slices their errors meant."""
        self._last_signal: dict[tuple[str, int], float] = {}
        """By GPU and code."""
        self.bad_at: dict[str, float] = {}
        """When a GPU was last seen not to be well, or not seen at all."""
        self.owes_an_epoch: dict[str, frozenset[int]] = {}
        """By GPU what nothing but a reset can prove to be over: its driver has no other word."""
        self._vouched: dict[str, datetime] = {}
        self.repaired: set[str] = set()
        """GPUs whose incident ended on a user's word, and that gave no signal since."""
        self._layouts = 0
        self._release = 0
        """Of the DRA driver: each may name devices in its own way."""
        self._bindings: Bindings = {}
        self.nodes_watched = True
        self._node_seen: NodeFacts | None = None
        self.also: set[Twin] = set()
        """How the whole GPU is published besides."""
        self._lives = 1
        """Of the Node: each has a UID of its own."""
        self.booted_at = self._node_went_at = -1e9
        self._taken_out: set[str] = set()
        """Boards that another one replaced."""
        self._beside: dict[str, set[str]] = {}
        """Of those, the boards that were beside it then."""
        self.forgotten_at: dict[str, float] = {}
        """Of those, since when none of these is there either."""
        self.stranded_at: dict[str, float] = {}
        """Of a board that was taken out: when the Node of its machine was deleted."""
        self.boards_of_boot = set(self.boards())
        """Those that were plugged in at any time since then."""

    @property
    def time(self) -> datetime:
        return at(self.now)

    def view(self) -> NodeView:
        self._read_actions()
        dated = {"observed_at": self.time, "boot_id": self.boot_id}
        self.looks()
        published = self.published()
        seen = with_fields(report(*self.gpus), **dated)
        # As the agent does it: what the names go on meaning while the driver is away.
        self._bindings = bind(self._bindings, published, seen)
        seen = with_last_published(seen, self._bindings, published)
        pools = {(part.device.driver, part.device.pool) for part in published}
        return view(
            report=seen,
            inventory=published,
            last_published=tuple(
                part
                for part in last_published(seen, NODE)
                if (part.device.driver, part.device.pool) not in pools
            ),
            stale="silent for a while" if self.silent else "",
            blind=dict.fromkeys(sorted(self.blind), "refused"),
            renewals=ALWAYS_CONFIRMED if self.confirms else (),
            behind=timedelta(),
            claims=tuple(self.tenants.claims.values()),
            pods=self.tenants.pods(),
            refusals={self.tenants.uid(name): why for name, why in self.tenants.refusals.items()},
            nodes_known=self.nodes_watched,
            facts=self._facts(),
        )

    def _facts(self) -> NodeFacts | None:
        """Return the Node as it was seen last."""
        if self.nodes_watched:
            there = NodeFacts(name=NODE, uid=self.node_uid)
            self._node_seen = None if self.gone else there
        return self._node_seen

    def published(self) -> tuple[SliceDevice, ...]:
        """Return the devices that the node publishes now."""
        found = [
            device
            for index, health in enumerate(self.gpus)
            if index not in self.unpublished
            for device in self._published(health)
        ]
        if "second driver" in self.also:
            board = self.gpus[0].uuid
            name = Device(SECOND_DRIVER, "rack-1", f"board-{board[4:12]}")
            found.append(SliceDevice(device=name, kind="gpu", uuid=board, node=NODE))
        return tuple(found)

    def _published(self, health: GpuHealth) -> list[SliceDevice]:
        devices = partitions(health) if self.dynamic and health.mig else static_slices(health)
        twins = [_twin_of(health)] if "virtual machines" in self.also and not health.mig else []
        return [self._named(device) for device in (*devices, *twins)]

    def _named(self, device: SliceDevice) -> SliceDevice:
        if not self._release:
            return device
        name = f"{device.device.device}-r{self._release}"
        named = msgspec.structs.replace(device.device, device=name)
        return msgspec.structs.replace(device, device=named)

    def boards(self) -> frozenset[str]:
        """Return the UUIDs of the boards that are plugged in."""
        return frozenset(health.uuid for health in self.gpus)

    def board_of(self, part: SliceDevice) -> str:
        """Return the UUID of the board that is behind a published device."""
        if part.kind != "vfio":
            return part.parent_uuid or part.uuid or ""
        return next((it.uuid for it in self.gpus if it.pci_bus_id == part.pci_bus_id), "")

    @property
    def node_uid(self) -> str:
        return f"node-{self._lives}"

    @property
    def boot_id(self) -> str:
        return f"boot-{self.boot}"

    @property
    def whole(self) -> bool:
        """Whether everything is seen of the node now."""
        return self.nodes_watched and not (self.gone or self.silent or self.blind)

    @property
    def unseen(self) -> bool:
        """Whether something is not seen without which nothing may begin or end."""
        return bool(self.blind & set(NEEDED["restrict"][0]))

    def devices(self, index: int) -> list[str]:
        return [device.device.device for device in self._published(self.gpus[index])]

    def passes(self, seconds: float) -> None:
        self.now += seconds

    def xid(self, index: int, code: int, gi: int | None, source: XidSource = "kmsg") -> None:
        ci = None if gi is None else 0
        signal = Signal(kind="xid", source=source, at=self.time, code=code, gi=gi, ci=ci)
        self._counts(index, signal)

    def is_also_reported(self, index: int, code: int, source: XidSource) -> None:
        """One more source reports an error."""
        partner = Partner(0)
        signal = Signal(kind="xid", source=source, at=self.time, code=code, partner=partner)
        self._counts(index, signal)

    def names_the_slice(self, index: int, gi: int) -> None:
        """NVML's event, or DCGM's, says late of which slice an error was, by its own time."""
        one = self.gpus[index]
        late = [
            record for record in one.xids if record.code in errors.CONTAINED and record.gi is None
        ]
        if not one.mig or not late or self.time - late[0].last_seen > PATIENCE:
            return
        event = Signal(
            kind="xid",
            source="nvml",
            at=late[0].last_seen,
            code=late[0].code,
            gi=gi,
            ci=0,
            partner=Partner(0),
        )
        self._counts(index, event, late[0].epoch)

    def _counts(self, index: int, signal: Signal, epoch: int | None = None) -> None:
        """The agent counts an error by what it knows of the layout."""
        one = self.gpus[index]
        read_at = signal.at if self.placing else None
        layout = Layout(one.mig, one.instances if self.placing else (), read_at)
        records = counted(one.xids, signal, epoch=epoch or one.epoch, layout=layout)
        self._replace(index, xids=records)
        if signal.code in errors.GPU_WIDE or signal.code in errors.CONTAINED:
            self._signal(index, signal.gi if signal.code in errors.CONTAINED and one.mig else None)
            self._last_signal[one.uuid, signal.code] = self.now
        if signal.code in errors.NODE_WIDE:
            self.asks_node.add(one.uuid)

    def reads_the_places(self, index: int) -> None:
        """A reading right after an error is the first to say where its instance lies."""
        known = errors.places(self.gpus[index])
        one = self.gpus[index]
        self.gpus[index] = completed(one, self.time, Layout.of(one))
        new = errors.places(self.gpus[index]) - known
        self.placed |= {memory_of(self.gpus[index].uuid, start) for start in new}

    def wants(self, index: int, value: int) -> None:
        """The driver asks for a recovery action."""
        old = self.gpus[index].recovery_action
        since = old.since if old.value == value else self.time
        none_at = old.none_at if old.value else old.observed_at if value else None
        read = RecoveryAction(
            support="Supported", value=value, since=since, observed_at=self.time, none_at=none_at
        )
        self._replace(index, recovery_action=read)
        if value:
            self._signal(index, None)
        if value in errors.NODE_ACTIONS:
            self.asks_node.add(self.gpus[index].uuid)

    def has_no_recovery_action(self, index: int) -> None:
        self._replace(
            index, recovery_action=RecoveryAction(support="Unsupported", observed_at=self.time)
        )

    def goes(self, index: int, presence: str) -> None:
        """The GPU is lost, cannot be read, or answers again."""
        if self.gpus[index].presence == presence:
            return
        fields: dict[str, object] = {"presence": presence, "presence_since": self.time}
        if presence != "Present":
            fields["recovery_action"] = RecoveryAction()
        else:
            fields["recovery_action"] = RecoveryAction(
                support="Supported", value=0, since=self.time, observed_at=self.time
            )
        self._replace(index, **fields)
        if presence == "Lost":
            self._signal(index, None)
            self.asks_node.add(self.gpus[index].uuid)

    def wears_out(self, index: int) -> None:
        """A row of its memory could not be remapped: NVML says so until there is another board."""
        memory = msgspec.structs.replace(self.gpus[index].memory, row_remap_failed="True")
        self._replace(index, memory=memory)
        self._signal(index, None)

    def is_reset(self, index: int) -> None:
        one = self.gpus[index]
        healthy = RecoveryAction(
            support="Supported", value=0, since=self.time, observed_at=self.time
        )
        self._replace(
            index,
            epoch=one.epoch + 1,
            epoch_started=self.time,
            presence="Present",
            presence_since=self.time,
            recovery_action=healthy,
        )
        self.owes_an_epoch.pop(one.uuid, None)

    def forgets(self) -> None:
        """The agent comes back in the same boot without its own report."""
        self._bindings = {}
        for index in range(len(self.gpus)):
            self._replace(index, xids=(), epoch=1)

    def slices_are_made_anew(self, index: int) -> None:
        """Under the same names and instance numbers, as other hardware."""
        one = self.gpus[index]
        if self.silent or self.unseen:
            self.forgotten.add(one.uuid)  # what was not seen before is read by its numbers now
        self._layouts += 1
        parts = tuple(
            msgspec.structs.replace(part, uuid=self._new_uuid(part, part.ci))
            for part in one.instances
        )
        self._replace(index, instances=parts)

    def is_shared(self, index: int, gi: int) -> None:
        """One more compute instance is made in a static slice, beside the first."""
        if self.dynamic:
            return
        one = self.gpus[index]
        first = next((part for part in one.instances if (part.gi, part.ci) == (gi, 0)), None)
        if first is None or any((part.gi, part.ci) == (gi, 1) for part in one.instances):
            return
        self._layouts += 1
        second = msgspec.structs.replace(first, uuid=self._new_uuid(first, 1), ci=1)
        self._replace(index, instances=(*one.instances, second))

    def _new_uuid(self, part: MigInstance, ci: int) -> str:
        return f"MIG-{'fe'[ci]}{self._layouts:07x}{part.uuid[12:]}"

    def reboots(self, *, in_vain: bool = False) -> None:
        """`in_vain`: what was lost stays lost."""
        self.boot += 1
        self.booted_at, self.boards_of_boot = self.now, set(self.boards())
        for index, health in enumerate(self.gpus):
            if health.presence == "Present" or not in_vain:
                self.is_reset(index)
            self._replace(index, xids=(), epoch=1)

    def numbers_are_swapped(self) -> None:
        """Each GPU gets the number of the other one, as after a boot in another order."""
        first, second = (health.minor for health in self.gpus)
        self._replace(0, minor=second)
        self._replace(1, minor=first)

    def driver_goes(self, *, away: bool) -> None:
        """The DRA driver cannot start, and its slices are deleted; or it is back."""
        self.unpublished = set(range(len(self.gpus))) if away else set()

    def driver_is_released(self) -> None:
        """Another release of the DRA driver names every device anew."""
        self._release += 1

    def node_goes(self) -> None:
        """Its object is deleted; nothing reports under its name any more."""
        if not self.gone:
            self._node_went_at = self.now
        self.gone = self.silent = True

    def node_is_back(self) -> None:
        self.gone = self.silent = False

    def node_is_made_again(self, *, others: bool) -> None:
        """Under its name, as it was or with other boards: a machine that has just booted."""
        self._lives += 1
        self.node_is_back()
        for index in range(len(self.gpus)) if others else ():
            self.board_is_swapped(index)
        for uuid in self._taken_out:
            self.stranded_at.setdefault(uuid, self._node_went_at)
        self.reboots()

    def board_moves_to_another_slot(self, index: int) -> None:
        """Another board, in a slot that none had."""
        self.board_is_swapped(index)
        self._replace(index, pci_bus_id=f"0000:{0x40 + self._boards:02x}:00.0")

    def board_is_swapped(self, index: int) -> None:
        """Another board takes the place, the bus id and the device names."""
        self._boards += 1
        self._taken_out.add(self.gpus[index].uuid)
        self._beside.setdefault(self.gpus[index].uuid, set(self.boards()))
        build = mig_gpu if self.gpus[index].mig else gpu
        other = build(self._boards)
        self.gpus[index] = msgspec.structs.replace(
            other, minor=self.gpus[index].minor, pci_bus_id=self.gpus[index].pci_bus_id
        )
        self.boards_of_boot.add(other.uuid)
        for uuid, others in self._beside.items():
            if others.isdisjoint(self.boards()):
                self.forgotten_at.setdefault(uuid, self.now)
        self.wants(index, 0)

    def is_claimed(self, index: int, part: int, name: str) -> None:
        names = self.devices(index)
        self.tenants.comes((index, part), names[part % len(names)], name)

    def is_let_go(self, index: int, part: int) -> None:
        self.tenants.lets_go((index, part))

    def _read_actions(self) -> None:
        """A live agent reads the action at each report."""
        for index, health in enumerate(self.gpus):
            if health.presence == "Present" and not self.silent:
                action = msgspec.structs.replace(health.recovery_action, observed_at=self.time)
                self._replace(index, recovery_action=action)

    def is_read_by_numbers(self, incidents: Collection[Incident]) -> None:
        """Note which slices the errors mean now that no incident has recorded."""
        for health in self.gpus:
            if meant := numbered_now(errors.unrecorded(health, incidents)):
                self.signalled[health.uuid] = self.signalled.get(health.uuid, set()) | meant

    def looks(self) -> None:
        """Note what is true at a moment in which somebody looks."""
        self.confirmed_at = self.now if self.confirms else self.confirmed_at
        for health in self.gpus:
            if health.uuid in self.forgotten and (meant := numbered_now(health)):
                self.signalled[health.uuid] = self.signalled.get(health.uuid, set()) | meant
            action = health.recovery_action
            wants = action.supported is None or bool(action.value)
            received = self.watched and not (self.silent or self.unseen)
            if received and action.supported is False:
                # What was not reported, or nothing could begin for, is owed to nobody.
                reported = errors.of_the_whole(health, after=self._vouched.get(health.uuid))
                owed = self.owes_an_epoch.get(health.uuid, frozenset()) | reported
                self.owes_an_epoch[health.uuid] = owed
            worn = health.memory.row_remap_failed == "True"
            if health.presence != "Present" or wants or worn or self.silent or self.unseen:
                self.bad_at[health.uuid] = self.now
            if action.supported and health.presence == "Present" and not self.silent:
                self.owes_an_epoch.pop(health.uuid, None)

    def is_vouched_for(self, gpu: str) -> None:
        """Note that a person has confirmed a repair: what came before it proves nothing now."""
        self.owes_an_epoch.pop(gpu, None)
        self._vouched[gpu] = self.time
        self.repaired.add(gpu)

    def loses_its_repair(self, gpu: str) -> None:
        """Note that no object says any more that a user confirmed it: its XIDs count again."""
        self.repaired.discard(gpu)
        for health in self.gpus:
            if health.uuid == gpu and any(it.code in errors.NODE_WIDE for it in health.xids):
                self.asks_node.add(gpu)

    def _replace(self, index: int, **fields: object) -> None:
        self.gpus[index] = with_fields(self.gpus[index], **fields)

    def _signal(self, index: int, gi: int | None) -> None:
        one = self.gpus[index]
        self.repaired.discard(one.uuid)
        failed = [part for part in one.instances if (part.gi, part.ci) == (gi, 0)]
        meant = {part.uuid for part in failed}
        meant |= {memory_of(one.uuid, part.placement_start or 0) for part in failed}
        self.named |= {(one.uuid, part.uuid): self.now for part in failed}
        self.signalled[one.uuid] = self.signalled.get(one.uuid, set()) | (meant or {EVERYTHING})

    def signal_of(self, gpu: str, *, pending: bool) -> float:
        """Return when a GPU gave its last signal, with or without those that wait for a reset."""
        times = [
            at
            for (who, code), at in self._last_signal.items()
            if who == gpu and (pending or code not in errors.PENDING)
        ]
        return max(times, default=-1e9)

    def may_taint(self, rule: Rule) -> bool:
        """Whether a signal was given that may mean the hardware of a rule."""
        meant = self.signalled.get(rule.gpu, set())
        if EVERYTHING in meant or rule.uuid in meant:
            return True
        # What dynamic MIG publishes has no UUID of its own, but for the full GPU. And an error of
        # which the place is known means the memory there, also after another layout.
        if not (self.placing or (self.dynamic and rule.uuid == rule.gpu)):
            meant = meant & self.placed
        own = partition_of(rule.device)
        places = range(7) if own is None else range(own.start, own.start + own.size)
        return any(memory_of(rule.gpu, start) in meant for start in places)
