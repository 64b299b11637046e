"""A real cluster with simulated nodes and the real remediator as a process of its own."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from exporter.agent.report.outline import content_hash
from exporter.model.node_health import REPORT_HASH, GpuHealth, NodeHealth, RecoveryAction
from exporter.model.resource_slices import SliceDevice
from kubeapi import clock
from kubeapi.client import ApiError, Conflict, NotFound
from kubeapi.lease import leases, renew
from remediator.controller.agents import LEASE_NAME
from simulator.cluster import workloads
from tests.lab.cluster import RULES, Cluster, Json, await_true
from tests.remediator import builders
from tests.remediator.builders import with_fields

T = TypeVar("T")
REPORTS = "/apis/draguard.dev/v1alpha1/nodedevicehealths"
INCIDENTS = "/apis/draguard.dev/v1alpha1/deviceincidents"
EXPLAINER = "draguard-explainer"
"""Its Lease."""
LEASES = "draguard-system"
_BEAT = 0.7
ENFORCE = """
defaults: {mode: enforce, settle: 1s, soak: 4s}
"""
INCIDENT_ONLY = """
defaults: {mode: incident-only, settle: 1s, soak: 4s}
"""


class Remediator:
    """`python -m remediator` against the scene's API server, or against a proxy before it.

    Or another program of the cluster: `python -m MODULE`.
    """

    def __init__(self, arguments: list[str], log: Path, module: str = "remediator") -> None:
        self._arguments, self._module = arguments, module
        self.log = log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-m", self._module, *self._arguments], stdout=out, stderr=out
            )

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def memory(self) -> int:
        """MiB that it has in use now (VmRSS)."""
        assert self._process is not None
        status = Path(f"/proc/{self._process.pid}/status").read_text(encoding="ascii")
        (line,) = [row for row in status.splitlines() if row.startswith("VmRSS:")]
        return int(line.split()[1]) >> 10

    def kill(self) -> None:
        """End it without any chance to finish what it was doing."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def send(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)

    def _end(self, number: signal.Signals) -> None:
        process = self._process  # who starts it again need not be who ends it
        if process is None:
            return
        process.send_signal(number)
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            raise

    def logged(self) -> str:
        return self.log.read_text(encoding="utf-8")

    def await_saying(self, text: str, timeout: float = 60.0) -> None:
        def says() -> bool:
            assert self.running, f"the remediator ended: {self.logged()[-2000:]}"
            return text in self.logged()

        await_true(f"the remediator says {text!r}", says, timeout)


