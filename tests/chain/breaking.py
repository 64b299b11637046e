"""Nodes whose GPUs break, are repaired, get other names and vanish from what is published.

The agents' clocks are a year apart. The remediator's own cannot be set apart from the API server's
here: both run on one machine.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from itertools import zip_longest
from typing import NamedTuple

import msgspec

from exporter.model.node_health import GpuHealth, RecoveryAction
from kubeapi import clock
from kubeapi.client import ApiError
from tests.chain.scene import Scene
from tests.lab.cluster import await_true
from tests.remediator import builders
from tests.remediator.builders import gpu, with_fields, xid

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


class Episode(msgspec.Struct):
    """A GPU was broken under one name, `pool/device`, for a time; `ended` None: it is now."""

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


class History:
    """What was broken when, and what each name stood for."""

    def __init__(self, episodes: Iterable[Episode] = (), names: Iterable[Named] = ()) -> None:
        self.episodes = list(episodes)
        self.names = list(names)

    def was_named(self, uuid: str, device: str, at: datetime, lag: timedelta) -> bool:
        """Whether a GPU had a name at a moment, or so shortly before that one may act on it."""
        mine = [name for name in self.names if name.device == device]
        ends = [name.since for name in mine[1:]]
        return any(
            name.uuid == uuid and name.since <= at and (end is None or at < end + lag)
            for name, end in zip_longest(mine, ends)
        )


class Fleet(History):
    """Nodes whose GPUs break and are repaired, with agents whose clocks are a year apart."""

    def __init__(self, scene: Scene) -> None:
        super().__init__()
        self._scene = scene
        self._gpus: dict[str, list[GpuHealth]] = {}
        self._open: dict[tuple[str, int], Episode] = {}
        self._wiped: set[str] = set()
        self.made: Counter[str] = Counter()

    @property
    def broken(self) -> set[str]:
        return {episode.device for episode in self._open.values()}

    def start(self) -> None:
        self._scene.agents_live = False  # theirs have clocks of their own
        for node in CLOCKS:
            since = self._now(node) - timedelta(hours=5)
            self._gpus[node] = [
                gpu(index, node=node, presence_since=since, epoch_started=since)
                for index in range(GPUS)
            ]
            self._scene.cluster.player.add_node(node)
            self._publish(node)
        self.report()

    def change_one(self, dice: random.Random) -> None:
        """Break a GPU or repair it; now and then swap two names, or publish nothing for a while."""
        node, index = dice.choice(BREAKING), dice.randrange(GPUS)
        kind = dice.choices((self._break_or_repair, self._swap, self._wipe), (6, 2, 1))[0]
        if kind == self._swap and self._any_lost(node):
            kind = self._break_or_repair  # a driver that starts anew does not publish such a GPU
        self.made[kind.__name__.removeprefix("_")] += 1
        kind(node, index, dice)

    def _break_or_repair(self, node: str, index: int, dice: random.Random) -> None:
        if (node, index) in self._open:
            self._repair(node, index)
            return
        self._begin(node, index)
        how = dice.choice((self._lost, self._wants_a_reset))
        self._change(node, index, **how(node))

    def _begin(self, node: str, index: int) -> None:
        gpu = self._gpus[node][index]
        one = Episode(f"{node}/gpu-{gpu.minor}", clock.now(), uuid=gpu.uuid)
        self._open[node, index] = one
        self.episodes.append(one)

    def _end(self, node: str, index: int) -> None:
        self._open.pop((node, index)).ended = clock.now()

    def _any_lost(self, node: str) -> bool:
        return any(health.presence == "Lost" for health in self._gpus[node])

    def _swap(self, node: str, _index: int, _dice: random.Random) -> None:
        """Let two GPUs of a node exchange their names, broken or not."""
        mine, other = self._gpus[node]
        self._gpus[node] = [
            msgspec.structs.replace(mine, minor=other.minor),
            msgspec.structs.replace(other, minor=mine.minor),
        ]
        for number in range(GPUS):
            if (node, number) in self._open:
                self._end(node, number)
                self._begin(node, number)
        self._publish(node)
        self._write(node)

    def _wipe(self, node: str, _index: int, _dice: random.Random) -> None:
        """Publish nothing of a node until the next report."""
        self._wiped.add(node)
        insistently(lambda: self._scene.cluster.player.publish(node, []))

    def _publish(self, node: str) -> None:
        gpus = self._gpus[node]
        now = clock.now()
        self.names += [Named(now, f"{node}/gpu-{health.minor}", health.uuid) for health in gpus]
        insistently(lambda: self._scene.publish(node, *gpus, new_generation=True))

    def _lost(self, node: str) -> dict[str, object]:
        gone = {"presence": "Lost", "presence_since": self._now(node)}
        return {**gone, **self._fault(node, 79), "recovery_action": RecoveryAction()}

    def _wants_a_reset(self, node: str) -> dict[str, object]:
        return {**self._fault(node, 95), "recovery_action": self._action(node, 1)}

    def _fault(self, node: str, code: int) -> dict[str, object]:
        now = self._now(node)
        return {"xids": (msgspec.structs.replace(xid(code), first_seen=now, last_seen=now),)}

    def _repair(self, node: str, index: int) -> None:
        now = self._now(node)
        since = {"presence_since": now, "epoch_started": now}
        epoch = self._gpus[node][index].epoch + 1
        action = self._action(node, 0)
        self._change(node, index, presence="Present", epoch=epoch, recovery_action=action, **since)
        self._end(node, index)

    def report(self) -> None:
        """Let every agent write its report and renew its Lease, as often as it takes."""
        while self._wiped:
            self._publish(self._wiped.pop())
        for node in CLOCKS:
            self._write(node)
            insistently(lambda node=node: self._alive(node))

    def _alive(self, node: str) -> None:
        self._scene.alive(node, self._now(node))

    def _change(self, node: str, index: int, **fields: object) -> None:
        self._gpus[node][index] = with_fields(self._gpus[node][index], **fields)
        self._write(node)

    def _write(self, node: str) -> None:
        now = self._now(node)
        self._gpus[node] = [_read_at(now, health) for health in self._gpus[node]]
        status = builders.report(*self._gpus[node])
        status = msgspec.structs.replace(status, observed_at=now)
        insistently(lambda: self._scene.write(node, status))

    def _action(self, node: str, value: int) -> RecoveryAction:
        now = self._now(node)
        return RecoveryAction(support="Supported", value=value, since=now, observed_at=now)

    def _now(self, node: str) -> datetime:
        return clock.now() + CLOCKS[node]


def _read_at(now: datetime, health: GpuHealth) -> GpuHealth:
    """Date the recovery action of a GPU that answers."""
    if health.presence != "Present":
        return health
    since = min(health.recovery_action.since or now, now)
    read = msgspec.structs.replace(health.recovery_action, since=since, observed_at=now)
    return msgspec.structs.replace(health, recovery_action=read)


def insistently(act: Callable[[], object], timeout: float = 60.0) -> None:
    """Do something through an API server that may be away."""

    def done() -> bool:
        try:
            act()
        except ApiError:
            return False
        return True

    await_true("the API server takes a write", done, timeout)
