"""A large fleet on the real apiserver and etcd, and the real remediator started on it.

Nodes, claims and Leases are written by the project's own client. Scheduler and controller manager
are stopped first: they would deallocate claims of pods that do not exist, and their CPU time must
not count.
"""

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

import msgspec

from benchmarks import fleet_objects, processes
from benchmarks.figures import Figure, Section
from benchmarks.fleet import commands
from benchmarks.fleet.load import Loaded, Renewals, Write, load
from benchmarks.programs import bytecode, compile_all
from benchmarks.servers import REPORTS, Servers
from benchmarks.table import line
from benchmarks.tape import Tape
from benchmarks.waiting import Say, TooLate, await_true
from kubeapi import clock
from kubeapi.client import ApiError, Client
from remediator.model.taint_rule import RawRule
from simulator.cluster.ports import free_port

RULES = "/apis/resource.k8s.io/v1/devicetaintrules"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{fleet_objects.NAMESPACE}/leases"
LEASE_PERIOD = 60.0
"""Seconds between two renewals of one agent's Lease, as the agent's default."""
POLICY = """\
defaults: {mode: enforce}
budget:
  evict: {node: none, deviceClass: none, domain: none, cluster: none, rate: none}
  taint: {node: none, cluster: none}
  correlation: {nodes: 0, after_change: 0s}
"""
QUIET = 0.6
"""Seconds of CPU in two seconds below which the remediator is at rest."""
STILL = 6.0
"""Seconds without a write after which a storm is over: longer than settling and one retry."""
COLD_BUDGET, MEMORY_BUDGET, STORM_BUDGET = "20 s", "1 GiB", "10 s"


class Size(msgspec.Struct, frozen=True, kw_only=True):
    nodes: int = 10_000
    gpus: int = 8
    claims: int = 40_000
    sick: int = 8
    """Nodes that have a failed GPU when the remediator starts: the plan that has to be right."""
    storm: int = 750
    """Nodes of which one GPU fails at once, later."""
    steady: float = 60.0
    """Seconds for which a quiet fleet is watched."""
    fsync: bool = False
    """Whether etcd writes to the disk before it answers."""
    loaders: int = 8
    """Clients that write the fleet side by side."""
    waiting: int = 0
    """Claims that wait, beside those that are allocated; for the explainer."""

    @property
    def disk(self) -> str:
        return "with fsync" if self.fsync else "without fsync"


