"""Machines whose boards break, are repaired and moved, and what was true of each of them when.

The agents' clocks are a year apart. The remediator's own cannot be set apart from the API server's
here: both run on one machine.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import zip_longest
from typing import NamedTuple, TypeVar

import msgspec

from exporter.agent.join.bindings import Bindings, bind, with_last_published
from exporter.model.device import Device
from exporter.model.node_health import GpuHealth, RecoveryAction
from exporter.model.resource_slices import SliceDevice
from kubeapi import clock
from kubeapi.client import ApiError
from tests.chain.scene import Scene, resource_slice
from tests.lab.cluster import await_true
from tests.remediator import builders
from tests.remediator.builders import gpu, with_fields, xid

T = TypeVar("T")
YEAR = timedelta(days=365)
CLOCKS: Mapping[str, timedelta] = {
    "node-a": timedelta(),
    "node-b": YEAR,
    "node-c": -YEAR,
    "node-d": timedelta(),
    "node-e": YEAR,
}
"""How far each agent's clock is ahead."""
BREAKING = ("node-a", "node-b", "node-c")
"""GPUs of the other nodes never break."""
GPUS = 2
SECOND_DRIVER = "gpu.example.com"


class Episode(msgspec.Struct):
    """A GPU had to be tainted under one name, `pool/device`, for a time; `ended` None: it has to.

    One that is broken has to, unless a user has said for this fault that it has not.
    """

    device: str
    began: datetime
    ended: datetime | None = None
    uuid: str = ""

    def covers(self, at: datetime, slack: timedelta) -> bool:
        return self.began <= at and (self.ended is None or at <= self.ended + slack)


class Named(NamedTuple):
    """From a moment on a device, as `pool/device`, stood for a GPU."""

    since: datetime
    device: str
    uuid: str


class Boot(NamedTuple):
    at: datetime
    node: str


class History:
    """What had to be tainted when, what each name stood for, and when each node booted."""

    def __init__(
        self,
        episodes: Iterable[Episode] = (),
        names: Iterable[Named] = (),
        boots: Iterable[Boot] = (),
    ) -> None:
        self.episodes = list(episodes)
        self.names = list(names)
        self.boots = list(boots)

    def was_named(self, uuid: str, device: str, at: datetime, lag: timedelta) -> bool:
        """Whether a GPU had a name at a moment, or so shortly before that one may act on it."""
        mine = [name for name in self.names if name.device == device]
        ends = [name.since for name in mine[1:]]
        return any(
            name.uuid == uuid and name.since <= at and (end is None or at < end + lag)
            for name, end in zip_longest(mine, ends)
        )


