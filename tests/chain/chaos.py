"""A cluster in which everything fails now and then, and what must be true of it all the same."""

import random
import re
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from simulator.cluster.controlplane import Component
from tests.chain.audit_log import Done, Eviction, RepairCall, RuleWrite, Tenancy
from tests.chain.breaking import Episode, History
from tests.chain.proxy import Proxy
from tests.chain.scene import Remediator, Scene

_DRA = ("/resourceslices", "/resourceclaims", "/devicetaintrules")
COLLECTIONS = ("/nodedevicehealths", "/leases", "/deviceincidents", *_DRA)
"""What decisions rest on."""
LAG = timedelta(seconds=20)
"""What was true so long ago the remediator may still act on, where no disturbance lasts longer."""
KUBERNETES_WAITS = timedelta(seconds=60)
"""An informer of Kubernetes whose watches fail waits so long at most before it tries once more
(client-go's reflector: 30 s, and as much again at random)."""
AFTERWARDS = 9.0
"""Seconds from the end of a disturbance in which every watch has delivered everything again."""
COMPACTED_BY = 2.5
"""Seconds after which the past is gone, with an apiserver that compacts etcd each second."""
LEASE_LOST = 11.0
"""Seconds after which another replica has taken the Lease."""
DEADLINE = 10
"""Seconds that a request to repair a node waits for its pods."""
OVERRIDES = "waited until the deadline"
"""What such a request says when it waits no longer."""
GPU = re.compile(r"GPU-[0-9a-f-]{36}")


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
        self.outlived = 0
        """Watches that were open when what they waited for was compacted."""
        self._longest = 0.0

    @property
    def lag(self) -> timedelta:
        """How late anybody may be: a busy machine starts a killed server slowly."""
        # Who was refused all the time waits as long again before it asks once more.
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
                self.one_watch_is_cut,
                self.watches_are_compacted,
                self.one_collection_is_refused,
            ]
            self._dice.shuffle(self._bag)
        kind = self._bag.pop()
        self.made[kind.__name__] += 1
        began = time.monotonic()
        kind(act)
        self._longest = max(self._longest, time.monotonic() - began)

    def end(self) -> None:
        """Let everything work again."""
        for replica in self._remediators:
            if not replica.running:
                replica.start()

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

    def one_watch_is_cut(self, act: Callable[[], None]) -> None:
        self._and_soon(act)
        self._proxy.cut(self._dice.choice(COLLECTIONS))

    def watches_are_compacted(self, act: Callable[[], None]) -> None:
        """Keep them away until neither etcd nor an apiserver's cache can go on for them."""
        self._proxy.open_gate.clear()
        self.outlived += self._proxy.cut()
        act()
        time.sleep(COMPACTED_BY)
        self._restart(self._plane.apiserver)
        self._proxy.open_gate.set()

    def one_collection_is_refused(self, act: Callable[[], None]) -> None:
        """Somebody trims a role, and puts it right again."""
        self._proxy.refused_path = self._dice.choice(COLLECTIONS)
        self._proxy.refuse = 403
        self._proxy.cut()
        act()
        time.sleep(self._dice.uniform(1.0, 5.0))
        self._proxy.refuse, self._proxy.refused_path = 0, ""

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


def wrongs(fleet: History, done: Done, lag: timedelta = LAG) -> list[str]:
    """Return what should never have been done, as sentences. Pure."""
    return [
        *_wrong_rules(fleet, done.rules, lag),
        *_missing_rules(fleet, done.rules, lag),
        *_wrong_evictions(fleet, done, lag),
        *_wrong_calls(fleet, done.calls, lag),
    ]


def _wrong_rules(fleet: History, rules: Sequence[RuleWrite], lag: timedelta) -> list[str]:
    episodes = fleet.episodes
    found: list[str] = []
    begun: Counter[str] = Counter()
    standing: dict[str, RuleWrite] = {}
    # When a board's taint went because another one had its name: it follows once it may.
    left: dict[str, datetime] = {}
    for rule in rules:
        mine = [episode for episode in episodes if episode.device == rule.device]
        old = standing.get(rule.device)
        went = old is not None and old.effect and (old.uuid != rule.uuid or not rule.effect)
        if went and old and not fleet.was_named(old.uuid, old.device, rule.at, timedelta()):
            left[old.uuid] = rule.at
        tainted = any(write.effect and write.uuid == rule.uuid for write in standing.values())
        tainted = tainted or (rule.uuid in left and rule.at - left[rule.uuid] < lag)
        sick = any(episode.covers(rule.at, lag) for episode in mine)
        # Before the move is known, work may be kept away from the old name; nobody is evicted.
        its_own = any(
            episode.uuid == rule.uuid and episode.covers(rule.at, lag) for episode in episodes
        )
        follows = (tainted or its_own) and rule.effect == "NoSchedule"
        if rule.effect and not sick and not follows:
            found.append(f"{rule.device} was healthy and got {rule.effect} at {rule.at}")
        if rule.effect and not fleet.was_named(rule.uuid, rule.device, rule.at, lag):
            found.append(f"{rule.device} was tainted for {rule.uuid}, which has another name")
        if not rule.effect and any(_sick_at(episode, rule.at, lag) for episode in mine):
            found.append(f"{rule.device} was sick and was released at {rule.at}")
        begun[rule.uuid] += bool(rule.effect and not tainted)
        standing[rule.device] = rule
    faults = Counter(episode.uuid for episode in episodes)
    again = {uuid: count for uuid, count in begun.items() if count > faults[uuid]}
    return found + [f"{uuid} was tainted {count} times" for uuid, count in again.items()]