class FleetBench(Servers):
    """The fleet and the remediator; everything that it started ends with the block."""

    def __init__(self, size: Size, say: Say) -> None:
        super().__init__(say)
        self._size = size

    checkout = Path(__file__).parents[2]
    """Whose remediator is started."""
    _rules: Tape[RawRule]
    _remediator: int

    def measure(self) -> list[Section]:
        """Load the fleet, start the remediator on it, and measure in the order of a life."""
        size = self._size
        loaded = self.load_fleet()
        with Renewals(self.client, self.renewals(), LEASE_PERIOD) as leases:
            title = f"{size.nodes:,} nodes, {size.nodes * size.gpus:,} GPUs, {size.claims:,} claims"
            living = [*loaded, *self.shown(self._cold()), *self.shown(self._steady(leases))]
            queried = commands.measure(self.plane.kubeconfig, bytecode(self.folder))
            figures = [*living, *self.shown(queried), *self.shown(self._storm())]
        return [Section(title, tuple(figures), (*_NOTES, f"etcd {size.disk}"))]

    def shown(self, figures: Iterable[Figure]) -> Iterator[Figure]:
        """Say each figure as soon as it is known: a run that is ended early has shown its first."""
        for each in figures:
            self.say(line(each))
            yield each

    def renewals(self) -> list[Callable[[], Write]]:
        """Return what writes the Lease of each node's agent anew."""
        return [lambda node=node: _renewal(node) for node in range(self._size.nodes)]

    def last_words(self) -> str:
        logs = (self.folder / f"{module}.log" for module in ("remediator", "allocation"))
        texts = (log.read_text(errors="replace") for log in logs if log.exists())
        return "\n".join(line for text in texts for line in text.splitlines()[-12:])

    def objects(self) -> Iterator[tuple[str, Iterable[Write]]]:
        """Yield what is loaded, one kind after the other."""
        size, nodes = self._size, range(self._size.nodes)
        slices = (fleet_objects.resource_slice(node, size.gpus) for node in nodes)
        leases = (fleet_objects.lease(node, clock.now()) for node in nodes)
        yield "ResourceSlices", (partial(create, path=SLICES, body=body) for body in slices)
        yield "reports", map(self._new_report, nodes)
        yield "claims", map(self._claim, range(size.claims))
        yield "Leases", (partial(create, path=LEASES, body=body) for body in leases)

    def consumer(self, number: int) -> tuple[str, str]:
        """Return namespace and UID of the pod that has a claim: one that does not exist."""
        return fleet_objects.JOBS, fleet_objects.pod_uid(number)

    def start_program(self, module: str, port: int, *flags: str) -> int:
        variables = [f"{key}={value}" for key, value in bytecode(self.folder).items()]
        where = ["env", "-C", str(self.checkout), *variables]
        listen = f"--listen=127.0.0.1:{port}"
        command = [*where, sys.executable, "-m", module, listen, *self.server_flags(), *flags]
        return self.supervisor.start(command, self.folder / f"{module}.log")

    def _open(self) -> None:
        self.say(f"starting etcd ({self._size.disk}) and kube-apiserver")
        self.start_plane(fsync=self._size.fsync, timeout=30.0)
        self.plane.scheduler.stop()
        self.plane.controller_manager.stop()
        self.install(fleet_objects.NAMESPACE)
        self._rules = Tape(self.client, RULES, RawRule)
        self._rules.start()
        self._closing.callback(self._rules.stop)
        compile_all(self.folder)

    def load_fleet(self) -> list[Figure]:
        total, seconds = 0, 0.0
        for what, writes in self.objects():
            done = self._loaded(what, writes)
            total, seconds = total + done.writes, seconds + done.seconds
        rate = total / seconds if seconds else 0.0
        return [once("objects loaded", "n", total), once("at", "objects/s", rate)]

    def _loaded(self, what: str, writes: Iterable[Write]) -> Loaded:
        done = load(self.client, writes, clients=self._size.loaders)
        self.say(f"{done.writes:,} {what} in {done.seconds:.0f} s")
        if done.refused:
            raise TooLate(f"{done.refused} {what} could not be written: {done.first_error}")
        return done

    def _new_report(self, node: int) -> Write:
        failed = 0 if node < self._size.sick else None

        def write(client: Client) -> None:
            create(client, REPORTS, fleet_objects.report(node))
            report(client, node, self._size.gpus, failed)

        return write

    def _claim(self, number: int) -> Write:
        gpu, node = divmod(number, self._size.nodes)

        def write(client: Client) -> None:
            (namespace, uid), name = self.consumer(number), fleet_objects.job(number)
            path = CLAIMS.format(namespace)
            create(client, path, fleet_objects.claim(name, namespace))
            status = fleet_objects.allocation(node, gpu % self._size.gpus, name, uid)
            client.merge_patch(f"{path}/{name}/status", {"status": status})

        return write

    def _cold(self) -> Iterator[Figure]:
        self.say("starting the remediator")
        apiserver = self._apiserver_cpu()
        policy = self.folder / "policy.yaml"
        policy.write_text(POLICY, encoding="utf-8")
        began = time.monotonic()
        self._remediator = self.start_program("remediator", free_port(), f"--policy={policy}")
        log = self.folder / "remediator.log"

        def ready() -> bool:
            return "caches are complete" in log.read_text(errors="replace")

        await_true("the remediator is ready", ready, 300.0)
        synced, cpu = time.monotonic() - began, self._cpu()
        await_true("the sick GPUs are tainted", lambda: self._tainted() >= self._size.sick, 300.0)
        planned = time.monotonic() - began
        yield once("cold start until the caches are complete", "s", synced)
        yield once("its own CPU until then", "s", cpu, part=True)
        yield once("cold start to a correct plan", "s", planned, budget=COLD_BUDGET)
        yield once("its own CPU until then", "s", self._cpu(), part=True)
        yield once("the apiserver's CPU", "s", self._apiserver_cpu() - apiserver, part=True)
        self._quieten()
        yield once("until all nodes were looked at", "s CPU", self._cpu(), part=True)

    def _quieten(self) -> None:
        """Wait until the first pass over all nodes is over: the remediator is nearly idle then."""
        spent = -1.0

        def quiet() -> bool:
            nonlocal spent
            before, spent = spent, self._cpu()
            time.sleep(2.0)
            return self._cpu() - before < QUIET and before >= 0.0

        await_true("the remediator comes to rest", quiet, 300.0)

    def _steady(self, leases: Renewals) -> Iterator[Figure]:
        self.say(f"watching a quiet fleet for {self._size.steady:.0f} s")
        cpu, apiserver, renewed = self._cpu(), self._apiserver_cpu(), leases.done
        began = time.monotonic()
        time.sleep(self._size.steady)
        took = time.monotonic() - began
        yield once("steady CPU", "% of a core", 100 * (self._cpu() - cpu) / took)
        rate = (leases.done - renewed) / took
        yield once("Leases renewed meanwhile", "/s", rate, part=True)
        busy = 100 * (self._apiserver_cpu() - apiserver) / took
        yield once("the apiserver's CPU", "% of a core", busy, part=True)
        maps = processes.maps_of(self._remediator)
        yield once("memory (PSS)", "MB", processes.pss_megabytes(maps), budget=MEMORY_BUDGET)
        yield once("highest resident size", "MB", _peak_megabytes(self._remediator), part=True)

    def _storm(self) -> Iterator[Figure]:
        size = self._size
        failing = range(size.sick, min(size.sick + size.storm, size.nodes))
        self.say(f"one GPU fails on each of {len(failing)} nodes")
        cpu, apiserver, before = self._cpu(), self._apiserver_cpu(), self._writes()
        goal = self._tainted() + len(failing)
        began = time.monotonic()
        reports = (partial(report, node=node, gpus=size.gpus, failed=0) for node in failing)
        loaded = self._loaded("reports of a failed GPU", reports)
        await_true("all are tainted", lambda: self._tainted() >= goal, 300.0)
        new = (entry.at - began for entry in self._rules.since(began) if entry.change.old is None)
        yield once("reports of a failed GPU written in", "s", loaded.seconds)
        yield once("until the last NoSchedule is stored", "s", max(new), budget=STORM_BUDGET)
        yield once("its own CPU", "s", self._cpu() - cpu, part=True)
        yield once("the apiserver's CPU", "s", self._apiserver_cpu() - apiserver, part=True)
        wrote = self._writes() - before - loaded.writes
        yield once("writes until then", "n", wrote, part=True)
        yield from self._aftermath(began, before + loaded.writes)
        yield once("its own CPU", "s", self._cpu() - cpu, part=True)
        yield once("the apiserver's CPU", "s", self._apiserver_cpu() - apiserver, part=True)
        yield once("highest resident size", "MB", _peak_megabytes(self._remediator), part=True)

    def _aftermath(self, began: float, before: int) -> Iterator[Figure]:
        """Wait until a storm is over: nothing was written for some seconds."""
        wrote, last = self._writes(), time.monotonic()

        def over() -> bool:
            nonlocal wrote, last
            time.sleep(0.5)
            now = self._writes()
            if now != wrote:
                wrote, last = now, time.monotonic()
            return time.monotonic() - last > STILL

        await_true("the whole storm is reported", over, 600.0)
        moved = [
            entry.at - began
            for entry in self._rules.since(began)
            if entry.change.new is not None and entry.change.new.spec.taint.effect == "NoExecute"
        ]
        if moved:
            yield once("until the last NoExecute is stored", "s", max(moved))
        yield once("until nothing is written any more", "s", last - began)
        yield once("writes until then", "n", wrote - before, part=True)

    def _tainted(self) -> int:
        """Return how many rules that taint are stored."""
        return sum(
            rule.spec.taint.effect in {"NoSchedule", "NoExecute"}
            for rule in self._rules.items().values()
        )

    def _cpu(self) -> float:
        return processes.cpu_seconds(self._remediator)

    def _apiserver_cpu(self) -> float:
        return processes.cpu_seconds(self.plane.apiserver.pid)

    def _writes(self) -> int:
        """Return how many writes other than of Leases the apiserver has answered."""
        text = self.client.get("/metrics", accept="text/plain").decode()
        return int(
            sum(
                float(line.rpartition(" ")[2])
                for line in text.splitlines()
                if line.startswith("apiserver_request_total{")
                and any(f'resource="{resource}"' in line for resource in _COUNTED)
                and any(f'verb="{verb}"' in line for verb in _WRITES)
            )
        )


