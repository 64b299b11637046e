"""The node's report on a real API server: written, adopted, and never in the way of the metrics."""

import contextlib
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest

from exporter.agent.report.stored_report import COLLECTION
from exporter.model.node_health import NodeDeviceHealth, NodeHealth
from kubeapi.client import ApiError, Client, Conflict, NotFound
from kubeapi.endpoint import Endpoint
from simulator.cluster import publisher
from simulator.cluster.controlplane import ControlPlane
from simulator.node import SimulatedNode
from tests.exporter.running import Exporter, wait_for

CRDS = Path(__file__).parents[4] / "deploy" / "crds"
NAMESPACE = "draguard-system"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"


def install(plane: ControlPlane, client: Client) -> None:
    plane.kubectl("apply", "-f", str(CRDS))
    plane.await_established()
    with contextlib.suppress(Conflict):
        client.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})


@pytest.fixture
def plane(control_plane: ControlPlane, client: Client) -> Iterator[ControlPlane]:
    """The shared control plane with our CRDs, and no report of the test's node."""
    install(control_plane, client)
    yield control_plane
    for path in (f"{COLLECTION}/node-a", f"{LEASES}/draguard-agent-node-a"):
        with contextlib.suppress(NotFound):
            client.delete(path)


def flags(endpoint: Endpoint, node: SimulatedNode) -> list[str]:
    token = node.root / "token"
    token.write_text(endpoint.token or "", encoding="ascii")
    return [
        f"--kube-server={endpoint.server}",
        f"--kube-token-file={token}",
        *([f"--kube-ca-file={endpoint.ca_file}"] if endpoint.ca_file else []),
    ]


@pytest.fixture
def exporter(plane: ControlPlane, node: SimulatedNode) -> Iterator[Exporter]:
    with Exporter(node, "run", *flags(plane.endpoint(), node)) as running:
        running.wait_shows('draguard_source_up{source="nvml"} 1', "draguard_report_up 1")
        yield running


def report(client: Client) -> NodeHealth:
    """Return the node's report; an empty one while there is none."""
    try:
        body = client.get(f"{COLLECTION}/node-a")
    except NotFound:
        return NodeHealth()
    return msgspec.json.decode(body, type=NodeDeviceHealth).status


def counted(client: Client) -> dict[tuple[int, int | None], int]:
    return {
        (record.code, record.gi): record.count for gpu in report(client).gpus for record in gpu.xids
    }


def of_switches(client: Client) -> dict[int, int]:
    return {
        record.code: record.count for switch in report(client).switches for record in switch.sxids
    }


def all_present(client: Client) -> NodeHealth | None:
    found = report(client)
    return found if found.summary.present == 3 else None


def all_up(client: Client) -> NodeHealth | None:
    """Return the report of all GPUs once every source has spoken: the kubelet may be the last."""
    found = all_present(client)
    up = {source.name for source in found.sources if source.up} if found else set[str]()
    return found if up == {"nvml", "kmsg", "podresources"} else None


def test_the_report_names_every_gpu_and_slice_and_reads_well(
    client: Client, plane: ControlPlane, node: SimulatedNode, exporter: Exporter
) -> None:
    found = wait_for(lambda: all_up(client))
    assert found.boot_id == node.boot_id
    assert found.driver_version == node.scenario.load().driver
    assert {gpu.uuid for gpu in found.gpus} == {node.gpu(n).uuid for n in range(3)}
    sliced = next(gpu for gpu in found.gpus if gpu.mig)
    assert {part.uuid for part in sliced.instances} == {part.uuid for part in node.gpu(2).instances}
    assert all(part.gi_profile_id == 19 for part in sliced.instances)
    assert all(gpu.recovery_action.value == 0 for gpu in found.gpus)
    row = plane.kubectl("get", "ndh", "node-a", "--no-headers").split()
    assert row[:3] == ["node-a", "3", "3"]


def test_an_error_is_reported_and_then_the_recovery_action_read_after_it(
    client: Client, node: SimulatedNode, exporter: Exporter
) -> None:
    wait_for(lambda: all_present(client))
    node.inject_xid(0, 95)
    node.set_recovery_action(0, 1)

    def evidence() -> bool:
        gpu = next(health for health in report(client).gpus if health.uuid == node.gpu(0).uuid)
        times = [record.last_seen for record in gpu.xids if record.code == 95]
        action = gpu.recovery_action
        return (
            bool(times)
            and action.value == 1
            and action.observed_at is not None
            and action.observed_at >= max(times)
        )

    wait_for(evidence)
    assert "XID 95" in report(client).summary.attention


