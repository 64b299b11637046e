"""From a pod that the real scheduler placed to the hardware it holds, over every real door.

The slices come by the watch, the holds by gRPC from a kubelet that gets what the API server
says, the claim by its name. Only NVML's part is given as a value.
"""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from exporter.agent.join.claim_details import ClaimDetails
from exporter.agent.join.claims import Holders, Known, join
from exporter.agent.join.pods import Pods
from exporter.agent.join.published import PublishedDevices
from exporter.model.device import NVIDIAS
from exporter.model.hardware import Hardware, LiveGpu, LiveSlice
from exporter.sensor.kubelet.podresources import PodResources
from simulator.cluster.workloads import claim_template, gpu_request, mig_request, pod, pod_spec
from simulator.kubelet import Kubelet
from tests.exporter.running import wait_for
from tests.lab.cluster import Cluster

GPU_UUID = "GPU-2fa81118-5a5f-aa66-7660-471eed407181"
PARTITIONS = [
    {
        "name": f"gpu-0-mig-1g10gb-19-{start}",
        "attributes": {
            "type": {"string": "mig"},
            "parentUUID": {"string": GPU_UUID},
            "profile": {"string": "1g.10gb"},
        },
        "capacity": {"memory": {"value": "10Gi"}},
    }
    for start in (0, 1)
]
WHOLE = {
    "name": "gpu-1",
    "attributes": {"type": {"string": "gpu"}, "uuid": {"string": "GPU-1"}},
    "capacity": {"memory": {"value": "80Gi"}},
}
SLICE = {
    "spec": {
        "driver": "gpu.nvidia.com",
        "nodeName": "node-a",
        "pool": {"name": "node-a", "generation": 1, "resourceSliceCount": 1},
        "devices": [*PARTITIONS, WHOLE],
    }
}


def as_listed(pod: dict[str, Any]) -> dict[str, Any]:
    """Show all of a claim's devices with each container that uses any of them, as kubelets do.

    Seen in GetDynamicResources of pkg/kubelet/cm/container_manager_linux.go: it does not look at
    requests, and repeats the CDI ids of the devices before.
    """
    whole: dict[str, list[dict[str, Any]]] = {}
    for container in pod["containers"]:
        for claim in container["dynamic_resources"]:
            known = whole.setdefault(claim["claim_name"], [])
            known += [resource for resource in claim["claim_resources"] if resource not in known]
    for container in pod["containers"]:
        for claim in container["dynamic_resources"]:
            devices = whole[claim["claim_name"]]
            cdi = [cdi_device for device in devices for cdi_device in device["cdi_devices"]]
            claim["claim_resources"] = [device | {"cdi_devices": cdi} for device in devices]
    return pod


class Node:
    """Everything that the exporter hears on a node."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self._cluster = cluster
        self.kubelet = Kubelet(folder / "k.sock")
        self.resources = PodResources(self.kubelet.socket, deadline=60.0)
        self.published = PublishedDevices(cluster.client, "node-a", lambda: None, NVIDIAS)
        self.details = ClaimDetails(cluster.client, lambda: None, NVIDIAS)
        self.pods = Pods(cluster.client, "node-a", lambda: None)
        self.hardware = Hardware()

    def start(self) -> None:
        self.kubelet.start()
        for part in (self.published, self.details, self.pods):
            part.start()

    def stop(self) -> None:
        for part in (self.published, self.details, self.pods, self.kubelet):
            part.stop()

    def holders(self) -> Holders:
        self.kubelet.set_pods(map(as_listed, self._cluster.player.pods_of("node-a")))
        containers = self.resources.list()
        self.details.want(containers)
        known = Known(
            published=self.published.devices(),
            hardware=self.hardware,
            details=self.details.details(),
            pods=self.pods.facts(),
        )
        return join(containers, known=known)


@pytest.fixture
def node(cluster: Cluster) -> Iterator[Node]:
    """One GPU in dynamic MIG mode and a whole one."""
    cluster.player.add_node("node-a")
    cluster.player.publish("node-a", [SLICE])
    with TemporaryDirectory(prefix="dg-") as folder:
        made = Node(cluster, Path(folder))
        made.start()
        yield made
        made.stop()


def test_a_pod_on_a_partition_of_dynamic_mig_holds_the_instance_made_for_it(
    cluster: Cluster, node: Node
) -> None:
    template = claim_template("part", mig_request("1g.10gb"))
    cluster.add("resource.k8s.io/v1", "resourceclaimtemplates", template)
    cluster.add("v1", "pods", pod("train-0", pod_spec(template="part")))
    ((reason, name),) = wait_for(
        lambda: [miss for miss in node.holders().misses if miss[0] == "not_live"], what="the hold"
    )
    start = int(name[-1])
    parts = tuple(
        LiveSlice(uuid=f"MIG-{n}", gi=7 + n, ci=0, gi_profile_id=19, placement_start=n)
        for n in (0, 1)
    )
    node.hardware = Hardware((LiveGpu(uuid=GPU_UUID, number=0, slices=parts),))
    wait_for(lambda: node.details.details() and node.pods.facts(), what="claim and pod")
    found = node.holders()
    assert (reason, found.misses, list(found.by_uuid)) == ("not_live", (), [f"MIG-{start}"])
    (holder,) = found.owners(f"MIG-{start}")
    (stored,) = cluster.pods()
    assert (holder.pod, holder.pod_uid) == ("train-0", stored["metadata"]["uid"])
    assert (holder.request, holder.device_class) == ("mig", "mig.nvidia.com")
    assert (holder.profile, holder.declared_memory) == ("1g.10gb", 10 << 30)


def test_containers_that_split_a_claim_hold_their_own_request_each(
    cluster: Cluster, node: Node
) -> None:
    template = claim_template("both", gpu_request("big"), mig_request("1g.10gb", "small"))
    cluster.add("resource.k8s.io/v1", "resourceclaimtemplates", template)
    spec = pod_spec(template="both")
    (main,) = spec["containers"]
    main["resources"]["claims"] = [{"name": "devices", "request": "big"}]
    side = main | {"name": "side"}
    side["resources"] = {"claims": [{"name": "devices", "request": "small"}]}
    spec["containers"] = [main, side]
    cluster.add("v1", "pods", pod("train-0", spec))
    wait_for(lambda: node.holders().by_uuid and node.details.details(), what="the hold")
    wait_for(lambda: any(fact.requests for fact in node.pods.facts().values()), what="the pod")
    found = node.holders()
    assert [holder.container for holder in found.by_uuid["GPU-1"]] == ["main"]
    assert [reason for reason, _ in found.misses] == ["not_live"]
