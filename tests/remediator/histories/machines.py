"""A made-up node whose hardware breaks, is repaired, moved and misread; it knows the truth."""

from datetime import datetime
from typing import get_args

import msgspec

from exporter.device import Device
from exporter.report import GpuHealth, RecoveryAction, XidRecord
from exporter.slices import SliceDevice
from remediator.decide.trust import NEEDED, WatchedKind
from remediator.decide.view import NodeView
from remediator.judge.fault import SEVERITY
from remediator.objects.claims import (
    Allocation,
    Claim,
    ConsumerReference,
    DeviceAllocation,
    Toleration,
)
from remediator.objects.nodes import NodeFacts
from tests.remediator.builders import (
    ALWAYS_CONFIRMED,
    NODE,
    at,
    gpu,
    mig_gpu,
    published,
    report,
    view,
)
from tests.remediator.telling import claim, pod

APPLICATION = (13, 31, 43, 45, 69)
INFORMATION = (37, 44, 92, 9999)
"""Codes that must never taint anything, whatever their number; 9999 is in no catalogue."""
GPU_WIDE = (79, 95, 119, 48, 120, 63, 160, 64)
CONTAINED = (94,)
SIGNALS = (*APPLICATION, *INFORMATION, *GPU_WIDE, *CONTAINED)
EVERYTHING = "*"
"""Stands for a GPU with all that is on it."""
WATCHED: tuple[WatchedKind, ...] = get_args(WatchedKind)
ACTIONS = (0, 0, 1, 2, 3, 4, 7, 42)