class Scene:
    """What a test sees of the cluster, and what it does to it."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster = cluster
        self.folder = folder
        self.policy_file = folder / "policy.yaml"
        self.policy(ENFORCE)
        self.programs: list[Remediator] = []
        self._hashes: dict[str, str] = {}
        self.agents_live = True
        """Whether agents renew their Leases by themselves."""
        self._over = threading.Event()
        self._beating = threading.Thread(target=self._beat, daemon=True)

    def _beat(self) -> None:
        """Renew the Lease of each node that reports, as its agent does each minute."""
        while not self._over.wait(_BEAT):
            for name in list(self._hashes) if self.agents_live else ():
                with suppress(ApiError):
                    self.alive(name)

    def policy(self, text: str) -> None:
        """Replace the policy file in one step, as a mounted ConfigMap is replaced."""
        fresh = self.folder / "policy.new"
        fresh.write_text(text, encoding="utf-8")
        fresh.rename(self.policy_file)

    def remediator(
        self, *flags: str, server: str = "", until: str = "caches are complete"
    ) -> Remediator:
        """Start the real remediator; it is stopped with the scene."""
        endpoint = self.cluster.plane.endpoint()
        where = ["--kubeconfig", str(self.cluster.plane.kubeconfig)]
        if server:
            token = self.folder / "token"
            token.write_text(endpoint.token or "", encoding="utf-8")
            where = ["--kube-server", server, "--kube-token-file", str(token)]
        one = Remediator(
            [
                *where,
                "--policy",
                str(self.policy_file),
                "--listen",
                "127.0.0.1:0",
                "--leader-identity",  # who is started again need not wait for its own Lease
                f"remediator-{len(self.programs)}",
                *flags,
            ],
            self.folder / f"remediator-{len(self.programs)}.log",
        )
        one.start()
        self.programs.append(one)
        one.await_saying(until)
        return one

    def explainer(self, *flags: str) -> Remediator:
        """Start the real explainer; it is stopped with the scene."""
        number = len(self.programs)
        where = ["--kubeconfig", str(self.cluster.plane.kubeconfig)]
        one = Remediator(
            [*where, "--listen", "127.0.0.1:0", "--leader-identity", f"explainer-{number}", *flags],
            self.folder / f"explainer-{number}.log",
            "allocation",
        )
        one.start()
        self.programs.append(one)
        return one

    def close(self) -> None:
        self._over.set()
        if self._beating.ident is not None:
            self._beating.join(60)
        with ExitStack() as ends:
            for replica in self.programs:
                replica.send(signal.SIGCONT)
                ends.callback(replica.stop)
        for name in (LEASE_NAME, EXPLAINER):
            with suppress(NotFound):
                self.cluster.client.delete(f"{leases(LEASES)}/{name}")

    def node(self, name: str, *gpus: GpuHealth) -> None:
        """Add a node that publishes these GPUs, and their first report."""
        self.cluster.player.add_node(name)
        self.publish(name, *gpus)
        self.report(name, *gpus)

    def publish(self, name: str, *gpus: GpuHealth, new_generation: bool = False) -> None:
        devices = [device for gpu in gpus for device in builders.published(gpu, name)]
        body = [resource_slice(name, devices)]
        self.cluster.player.publish(name, body, new_generation=new_generation)

    def report(self, name: str, *gpus: GpuHealth, **fields: object) -> None:
        """Write the node's report as its agent would."""
        seen = builders.report(*map(_read_lately, gpus))
        status = with_fields(seen, observed_at=clock.now(), **fields)
        self.write(name, status)

    def write(self, name: str, status: NodeHealth) -> None:
        body = {
            "apiVersion": "draguard.dev/v1alpha1",
            "kind": "NodeDeviceHealth",
            "metadata": {"name": name},
        }
        with suppress(Conflict):
            self.cluster.client.create(REPORTS, body)
        sealed = msgspec.structs.replace(status, content_hash=content_hash(status))
        # An agent replaces its report: what is not said now is gone.
        gone = dict.fromkeys(NodeHealth.__struct_encode_fields__)
        whole = gone | msgspec.json.decode(msgspec.json.encode(sealed))
        self.cluster.client.merge_patch(f"{REPORTS}/{name}/status", {"status": whole})
        self._hashes[name] = sealed.content_hash
        if self._beating.ident is None:
            self._beating.start()

    def alive(self, name: str, now: datetime | None = None) -> None:
        """Renew the Lease of the node's agent, by its clock, which confirms its last report."""
        stated = {REPORT_HASH: self._hashes[name]} if name in self._hashes else None
        client, lease = self.cluster.client, f"draguard-agent-{name}"
        renew(client, LEASES, lease, name, 60, now or clock.now(), stated)

    def train(self, name: str, replicas: int, request: Json, node: str = "") -> None:
        """Run a Deployment whose replicas hold one device each, on one node if it is named."""
        self.cluster.add(
            "resource.k8s.io/v1",
            "resourceclaimtemplates",
            workloads.claim_template(name, request),
        )
        spec = workloads.pod_spec(template=name, node=node)
        self.cluster.add("apps/v1", "deployments", workloads.deployment(name, replicas, spec))
        await_true(
            f"{replicas} pods of {name} run",
            lambda: len(self.holders(name)) == replicas,
        )

    def holders(self, name: str = "") -> Mapping[str, str]:
        """Return device (`pool/device`) by UID of each running pod of a Deployment."""
        pods = [pod["metadata"] for pod in self.cluster.running()]
        devices = self.cluster.devices()
        found = {
            pod["uid"]: devices.get(pod["name"], "")
            for pod in pods
            if pod["name"].startswith(name) and "deletionTimestamp" not in pod
        }
        return {uid: device for uid, device in found.items() if device}

    def rules(self) -> dict[str, str]:
        """Return the effect of every DeviceTaintRule by `pool/device`."""
        found: dict[str, str] = {}
        for rule in self.cluster.items(RULES):
            selector = rule["spec"]["deviceSelector"]
            found[f"{selector['pool']}/{selector['device']}"] = rule["spec"]["taint"]["effect"]
        return found

    def rule_uids(self) -> set[str]:
        """Return who is who of the rules: one that was away meanwhile is another."""
        return {rule["metadata"]["uid"] for rule in self.cluster.items(RULES)}

    def incidents(self) -> list[Json]:
        return self.cluster.items(INCIDENTS)

    def open_incidents(self) -> list[Json]:
        return [
            incident
            for incident in self.incidents()
            if "closedTime" not in incident.get("status", {}).get("history", {})
        ]

    def incident(self) -> Json:
        """Return the only incident."""
        (only,) = self.incidents()
        return only

    def phase(self) -> str:
        """Return the phase of the only incident, "" before there is one."""
        found = self.incidents()
        return found[0].get("status", {}).get("phase", "") if len(found) == 1 else ""

    def await_rules(self, expected: Mapping[str, str], timeout: float = 60.0) -> None:
        seen: list[dict[str, str]] = [{}]

        def as_expected() -> bool:
            seen[0] = self.rules()
            return seen[0] == dict(expected)

        with _explained(lambda: f"rules are {seen[0]}"):
            await_true(f"rules are {dict(expected)}", as_expected, timeout)

    def await_phase(self, phase: str, timeout: float = 60.0) -> Json:
        with _explained(lambda: f"phase is {self.phase()!r}"):
            await_true(f"phase {phase}", lambda: self.phase() == phase, timeout)
        return self.incident()

    def events(self, reason: str) -> list[Json]:
        return [
            event for event in self.cluster.items("/api/v1/events") if event["reason"] == reason
        ]

    def holds_for(self, seconds: float, what: str, condition: Callable[[], bool]) -> None:
        """Watch that something stays true for a while; a busy machine makes it prove less.

        Something that happens later, and proves that it did not happen before, is better.
        """
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            assert condition(), f"no longer: {what}"
            time.sleep(0.05)