@pytest.mark.parametrize("sensor_lives", [True, False], ids=["agent alone", "with its sensor"])
def test_an_agent_that_is_killed_goes_on_from_its_own_report(
    client: Client, plane: ControlPlane, node: SimulatedNode, *, sensor_lives: bool
) -> None:
    part = node.gpu(2).instances[0]
    to_cluster = flags(plane.endpoint(), node)
    role = "agent" if sensor_lives else "run"
    sensor = Exporter(node, "sensor") if sensor_lives else contextlib.nullcontext()
    with sensor:
        with Exporter(node, role, *to_cluster) as first:
            first.wait_shows('draguard_source_up{source="nvml"} 1', "draguard_report_up 1")
            node.inject_xid(2, 94, gi=part.gi, ci=part.ci, nvml_delay=0.2)
            node.inject_xid(0, 43, nvml=False)
            node.inject_xid(0, 43, nvml=False)
            node.kernel_log.write_all([_SXID])
            wait_for(lambda: counted(client) == {(94, part.gi): 1, (43, None): 2})
            wait_for(lambda: of_switches(client) == {20034: 1})
            first.kill()
        node.kernel_log.write_all([_SXID])
        node.inject_xid(0, 43, nvml=False)
        node.inject_xid(1, 79, nvml=False)
        with Exporter(node, role, *to_cluster) as second:
            wait_for(
                lambda: counted(client) == {(94, part.gi): 1, (43, None): 3, (79, None): 1},
                what="the counts to go on",
            )
            second.wait_shows('draguard_source_up{source="nvml"} 1')
            assert counted(client) == {(94, part.gi): 1, (43, None): 3, (79, None): 1}
            assert of_switches(client) == {20034: 2}
            second.wait_count(43, 3)


_SXID = "nvidia-nvswitch0: SXid (PCI:0000:c2:00.0): 20034, Fatal, Link 28 LTSSM Fault Up"


def test_what_the_log_says_of_the_recovery_action_is_reported_beside_the_reading(
    client: Client, node: SimulatedNode, exporter: Exporter
) -> None:
    line = f"NVRM: Xid (PCI:{node.gpu(0).pci[:-2]}): 154, GPU recovery action changed from "
    node.kernel_log.write_all([line + "0x0 (None) to 0x1 (GPU Reset Required)"])

    def logged() -> set[tuple[str, int | None]]:
        return {(gpu.uuid, gpu.recovery_action.logged) for gpu in report(client).gpus}

    wait_for(lambda: (node.gpu(0).uuid, 1) in logged())
    assert {value for uuid, value in logged() if uuid != node.gpu(0).uuid} == {None}


def test_claims_are_joined_with_what_the_driver_publishes(
    client: Client, plane: ControlPlane, node: SimulatedNode, exporter: Exporter
) -> None:
    slices = node.slices()
    publisher.publish(client, "node-a", slices)
    devices = {
        device["attributes"]["uuid"]["string"]: device["name"]
        for body in slices
        for device in body["spec"].get("devices", [])
    }
    part = node.gpu(2).instances[1]
    holding = [devices[node.gpu(0).uuid], devices[part.uuid]]
    node.kubelet.set_pods([_pod(holding)])
    page = exporter.wait_shows(
        f'dra_mig_device_uuid="{part.uuid}"', f'dra_device_name="{holding[0]}"'
    )
    (used,) = [
        labels for labels in page.series("DCGM_FI_DEV_FB_USED") if f'GPU_I_ID="{part.gi}"' in labels
    ]
    holder = {"pod": "train-0", "namespace": "team", "container": "main"}
    for name, value in {**holder, "dra_claim_name": "claim-0"}.items():
        assert f'{name}="{value}"' in used
    assert f'UUID="{node.gpu(2).uuid}"' in used
    assert page.shows('draguard_source_up{source="resourceslices"} 1')
    node.kubelet.set_pods([_pod(["gpu-77"])])
    exporter.wait_shows('draguard_join_misses{reason="not_published"} 1')
    publisher.withdraw(client, "node-a")


def _pod(devices: list[str]) -> dict[str, Any]:
    resources = [
        {"driver_name": "gpu.nvidia.com", "pool_name": "node-a", "device_name": device}
        for device in devices
    ]
    claim = {"claim_name": "claim-0", "claim_namespace": "team", "claim_resources": resources}
    container = {"name": "main", "dynamic_resources": [claim]}
    return {"name": "train-0", "namespace": "team", "containers": [container]}


def test_a_healthy_node_is_quiet_and_a_storm_is_two_writes_a_second_at_most(
    client: Client, node: SimulatedNode, exporter: Exporter
) -> None:
    wait_for(lambda: all_present(client))
    versions: list[str] = []

    def write() -> None:
        raw = msgspec.json.decode(client.get(f"{COLLECTION}/node-a"))
        version = str(raw["metadata"]["resourceVersion"])
        if version not in versions:
            versions.append(version)

    def quiet() -> bool:
        versions.clear()
        write()
        end = time.monotonic() + 2
        while time.monotonic() < end:
            write()
            time.sleep(0.05)
        return len(versions) == 1

    wait_for(quiet)
    last = "Graphics Exception: channel 0xa"
    line = f"NVRM: Xid (PCI:{node.gpu(0).pci[:-2]}): 13, pid=7, name=a, {last}"
    begun = time.monotonic()
    for _ in range(20):
        node.kernel_log.write_all([line] * 50)
        write()
    wait_for(lambda: write() or counted(client) == {(13, None): 1000})
    assert len(versions) - 1 <= 2 * (time.monotonic() - begun) + 2