def _missing_rules(fleet: History, rules: Sequence[RuleWrite], lag: timedelta) -> list[str]:
    """Return what was broken for long and was never tainted for it."""
    stood, found = _taints(rules), list[str]()
    for episode in fleet.episodes:
        late = episode.began + 2 * lag
        mine = [it for it in stood.get(episode.device, ()) if it.began <= late]
        overdue = episode.ended is not None and episode.ended > late
        if overdue and not any(it.ended is None or it.ended > episode.began for it in mine):
            found.append(f"{episode.device} was broken from {episode.began} on, and never tainted")
    return found


def _wrong_evictions(fleet: History, done: Done, lag: timedelta) -> list[str]:
    found: list[str] = []
    moved: Counter[tuple[str, datetime]] = Counter()
    stood = _taints(done.rules)
    for eviction in done.evictions:
        home = done.tenancies.get(eviction.pod)
        if home and home.tolerates:
            found.append(f"pod {eviction.pod} on {home.device} tolerates NoExecute and was evicted")
        if home and any(
            _placed_late(home, eviction, taint, lag) for taint in stood.get(home.device, ())
        ):
            continue
        guilty = [its for its in fleet.episodes if home and _pays(eviction, home, its, lag)]
        if not guilty:
            found.append(f"pod {eviction.pod} on {home} was evicted at {eviction.at} for nothing")
        else:
            moved[guilty[-1].device, guilty[-1].began] += 1
    found += [
        f"{count} evictions for one fault of {key}" for key, count in moved.items() if count > 1
    ]
    twice = Counter(eviction.pod for eviction in done.evictions)
    return found + [f"pod {uid} was evicted {n} times" for uid, n in twice.items() if n > 1]


def _wrong_calls(fleet: History, calls: Iterable[RepairCall], lag: timedelta) -> list[str]:
    """Return the requests for repair of a machine in which no such board is broken.

    Pods that came after its boot have the whole deadline.
    """
    found: list[str] = []
    for call in calls:
        mine = [it for it in fleet.episodes if it.device.startswith(f"{call.node}/")]
        sick = {episode.uuid for episode in mine if episode.covers(call.at, lag)}
        if others := sorted(set(GPU.findall(call.message)) - sick):
            found.append(f"{call.node} was to be repaired at {call.at} for {others}")
        boots = [boot.at for boot in fleet.boots if boot.node == call.node and boot.at <= call.at]
        overrides = OVERRIDES in call.message and bool(boots)
        if overrides and call.at - boots[-1] < timedelta(seconds=DEADLINE):
            found.append(f"{call.node} was to be repaired over pods at {call.at}, just booted")
    return found


class _Taint(NamedTuple):
    """A time in which a rule of ours stood."""

    began: datetime
    ended: datetime | None


def _taints(rules: Iterable[RuleWrite]) -> Mapping[str, list[_Taint]]:
    found: dict[str, list[_Taint]] = {}
    for rule in rules:
        mine = found.setdefault(rule.device, [])
        if rule.effect and (not mine or mine[-1].ended):
            mine.append(_Taint(rule.at, None))
        elif not rule.effect and mine:
            mine[-1] = _Taint(mine[-1].began, rule.at)
    return found


def _placed_late(home: Tenancy, evicted: Eviction, taint: _Taint, lag: timedelta) -> bool:
    """Whether the scheduler put a pod on a device against a rule, and Kubernetes took it away.

    The scheduler and the eviction controller each know a rule when their own watches have delivered
    them. Here their API server is killed and paused, too, so one may be late to hear of a rule,
    and the other of its end. That is theirs and no decision of ours: what is judged is the rule.
    """
    by_kubernetes = evicted.by.startswith("kube-controller-manager")
    late = taint.ended is None or evicted.at <= taint.ended + lag + KUBERNETES_WAITS
    return by_kubernetes and taint.began <= home.since and late


def _sick_at(episode: Episode, at: datetime, lag: timedelta) -> bool:
    """Whether it had been broken for so long that the remediator must have known."""
    return episode.began + lag <= at and (episode.ended is None or at < episode.ended)


def _pays(evicted: Eviction, home: Tenancy, episode: Episode, lag: timedelta) -> bool:
    """Whether a pod was on a GPU when that was broken."""
    there = episode.ended is None or home.since <= episode.ended
    return home.device == episode.device and there and episode.covers(evicted.at, lag)


def closing_line(
    seed: int, replicas: int, made: str, counts: tuple[int, int, int, int], seconds: float
) -> str:
    """Return one run in a line, which `make soak` reads; faults, rules, evictions, lists."""
    faults, rules, evicted, lists = counts
    return (
        f"seed {seed}, {replicas} replicas: {made}, {faults} faults under a name, {rules} rules "
        f"written, {evicted} pods evicted, {lists} new lists after 410; "
        f"right again {seconds:.1f} s after the end"
    )