@contextmanager
def _explained(say: Callable[[], str]) -> Generator[None]:
    try:
        yield
    except AssertionError as error:
        raise AssertionError(f"{error}; {say()}") from None


def resource_slice(
    node: str, devices: list[SliceDevice], driver: str = builders.DRIVER, pool: str = ""
) -> Json:
    """Return the ResourceSlice that publishes the devices, in NVIDIA's attribute names."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"00000-{driver}-{node}-0"},
        "spec": {
            "driver": driver,
            "nodeName": node,
            "pool": {"name": pool or node, "generation": 1, "resourceSliceCount": 1},
            "devices": [_device(device) for device in devices],
        },
    }


def _device(device: SliceDevice) -> Json:
    texts = {
        "type": device.kind,
        "uuid": device.uuid,
        "parentUUID": device.parent_uuid,
        "profile": device.profile,
        "resource.kubernetes.io/pciBusID": device.pci_bus_id,
    }
    attributes: dict[str, Any] = {name: {"string": value} for name, value in texts.items() if value}
    return {"name": device.device.device, "attributes": attributes}


def fresh(value: int = 0) -> RecoveryAction:
    """A recovery action read just now."""
    now = clock.now()
    return RecoveryAction(support="Supported", value=value, since=now, observed_at=now)


def _read_lately(gpu: GpuHealth) -> GpuHealth:
    """Date a recovery action that the test says nothing of shortly before now."""
    if gpu.recovery_action.observed_at != builders.T0:
        return gpu
    lately = clock.now() - timedelta(seconds=30)
    action = msgspec.structs.replace(gpu.recovery_action, observed_at=lately)
    return msgspec.structs.replace(gpu, recovery_action=action)


def gone(cluster: Cluster, path: str) -> bool:
    try:
        cluster.client.get(path)
    except NotFound:
        return True
    return False