class Fleet(History):
    """Nodes with boards, agents whose clocks are a year apart, and the drivers that publish."""

    def __init__(self, scene: Scene) -> None:
        super().__init__()
        self.scene = scene
        self.gpus: dict[str, list[GpuHealth]] = {}
        self.away: set[str] = set()
        """Nodes whose DRA driver publishes nothing: it starts, or cannot while a GPU is lost."""
        self.twinned: set[str] = set()
        """Nodes whose GPUs a second driver publishes, in a pool of its own."""
        self.ignored: set[str] = set()
        """Boards of which a user wants no fault to count, unless it is a worse one."""
        self.exempt: dict[str, datetime] = {}
        """Boards that the policy spares, until when."""
        self.faults: Counter[str] = Counter()
        """How often a board broke, or came broken to another node."""
        self._open: dict[tuple[str, str], Episode] = {}
        self._bindings: dict[str, Bindings] = {}
        self._made = 100
        """Boards so far; those of the start have lower numbers."""

    @property
    def due(self) -> dict[str, str]:
        """Return the board of each device that has to be tainted now."""
        return dict(self._open.keys())

    @property
    def sick(self) -> set[str]:
        """Return the boards that are broken, and must have an incident."""
        return {health.uuid for health in self._boards() if is_sick(health)}

    def start(self) -> None:
        self.scene.agents_live = False  # theirs have clocks of their own
        for node in CLOCKS:
            since = self.now(node) - timedelta(hours=5)
            self.gpus[node] = [
                gpu(index, node=node, presence_since=since, epoch_started=since)
                for index in range(GPUS)
            ]
            self.boots.append(Boot(clock.now(), node))
            self.scene.cluster.player.add_node(node)
            self.publish(node)
        self.report()

    def any_lost(self, node: str) -> bool:
        return any(health.presence == "Lost" for health in self.gpus[node])

    def now(self, node: str) -> datetime:
        """Return the time by the clock of a node."""
        return clock.now() + CLOCKS[node]

    def note(self, at: datetime | None = None) -> None:
        """Note what has to be tainted from now on, before anybody can see it."""
        now = at or clock.now()
        due = {
            (f"{node}/gpu-{health.minor}", health.uuid)
            for node, gpus in self.gpus.items()
            for health in gpus
            if is_sick(health) and health.uuid not in self.ignored | self.exempt.keys()
        }
        for key in self._open.keys() - due:
            self._open.pop(key).ended = now
        for device, uuid in sorted(due - self._open.keys()):
            one = self._open[device, uuid] = Episode(device, now, uuid=uuid)
            self.episodes.append(one)

    def lose(self, node: str, index: int) -> None:
        """Let a GPU fall off the bus."""
        # No user has seen this when one asked to ignore what was there before.
        self.ignored.discard(self.gpus[node][index].uuid)
        gone = {"presence": "Lost", "presence_since": self.now(node)}
        self._break(node, index, **gone, **self._xid(node, 79), recovery_action=RecoveryAction())

    def want_a_reset(self, node: str, index: int) -> None:
        self._break(node, index, **self._reset_is_due(node))

    def _break(self, node: str, index: int, **fields: object) -> None:
        board = self.gpus[node][index]
        self.faults[board.uuid] += not is_sick(board)
        self._change(node, index, **fields)

    def _reset_is_due(self, node: str) -> dict[str, object]:
        return {**self._xid(node, 95), "recovery_action": self._action(node, 1)}

    def _xid(self, node: str, code: int) -> dict[str, object]:
        now = self.now(node)
        return {"xids": (msgspec.structs.replace(xid(code), first_seen=now, last_seen=now),)}

    def repair(self, node: str, index: int) -> None:
        """Reset a GPU; a driver that could not start while it was lost may start again."""
        epoch = self.gpus[node][index].epoch + 1
        self._change(node, index, **self._healthy(node), epoch=epoch)

    def boot(self, node: str) -> None:
        """Start the machine anew: what was lost is there again."""
        self.boots.append(Boot(clock.now(), node))
        fresh = self._healthy(node) | {"epoch": 1, "xids": ()}
        self.gpus[node] = [with_fields(health, **fresh) for health in self.gpus[node]]
        self.note()

    def replace_board(self, node: str, index: int, *, slot: bool) -> None:
        """Put in a board that was never here, into the same or another PCI slot, for this one."""
        old, self._made = self.gpus[node][index], self._made + 1
        bus = f"0000:{self._made % 256:02x}:00.0" if slot else old.pci_bus_id
        board = gpu(self._made, node=node, minor=old.minor, pci_bus_id=bus)
        self.gpus[node][index] = with_fields(board, **self._healthy(node))
        self.note()

    def exchange_boards(self, first: tuple[str, int], second: tuple[str, int]) -> None:
        """Exchange two boards of two nodes; a broken one is as broken where it is put."""
        boards = [self.gpus[node][index] for node, index in (first, second)]
        for (node, index), board in zip((first, second), reversed(boards), strict=True):
            here = self.gpus[node][index]
            state = self._healthy(node) | {"epoch": 1, "xids": ()}
            state |= self._reset_is_due(node) if is_sick(board) else {}
            self.faults[board.uuid] += is_sick(board)
            self.gpus[node][index] = with_fields(
                board, minor=here.minor, pci_bus_id=here.pci_bus_id, **state
            )
        self.note()

    def swap_names(self, node: str) -> None:
        """Let two GPUs of a node exchange their names, broken or not."""
        mine, other = self.gpus[node]
        self.gpus[node] = [
            msgspec.structs.replace(mine, minor=other.minor),
            msgspec.structs.replace(other, minor=mine.minor),
        ]
        self.note()

    def publish(self, node: str) -> None:
        """Publish what the drivers of a node do now."""
        now, devices = clock.now(), self._published(node)
        self.names += [
            Named(now, f"{node}/gpu-{health.minor}", health.uuid) for health in self.gpus[node]
        ]
        pools = {part.device.pool: part.device.driver for part in devices}
        slices = [
            resource_slice(node, [it for it in devices if it.device.pool == pool], driver, pool)
            for pool, driver in pools.items()
        ]
        player = self.scene.cluster.player
        insistently(lambda: player.publish(node, slices, new_generation=True))

    def _published(self, node: str) -> tuple[SliceDevice, ...]:
        whole = [part for health in self.gpus[node] for part in builders.published(health, node)]
        twins = [
            msgspec.structs.replace(part, device=Device(SECOND_DRIVER, f"shelf-of-{node}", name))
            for part in whole
            for name in (f"board-{(part.uuid or '')[4:12]}",)
            if node in self.twinned
        ]
        return (*(() if node in self.away else whole), *twins)

    def report(self) -> None:
        """Let every agent write its report and renew its Lease, as often as it takes."""
        for uuid, until in list(self.exempt.items()):
            if until <= clock.now():
                del self.exempt[uuid]
                self.note(until)
        for node in sorted(node for node in self.away if not self.any_lost(node)):
            self.away.discard(node)
            self.publish(node)
        for node in CLOCKS:
            self.write(node)
            insistently(lambda node=node: self.scene.alive(node, self.now(node)))

    def write(self, node: str) -> None:
        """Write a node's report, with what its names mean while their driver is away."""
        now = self.now(node)
        self.gpus[node] = [_read_at(now, health) for health in self.gpus[node]]
        boot = f"{node}-boot-{sum(boot.node == node for boot in self.boots)}"
        status = builders.report(*self.gpus[node], boot_id=boot, observed_at=now)
        published = self._published(node)
        known = self._bindings[node] = bind(self._bindings.get(node, {}), published, status)
        status = with_last_published(status, known, published)
        insistently(lambda: self.scene.write(node, status))

    def _change(self, node: str, index: int, **fields: object) -> None:
        self.gpus[node][index] = with_fields(self.gpus[node][index], **fields)
        self.note()
        self.write(node)

    def _boards(self) -> Iterable[GpuHealth]:
        return (health for gpus in self.gpus.values() for health in gpus)

    def has(self, uuid: str) -> bool:
        """Whether a board is in some node."""
        return any(health.uuid == uuid for health in self._boards())

    def _healthy(self, node: str) -> dict[str, object]:
        now = self.now(node)
        action = self._action(node, 0)
        since = {"presence_since": now, "epoch_started": now}
        return {"presence": "Present", "recovery_action": action, **since}

    def _action(self, node: str, value: int) -> RecoveryAction:
        now = self.now(node)
        return RecoveryAction(support="Supported", value=value, since=now, observed_at=now)


def is_sick(health: GpuHealth) -> bool:
    return health.presence == "Lost" or bool(health.recovery_action.value)


def _read_at(now: datetime, health: GpuHealth) -> GpuHealth:
    """Date the recovery action of a GPU that answers."""
    if health.presence != "Present":
        return health
    since = min(health.recovery_action.since or now, now)
    read = msgspec.structs.replace(health.recovery_action, since=since, observed_at=now)
    return msgspec.structs.replace(health, recovery_action=read)


def insistently(act: Callable[[], T], timeout: float = 60.0) -> T:
    """Do something through an API server that may be away, and return its answer."""
    answers: list[T] = []

    def is_done() -> bool:
        with suppress(ApiError):
            answers.append(act())
        return bool(answers)

    await_true("the API server answers", is_done, timeout)
    return answers[0]
