"""The explainer on the loaded fleet, and the taint's latency beside it: `--explainer`.

All GPUs are allocated to pods that run, and further pods wait. The latency is taken in rounds: with
the explainer running, frozen, and not running, in turn, because only what was measured side by side
is compared.
"""

import re
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain

import msgspec

from benchmarks import fleet_objects, processes
from benchmarks.figures import Figure, Section, milliseconds, ratios
from benchmarks.fleet import tenants
from benchmarks.fleet.bench import CLAIMS, LEASE_PERIOD, FleetBench, Size, create, once, report
from benchmarks.fleet.load import Renewals, Write
from benchmarks.scraper import page
from benchmarks.waiting import Say, await_true
from kubeapi import clock
from kubeapi.client import Client
from simulator.cluster.ports import free_port

NAMESPACES, NODES = "/api/v1/namespaces", "/api/v1/nodes"
PODS = "/api/v1/namespaces/{}/pods"
WATCHED = (
    "/api/v1/pods",
    NODES,
    *(f"/apis/resource.k8s.io/v1/{kind}" for kind in ("resourceslices", "resourceclaims")),
    "/apis/resource.k8s.io/v1/deviceclasses",
)
"""Of what the explainer watches, what grows with a fleet."""
RUNNING, FROZEN, STOPPED = "running", "frozen", "not running"
SIGNALS = {RUNNING: signal.SIGCONT, FROZEN: signal.SIGSTOP, STOPPED: signal.SIGKILL}
SCRAPE_PERIOD, POLL_PERIOD = 15.0, 0.2
CHANGES = 5
PATIENCE = 900.0
_CLAIMS = "draguard_claims"
_UNEXPLAINED = "draguard_explainer_unexplained_pods"
_LOOK = "draguard_explainer_look_seconds"
_NOTES = (
    "without scheduler and controller manager; all on one machine; pods and Nodes do not change",
    f"the explainer's page is read every {SCRAPE_PERIOD:.0f} s, and every {POLL_PERIOD} s where "
    "something is awaited",
)


class _Created(msgspec.Struct):
    metadata: fleet_objects.Json