_COUNTED = ("devicetaintrules", "deviceincidents", "nodedevicehealths", "events", "nodes")
_WRITES = ("POST", "PUT", "PATCH", "APPLY", "DELETE")
_NOTES = (
    "without scheduler and controller manager; all on one machine",
    "a correct plan: the rules of the GPUs that were sick before the start are stored",
    "writes: of rules, incidents, Events and Nodes, by the apiserver's own count",
)


def create(client: Client, path: str, body: fleet_objects.Json) -> bytes:
    """Create an object and return it; fine when an earlier try has made it."""
    try:
        return client.create(path, body)
    except ApiError as error:
        if error.reason != "AlreadyExists":
            raise
        return client.get(f"{path}/{body['metadata']['name']}")


def report(client: Client, node: int, gpus: int, failed: int | None) -> None:
    """Report the health of a node's GPUs; `failed` is one of them, None: all are healthy."""
    status = fleet_objects.health(node, gpus, clock.now(), failed)
    client.merge_patch(f"{REPORTS}/{fleet_objects.node_name(node)}/status", {"status": status})


def _renewal(node: int) -> Write:
    path = f"{LEASES}/draguard-agent-{fleet_objects.node_name(node)}"
    return lambda client: client.merge_patch(path, {"spec": fleet_objects.renewal(clock.now())})


def _peak_megabytes(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    line = next(text for text in status.splitlines() if text.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024 / 1e6


def once(what: str, unit: str, value: float, *, budget: str = "", part: bool = False) -> Figure:
    return Figure(what=what, unit=unit, values=(value,), budget=budget, part=part)
