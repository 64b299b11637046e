"""What the shipped roles allow, by the real API server under a ServiceAccount's own token."""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from kubeapi.client import ApiError, Client
from kubeapi.endpoint import Endpoint
from kubeapi.lease import leases
from simulator.cluster import workloads
from simulator.cluster.controlplane import ControlPlane
from tests.chain.proxy import Proxy
from tests.chain.scene import INCIDENTS, LEASES, REPORTS, Remediator, Scene, fresh
from tests.chain.test_taint_and_move import now, off_the_bus, with_xids
from tests.lab.cluster import CLASSES, NODES, RULES, SLICES, Cluster, await_true
from tests.remediator.builders import gpu

RBAC = Path(__file__).parents[2] / "deploy" / "manifests"
ACCOUNT = "draguard-remediator"
CLAIMS = "/apis/resource.k8s.io/v1/resourceclaims"
EVENTS = "/apis/events.k8s.io/v1/namespaces/kube-system/events"
PODS = "/api/v1/pods"
POD = "/api/v1/namespaces/default/pods/none"
NAMESPACE = f"/api/v1/namespaces/{LEASES}"
OF_OURS = f"metadata.name={LEASES}"
FORBIDDEN = 403


@pytest.fixture(scope="module")
def account(crds: None, control_plane: ControlPlane, client: Client) -> Iterator[Endpoint]:
    """The remediator's identity, with the base role and nothing more."""
    control_plane.kubectl("apply", "-f", str(RBAC / "remediator-rights.yaml"))
    token = control_plane.kubectl("create", "token", ACCOUNT, "-n", LEASES).strip()
    admin = control_plane.endpoint()
    one = Endpoint(server=admin.server, token=token, ca_file=admin.ca_file)
    asker = Client(one, timeout=60.0)
    for path in (INCIDENTS, leases(LEASES)):
        await_true("the role counts", lambda at=path: refusal(asker, "GET", at) != FORBIDDEN)
    asker.close()
    yield one
    control_plane.kubectl("delete", "-f", str(RBAC / "remediator-rights.yaml"))


@pytest.fixture
def node_conditions(account: Endpoint, control_plane: ControlPlane) -> Iterator[None]:
    """The opt-in role, beside the base one."""
    control_plane.kubectl("apply", "-f", str(RBAC / "node-conditions.yaml"))
    yield
    control_plane.kubectl("delete", "-f", str(RBAC / "node-conditions.yaml"))


@pytest.fixture
def remediator(account: Endpoint) -> Iterator[Client]:
    one = Client(account, timeout=60.0)
    yield one
    one.close()


def refusal(client: Client, method: str, path: str) -> int | None:
    """Return the status with which a request is refused, None when it is not.

    The right is looked at before the object: what may be done to a thing that
    is not there, or with a body that is nonsense, is answered by another status.
    """
    try:
        match method:
            case "GET":
                client.get(path.partition("?")[0], _params(path))
            case "POST":
                client.create(path, {})
            case "PUT":
                client.replace(path, {})
            case "PATCH":
                client.merge_patch(path, {})
            case "DELETE":
                client.delete(path)
            case _:
                with client.stream(
                    path.partition("?")[0],
                    {"watch": "1", "timeoutSeconds": "1", **_params(path)},
                    idle_timeout=60,
                ):
                    pass
    except ApiError as error:
        return error.status
    return None


def _params(path: str) -> dict[str, str]:
    query = path.partition("?")[2]
    return dict([query.split("=", 1)]) if query else {}


