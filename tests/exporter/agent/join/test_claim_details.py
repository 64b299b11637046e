"""Claims read by name from the real API server, and what happens where they cannot be."""

import contextlib
import threading
from collections.abc import Generator, Iterator
from typing import Any

import pytest

from exporter.agent.join.claim_details import ClaimDetails
from exporter.agent.join.claims import Holder, Known, join
from exporter.model.claim_objects import ClaimKey
from exporter.model.device import NVIDIAS, Device
from exporter.model.readings import ClaimDevice, ContainerDevices
from exporter.model.resource_slices import SliceDevice
from kubeapi.client import Client
from simulator.cluster.controlplane import ControlPlane
from simulator.cluster.workloads import claim, claim_template, gpu_request, pod, pod_spec
from tests.exporter.running import wait_for
from tests.kubeapi.hostile import Behaviour, Hostile, body, refusal
from tests.lab.cluster import Cluster

GPU = {
    "name": "gpu-0",
    "attributes": {
        "type": {"string": "gpu"},
        "uuid": {"string": "GPU-2fa81118-5a5f-aa66-7660-471eed407181"},
    },
    "capacity": {"memory": {"value": "80Gi"}},
}
SLICE = {
    "spec": {
        "driver": "gpu.nvidia.com",
        "nodeName": "node-a",
        "pool": {"name": "node-a", "generation": 1, "resourceSliceCount": 1},
        "devices": [GPU],
    }
}


@contextlib.contextmanager
def reading(client: Client) -> Generator[ClaimDetails]:
    details = ClaimDetails(client, lambda: None, NVIDIAS)
    details.start()
    try:
        yield details
    finally:
        details.stop()


def containers(cluster: Cluster) -> list[ContainerDevices]:
    """Return what the played kubelet says, as the agent hears it."""
    found: list[ContainerDevices] = []
    for listed in cluster.player.pods_of("node-a"):
        for container in listed["containers"]:
            claims = tuple(
                ClaimDevice(
                    resource["claim_name"],
                    resource["claim_namespace"],
                    device["driver_name"],
                    device["pool_name"],
                    device["device_name"],
                    device.get("share_id", ""),
                    tuple(cdi["name"] for cdi in device["cdi_devices"]),
                )
                for resource in container.get("dynamic_resources", ())
                for device in resource["claim_resources"]
            )
            if claims:
                found.append(ContainerDevices(listed["namespace"], listed["name"], "main", claims))
    return found


def running(
    cluster: Cluster, spec: dict[str, Any], needed: dict[str, Any] | None = None
) -> list[ContainerDevices]:
    """Have a pod run on a node with one GPU; `needed` is the claim or template that it names."""
    cluster.player.add_node("node-a")
    cluster.player.publish("node-a", [SLICE])
    if needed is not None:
        cluster.add("resource.k8s.io/v1", f"{needed['kind'].lower()}s", needed)
    cluster.add("v1", "pods", pod("train-0", spec))
    return wait_for(lambda: containers(cluster), what="a running pod with a device")


def holder_of(held: list[ContainerDevices], details: ClaimDetails) -> Holder:
    gpu = SliceDevice(
        device=Device("gpu.nvidia.com", "node-a", "gpu-0"), uuid="GPU-1", memory=80 << 30
    )
    known = Known(published=(gpu,), details=details.details())
    (holder,) = join(held, known=known).by_uuid["GPU-1"]
    return holder


def test_a_template_claim_is_read_with_its_request_class_pod_and_uid(cluster: Cluster) -> None:
    template = claim_template("one-gpu", gpu_request("main"))
    held = running(cluster, pod_spec(template="one-gpu"), template)
    with reading(cluster.client) as details:
        details.want(held)
        wait_for(details.details, what="details")
        assert details.source().up
        holder = holder_of(held, details)
        details.want([])
        assert details.details() == {}
    (stored,) = cluster.pods()
    (raw,) = cluster.items("/apis/resource.k8s.io/v1/resourceclaims")
    assert holder.pod_uid == stored["metadata"]["uid"]
    assert holder.claim_uid == raw["metadata"]["uid"]
    assert (holder.request, holder.device_class) == ("main", "gpu.nvidia.com")
    assert (holder.admin, holder.resource, holder.declared_memory) == (False, "", 80 << 30)


def test_a_claim_made_for_an_extended_resource_has_its_name(cluster: Cluster) -> None:
    held = running(cluster, pod_spec(extended_gpus=1))
    with reading(cluster.client) as details:
        details.want(held)
        wait_for(details.details, what="details")
        holder = holder_of(held, details)
    assert holder.resource == "nvidia.com/gpu"
    assert holder.device_class == "gpu.nvidia.com"


