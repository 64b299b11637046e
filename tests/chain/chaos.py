"""A cluster in which everything fails now and then, and what must be true of it all the same."""

import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import msgspec

from exporter.report import GpuHealth, RecoveryAction
from kubeapi import clock
from kubeapi.client import ApiError
from simulator.cluster.controlplane import Component
from tests.chain.proxy import Proxy
from tests.chain.scene import Remediator, Scene, fresh
from tests.lab.cluster import await_true
from tests.remediator.builders import gpu, xid

NODES = ("node-a", "node-b", "node-c", "node-d")
GPUS = 2
Where = tuple[str, int]


class Fleet:
    """Nodes whose GPUs break and are repaired; it knows which ever were broken."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._gpus: dict[Where, GpuHealth] = {
            (node, index): gpu(index, node=node) for node in NODES for index in range(GPUS)
        }
        self.broken: set[Where] = set()
        self.ever_broken: set[Where] = set()

    def start(self) -> None:
        for node in NODES:
            self._scene.node(node, *self._of(node))

    def break_(self, where: Where) -> None:
        now = clock.now()
        record = msgspec.structs.replace(xid(79), first_seen=now, last_seen=now)
        lost = {"presence": "Lost", "presence_since": now, "recovery_action": RecoveryAction()}
        self._change(where, xids=(record,), **lost)
        self.broken.add(where)
        self.ever_broken.add(where)

    def repair(self, where: Where) -> None:
        now = clock.now()
        one = self._gpus[where]
        self._change(
            where,
            presence="Present",
            presence_since=now,
            epoch=one.epoch + 1,
            epoch_started=now,
            recovery_action=fresh(0),
        )
        self.broken.discard(where)

    def report(self) -> None:
        """Let every agent write its report and renew its Lease, as often as it takes."""
        for node in NODES:
            self._write(node)
            insistently(lambda node=node: self._scene.alive(node))

    def _of(self, node: str) -> list[GpuHealth]:
        return [self._gpus[node, index] for index in range(GPUS)]

    def _change(self, where: Where, **fields: object) -> None:
        self._gpus[where] = msgspec.structs.replace(self._gpus[where], **fields)
        self._write(where[0])

    def _write(self, node: str) -> None:
        for index in range(GPUS):
            one = self._gpus[node, index]
            if one.presence == "Present":
                read = msgspec.structs.replace(one.recovery_action, observed_at=clock.now())
                self._gpus[node, index] = msgspec.structs.replace(one, recovery_action=read)
        insistently(lambda: self._scene.report(node, *self._of(node)))


class Watch:
    """Looks all the time at which devices carry a rule and which pods run where."""

    def __init__(self, scene: Scene, fleet: Fleet) -> None:
        self._scene = scene
        self._fleet = fleet
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._ran_on: dict[str, str] = {}
        self.tainted_healthy: set[str] = set()
        self.lost_pods: set[str] = set()
        """Devices that were never broken and whose pod is gone all the same."""
        self.looks = 0

    def __enter__(self) -> "Watch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join(30)

    def _run(self) -> None:
        while not self._stopping.wait(0.1):
            with suppress(ApiError):
                found, pods = self._scene.rules(), self._scene.holders()
                self.looks += 1
                guilty = {f"{node}/gpu-{index}" for node, index in self._fleet.ever_broken}
                self.tainted_healthy |= set(found) - guilty
                gone = {device for uid, device in self._ran_on.items() if uid not in pods}
                self.lost_pods |= gone - guilty
                self._ran_on = dict(pods)


class Trouble:
    """One disturbance at a time, chosen by a seed."""

    def __init__(self, scene: Scene, proxy: Proxy, remediator: Remediator, seed: int) -> None:
        self._scene = scene
        self._proxy = proxy
        self._remediator = remediator
        self._dice = random.Random(seed)  # noqa: S311 - a repeatable choice, no secret
        self.made: list[str] = []

    def make(self) -> None:
        kinds = (
            self.remediator_is_killed,
            self.apiserver_is_paused,
            self.apiserver_is_killed,
            self.etcd_is_restarted,
            self.errors_500,
            self.errors_429,
            self.answers_hang,
            self.watches_are_cut,
        )
        kind = self._dice.choice(kinds)
        self.made.append(kind.__name__)
        kind()

    def pick(self, fleet: Fleet) -> None:
        """Break a GPU, or repair one."""
        places = [(node, index) for node in NODES for index in range(GPUS)]
        where = self._dice.choice(places[: len(places) // 2])
        (fleet.repair if where in fleet.broken else fleet.break_)(where)

    def remediator_is_killed(self) -> None:
        self._remediator.kill()
        self._remediator.start()

    def apiserver_is_paused(self) -> None:
        self._scene.cluster.plane.apiserver.pause()
        time.sleep(2)
        self._scene.cluster.plane.apiserver.resume()

    def apiserver_is_killed(self) -> None:
        self._restart(self._scene.cluster.plane.apiserver)

    def etcd_is_restarted(self) -> None:
        self._restart(self._scene.cluster.plane.etcd)

    def _restart(self, component: Component) -> None:
        component.stop()
        component.start()
        self._scene.cluster.plane.wait_ready()

    def errors_500(self) -> None:
        self._refuse(500)

    def errors_429(self) -> None:
        self._refuse(429)

    def _refuse(self, status: int) -> None:
        self._proxy.refuse = status
        time.sleep(1.5)
        self._proxy.refuse = 0

    def answers_hang(self) -> None:
        self._proxy.open_gate.clear()
        time.sleep(2)
        self._proxy.open_gate.set()

    def watches_are_cut(self) -> None:
        self._proxy.cut()


def insistently(act: Callable[[], object], timeout: float = 60.0) -> None:
    """Do something through an API server that may be away."""

    def done() -> bool:
        try:
            act()
        except ApiError:
            return False
        return True

    await_true("the API server takes a write", done, timeout)