USED = [
    ("GET", REPORTS),
    ("WATCH", REPORTS),
    ("GET", INCIDENTS),
    ("WATCH", INCIDENTS),
    ("POST", INCIDENTS),
    ("PATCH", f"{INCIDENTS}/none/status"),
    ("DELETE", f"{INCIDENTS}/none"),
    ("GET", RULES),
    ("GET", f"{RULES}/none"),
    ("WATCH", RULES),
    ("POST", RULES),
    ("PATCH", f"{RULES}/none"),
    ("DELETE", f"{RULES}/none"),
    ("GET", SLICES),
    ("WATCH", SLICES),
    ("GET", CLAIMS),
    ("WATCH", CLAIMS),
    ("GET", f"{CLAIMS.replace('/resourceclaims', '/namespaces/default/resourceclaims')}/none"),
    ("GET", f"{PODS}?fieldSelector=spec.nodeName=node-a"),
    ("POST", f"{POD}/eviction"),
    ("GET", NODES),
    ("WATCH", NODES),
    ("GET", f"/api/v1/namespaces?fieldSelector={OF_OURS}"),
    ("WATCH", f"/api/v1/namespaces?fieldSelector={OF_OURS}"),
    ("POST", EVENTS),
    ("POST", EVENTS.replace("kube-system", "default")),
    ("GET", leases(LEASES)),
    ("GET", f"{leases(LEASES)}/none"),
    ("WATCH", leases(LEASES)),
    ("POST", leases(LEASES)),
    ("PATCH", f"{leases(LEASES)}/{ACCOUNT}"),
]
"""Every verb of the role once: without it its row fails."""

