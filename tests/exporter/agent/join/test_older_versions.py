"""ResourceSlices and ResourceClaims in each version of the API that a real server has."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from exporter.agent.join.claim_details import ClaimDetails
from exporter.model.claim_objects import ClaimDetail, ClaimKey, ResultDetail
from exporter.model.device import NVIDIAS
from exporter.model.readings import ClaimDevice, ContainerDevices
from kubeapi.client import Client
from simulator.cluster.controlplane import ControlPlane
from tests.exporter.agent.join.older_server import older_server
from tests.exporter.agent.join.test_published import names, slice_of, watching
from tests.exporter.running import wait_for
from tests.lab.cluster import SLICES

pytestmark = pytest.mark.verify

CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
REQUESTS = [
    {"name": "main", "exactly": {"deviceClassName": "gpu.nvidia.com"}},
    {"name": "any", "firstAvailable": [{"name": "small", "deviceClassName": "mig.nvidia.com"}]},
]

PARTITION = {
    "name": "gpu-0-mig-1g10gb-19-3",
    "attributes": {"type": {"string": "mig"}, "parentUUID": {"string": "GPU-1"}},
    "capacity": {"memory": {"value": "10Gi"}, "memorySlice3": {"value": "1"}},
    "allowMultipleAllocations": True,
    "taints": [{"key": "gpu.nvidia.com/xid", "value": "79", "effect": "NoSchedule"}],
}


def allocated() -> dict[str, Any]:
    """Return the status of a claim that a scheduler gave two devices and reserved for a pod."""
    results = [
        {"request": request, "driver": "gpu.nvidia.com", "pool": "node-a", "device": device}
        for request, device in (("main", "gpu-0"), ("any/small", "gpu-0-mig-1g10gb-19-3"))
    ]
    return {
        "allocation": {"devices": {"results": results}},
        "reservedFor": [{"resource": "pods", "name": "train-0", "uid": "pod-uid"}],
    }


@pytest.fixture(scope="module")
def every_version(control_plane_built: None) -> Iterator[Client]:
    """A control plane that serves the API in three versions, with one slice and one claim."""
    flag = "--runtime-config=resource.k8s.io/v1beta1=true,resource.k8s.io/v1beta2=true"
    with ControlPlane(apiserver_flags=[flag]) as plane:
        # It would take back what is reserved for a pod that is not there.
        plane.controller_manager.stop()
        client = Client(plane.endpoint(), timeout=60.0)
        made = slice_of("gpu-0", "gpu-0-mig-1g10gb-19-3")
        made["spec"]["devices"][1] = PARTITION
        client.create(SLICES, made)
        desired = {"metadata": {"name": "claim"}, "spec": {"devices": {"requests": REQUESTS}}}
        client.create(CLAIMS, desired)
        client.merge_patch(f"{CLAIMS}/claim/status", {"status": allocated()})
        yield client
        client.close()


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2", "v1"])
def test_each_version_of_a_real_server_says_the_same(every_version: Client, version: str) -> None:
    with older_server(every_version, version) as server:
        client = Client(server.endpoint(), timeout=60.0)
        with watching(client) as watched:
            wait_for(lambda: len(names(watched)) == 2, what="the slice")
            gpu, part = watched.devices()
            wait_for(lambda: watched.source().up, what="the end of the list")
            assert watched.source().message == f"watched as resource.k8s.io/{version}"
        client.close()
    assert (gpu.uuid, gpu.memory, gpu.shareable) == ("GPU-1", 80 << 30, False)
    assert (part.parent_uuid, part.memory, part.shareable) == ("GPU-1", 10 << 30, True)
    assert (part.gi_profile_id, part.placement_start) == (19, 3)
    assert [taint.effect for taint in part.taints] == ["NoSchedule"]


def test_a_version_that_goes_is_left_for_the_next_one_and_nothing_is_forgotten(
    every_version: Client,
) -> None:
    with older_server(every_version, "v1beta1") as server:
        client = Client(server.endpoint(), timeout=60.0)
        with watching(client) as watched:
            wait_for(lambda: len(names(watched)) == 2, what="the slice")
            before = watched.devices()
            server.upgrade("none")
            # What is not served is requested again after up to 15 s, twice on a busy machine.
            wait_for(lambda: watched.source().reason == "NotServed", 120.0, "its end is noticed")
            assert watched.devices() is before
            server.upgrade("v1")
            wait_for(lambda: watched.source().up, 120.0, "the watch of v1")
            assert watched.source().message == "watched as resource.k8s.io/v1"
            assert watched.devices() is before
        client.close()


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2", "v1"])
def test_each_version_of_a_claim_says_the_same(every_version: Client, version: str) -> None:
    held = ClaimDevice("claim", "default", "gpu.nvidia.com", "node-a", "gpu-0")
    changes = threading.Event()
    with older_server(every_version, version) as server:
        client = Client(server.endpoint(), timeout=60.0)
        details = ClaimDetails(client, changes.set, NVIDIAS)
        details.start()
        try:
            details.want([ContainerDevices("default", "train-0", "main", (held,))])
            assert changes.wait(60.0), details.source()
            (found,) = details.details().items()
        finally:
            details.stop()
            client.close()
    where: dict[str, Any] = {"driver": "gpu.nvidia.com", "pool": "node-a"}
    gpu = ResultDetail(**where, device="gpu-0", request="main", device_class="gpu.nvidia.com")
    part = ResultDetail(
        **where,
        device="gpu-0-mig-1g10gb-19-3",
        request="any/small",
        device_class="mig.nvidia.com",
    )
    assert found == (
        ClaimKey("default", "claim", ""),
        ClaimDetail(uid=found[1].uid, results=(gpu, part), pods=(("train-0", "pod-uid"),)),
    )
    assert found[1].uid
