"""A cluster in which everything fails now and then, and what must be true of it all the same.

The remediator's own clock cannot be set apart from the API server's here: both run on one
machine. The agents' clocks can, and do.
"""

import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from exporter.report import GpuHealth, RecoveryAction
from kubeapi import clock
from kubeapi.client import ApiError
from kubeapi.lease import renew
from simulator.cluster.controlplane import Component
from tests.chain.audit_log import Eviction, RuleWrite, Tenancy
from tests.chain.proxy import Proxy
from tests.chain.scene import LEASES, Remediator, Scene
from tests.lab.cluster import await_true
from tests.remediator import builders
from tests.remediator.builders import gpu, xid

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
LAG = timedelta(seconds=20)
"""What was true so long ago the remediator may still act on, where no disturbance lasts longer."""
AFTERWARDS = 9.0
"""Seconds from the end of a disturbance in which everybody has heard of all again."""
COMPACTED_BY = 2.5
"""Seconds after which the past is gone, with an apiserver that compacts etcd each second."""
LEASE_LOST = 11.0
"""Seconds after which another replica has taken the Lease."""


class Episode(msgspec.Struct):
    """A GPU, as `pool/device`, was broken for a time; `ended` None: it is now."""

    device: str
    began: datetime
    ended: datetime | None = None

    @property
    def uuid(self) -> str:
        node, _, device = self.device.partition("/")
        return builders.uuid(int(device.removeprefix("gpu-")), node)

    def covers(self, at: datetime, slack: timedelta) -> bool:
        return self.began <= at and (self.ended is None or at <= self.ended + slack)


