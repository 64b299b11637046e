"""Who holds what, by a running exporter between a real API server and a kubelet."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from kubeapi.client import Conflict
from simulator import holdings
from simulator.cluster import publisher, workloads
from simulator.gpu import Instance
from simulator.node import SimulatedNode
from simulator.slices import COMPUTE_DOMAIN_DRIVER, Publishing, compute_domain_slices
from tests.exporter.live.stage import (
    NVML_UP,
    connection,
    exporter_of,
    labels_of,
    samples,
    simulated,
)
from tests.exporter.running import Exporter, wait_for
from tests.lab.cluster import SLICES, Cluster

MEMORY, HELD = "DCGM_FI_DEV_FB_USED", "draguard_device_allocation_info"
MIG, VFIO = 2, 3
DYNAMIC = Publishing(dynamic_mig=True, vfio=frozenset({VFIO}))
SLICES_UP = 'draguard_source_up{source="resourceslices"} 1'
FLAGS = ("--no-report", "--labels=full", "--pod-labels", "--pod-label-allow=^team", "--pod-uid")
Json = dict[str, Any]


class Joined:
    """A node with dynamic MIG in the cluster, its kubelet, and its exporter."""

    def __init__(
        self, cluster: Cluster, node: SimulatedNode, exporter: Exporter, connected: list[str]
    ) -> None:
        self.cluster = cluster
        self.node = node
        self.exporter = exporter
        self.connected = connected
        """Flags that lead an exporter to the cluster."""

    def run(self, name: str, spec: Json, **labels: str) -> None:
        """Let the real scheduler place a pod, and the kubelet show it."""
        body = workloads.pod(name, spec)
        body["metadata"]["labels"] = labels
        self.cluster.add("v1", "pods", body)
        wait_for(lambda: self._is_listed(name), what=f"{name} on the node")

    def _is_listed(self, name: str) -> bool:
        found = self.cluster.player.pods_of(self.node.name)
        self.node.kubelet.set_pods(found)
        return any(
            pod["name"] == name and any(part["dynamic_resources"] for part in pod["containers"])
            for pod in found
        )

    def template(self, name: str, *requests: Json) -> None:
        body = workloads.claim_template(name, *requests)
        self.cluster.add("resource.k8s.io/v1", "resourceclaimtemplates", body)

    def show(self, *pods: Json) -> None:
        """Let the kubelet show pods that nobody scheduled."""
        self.node.kubelet.set_pods(pods)

    def of(self, family: str, **labels: str) -> Json:
        """Wait for the only series of a family with these labels."""
        return wait_for(
            lambda: (
                found[0] if len(found := samples(self.exporter, family, **labels)) == 1 else None
            ),
            what=f"one {family} with {labels}; there are {samples(self.exporter, family)}",
        )


@pytest.fixture
def joined(cluster: Cluster, tmp_path: Path) -> Iterator[Joined]:
    with simulated("4xH100", {MIG: []}) as node:
        cluster.player.add_node(node.name)
        slices = [*node.slices(publishing=DYNAMIC), *compute_domain_slices(node.name)]
        cluster.player.publish(node.name, slices)
        flags = connection(cluster.plane.endpoint(), tmp_path)
        with exporter_of(node, *FLAGS, *flags) as exporter:
            exporter.wait_shows(NVML_UP, SLICES_UP)
            yield Joined(cluster, node, exporter, flags)


def resource(joined: Joined, gpu: int, **fields: Any) -> Json:
    return holdings.resource(f"gpu-{joined.node.gpu(gpu).minor}", joined.node.name, **fields)


def prepared(joined: Joined, pod: str) -> tuple[int, Instance, str]:
    """Make the partition that a pod was given, as the driver does when it prepares the claim."""
    held = joined.cluster.device_of(pod).rpartition("/")[2]
    number, start = int(held.split("-")[1]), int(held.rpartition("-")[2])
    if not joined.node.gpu(number).mig:
        joined.node.set_mig(number, on=True)
    return number, joined.node.create_instance(number, "1g.10gb", start=start), held


def test_a_slice_that_was_made_for_a_claim_bears_its_pod_claim_and_labels(joined: Joined) -> None:
    joined.template("part", workloads.mig_request("1g.10gb"))
    pods = ("infer-0", "infer-1")
    for pod in pods:
        joined.run(pod, workloads.pod_spec(template="part"), team=f"of-{pod}", other="no")
    # The other way round, so that neither order nor number leads from one to the other.
    made = {pod: prepared(joined, pod) for pod in reversed(pods)}
    claims = joined.cluster.items("/apis/resource.k8s.io/v1/resourceclaims")
    uids = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in joined.cluster.pods()}
    for pod, (number, part, held) in made.items():
        row = joined.of(MEMORY, pod=pod, team=f"of-{pod}", dra_device_class="mig.nvidia.com")
        (claim,) = [
            candidate
            for candidate in claims
            if candidate["metadata"]["name"] == row["dra_claim_name"]
        ]
        expected = {
            "UUID": joined.node.gpu(number).uuid,
            "GPU_I_ID": str(part.gi),
            "GPU_I_PROFILE": "1g.10gb",
            "namespace": "default",
            "container": "main",
            "pod_uid": uids[pod],
            "dra_claim_uid": claim["metadata"]["uid"],
            "dra_request_name": "mig",
            "dra_device_name": held,
            "dra_mig_profile": "1g.10gb",
            "dra_mig_device_uuid": part.uuid,
        }
        assert expected.items() <= row.items()
        assert claim["status"]["reservedFor"][0]["name"] == pod
        assert "other" not in row
    joined.show()
    for pod, (number, part, _) in made.items():
        again = joined.node.recreate_instance(number, part.gi)
        wait_for(lambda pod=pod: not samples(joined.exporter, MEMORY, pod=pod), what="its end")
        joined.of("draguard_mig_slice_info", dra_mig_device_uuid=again.uuid)
    assert not labels_of(joined.exporter, HELD)


def test_pods_that_share_a_claim_have_a_row_each_and_the_device_one_series(joined: Joined) -> None:
    body = workloads.claim("shared", workloads.gpu_request())
    joined.cluster.add("resource.k8s.io/v1", "resourceclaims", body)
    for name in ("a", "b"):
        joined.run(name, workloads.pod_spec(shared_claim="shared"))
    wait_for(lambda: len(samples(joined.exporter, HELD, dra_claim_name="shared")) == 2)
    pods = [labels["pod"] for labels in samples(joined.exporter, HELD, dra_claim_name="shared")]
    row = joined.of(MEMORY, dra_claim_name="shared")
    assert sorted(pods) == ["a", "b"]
    assert "pod" not in row
    assert row["namespace"] == "default"


def test_two_claims_in_one_container_are_two_devices_of_it(joined: Joined) -> None:
    for name in ("first", "second"):
        joined.template(name, workloads.gpu_request())
    spec = workloads.pod_spec(template="first")
    spec["resourceClaims"].append({"name": "more", "resourceClaimTemplateName": "second"})
    spec["containers"][0]["resources"]["claims"].append({"name": "more"})
    joined.run("both", spec)
    wait_for(lambda: len(samples(joined.exporter, MEMORY, pod="both")) == 2)
    rows = samples(joined.exporter, MEMORY, pod="both", container="main")
    assert len({row["UUID"] for row in rows}) == 2
    assert len({row["dra_claim_name"] for row in rows}) == 2


def test_who_only_looks_on_owns_no_series(joined: Joined) -> None:
    # With shared counters, all devices of the node are never free at once.
    cluster, node = joined.cluster, joined.node
    cluster.player.publish(node.name, node.slices(), new_generation=True)
    labels = {"resource.kubernetes.io/admin-access": "true"}
    body = {"metadata": {"name": "watchers", "labels": labels}}
    with suppress(Conflict):
        joined.cluster.client.create("/api/v1/namespaces", body)
    joined.template("own", workloads.gpu_request())
    joined.run("train", workloads.pod_spec(template="own"))
    owned = joined.of(MEMORY, pod="train")["dra_device_name"]
    joined.cluster.namespace = "watchers"
    looks_on = {"adminAccess": True, "allocationMode": "All"}
    request = {"deviceClassName": workloads.GPU_CLASS, **looks_on}
    joined.template("all", {"name": "all", "exactly": request})
    joined.run("monitor", workloads.pod_spec(template="all"))
    wait_for(lambda: samples(joined.exporter, HELD, pod="monitor", admin="true"))
    assert not samples(joined.exporter, MEMORY, pod="monitor")
    assert joined.of(MEMORY, pod="train")["dra_device_name"] == owned
    assert joined.of(HELD, pod="train")["admin"] == "false"


def test_what_nvml_does_not_show_has_a_row_and_no_series(joined: Joined) -> None:
    """A GPU that was given to a virtual machine, and a device of another driver."""
    (vfio,) = [
        device
        for part in joined.node.slices(publishing=DYNAMIC)
        for device in part["spec"].get("devices", [])
        if device["attributes"]["type"]["string"] == "vfio"
    ]
    joined.node.unbind(VFIO)
    name = joined.node.name
    joined.show(
        holdings.pod(
            "machine",
            holdings.container(
                claims=[holdings.claim("passed", holdings.resource(vfio["name"], name))]
            ),
        ),
        holdings.pod(
            "domain",
            holdings.container(
                claims=[
                    holdings.claim(
                        "imex",
                        holdings.resource("channel-0", name, driver=COMPUTE_DOMAIN_DRIVER),
                    )
                ]
            ),
        ),
    )
    machine = joined.of(HELD, pod="machine")
    assert machine["dra_device_name"] == vfio["name"]
    other = joined.of(HELD, pod="domain")
    assert (other["dra_driver_name"], other["dra_device_name"]) == (
        COMPUTE_DOMAIN_DRIVER,
        "channel-0",
    )
    assert "UUID" not in other
    assert not samples(joined.exporter, MEMORY, pod="machine")
    assert not samples(joined.exporter, MEMORY, pod="domain")
    assert not samples(joined.exporter, "draguard_gpu_missing")
    assert not samples(joined.exporter, "draguard_gpu_other_driver")


def test_shares_of_one_device_are_distinguished_by_their_share(joined: Joined) -> None:
    joined.show(
        *(
            holdings.pod(
                f"share-{name}",
                holdings.container(
                    claims=[holdings.claim(f"c-{name}", resource(joined, 0, share=name))]
                ),
            )
            for name in ("one", "two")
        )
    )
    for name in ("one", "two"):
        assert joined.of(HELD, dra_share_id=name)["pod"] == f"share-{name}"
    (row,) = samples(joined.exporter, MEMORY, UUID=joined.node.gpu(0).uuid)
    assert row["dra_device_name"] == "gpu-0"
    assert not {"pod", "dra_share_id", "dra_claim_name"} & row.keys()


def test_a_pool_in_the_middle_of_an_update_keeps_its_labels(joined: Joined) -> None:
    name, uuid = joined.node.name, joined.node.gpu(0).uuid
    joined.show(holdings.pod("train", _container(resource(joined, 0))))
    joined.of(MEMORY, UUID=uuid, pod="train")
    stored = [
        part
        for part in publisher.published(joined.cluster.client, name)
        if part["spec"]["driver"] == workloads.DRIVER
    ]
    for number, part in enumerate(stored):
        part["spec"]["pool"]["generation"] += 1
        path = f"{SLICES}/{part['metadata']['name']}"
        joined.cluster.client.replace(path, part)
        if number == len(stored) // 2:
            joined.node.set_value(0, "temperature_c", 77)
            joined.of("DCGM_FI_DEV_GPU_TEMP", UUID=uuid, pod="train")
            wait_for(lambda: 77.0 in joined.exporter.series("DCGM_FI_DEV_GPU_TEMP").values())
            assert samples(joined.exporter, MEMORY, UUID=uuid, pod="train")
    joined.show(holdings.pod("next", _container(resource(joined, 1))))
    assert joined.of(MEMORY, pod="next")["UUID"] == joined.node.gpu(1).uuid
    assert not samples(joined.exporter, MEMORY, pod="train")


def test_labels_stay_while_pods_run_and_the_driver_publishes_nothing(joined: Joined) -> None:
    """After the end of a driver the kubelet deletes its slices, and names its devices as before."""
    node, client = joined.node, joined.cluster.client
    node.set_mig(MIG, on=True)
    part = node.create_instance(MIG, "1g.10gb", start=3)
    (parted,) = (
        found["name"]
        for slice_ in node.slices(publishing=DYNAMIC)
        for found in slice_["spec"].get("devices", [])
        if found["name"].startswith(f"gpu-{node.gpu(MIG).minor}-mig-1g10gb-19-3")
    )
    joined.show(
        holdings.pod("lost", _container(resource(joined, 0))),
        holdings.pod("sound", _container(resource(joined, 1))),
        holdings.pod("part", _container(holdings.resource(parted, node.name))),
    )
    uuids = {"lost": node.gpu(0).uuid, "sound": node.gpu(1).uuid, "part": node.gpu(MIG).uuid}

    def held() -> dict[str, str]:
        return {row["pod"]: row["UUID"] for row in samples(joined.exporter, HELD)}

    wait_for(lambda: held() == uuids, what="every pod on its device")
    for slice_ in publisher.published(client, node.name):
        publisher.withdraw(client, slice_["metadata"]["name"])
    joined.exporter.wait_shows('draguard_gpus_expected{source="resourceslices"} 0')
    assert held() == uuids
    assert joined.of(MEMORY, pod="sound")["UUID"] == uuids["sound"]

    node.lose(0)
    joined.exporter.wait_shows('reason="GpuIsLost"')
    assert held() == uuids

    again = node.recreate_instance(MIG, part.gi)
    joined.of("draguard_mig_slice_info", dra_mig_device_uuid=again.uuid)
    wait_for(lambda: held() == {pod: uuids[pod] for pod in ("lost", "sound")}, what="its end")
    joined.exporter.wait_shows('draguard_join_misses{reason="not_published"} 1')

    joined.exporter.stop()
    with exporter_of(node, *FLAGS, *joined.connected) as restarted:
        restarted.wait_shows(SLICES_UP, 'draguard_join_misses{reason="not_published"} 3')
        assert not samples(restarted, HELD)


def _container(*resources: Json) -> Json:
    return holdings.container(claims=[holdings.claim("c", *resources)])


@pytest.mark.parametrize("sliced", [False, True], ids=["gpu", "slice"])
def test_ids_of_device_plugins_lead_to_their_device_in_every_grammar(*, sliced: bool) -> None:
    with simulated("2xH100", {1: ["1g.10gb"] * 3}) as node, exporter_of(node) as exporter:
        exporter.wait_shows(NVML_UP, MEMORY)
        part = node.gpu(1).instances[1] if sliced else None
        gpu = node.gpu(1 if sliced else 0)
        for number, (grammar, found) in enumerate(
            holdings.plugin_ids(gpu, part, replica=7).items()
        ):
            pod = f"{number}-by-{''.join(c if c.isalnum() else '-' for c in grammar)}"
            plugin = holdings.plugin("nvidia.com/gpu", found)
            node.kubelet.set_pods([holdings.pod(pod, holdings.container(plugins=[plugin]))])
            (row,) = wait_for(lambda pod=pod: samples(exporter, MEMORY, pod=pod), what=found)
            assert row["UUID"] == gpu.uuid
            assert row.get("GPU_I_ID") == (str(part.gi) if part else None)
            shared = "replica" in grammar or "shared" in grammar
            assert row.get("vgpu") == ("7" if shared else None)


def test_metrics_alone_need_no_api_server_and_say_what_is_missing(node: SimulatedNode) -> None:
    with exporter_of(node) as exporter:
        plugin = holdings.plugin("nvidia.com/gpu", node.gpu(0).uuid)
        node.kubelet.set_pods([holdings.pod("train", holdings.container(plugins=[plugin]))])
        exporter.wait_shows(NVML_UP, 'pod="train"')
        sources = {labels["source"] for labels in labels_of(exporter, "draguard_source_up")}
        assert sources == {"nvml", "kmsg", "podresources", "processes"}
        assert exporter.get("/readyz")[0] == 200
        exporter.wait_logged("metrics only, without names from DRA and without reports")


def test_a_token_that_is_refused_costs_the_names_of_dra_alone(
    cluster: Cluster, node: SimulatedNode, tmp_path: Path
) -> None:
    where = connection(cluster.plane.endpoint(), tmp_path)
    (tmp_path / "token").write_text("nobody-knows-this", encoding="ascii")
    with exporter_of(node, *where) as exporter:
        exporter.wait_shows(NVML_UP, 'draguard_source_up{source="resourceslices",reason=')
        plugin = holdings.plugin("nvidia.com/gpu", node.gpu(0).uuid)
        node.kubelet.set_pods([holdings.pod("train", holdings.container(plugins=[plugin]))])
        wait_for(lambda: samples(exporter, MEMORY, pod="train"), what="the kubelet's pod")

        def refused() -> set[str]:
            rows = samples(exporter, "draguard_source_up", reason="Unauthorized")
            return {labels["source"] for labels in rows}

        wait_for(lambda: refused() == {"resourceslices", "report"}, what="both refusals")
        assert exporter.get("/readyz")[0] == 200