def test_the_lease_says_that_the_agent_is_alive(client: Client, exporter: Exporter) -> None:
    def holder() -> str:
        try:
            raw = client.get(f"{LEASES}/draguard-agent-node-a")
        except NotFound:
            return ""
        return str(msgspec.json.decode(raw)["spec"]["holderIdentity"])

    assert wait_for(holder) == "node-a"


def test_a_report_that_somebody_deleted_is_written_again_with_the_next_change(
    client: Client, node: SimulatedNode, exporter: Exporter
) -> None:
    wait_for(lambda: all_present(client))
    client.delete(f"{COLLECTION}/node-a")
    node.inject_xid(1, 79)
    wait_for(lambda: counted(client) == {(79, None): 1})


def test_without_the_crd_there_are_metrics_and_a_sentence_and_later_a_report(
    client: Client, plane: ControlPlane, node: SimulatedNode
) -> None:
    plane.kubectl("delete", "crd", "nodedevicehealths.draguard.dev")
    try:
        with Exporter(
            node, "run", "--report-interval=1", *flags(plane.endpoint(), node)
        ) as running:
            running.wait_shows(
                'draguard_source_up{source="nvml"} 1',
                "draguard_report_up 0",
                'draguard_report_failures_total{status="404"}',
            )
            running.wait_logged("apply deploy/manifests/crds.yaml")
            assert running.get("/readyz")[0] == 200
            node.inject_xid(0, 79)
            running.wait_count(79, 1)
            assert not _leased(client), "alive is said of an agent whose reports are accepted"
            install(plane, client)
            wait_for(lambda: counted(client) == {(79, None): 1})
            wait_for(lambda: _leased(client))
    finally:
        install(plane, client)


def test_an_apiserver_that_hangs_delays_the_report_and_nothing_else(
    control_plane_built: None, node: SimulatedNode
) -> None:
    with ControlPlane() as own:
        client = Client(own.endpoint(), timeout=60.0)
        install(own, client)
        to_cluster = flags(own.endpoint(), node)
        with Exporter(node, "run", *to_cluster) as running:
            running.wait_shows("draguard_report_up 1")
            own.apiserver.pause()
            node.inject_xid(0, 79, nvml=False)
            running.wait_count(79, 1)
            running.wait_shows('draguard_report_failures_total{status="unreachable"}')
            node.inject_xid(1, 43, nvml=False)
            running.wait_count(43, 1)
            own.apiserver.resume()
            wait_for(lambda: _counted_when_up(client) == {(79, None): 1, (43, None): 1}, 120)
            running.wait_shows("draguard_report_up 1")
        own.apiserver.pause()
        with Exporter(node, "run", *to_cluster) as again:
            # It counts before it can read its own report, and once only after.
            node.inject_xid(1, 43, nvml=False)
            again.wait_count(43, 2)
            own.apiserver.resume()
            wait_for(lambda: _counted_when_up(client) == {(79, None): 1, (43, None): 2}, 120)
            again.wait_shows("draguard_report_up 1")
            node.inject_xid(1, 43, nvml=False)
            wait_for(lambda: _counted_when_up(client) == {(79, None): 1, (43, None): 3})
            assert again.count(79) == 1
        client.close()


def _leased(client: Client) -> bool:
    try:
        client.get(f"{LEASES}/draguard-agent-node-a")
    except NotFound:
        return False
    return True


def _counted_when_up(client: Client) -> dict[tuple[int, int | None], int]:
    try:
        return counted(client)
    except ApiError:
        return {}


class _Broken(BaseHTTPRequestHandler):
    """Answers 500 to everything."""

    def _refuse(self) -> None:
        self.send_response(500)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_POST = do_PUT = do_PATCH = _refuse  # noqa: N815 - names that the base class looks up

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        del format, args


@pytest.fixture
def broken() -> Iterator[Endpoint]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Broken) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield Endpoint(server=f"http://127.0.0.1:{server.server_port}", token="x")
        server.shutdown()
        thread.join()


def test_an_apiserver_that_answers_500_costs_the_report_only(
    node: SimulatedNode, broken: Endpoint
) -> None:
    with Exporter(node, "run", *flags(broken, node)) as running:
        running.wait_shows(
            'draguard_source_up{source="nvml"} 1',
            'draguard_report_failures_total{status="500"}',
            'draguard_source_up{source="resourceslices",reason="Unreachable"} 0',
        )
        node.inject_xid(0, 79)
        running.wait_count(79, 1)
        assert running.get("/readyz")[0] == 200