class Fleet:
    """Nodes whose GPUs break and are repaired, with agents whose clocks are a year apart."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._gpus: dict[str, list[GpuHealth]] = {}
        self._open: dict[tuple[str, int], Episode] = {}
        self.episodes: list[Episode] = []

    @property
    def broken(self) -> set[str]:
        return {one.device for one in self._open.values()}

    def start(self) -> None:
        for node in CLOCKS:
            since = self._now(node) - timedelta(hours=5)
            self._gpus[node] = [
                gpu(index, node=node, presence_since=since, epoch_started=since)
                for index in range(GPUS)
            ]
            self._scene.cluster.player.add_node(node)
            self._scene.publish(node, *self._gpus[node])
        self.report()

    def change_one(self, dice: random.Random) -> None:
        """Break a GPU, or repair it when it is broken."""
        node, index = dice.choice(BREAKING), dice.randrange(GPUS)
        if (node, index) in self._open:
            self._repair(node, index)
        else:
            self._break(node, index, dice.choice((self._lost, self._wants_a_reset)))

    def _break(self, node: str, index: int, how: Callable[[str], dict[str, object]]) -> None:
        one = Episode(f"{node}/gpu-{index}", clock.now())
        self._open[node, index] = one
        self.episodes.append(one)
        self._change(node, index, **how(node))

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
        self._open.pop((node, index)).ended = clock.now()

    def report(self) -> None:
        """Let every agent write its report and renew its Lease, as often as it takes."""
        for node in CLOCKS:
            self._write(node)
            insistently(lambda node=node: self._alive(node))

    def _alive(self, node: str) -> None:
        name = f"draguard-agent-{node}"
        renew(self._scene.cluster.client, LEASES, name, node, 60, self._now(node))

    def _change(self, node: str, index: int, **fields: object) -> None:
        self._gpus[node][index] = msgspec.structs.replace(self._gpus[node][index], **fields)
        self._write(node)

    def _write(self, node: str) -> None:
        now = self._now(node)
        self._gpus[node] = [_read_at(now, one) for one in self._gpus[node]]
        status = builders.report(*self._gpus[node])
        status = msgspec.structs.replace(status, observed_at=now)
        insistently(lambda: self._scene.write(node, status))

    def _action(self, node: str, value: int) -> RecoveryAction:
        now = self._now(node)
        return RecoveryAction(supported=True, value=value, since=now, observed_at=now)

    def _now(self, node: str) -> datetime:
        return clock.now() + CLOCKS[node]


def _read_at(now: datetime, one: GpuHealth) -> GpuHealth:
    """Date the recovery action of a GPU that answers."""
    if one.presence != "Present":
        return one
    since = min(one.recovery_action.since or now, now)
    read = msgspec.structs.replace(one.recovery_action, since=since, observed_at=now)
    return msgspec.structs.replace(one, recovery_action=read)


class Trouble:
    """One disturbance at a time: each kind in turn, in an order that a seed chooses."""

    def __init__(
        self, scene: Scene, proxy: Proxy, remediators: Sequence[Remediator], dice: random.Random
    ) -> None:
        self._plane = scene.cluster.plane
        self._proxy = proxy
        self._remediators = remediators
        self._dice = dice
        self._bag: list[Callable[[Callable[[], None]], None]] = []
        self.made: Counter[str] = Counter()
        self._longest = 0.0

    @property
    def lag(self) -> timedelta:
        """How late anybody may be: a busy machine starts a killed server slowly."""
        # Who has asked in vain all the time waits as long again before he asks once more.
        return max(LAG, timedelta(seconds=2 * self._longest + AFTERWARDS))

    def make(self, act: Callable[[], None]) -> None:
        """Disturb something around `act`, before it or shortly after."""
        if not self._bag:
            self._bag = [
                self.remediator_is_killed,
                self.remediator_is_frozen,
                self.apiserver_is_paused,
                self.apiserver_is_killed,
                self.etcd_is_restarted,
                self.errors_500,
                self.errors_429,
                self.answers_hang,
                self.answers_are_slow,
                self.watches_are_cut,
                self.watches_are_compacted,
            ]
            self._dice.shuffle(self._bag)
        kind = self._bag.pop()
        self.made[kind.__name__] += 1
        began = time.monotonic()
        kind(act)
        self._longest = max(self._longest, time.monotonic() - began)

    def end(self) -> None:
        """Let everything work again."""
        for one in self._remediators:
            if not one.running:
                one.start()

    def remediator_is_killed(self, act: Callable[[], None]) -> None:
        """Where there are two, who is killed stays away until the next one is."""
        self.end()
        self._and_soon(act)
        victim = self._dice.choice(self._remediators)
        victim.kill()
        if len(self._remediators) == 1:
            victim.start()

    def remediator_is_frozen(self, act: Callable[[], None]) -> None:
        """Where there are two, for so long that it wakes up as a stale leader."""
        self.end()
        victim = self._dice.choice(self._remediators)
        victim.send(signal.SIGSTOP)
        act()
        time.sleep(LEASE_LOST if len(self._remediators) > 1 else 2)
        victim.send(signal.SIGCONT)

    def apiserver_is_paused(self, act: Callable[[], None]) -> None:
        self._and_soon(act)
        self._plane.apiserver.pause()
        time.sleep(2)
        self._plane.apiserver.resume()

    def apiserver_is_killed(self, act: Callable[[], None]) -> None:
        self._and_soon(act)
        self._restart(self._plane.apiserver)

    def etcd_is_restarted(self, act: Callable[[], None]) -> None:
        self._and_soon(act)
        self._restart(self._plane.etcd)

    def errors_500(self, act: Callable[[], None]) -> None:
        self._refuse(500, act)

    def errors_429(self, act: Callable[[], None]) -> None:
        self._proxy.retry_after = 1
        self._refuse(429, act)
        self._proxy.retry_after = 0

    def answers_hang(self, act: Callable[[], None]) -> None:
        self._proxy.open_gate.clear()
        act()
        time.sleep(2)
        self._proxy.open_gate.set()

    def answers_are_slow(self, act: Callable[[], None]) -> None:
        self._proxy.delay = 2.0
        act()
        time.sleep(6)
        self._proxy.delay = 0.0

    def watches_are_cut(self, act: Callable[[], None]) -> None:
        self._and_soon(act)
        self._proxy.cut()

    def watches_are_compacted(self, act: Callable[[], None]) -> None:
        """Keep them away until neither etcd nor an apiserver's cache can go on for them."""
        self._proxy.open_gate.clear()
        self._proxy.cut()
        act()
        time.sleep(COMPACTED_BY)
        self._restart(self._plane.apiserver)
        self._proxy.open_gate.set()

    def _and_soon(self, act: Callable[[], None]) -> None:
        act()
        time.sleep(self._dice.uniform(0.0, 1.5))

    def _refuse(self, status: int, act: Callable[[], None]) -> None:
        self._proxy.refuse = status
        act()
        time.sleep(1.5)
        self._proxy.refuse = 0

    def _restart(self, component: Component) -> None:
        component.stop()
        component.start()
        self._plane.wait_ready()


