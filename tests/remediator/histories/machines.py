"""A made-up node whose hardware breaks, is repaired, moved and misread; it knows the truth."""

from datetime import datetime

import msgspec

from exporter.report import GpuHealth, RecoveryAction, XidRecord
from remediator.decide.view import NodeView
from remediator.judge.fault import SEVERITY
from remediator.objects.claims import Claim
from remediator.objects.nodes import NodeFacts
from tests.remediator.builders import NODE, at, gpu, mig_gpu, published, report, view
from tests.remediator.telling import claim

APPLICATION = (13, 31, 43, 45, 69)
INFORMATION = (37, 44, 92, 9999)
"""Codes that must never taint anything, whatever their number; 9999 is in no catalogue."""
GPU_WIDE = (79, 95, 119, 48, 120, 63, 160, 64)
CONTAINED = (94,)
SIGNALS = (*APPLICATION, *INFORMATION, *GPU_WIDE, *CONTAINED)
EVERYTHING = "*"
"""Stands for a GPU with all that is on it."""
ACTIONS = (0, 0, 1, 2, 3, 4, 7, 42)


class Machine:
    """One node with one whole GPU and one GPU with seven slices."""

    def __init__(self) -> None:
        self.now = 0.0
        self.gpus: list[GpuHealth] = [gpu(0), mig_gpu(1)]
        self.silent = False
        self.claims: dict[tuple[int, int], Claim] = {}
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

    @property
    def time(self) -> datetime:
        return at(self.now)

    def view(self) -> NodeView:
        self._read_actions()
        seen = report(*self.gpus)
        told = msgspec.structs.replace(seen, observed_at=self.time, boot_id=f"boot-{self.boot}")
        self._look()
        inventory = tuple(
            device
            for index, one in enumerate(self.gpus)
            if index not in self.unpublished
            for device in published(one)
        )
        return view(
            report=told,
            inventory=inventory,
            stale="silent for a while" if self.silent else "",
            claims=tuple(self.claims.values()),
            pods=(),
            nodes_known=True,
            facts=None if self.gone else NodeFacts(name=NODE),
        )

    def devices(self, index: int) -> list[str]:
        return [one.device.device for one in published(self.gpus[index])]

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
        read = RecoveryAction(supported=True, value=value, since=since, observed_at=self.time)
        self._replace(index, recovery_action=read)
        if value:
            self._signal(index, None)

    def has_no_recovery_action(self, index: int) -> None:
        self._replace(index, recovery_action=RecoveryAction(supported=False, observed_at=self.time))

    def goes(self, index: int, presence: str) -> None:
        """The GPU is lost, cannot be asked, or answers again."""
        if self.gpus[index].presence == presence:
            return
        fields: dict[str, object] = {"presence": presence, "presence_since": self.time}
        if presence != "Present":
            fields["recovery_action"] = RecoveryAction()
        else:
            fields["recovery_action"] = RecoveryAction(
                supported=True, value=0, since=self.time, observed_at=self.time
            )
        self._replace(index, **fields)
        if presence == "Lost":
            self._signal(index, None)

    def is_reset(self, index: int) -> None:
        one = self.gpus[index]
        healthy = RecoveryAction(supported=True, value=0, since=self.time, observed_at=self.time)
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
            if one.presence != "Present" or wants or self.silent:
                self.bad_at[one.uuid] = self.now
            if action.supported and one.presence == "Present" and not self.silent:
                self.owes_an_epoch.discard(one.uuid)

    def _replace(self, index: int, **fields: object) -> None:
        self.gpus[index] = msgspec.structs.replace(self.gpus[index], **fields)

    def _signal(self, index: int, gi: int | None) -> None:
        one = self.gpus[index]
        meant = {part.uuid for part in one.instances if part.gi == gi} or {EVERYTHING}
        self.signalled[one.uuid] = self.signalled.get(one.uuid, set()) | meant


def severity(name: str) -> int:
    known: dict[str, int] = {one: rank for rank, one in enumerate(SEVERITY)}
    return known[name]


def _told_of_the_whole(one: GpuHealth) -> bool:
    """Whether its report has an error of the whole GPU in this epoch."""
    return any(record.code in GPU_WIDE and record.epoch == one.epoch for record in one.xids)