@pytest.fixture
def admins_may_look(client: Client) -> Iterator[None]:
    def label(value: str | None) -> None:
        labels = {"resource.kubernetes.io/admin-access": value}
        client.merge_patch("/api/v1/namespaces/default", {"metadata": {"labels": labels}})

    label("true")
    yield
    label(None)


def test_admin_access_is_known_from_the_claim(cluster: Cluster, admins_may_look: None) -> None:
    request = gpu_request("watch")
    request["exactly"]["adminAccess"] = True
    held = running(cluster, pod_spec(shared_claim="look"), claim("look", request))
    with reading(cluster.client) as details:
        details.want(held)
        wait_for(details.details, what="details")
        holder = holder_of(held, details)
    assert (holder.admin, holder.declared_memory) == (True, None)


def test_a_missing_right_to_read_claims_is_logged_and_labels_lack_only_those(
    cluster: Cluster, control_plane: ControlPlane
) -> None:
    held = running(cluster, pod_spec(shared_claim="mine"), claim("mine", gpu_request("main")))
    client = Client(control_plane.endpoint("remediator"), timeout=60.0)
    with reading(client) as details:
        details.want(held)
        wait_for(lambda: not details.source().up, what="a refusal")
        source = details.source()
        assert source.reason == "Forbidden"
        assert "labels lack what claim default/mine says" in source.message
        holder = holder_of(held, details)
        assert (holder.admin, holder.request, holder.pod) == (None, "", "train-0")
        details.want([])
        assert details.source().up
    client.close()


HELD = [
    ContainerDevices(
        "te/am", "pod", "main", (ClaimDevice("../x", "te/am", "gpu.nvidia.com", "n", "gpu-0"),)
    )
]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (refusal(404, "NotFound"), "NotFound"),
        (refusal(403, "Forbidden"), "Forbidden"),
        (refusal(500), "Unreachable"),
        (refusal(429, headers="retry-after: 9\r\n"), "RateLimited"),
        (body(b"[]"), "Unreachable"),
        (body(b'{"metadata": {"uid": 7}}'), "Unreachable"),
    ],
)
def test_each_failure_has_a_word_and_no_name_leads_to_another_path(
    answer: Behaviour, reason: str
) -> None:
    listed = body(b'{"resources": [{"name": "resourceclaims"}]}')
    server = Hostile([listed, answer])
    client = Client(server.endpoint, timeout=60.0)
    try:
        with reading(client) as details:
            details.want(HELD)
            wait_for(lambda: details.source().reason == reason, what=reason)
            assert details.details() == {}
    finally:
        client.close()
        server.close()
    paths = [request.split()[1] for request in server.requests if "resourceclaims" in request]
    assert set(paths) == {"/apis/resource.k8s.io/v1/namespaces/te%2Fam/resourceclaims/..%2Fx"}


def test_without_the_right_to_read_discovery_the_newest_version_is_read() -> None:
    server = Hostile([refusal(403, "Forbidden"), body(b'{"metadata": {"uid": "u-1"}}')])
    client = Client(server.endpoint, timeout=60.0)
    try:
        with reading(client) as details:
            details.want(HELD)
            wait_for(details.details, what="the claim")
            assert [detail.uid for detail in details.details().values()] == ["u-1"]
    finally:
        client.close()
        server.close()
    (read,) = (path for path in server.requests if "resourceclaims" in path)
    assert read.split()[1].startswith("/apis/resource.k8s.io/v1/namespaces/")


def test_an_outage_ends_by_itself_and_is_retried_politely() -> None:
    listed = body(b'{"resources": [{"name": "resourceclaims"}]}')
    whole = body(
        b'{"metadata": {"name": "c", "uid": "u"}, "status": {"reservedFor": '
        b'[{"resource": "pods", "name": "pod", "uid": "p"}], "allocation": {"devices": {"results": '
        b'[{"request": "r", "driver": "gpu.nvidia.com", "pool": "n", "device": "gpu-0"}]}}}}'
    )
    server = Hostile([listed, refusal(503), whole])
    client = Client(server.endpoint, timeout=60.0)
    changes = threading.Event()
    details = ClaimDetails(client, changes.set, NVIDIAS)
    details.start()
    try:
        details.want(HELD)
        assert changes.wait(60.0)
        assert details.source().up
        assert details.details()[ClaimKey("te/am", "../x")].uid == "u"
    finally:
        details.stop()
        client.close()
        server.close()
    assert len(server.requests) == 3