class ExplainerBench(FleetBench):
    """The fleet with Nodes and pods, the explainer, and then the remediator beside it."""

    def __init__(self, size: Size, say: Say, rounds: int) -> None:
        super().__init__(size, say)
        self._rounds_left = min(rounds, (size.nodes - size.sick) // len(SIGNALS))
        self._uids: dict[int, str] = {}
        self._explainer, self._page_port = 0, free_port()

    def measure(self) -> list[Section]:
        size = self._size
        loaded = self.load_fleet()
        with Renewals(self.client, self.renewals(), LEASE_PERIOD):
            measured = (self._lists(), self._first_look(), self._idle(), self._changes())
            alone = [*loaded, *self.shown(chain.from_iterable(measured))]
            beside = [*self.shown(chain(self._cold(), self._rounds()))]
        title = f"{size.nodes:,} nodes, {size.claims:,} pods that run, {size.waiting:,} that wait"
        notes = (*_NOTES, f"etcd {size.disk}")
        return [
            Section(title, tuple(alone), notes),
            Section("the remediator beside the explainer", tuple(beside)),
        ]

    def objects(self) -> Iterator[tuple[str, Iterable[Write]]]:
        size, waiting = self._size, range(self._size.waiting)
        named = ({"metadata": {"name": tenants.namespace(one)}} for one in range(tenants.TENANTS))
        yield "namespaces", (partial(create, path=NAMESPACES, body=body) for body in named)
        yield "Nodes", map(self._node, range(size.nodes))
        yield "pods that run", map(self._pod_that_runs, range(size.claims))
        yield from super().objects()
        yield "claims that wait", map(self._claim_that_waits, waiting)
        yield "pods that wait", map(self._pod_that_waits, waiting)

    def consumer(self, number: int) -> tuple[str, str]:
        return tenants.namespace(number), self._uids[number]

    def _node(self, number: int) -> Write:
        path = f"{NODES}/{fleet_objects.node_name(number)}"

        def write(client: Client) -> None:
            create(client, NODES, tenants.node(number))
            client.merge_patch(f"{path}/status", {"status": tenants.node_status(clock.now())})
            # The API server taints a Node that is new as not ready.
            client.merge_patch(path, {"spec": {"taints": None}})

        return write

    def _pod_that_runs(self, number: int) -> Write:
        place, name = tenants.namespace(number), fleet_objects.job(number)
        node = fleet_objects.node_name(number % self._size.nodes)
        body = tenants.pod(name, place, node=node)

        def write(client: Client) -> None:
            made = create(client, PODS.format(place), body)
            self._uids[number] = msgspec.json.decode(made, type=_Created).metadata["uid"]
            status = tenants.pod_that_runs(clock.now())
            client.merge_patch(f"{PODS.format(place)}/{name}/status", {"status": status})

        return write

    def _claim_that_waits(self, number: int, device_class: str = fleet_objects.DRIVER) -> Write:
        place, count = tenants.namespace(number), tenants.waiting_count(number)
        name = tenants.waiting_name(number)
        body = fleet_objects.claim(name, place, count=count, device_class=device_class)
        return partial(create, path=CLAIMS.format(place), body=body)

    def _pod_that_waits(self, number: int) -> Write:
        place, name = tenants.namespace(number), tenants.waiting_name(number)
        body = tenants.pod(name, place, selector=tenants.node_selector(number))

        def write(client: Client) -> None:
            create(client, PODS.format(place), body)
            status = tenants.pod_that_waits(clock.now(), self._size.nodes)
            client.merge_patch(f"{PODS.format(place)}/{name}/status", {"status": status})

        return write

    def _lists(self) -> Iterator[Figure]:
        """Yield how large each collection is: what the explainer reads at its start."""
        self.say("listing what the explainer watches")
        client = self.client.sibling(PATIENCE)
        for path in WATCHED:
            megabytes = len(client.get(path)) / 1e6
            what = f"a list of all {path.rpartition('/')[2]}"
            yield once(what, "MB", megabytes)
        client.close()

    def _first_look(self) -> Iterator[Figure]:
        self.say("starting the explainer")
        apiserver, began = self._apiserver_cpu(), time.monotonic()
        self._start_explainer()
        for what, shown in (
            ("start of the explainer until its first look is on its page", is_looked),
            ("start of the explainer until no pod is unexplained", is_explained),
        ):
            self._await_page(what, shown)
            yield once(what, "s", time.monotonic() - began)
            yield once("its own CPU until then", "s", self._explainer_cpu(), part=True)
            yield once("the apiserver's CPU", "s", self._apiserver_cpu() - apiserver, part=True)

    def _idle(self) -> Iterator[Figure]:
        """Watch the explainer while nothing happens but scrapes."""
        self.say(f"watching the explainer for {self._size.steady:.0f} s")
        cpu, began, looks = self._explainer_cpu(), time.monotonic(), list[float]()
        while (left := began + self._size.steady - time.monotonic()) > 0:
            time.sleep(min(SCRAPE_PERIOD, left))
            looks.append(total(page(self._page_port), _LOOK))
        busy = 100 * (self._explainer_cpu() - cpu) / (time.monotonic() - began)
        yield once("steady CPU, with its child for CEL", "% of a core", busy)
        yield Figure(what="one look", unit="s", values=tuple(looks), digits=2)
        pids = self._processes()
        pss = sum(processes.pss_megabytes(processes.maps_of(pid)) for pid in pids)
        yield once("memory (PSS), with its child", "MB", pss)
        for name, pid in zip(("", ", of its child"), pids, strict=False):
            highest = processes.highest_megabytes(pid)
            yield once(f"highest resident size{name}", "MB", highest, part=True)

    def _changes(self) -> Iterator[Figure]:
        """Yield how long it takes until a pod whose DeviceClass does not exist is counted."""
        self.say("pods of a class that does not exist")
        took: list[float] = []
        for number in range(CHANGES):
            time.sleep(number / 2)  # at another moment between two looks
            began, new = time.monotonic(), self._size.waiting + number
            self._claim_that_waits(new, "missing.example.com")(self.client)
            self._pod_that_waits(new)(self.client)
            self._await_page("its reason is on the page", partial(is_missing, least=number + 1))
            took.append(time.monotonic() - began)
        what = "a new pod that waits until its reason is counted"
        yield Figure(what=what, unit="s", values=tuple(took))

    def _rounds(self) -> Iterator[Figure]:
        """Yield how long a taint takes in each state of the explainer."""
        found: dict[str, list[float]] = {state: [] for state in SIGNALS}
        failing, was = iter(range(self._size.sick, self._size.nodes)), RUNNING
        restarts: list[float] = []
        for number in range(self._rounds_left):
            # To and fro, so that no state is always the first.
            for state in tuple(SIGNALS)[:: -1 if number % 2 else 1]:
                self.say(f"round {number + 1} of {self._rounds_left}: the explainer is {state}")
                if was == STOPPED != state:
                    began = time.monotonic()
                    self._start_explainer()
                    self._await_page("the explainer is back", is_explained)
                    restarts.append(time.monotonic() - began)
                for sent in (signal.SIGCONT, SIGNALS[state]):
                    self.supervisor.signal(self._explainer, sent)
                was = state
                self._quieten()
                began = time.monotonic()
                report(self.client, next(failing), self._size.gpus, failed=0)
                rule = self._rules.first("a rule", lambda change: change.old is None, since=began)
                found[state].append(rule.at - began)
        for state, took in found.items():
            what = f"a GPU fails until NoSchedule is stored, explainer {state}"
            yield Figure(what=what, unit="ms", values=milliseconds(took))
            each = ratios(took, found[STOPPED])
            if state != STOPPED:
                what = "ratio to not running"
                yield Figure(what=what, unit="x", values=each, digits=2, part=True)
        what = "restart of the explainer until no pod is unexplained"
        yield Figure(what=what, unit="s", values=tuple(restarts))

    def _start_explainer(self) -> None:
        # Who has the same identity need not wait for its own Lease.
        flags = ("--leader-identity=bench",)
        self._explainer = self.start_program("allocation", self._page_port, *flags)

    def _await_page(self, what: str, shown: Callable[[bytes], bool]) -> None:
        def seen() -> bool:
            time.sleep(POLL_PERIOD)
            return shown(page(self._page_port))

        await_true(what, seen, PATIENCE)

    def _processes(self) -> Sequence[int]:
        return self._explainer, *processes.descendants(self._explainer)

    def _explainer_cpu(self) -> float:
        return sum(map(processes.cpu_seconds, self._processes()))


def total(text: bytes, family: str, label: str = "") -> float:
    """Return the sum of a family's samples whose labels contain a text."""
    found = re.findall(rf"^{family}(?:{{(.*)}})? (\S+)$", text.decode(), re.MULTILINE)
    return sum(float(value) for labels, value in found if label in labels)


def is_looked(text: bytes) -> bool:
    return total(text, _CLAIMS) > 0


def is_explained(text: bytes) -> bool:
    return is_looked(text) and total(text, _UNEXPLAINED) == 0


def is_missing(text: bytes, least: int) -> bool:
    """Whether so many claims are of a class that does not exist."""
    return total(text, _CLAIMS, 'reason="ClassMissing"') >= least
