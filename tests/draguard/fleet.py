"""One small cluster that every command looks at: nodes well, sick, in slices, silent, unwatched.

What an agent and the remediator would have written is written here, with fixed
words and times, so that what the commands print is the same each time. API
server, scheduler and controllers are real, and so are the pods on the devices.
"""

import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from importlib.metadata import version

from exporter.model.device import Device
from exporter.model.node_health import GpuHealth, NodeHealth, RecoveryAction, SourceHealth
from kubeapi import clock
from kubeapi.client import ApiError, Conflict, NotFound
from kubeapi.lease import leases, renew
from remediator.controller.agents import AGENT_LEASE_PREFIX, LEASE_NAME
from remediator.model.incident import IncidentSpec
from remediator.model.incident_status import (
    AffectedPod,
    Condition,
    IncidentStatus,
    RuleRecord,
    ScopeStatus,
    Target,
    TimelineEntry,
    merge_patch,
)
from remediator.model.taint_rule import Rule, manifest
from simulator.cluster.workloads import claim, gpu_request, mig_request, pod, pod_spec
from tests.chain.scene import INCIDENTS, LEASES, REPORTS, fresh, resource_slice
from tests.lab.cluster import RULES, Cluster, Json, await_true
from tests.remediator.builders import (
    DRIVER,
    T0,
    gpu,
    make_status,
    mig_gpu,
    published,
    uuid,
    with_fields,
    xid,
)

SICK, SLICED = uuid(0, "node-b"), uuid(0, "node-c")
LOST_INCIDENT, SLICE_INCIDENT = f"{SICK.lower()}-1", f"{SLICED.lower()}-2"
SICK_DEVICE = Device(DRIVER, "node-b", "gpu-0")
SICK_SLICE = Device(DRIVER, "node-c", "gpu-0-mig-1g10gb-19-4")
POLICY = """\
classes:
  lost: {mode: enforce}
  contained: {mode: enforce}
"""
VERSION = version("draguard")
IMAGE = f"example.com/draguard:{VERSION}"
_SOON = timedelta(seconds=20)
"""Leases are renewed all the time and dated ahead, so that a slow machine makes nobody stale; who
dates farther ahead is not believed."""
_BEAT = 3.0
"""Seconds between two renewals."""
_ALIVE = ("node-a", "node-b", "node-c")