def wrongs(
    episodes: Sequence[Episode],
    rules: Sequence[RuleWrite],
    tenancies: Mapping[str, Tenancy],
    evictions: Sequence[Eviction],
    lag: timedelta = LAG,
) -> list[str]:
    """Return what should never have been done, as sentences. Pure."""
    found: list[str] = []
    fenced: Counter[str] = Counter()
    standing: dict[str, str] = {}
    for rule in rules:
        mine = [one for one in episodes if one.device == rule.device]
        if rule.effect and not any(one.covers(rule.at, lag) for one in mine):
            found.append(f"{rule.device} was healthy and got {rule.effect} at {rule.at}")
        if not rule.effect and any(_sick_at(one, rule.at, lag) for one in mine):
            found.append(f"{rule.device} was sick and was released at {rule.at}")
        fenced[rule.device] += bool(rule.effect and not standing.get(rule.device))
        standing[rule.device] = rule.effect
    faults = Counter(one.device for one in episodes)
    again = {device: count for device, count in fenced.items() if count > faults[device]}
    found += [f"{device} was fenced {count} times" for device, count in again.items()]
    moved: Counter[tuple[str, datetime]] = Counter()
    stood = _fences(rules)
    for one in evictions:
        home = tenancies.get(one.pod)
        if home and any(
            _placed_late(home, one, fence, lag) for fence in stood.get(home.device, ())
        ):
            continue
        guilty = [its for its in episodes if home and _pays(one, home, its, lag)]
        if not guilty:
            found.append(f"pod {one.pod} on {home} was evicted at {one.at} for nothing")
        else:
            moved[guilty[-1].device, guilty[-1].began] += 1
    found += [
        f"{count} evictions for one fault of {key}" for key, count in moved.items() if count > 1
    ]
    twice = Counter(one.pod for one in evictions)
    return found + [f"pod {uid} was evicted {n} times" for uid, n in twice.items() if n > 1]


class _Fence(NamedTuple):
    """A time in which a rule of ours stood."""

    began: datetime
    ended: datetime | None


def _fences(rules: Iterable[RuleWrite]) -> Mapping[str, list[_Fence]]:
    found: dict[str, list[_Fence]] = {}
    for rule in rules:
        mine = found.setdefault(rule.device, [])
        if rule.effect and (not mine or mine[-1].ended):
            mine.append(_Fence(rule.at, None))
        elif not rule.effect and mine:
            mine[-1] = _Fence(mine[-1].began, rule.at)
    return found


def _placed_late(home: Tenancy, evicted: Eviction, fence: _Fence, lag: timedelta) -> bool:
    """Whether the scheduler put a pod on a device against a rule, and Kubernetes took it away.

    The scheduler and the eviction controller each know a rule when their own watches have told
    them. Here their API server is killed and paused, too, so one may be late to hear of a rule,
    and the other of its end. That is theirs and no decision of ours: what is judged is the rule.
    """
    by_kubernetes = evicted.by.startswith("kube-controller-manager")
    late = fence.ended is None or evicted.at <= fence.ended + lag
    return by_kubernetes and fence.began <= home.since and late


def _sick_at(one: Episode, at: datetime, lag: timedelta) -> bool:
    """Whether it had been broken for so long that the remediator must have known."""
    return one.began + lag <= at and (one.ended is None or at < one.ended)


def _pays(evicted: Eviction, home: Tenancy, episode: Episode, lag: timedelta) -> bool:
    """Whether a pod was on a GPU when that was broken."""
    there = episode.ended is None or home.since <= episode.ended
    return home.device == episode.device and there and episode.covers(evicted.at, lag)


def insistently(act: Callable[[], object], timeout: float = 60.0) -> None:
    """Do something through an API server that may be away."""

    def done() -> bool:
        try:
            act()
        except ApiError:
            return False
        return True

    await_true("the API server takes a write", done, timeout)