NEVER = [
    ("POST", f"{POD}/exec"),
    ("GET", f"{POD}/log"),
    ("GET", POD),
    ("WATCH", PODS),
    ("DELETE", POD),
    ("PATCH", POD),
    ("PATCH", f"{POD}/status"),
    ("GET", "/api/v1/secrets"),
    ("GET", f"{NAMESPACE}/secrets/none"),
    ("GET", "/api/v1/configmaps"),
    ("PATCH", f"{NODES}/none"),
    ("PATCH", f"{NODES}/none/status"),
    ("DELETE", f"{NODES}/none"),
    ("PATCH", f"{INCIDENTS}/none"),
    ("POST", REPORTS),
    ("PATCH", f"{REPORTS}/none/status"),
    ("DELETE", CLAIMS.replace("/resourceclaims", "/namespaces/default/resourceclaims/none")),
    ("PATCH", f"{SLICES}/none"),
    ("DELETE", f"{SLICES}/none"),
    ("PATCH", f"{RULES}/none/status"),
    ("GET", CLASSES),
    ("GET", "/api/v1/namespaces"),
    ("PATCH", NAMESPACE),
    ("PATCH", f"{leases(LEASES)}/draguard-agent-node-a"),
    ("DELETE", f"{leases(LEASES)}/{ACCOUNT}"),
    ("GET", leases("kube-system")),
    ("PATCH", f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{ACCOUNT}"),
]


@pytest.mark.parametrize(("method", "path"), USED)
def test_what_the_remediator_does_is_allowed(remediator: Client, method: str, path: str) -> None:
    assert refusal(remediator, method, path) != FORBIDDEN


@pytest.mark.parametrize(("method", "path"), NEVER)
def test_what_it_never_does_is_not_allowed(remediator: Client, method: str, path: str) -> None:
    assert refusal(remediator, method, path) == FORBIDDEN


def test_node_conditions_are_a_role_of_their_own(remediator: Client, node_conditions: None) -> None:
    def may_patch() -> bool:
        return refusal(remediator, "PATCH", f"{NODES}/none/status") != FORBIDDEN

    await_true("the role counts", may_patch)
    assert refusal(remediator, "PATCH", f"{NODES}/none") == FORBIDDEN
    assert refusal(remediator, "DELETE", f"{NODES}/none") == FORBIDDEN


def test_a_whole_incident_needs_no_other_right(scene: Scene, account: Endpoint) -> None:
    one, other = gpu(0), gpu(1)
    scene.node("node-a", one, other)
    scene.train("train", 2, workloads.gpu_request())
    before = refused(scene.cluster)
    process = started(scene, account)

    scene.report("node-a", off_the_bus(one), other)
    scene.await_rules({"node-a/gpu-0": "NoExecute"})
    scene.await_phase("Drained")
    scene.report("node-a", with_xids(one, now(79), recovery_action=fresh(), epoch=2), other)
    scene.await_rules({})
    scene.await_phase("Recovered")

    assert "orbidden" not in process.logged()
    assert refused(scene.cluster) == before, "the API server refused somebody something"


def test_an_eviction_needs_no_other_right(scene: Scene, account: Endpoint) -> None:
    one = gpu(0)
    scene.node("node-a", one)
    spec = workloads.pod_spec(extended_gpus=1)
    scene.cluster.add("apps/v1", "deployments", workloads.deployment("train", 1, spec))
    (pod,) = await_true("the pod runs", scene.cluster.running)
    before = refused(scene.cluster)
    process = started(scene, account)

    scene.report("node-a", off_the_bus(one))

    def evicted() -> bool:
        return pod["metadata"]["uid"] not in {
            other["metadata"]["uid"] for other in scene.cluster.pods()
        }

    await_true("the pod, which NoExecute does not reach, is evicted", evicted)
    assert "orbidden" not in process.logged()
    assert refused(scene.cluster) == before, "the API server refused somebody something"


ROLE = "/apis/rbac.authorization.k8s.io/v1/clusterroles/" + ACCOUNT


@contextmanager
def without_slices(cluster: Cluster) -> Generator[None]:
    """Take list and watch of ResourceSlices away, as somebody who trims a role might."""
    role = msgspec.json.decode(cluster.client.get(ROLE))
    rules = [rule for rule in role["rules"] if "resourceslices" not in rule["resources"]]
    assert len(rules) == len(role["rules"]) - 1
    cluster.client.merge_patch(ROLE, {"rules": rules})
    try:
        yield
    finally:
        cluster.client.merge_patch(ROLE, {"rules": role["rules"]})


def test_without_the_right_to_see_slices_a_renumbering_evicts_nobody(
    scene: Scene, account: Endpoint
) -> None:
    """The sick board comes back as gpu-1, the healthy one as gpu-0, and nobody tells."""
    sick, sound = gpu(0), gpu(1)
    scene.node("node-a", sick, sound)
    scene.train("train", 2, workloads.gpu_request())
    before = scene.holders()
    with Proxy(account) as proxy:
        process = started(scene, account, server=proxy.url)
        asker = Client(account, timeout=60.0)
        with without_slices(scene.cluster):
            await_true("it counts", lambda: refusal(asker, "GET", SLICES) == FORBIDDEN)
            proxy.cut()
            sick = msgspec.structs.replace(off_the_bus(sick), minor=1)
            sound = msgspec.structs.replace(sound, minor=0)
            scene.publish("node-a", sick, sound, new_generation=True)
            scene.report("node-a", sick, sound)
            process.await_saying("refuses to list or watch resourceslices (403)")
            scene.holds_for(
                6,
                "no pod is evicted",
                lambda: scene.holders() == before and "NoExecute" not in scene.rules().values(),
            )
        scene.await_rules({"node-a/gpu-1": "NoExecute"})
        scene.await_phase("Drained")
        stayed = {uid: device for uid, device in before.items() if device == "node-a/gpu-0"}
        assert stayed.items() <= scene.holders().items(), "the healthy board keeps its pod"
        asker.close()
        process.kill()  # a polite end waits for each watch behind this HTTP/1.0 proxy


def started(scene: Scene, account: Endpoint, server: str = "") -> Remediator:
    """The real remediator as this account, stopped with the scene."""
    token = scene.folder / "account-token"
    token.write_text(account.token or "", encoding="utf-8")
    return scene.remediator(
        "--kube-token-file",
        str(token),
        "--kube-ca-file",
        account.ca_file or "",
        "--resync=2",
        server=server or account.server,
    )


def refused(cluster: Cluster) -> float:
    """Return how many requests the API server has answered with 403 so far."""
    page = cluster.client.get("/metrics").decode()
    lines = (line for line in page.splitlines() if line.startswith("apiserver_request_total{"))
    return sum(float(line.rpartition(" ")[2]) for line in lines if 'code="403"' in line)