class Fleet:
    """The cluster and what stands in it."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.kubeconfig = str(cluster.plane.kubeconfig)
        self._over = threading.Event()
        self._beating: threading.Thread | None = None

    def furnish(self) -> None:
        """Write everything; returns when the pods hold their devices."""
        self._nodes()
        self._workloads()
        self._reports()
        self._incidents()
        self._installation()

    def clear(self) -> None:
        self._end()
        self.cluster.clean()
        for path in (
            f"/api/v1/namespaces/{LEASES}/configmaps/draguard-policy",
            f"{leases(LEASES)}/{LEASE_NAME}",
            *(f"{leases(LEASES)}/{AGENT_LEASE_PREFIX}node-{letter}" for letter in "abcde"),
        ):
            with suppress(NotFound):
                self.cluster.client.delete(path)

    def _nodes(self) -> None:
        for name, gpus in boards().items():
            self.cluster.player.add_node(name)
            devices = [device for board in gpus for device in published(board, name)]
            self.cluster.player.publish(name, [resource_slice(name, devices)])

    def _workloads(self) -> None:
        for name, request, node in (
            ("train", gpu_request(), "node-b"),
            ("infer", mig_request("1g.10gb"), "node-c"),
        ):
            self.cluster.add("resource.k8s.io/v1", "resourceclaims", claim(name, request))
            self.cluster.add("v1", "pods", pod(name, pod_spec(shared_claim=name, node=node)))
            await_true(f"{name} holds a device", lambda holder=name: self.cluster.device_of(holder))

    def _reports(self) -> None:
        now = clock.now()
        for name, gpus in boards().items():
            if name == "node-d":
                continue
            report(self.cluster, name, health(*gpus, at=now if name in _ALIVE else T0))
        self._begin()

    def _begin(self) -> None:
        self._over.clear()
        self._renew()
        self._beating = threading.Thread(target=self._beat, daemon=True)
        self._beating.start()

    def _end(self) -> None:
        self._over.set()
        if self._beating is not None:
            self._beating.join()

    @contextmanager
    def silence(self) -> Generator[None]:
        """Let nobody renew a Lease."""
        self._end()
        try:
            yield
        finally:
            self._begin()

    def _beat(self) -> None:
        while not self._over.wait(_BEAT):
            with suppress(ApiError):  # the next one will do
                self._renew()

    def _renew(self) -> None:
        soon = clock.now() + _SOON
        for node in _ALIVE:
            renew(self.cluster.client, LEASES, f"{AGENT_LEASE_PREFIX}{node}", node, 60, soon)
        renew(self.cluster.client, LEASES, LEASE_NAME, "remediator-0", 10, soon)

    def _incidents(self) -> None:
        held = self.cluster.device_of("train").partition("/")[2]
        lost = incident_of_the_lost_gpu(held)
        self.incident(LOST_INCIDENT, *lost)
        self.incident(SLICE_INCIDENT, *incident_of_the_slice())
        for device, fault, cause, incident, part, gpu_uuid in (
            (SICK_DEVICE, "lost", "xid-79", LOST_INCIDENT, SICK, SICK),
            (SICK_SLICE, "contained", "xid-94", SLICE_INCIDENT, slice_uuid(5), SLICED),
        ):
            rule = Rule(
                device=device,
                effect="NoSchedule",
                fault=fault,
                cause=cause,
                incident=incident,
                uuid=part,
                gpu=gpu_uuid,
                node=device.pool,
            )
            self.cluster.client.create(RULES, manifest(rule, "v1"))

    def incident(self, name: str, spec: IncidentSpec, status: IncidentStatus) -> None:
        body = {
            "apiVersion": "draguard.dev/v1alpha1",
            "kind": "DeviceIncident",
            "metadata": {"name": name},
            "spec": spec,
        }
        self.cluster.client.create(INCIDENTS, body)
        patch = {"status": merge_patch(status)}
        self.cluster.client.merge_patch(f"{INCIDENTS}/{name}/status", patch)

    def _installation(self) -> None:
        namespace = f"/api/v1/namespaces/{LEASES}/configmaps"
        body = {"metadata": {"name": "draguard-policy"}, "data": {"policy.yaml": POLICY}}
        self.cluster.client.create(namespace, body)
        deployments = f"/apis/apps/v1/namespaces/{LEASES}/deployments"
        with suppress(Conflict):
            self.cluster.client.create(deployments, deployment())


def deployment() -> Json:
    """The remediator's Deployment, of which nothing runs here."""
    labels = {"app": "remediator"}
    container = {
        "name": "remediator",
        "image": IMAGE,
        "args": ["remediator", "--policy=/etc/draguard/policy.yaml"],
        "volumeMounts": [{"name": "policy", "mountPath": "/etc/draguard"}],
    }
    spec = {
        "serviceAccountName": "draguard-remediator",
        "containers": [container],
        "volumes": [{"name": "policy", "configMap": {"name": "draguard-policy"}}],
    }
    return {
        "metadata": {"name": "draguard-remediator"},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def boards() -> dict[str, tuple[GpuHealth, ...]]:
    """GPUs by node."""
    seen = clock.now()
    lately = {"first_seen": seen, "last_seen": seen}
    off_the_bus = gpu(
        0,
        with_fields(xid(79), **lately),
        node="node-b",
        presence="Lost",
        presence_since=seen,
        recovery_action=RecoveryAction(),
    )
    contained = with_fields(xid(94, gi=5, reset=False), **lately)
    sliced = mig_gpu(0, contained, uuid=SLICED, recovery_action=fresh())
    well = fresh()
    return {
        "node-a": (
            gpu(0, node="node-a", recovery_action=well),
            gpu(1, node="node-a", recovery_action=well),
        ),
        "node-b": (off_the_bus,),
        "node-c": (sliced,),
        "node-d": (gpu(0, node="node-d", recovery_action=well),),
        "node-e": (gpu(0, node="node-e", recovery_action=well),),
    }


def slice_uuid(gi: int) -> str:
    return f"MIG-00000000-0000-0000-0000-{gi:012x}"


def health(*gpus: GpuHealth, at: datetime) -> NodeHealth:
    sources = (
        SourceHealth(name="nvml", state="Up", last_success=at),
        SourceHealth(name="kmsg", state="Up", last_success=at, via="Journal"),
        SourceHealth(
            name="podresources",
            state="Down",
            reason="PermissionDenied",
            message="mount the kubelet's pod-resources folder",
        )
        if any(gpu.mig for gpu in gpus)
        else SourceHealth(name="podresources", state="Up", last_success=at),
    )
    return NodeHealth(
        boot_id="boot-1",
        agent_version=VERSION,
        driver_version="580.65.06",
        observed_at=at,
        sources=sources,
        gpus=gpus,
    )


def report(cluster: Cluster, name: str, status: NodeHealth) -> None:
    body = {
        "apiVersion": "draguard.dev/v1alpha1",
        "kind": "NodeDeviceHealth",
        "metadata": {"name": name},
    }
    with suppress(Conflict):
        cluster.client.create(REPORTS, body)
    cluster.client.merge_patch(f"{REPORTS}/{name}/status", {"status": status})


def just_now() -> datetime:
    return clock.now().replace(microsecond=0) - timedelta(seconds=1)


def incident_of_the_lost_gpu(held: str) -> tuple[IncidentSpec, IncidentStatus]:
    device, at = str(SICK_DEVICE), just_now()
    spec = IncidentSpec(node="node-b", uuid=SICK)
    assert held == "gpu-0"
    status = make_status(
        fault_class="lost",
        cause="xid-79",
        evidence=("XID 79 (GPU has fallen off the bus), seen by kmsg",),
        scope=ScopeStatus("whole GPU", (Target(DRIVER, "node-b", "gpu-0", SICK),)),
        phase="Tainted",
        phase_since=at + timedelta(seconds=1),
        mode="Enforce",
        message="NoExecute deferred: hold by ana: until the run ends",
        tainted_at=at + timedelta(seconds=1),
        needs="NodeReboot",
        conditions=(Condition("Deferred", "True", "Human", at, "hold until the run ends by ana"),),
        rules=(RuleRecord("draguard-rule-of-gpu-0", "uid-1", device, "NoSchedule"),),
        would_taint=(),
        affected=(
            AffectedPod("default", "train", "train", device, "uid-train"),
            AffectedPod(
                "monitoring", "dcgm", "look", device, "uid-dcgm", "AdminAccess", "NoExecute"
            ),
        ),
        foreign=("rule example: NoSchedule example.com/old on node-b/gpu-0",),
        timeline=(
            TimelineEntry(at, "Suspected", "XID 79 was seen by kmsg; class lost by its row"),
            TimelineEntry(at + timedelta(seconds=1), "Tainted", "NoSchedule on gpu-0"),
        ),
    )
    return spec, status


def incident_of_the_slice() -> tuple[IncidentSpec, IncidentStatus]:
    device, at = str(SICK_SLICE), just_now()
    spec = IncidentSpec(node="node-c", uuid=SLICED)
    status = make_status(
        fault_class="contained",
        cause="xid-94",
        evidence=("XID 94 (Contained ECC error) on GPU instance 5, seen by kmsg and nvml",),
        scope=ScopeStatus(
            "1 of 7 slices", (Target(DRIVER, SICK_SLICE.pool, SICK_SLICE.device, slice_uuid(5)),)
        ),
        phase="NeedsHuman",
        phase_since=at,
        mode="Enforce",
        message="the third incident in 30 days: a user must confirm the repair",
        needs="Human",
        recurrence=3,
        untaint="OnConfirmation",
        rules=(RuleRecord("draguard-rule-of-slice", "uid-2", device, "NoSchedule"),),
        timeline=(TimelineEntry(at, "NeedsHuman", "the third incident in 30 days"),),
    )
    return spec, status