class Machine:
    """One node with one whole GPU and one GPU with seven slices."""

    def __init__(self) -> None:
        self.now = 0.0
        self.gpus: list[GpuHealth] = [gpu(0), mig_gpu(1)]
        self.silent = False
        self.blind: frozenset[WatchedKind] = frozenset()
        """Kinds of object that nobody can see now."""
        self.confirmed_at = -1e9
        self.confirms = True
        """Its agent renews its Lease and says by it what it sees."""
        self.claims: dict[tuple[int, int], Claim] = {}
        self.lists_pods = False
        """Whether the pods that its claims name run and are listed."""
        self.refusals: dict[str, str] = {}
        """By pod, why a PodDisruptionBudget refuses its eviction, or two of them do."""
        self.boot = 1
        self._boards = 2
        self.unpublished: set[int] = set()
        self.gone = False
        """There is no Node of this name."""
        self.signalled: dict[str, set[str]] = {}
        """GPUs that gave a signal which may lead to a taint, and the hardware that it may mean."""
        self.last_signal: dict[str, float] = {}
        self.bad_at: dict[str, float] = {}
        """When a GPU was last seen not to be well, or not seen at all."""
        self.owes_an_epoch: set[str] = set()
        """GPUs that nothing but a reset can prove sound again: their driver has no other word."""
        self._layouts = 0
        self._release = 0
        """Of the DRA driver: each may name devices in its own way."""

    @property
    def time(self) -> datetime:
        return at(self.now)

    def view(self) -> NodeView:
        self._read_actions()
        self.confirmed_at = self.now if self.confirms else self.confirmed_at
        seen = report(*self.gpus)
        told = msgspec.structs.replace(seen, observed_at=self.time, boot_id=f"boot-{self.boot}")
        self._look()
        inventory = tuple(
            device
            for index, one in enumerate(self.gpus)
            if index not in self.unpublished
            for device in map(self._named, published(one))
        )
        return view(
            report=told,
            inventory=inventory,
            stale="silent for a while" if self.silent else "",
            blind=dict.fromkeys(sorted(self.blind), "refused"),
            renewals=ALWAYS_CONFIRMED if self.confirms else (),
            claims=tuple(self.claims.values()),
            pods=tuple(pod(name) for name in self.pods()),
            refusals={f"u-{name}": why for name, why in self.refusals.items()},
            nodes_known=True,
            facts=None if self.gone else NodeFacts(name=NODE),
        )

    def _named(self, device: SliceDevice) -> SliceDevice:
        if not self._release:
            return device
        name = f"{device.device.device}-r{self._release}"
        named = msgspec.structs.replace(device.device, device=name)
        return msgspec.structs.replace(device, device=named)

    def boards(self) -> frozenset[str]:
        """Return the UUIDs of the boards that are plugged in."""
        return frozenset(one.uuid for one in self.gpus)

    @property
    def unseen(self) -> bool:
        """Whether something is not seen without which nothing may begin or end."""
        return bool(self.blind & set(NEEDED["NoSchedule"]))

    def names_of_others(self, gpu: str) -> set[Device]:
        """Return the names that stand for other boards than a GPU now."""
        seen = self.view().inventory
        return {one.device for one in seen if gpu not in (one.uuid, one.parent_uuid)}

    def devices(self, index: int) -> list[str]:
        return [self._named(one).device.device for one in published(self.gpus[index])]

    def passes(self, seconds: float) -> None:
        self.now += seconds

    def xid(self, index: int, code: int, gi: int | None) -> None:
        one = self.gpus[index]
        named = gi if one.mig else None
        records = {(record.code, record.gi): record for record in one.xids}
        old = records.get((code, named))
        records[code, named] = XidRecord(
            code=code,
            count=old.count + 1 if old else 1,
            first_seen=old.first_seen if old else self.time,
            last_seen=self.time,
            gi=named,
            ci=0 if named is not None else None,
            epoch=one.epoch,
            sources=("kmsg",),
        )
        self._replace(index, xids=tuple(records.values()))
        if code in GPU_WIDE or code in CONTAINED:
            self._signal(index, named if code in CONTAINED else None)
            self.last_signal[one.uuid] = self.now

    def wants(self, index: int, value: int) -> None:
        """The driver asks for a recovery action."""
        old = self.gpus[index].recovery_action
        since = old.since if old.value == value else self.time
        read = RecoveryAction(support="Supported", value=value, since=since, observed_at=self.time)
        self._replace(index, recovery_action=read)
        if value:
            self._signal(index, None)

    def has_no_recovery_action(self, index: int) -> None:
        self._replace(
            index, recovery_action=RecoveryAction(support="Unsupported", observed_at=self.time)
        )

    def goes(self, index: int, presence: str) -> None:
        """The GPU is lost, cannot be asked, or answers again."""
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
        self.owes_an_epoch.discard(one.uuid)

    def forgets(self) -> None:
        """The agent comes back in the same boot without its own report."""
        for index in range(len(self.gpus)):
            self._replace(index, xids=(), epoch=1)

    def slices_are_made_anew(self, index: int) -> None:
        """Under the same names and instance numbers, as other hardware."""
        one = self.gpus[index]
        self._layouts += 1
        parts = tuple(
            msgspec.structs.replace(part, uuid=f"MIG-f{self._layouts:07x}{part.uuid[12:]}")
            for part in one.instances
        )
        self._replace(index, instances=parts)

    def reboots(self) -> None:
        self.boot += 1
        for index in range(len(self.gpus)):
            self.is_reset(index)
            self._replace(index, xids=(), epoch=1)

    def numbers_are_swapped(self) -> None:
        """Each GPU gets the number of the other one, as after a boot in another order."""
        first, second = (one.minor for one in self.gpus)
        self._replace(0, minor=second)
        self._replace(1, minor=first)

    def driver_is_released(self) -> None:
        """Another release of the DRA driver names every device anew."""
        self._release += 1

    def board_is_swapped(self, index: int) -> None:
        """Another board takes the place, the bus id and the device names."""
        self._boards += 1
        build = mig_gpu if self.gpus[index].mig else gpu
        other = build(self._boards)
        self.gpus[index] = msgspec.structs.replace(
            other, minor=self.gpus[index].minor, pci_bus_id=self.gpus[index].pci_bus_id
        )
        self.wants(index, 0)

    def is_claimed(self, index: int, part: int, pod: int) -> None:
        names = self.devices(index)
        self.claims[index, part] = claim(names[part % len(names)], f"pod-{pod}")

    def pods(self) -> tuple[str, ...]:
        """Return the pods that run on the node and hold a device of it."""
        held = {by.name for one in self.claims.values() for by in one.consumers}
        return tuple(sorted(held)) if self.lists_pods else ()

    def is_joined(self, index: int, part: int, pod: int) -> None:
        """Another pod shares the claim of a device, which NoSchedule does not prevent."""
        one = self.claims.get((index, part))
        if one is None or one.status is None:
            return
        name = f"pod-{pod}"
        others = tuple(by for by in one.consumers if by.name != name)
        both = (*others, ConsumerReference(name, "pods", f"u-{name}"))
        status = msgspec.structs.replace(one.status, reserved_for=both)
        self.claims[index, part] = Claim(one.metadata, status)

    def is_tolerated(self, index: int, part: int, seconds: int | None) -> None:
        """The tenant of a device tolerates NoExecute."""
        one = self.claims.get((index, part))
        if one is None or one.status is None or one.status.allocation is None:
            return
        ours = (Toleration(operator="Exists", effect="NoExecute", toleration_seconds=seconds),)
        results = tuple(msgspec.structs.replace(it, tolerations=ours) for it in one.results)
        allocation = Allocation(DeviceAllocation(results))
        self.claims[index, part] = Claim(
            one.metadata, msgspec.structs.replace(one.status, allocation=allocation)
        )

    def leaves(self, name: str) -> None:
        """A pod has ended: what it held alone is free."""
        for place, one in list(self.claims.items()):
            left = tuple(by for by in one.consumers if by.name != name)
            if one.status is None or left == one.consumers:
                continue
            if left:
                status = msgspec.structs.replace(one.status, reserved_for=left)
                self.claims[place] = Claim(one.metadata, status)
            else:
                del self.claims[place]

    def is_let_go(self, index: int, part: int) -> None:
        self.claims.pop((index, part), None)

    def _read_actions(self) -> None:
        """A live agent reads the action at each report."""
        for index, one in enumerate(self.gpus):
            if one.presence == "Present" and not self.silent:
                action = msgspec.structs.replace(one.recovery_action, observed_at=self.time)
                self._replace(index, recovery_action=action)

    def _look(self) -> None:
        """Note what is true at a moment in which somebody looks."""
        for one in self.gpus:
            action = one.recovery_action
            wants = action.supported is None or bool(action.value)
            if not self.silent and action.supported is False and _told_of_the_whole(one):
                self.owes_an_epoch.add(one.uuid)  # what nobody was told of is owed to nobody
            if one.presence != "Present" or wants or self.silent or self.unseen:
                self.bad_at[one.uuid] = self.now
            if action.supported and one.presence == "Present" and not self.silent:
                self.owes_an_epoch.discard(one.uuid)

    def _replace(self, index: int, **fields: object) -> None:
        self.gpus[index] = msgspec.structs.replace(self.gpus[index], **fields)

    def _signal(self, index: int, gi: int | None) -> None:
        one = self.gpus[index]
        meant = {part.uuid for part in one.instances if part.gi == gi} or {EVERYTHING}
        self.signalled[one.uuid] = self.signalled.get(one.uuid, set()) | meant


def turned_round(seen: NodeView) -> NodeView:
    """Return a view in which everything was observed in another order."""
    assert seen.report is not None
    gpus = (msgspec.structs.replace(one, xids=one.xids[::-1]) for one in seen.report.gpus[::-1])
    return msgspec.structs.replace(
        seen,
        report=msgspec.structs.replace(seen.report, gpus=tuple(gpus)),
        inventory=seen.inventory[::-1],
        claims=seen.claims[::-1],
        rules=seen.rules[::-1],
        incidents=seen.incidents[::-1],
    )


def severity(name: str) -> int:
    known: dict[str, int] = {one: rank for rank, one in enumerate(SEVERITY)}
    return known[name]


def _told_of_the_whole(one: GpuHealth) -> bool:
    """Whether its report has an error of the whole GPU in this epoch."""
    return any(record.code in GPU_WIDE and record.epoch == one.epoch for record in one.xids)
