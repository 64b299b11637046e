"""`draguard doctor`: each finding with its remedy, and none for what cannot be known."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest

from draguard.__main__ import main
from draguard.cluster.installation import EXPLAINER_ACCOUNT, Workload
from draguard.doctor import api
from draguard.doctor.admission import Binding, Policy, judged
from draguard.doctor.check import Check
from draguard.doctor.explainer import explainer, readiness
from draguard.doctor.rights import (
    ACCOUNT,
    AGENT,
    EXPLAINER,
    POSTS,
    REMEDIATOR,
    Reviews,
    Right,
)
from draguard.doctor.running import exporter
from kubeapi.client import Client
from simulator.cluster.controlplane import ControlPlane
from simulator.node import SimulatedNode
from tests.chain.conftest import install
from tests.chain.proxy import Proxy
from tests.chain.scene import LEASES
from tests.draguard.printed import items, printed
from tests.lab.cluster import await_true

RBAC = Path(__file__).parents[3] / "deploy" / "manifests" / "remediator-rights.yaml"


def by_name(found: Iterator[Check]) -> dict[str, Check]:
    return {check.about: check for check in found}


def test_an_account_with_the_shipped_role_may_do_its_work_and_one_without_gets_an_error(
    crds: None, control_plane: ControlPlane, client: Client
) -> None:
    asker = Reviews(client, LEASES)
    control_plane.kubectl("apply", "-f", str(RBAC))
    try:
        await_true("the role counts", lambda: asker.account(ACCOUNT, REMEDIATOR).state == "ok")
    finally:
        control_plane.kubectl("delete", "-f", str(RBAC))
    words = "may not list/watch/delete nodedevicehealths.draguard.dev"
    # Roles of the namespace and of the cluster are forgotten one after the other.
    await_true("it is gone", lambda: words in asker.account(ACCOUNT, REMEDIATOR).says)
    lacking = asker.account(ACCOUNT, REMEDIATOR)
    assert lacking.state == "bad"
    assert lacking.remedy


def test_a_right_that_an_account_has_through_its_group_counts(client: Client) -> None:
    root, name = "/apis/rbac.authorization.k8s.io/v1", {"name": "group-of-a-test"}
    pods = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}
    client.create(f"{root}/clusterroles", {"metadata": name, "rules": [pods]})
    group = "rbac.authorization.k8s.io"
    binding = {
        "metadata": name,
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", **name},
        "subjects": [
            {"apiGroup": group, "kind": "Group", "name": f"system:serviceaccounts:{LEASES}"}
        ],
    }
    client.create(f"{root}/clusterrolebindings", binding)
    asker = Reviews(client, LEASES)
    try:
        await_true(
            "the role counts",
            lambda: asker.account("anybody", [Right("", "pods", ("list",))]).state == "ok",
        )
    finally:
        client.delete(f"{root}/clusterrolebindings/{name['name']}")
        client.delete(f"{root}/clusterroles/{name['name']}")


def test_a_missing_right_to_read_is_reported_and_is_no_finding(control_plane: ControlPlane) -> None:
    asker = Client(control_plane.endpoint("remediator"), timeout=60.0)
    try:
        found = Reviews(asker, LEASES).account(ACCOUNT, AGENT)
    finally:
        asker.close()

    assert found.state == "unknown"
    assert "may not create subjectaccessreviews.authorization.k8s.io" in found.says


def test_the_callers_missing_rights_name_what_they_are_for(control_plane: ControlPlane) -> None:
    asker = Client(control_plane.endpoint("remediator"), timeout=60.0)
    try:
        found = by_name(Reviews(asker, LEASES).caller())
    finally:
        asker.close()

    taint = found["your permissions: cordon, uncordon, cleanup"]
    assert taint.state == "warn"
    assert "create/patch/delete devicetaintrules.resource.k8s.io" in taint.says


def test_a_subresource_is_spelled_as_kubectl_does() -> None:
    assert Right("", "pods/eviction", ("create",)).words() == "pods/eviction"
    assert Right("g.x", "a/status", ("patch",)).words() == "a.g.x/status"


def test_a_gate_that_is_off_is_a_warning_where_it_is_needed() -> None:
    found = by_name(
        api.gate_checks({"DRADeviceTaintRules": False, "DRAPartitionableDevices": False})
    )

    assert found["gate DRADeviceTaintRules"].state == "warn"
    assert "--feature-gates=DRADeviceTaintRules=true" in found["gate DRADeviceTaintRules"].remedy
    assert found["gate DRAPartitionableDevices"].state == "ok"
    assert found["gate DRADeviceTaints"].state == "unknown"


def test_a_crd_that_is_missing_is_bad_and_one_of_an_older_version_is_a_warning(
    crds: None, control_plane: ControlPlane, client: Client
) -> None:
    assert {check.state for check in api.objects(client)} == {"ok"}

    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/deviceincidents.draguard.dev"
    stored: dict[str, Any] = msgspec.json.decode(client.get(path))
    version = stored["spec"]["versions"][0]
    del version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]["recovery"][
        "properties"
    ]["untaint"]
    # No replacement: the server's controllers write to it as well.
    client.merge_patch(path, {"spec": {"versions": stored["spec"]["versions"]}})
    try:
        found = by_name(api.objects(client))["CRD deviceincidents"]
    finally:
        install(control_plane, client)
    assert found.state == "warn"
    assert "it lacks status.recovery.untaint, so these fields are not stored" in found.says


@pytest.mark.parametrize(
    ("crd", "fields"),
    [
        ("nodedevicehealths", ["inventory.unidentified", "gpus[].recoveryAction.unreadSinceTime"]),
        ("deviceincidents", ["scope.devices[].uuid"]),
    ],
)
def test_a_crd_that_lacks_a_field_further_down_is_a_warning(
    crds: None, control_plane: ControlPlane, client: Client, crd: str, fields: list[str]
) -> None:
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{crd}.draguard.dev"
    stored: dict[str, Any] = msgspec.json.decode(client.get(path))
    status = stored["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
    for field in fields:
        *above, last = field.split(".")
        schema = status
        for name in above:
            schema = schema["properties"][name.removesuffix("[]")]
            schema = schema["items"] if name.endswith("[]") else schema
        del schema["properties"][last]
    client.merge_patch(path, {"spec": {"versions": stored["spec"]["versions"]}})
    try:
        found = by_name(api.objects(client))[f"CRD {crd}"]
    finally:
        install(control_plane, client)

    assert found.state == "warn"
    assert [
        field for field in fields if f"status.{field.replace('[]', '')}" not in found.says
    ] == []


def test_a_crd_that_is_not_there(control_plane: ControlPlane) -> None:
    with Proxy(control_plane.endpoint()) as proxy:
        proxy.refuse, proxy.refused_path = 404, "customresourcedefinitions"
        endpoint = msgspec.structs.replace(control_plane.endpoint(), server=proxy.url, ca_file=None)
        client = Client(endpoint, timeout=60.0)
        found = by_name(api.objects(client))
        client.close()

    assert {check.state for check in found.values()} == {"bad"}


GUARD = msgspec.convert(
    {
        "metadata": {"name": "draguard-reports"},
        "spec": {
            "matchConstraints": {"resourceRules": [{"resources": ["nodedevicehealths/status"]}]}
        },
    },
    Policy,
)


def test_a_policy_counts_when_a_binding_makes_it_deny() -> None:
    denies = msgspec.convert(
        {"spec": {"policyName": "draguard-reports", "validationActions": ["Deny"]}}, Binding
    )
    warns = msgspec.convert(
        {"spec": {"policyName": "draguard-reports", "validationActions": ["Warn"]}}, Binding
    )
    about = "admission of nodedevicehealths"

    assert by_name(judged([GUARD], [denies]))[about].state == "ok"
    assert by_name(judged([GUARD], [warns]))[about].state == "warn"
    assert by_name(judged([GUARD], []))[about].state == "warn"
    assert by_name(judged([], [denies]))[about].state == "warn"


@pytest.fixture(scope="module")
def older(control_plane_built: None) -> Iterator[ControlPlane]:
    """As 1.35 is by default: no rules, and their gates off."""
    with ControlPlane(apiserver_flags=["--emulated-version=1.35"]) as plane:
        client = Client(plane.endpoint(), timeout=60.0)
        install(plane, client)
        client.close()
        yield plane


def test_it_says_what_is_off_and_nothing_crashes(
    older: ControlPlane, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ("--kubeconfig", str(older.kubeconfig))

    doctor = printed(capsys, "doctor", *where, ends=1)
    assert "warn     DeviceTaintRules: not served" in doctor
    assert "warn     gate DRADeviceTaintRules: off" in doctor
    assert "--runtime-config=resource.k8s.io/v1beta2=true" in doctor
    lines = items(printed(capsys, "doctor", "-o", "json", *where, ends=1), "DoctorReport")
    assert [line for line in lines if line["state"] != "ok" and not line["remedy"]] == []
    assert "not served by this cluster: nothing is tainted" in printed(capsys, "status", *where)
    assert "requests for node repair work" in doctor
    assert "taint rules take effect" not in doctor
    assert "serves no DeviceTaintRules: nothing is tainted or evicted" in printed(
        capsys, "plan", "--shipped", *where
    )
    explained = printed(capsys, "explain", "xid", "79", *where)
    assert "DeviceTaintRules are not served by this cluster" in explained
    assert "policy explain --xid 79 --without-rules" in explained
    assert "no taint rules or Node conditions of Draguard" in printed(
        capsys, "cleanup", "--all", "--yes", *where
    )
    assert main(["cordon", "node-a/0", "--reason", "x", *where]) == 1
    assert "only its node: kubectl cordon NODE" in capsys.readouterr().err


def test_on_a_node_it_looks_at_nvml_the_sockets_and_what_is_needed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        # Short paths: a unix socket's has 107 bytes at most.
        TemporaryDirectory(prefix="dg-") as root,
        SimulatedNode(Path(root), "node-a").create("3xH100") as node,
    ):
        monkeypatch.setenv("DRAGUARD_SIM_SCENARIO", str(node.scenario.path))
        flags = [*node.exporter_flags(), f"--sensor-socket={root}/none.sock"]
        stated = printed(capsys, "doctor", "--node-local", "-o", "json", "--", *flags, ends=1)

    found = {check["about"]: check for check in items(stated, "DoctorReport")}
    assert found["NVML"]["state"] == "ok"
    assert found["NVML"]["says"].startswith("3 GPUs, driver")
    assert found["sensor socket"]["state"] == "bad"
    assert found["sensor: pod-resources"]["state"] == "ok"
    assert found["agent: api-server"]["state"] == "warn"


@pytest.mark.parametrize(
    ("status", "state", "says"),
    [
        ({"desiredNumberScheduled": 3, "numberReady": 3}, "ok", "ready on 3 of 3 nodes"),
        ({"desiredNumberScheduled": 3, "numberReady": 1}, "bad", "ready on 1 of 3 nodes"),
        ({}, "warn", "ready on 0 of 0 nodes"),
    ],
)
def test_the_exporter_is_ready_where_it_should_run(
    status: dict[str, int], state: str, says: str
) -> None:
    workload = msgspec.convert({"metadata": {"name": "e"}, "status": status}, Workload)

    (found,) = exporter((workload,), LEASES)

    assert (found.state, says in found.says) == (state, True)
    assert bool(found.remedy) == (state != "ok")


@pytest.mark.parametrize(("host_pid", "reported"), [("true", False), ("false", True)])
def test_it_says_when_nobody_looks_who_uses_a_shared_gpu(host_pid: str, *, reported: bool) -> None:
    raw = """{"metadata": {"name": "e"},
      "spec": {"template": {"spec": {"hostPID": HOST_PID, "containers": []}}},
      "status": {"desiredNumberScheduled": 3, "numberReady": 3}}"""

    workload = msgspec.json.decode(raw.replace("HOST_PID", host_pid), type=Workload)
    (found,) = exporter((workload,), LEASES)

    assert ("exporter.podShares" in found.says) == reported


def test_a_cluster_without_the_exporter_gets_the_advice_what_to_install() -> None:
    (found,) = exporter((), LEASES)

    assert "no DaemonSet" in found.says


def test_each_pool_of_nodes_has_a_line_of_its_own() -> None:
    status = ({"desiredNumberScheduled": 2, "numberReady": 2}, {"desiredNumberScheduled": 1})
    workloads = [
        msgspec.convert({"metadata": {"name": name}, "status": one}, Workload)
        for name, one in zip(("exporter-h100", "exporter-gb200"), status, strict=True)
    ]

    found = list(exporter(workloads, LEASES))

    assert [check.state for check in found] == ["ok", "bad"]
    assert "exporter-gb200: ready on 0 of 1" in found[1].says


def test_flags_of_the_exporter_need_the_node(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["doctor", "--", "--dcgm=off"])

    assert ended.value.code == 2


def test_a_cluster_that_is_only_partly_seen_costs_the_lines_that_cannot_be_seen(
    crds: None, control_plane: ControlPlane, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ("--kubeconfig", str(control_plane.kubeconfig), "--context", "remediator")
    stated = printed(capsys, "doctor", *where)

    assert "ok       Dynamic Resource Allocation: " in stated
    assert "unknown  cluster state: " in stated
    assert "may not list" in stated
    assert "unknown  feature gates: " in stated


@pytest.mark.parametrize(
    ("ready", "state", "says"),
    [(2, "ok", "2 of 2 ready"), (1, "bad", "1 of 2 ready"), (0, "bad", "0 of 2 ready")],
)
def test_the_explainer_is_ready_when_all_its_pods_are(ready: int, state: str, says: str) -> None:
    made = {
        "metadata": {"name": "e"},
        "spec": {"replicas": 2},
        "status": {"readyReplicas": ready},
    }

    found = readiness(msgspec.convert(made, Workload), LEASES)

    assert (found.state, says in found.says) == (state, True)
    assert bool(found.remedy) == (state != "ok")


@pytest.mark.parametrize(("flag", "needed"), [("--events", True), ("--no-events", False)])
def test_an_explainer_needs_the_right_to_post_where_it_posts(
    client: Client, flag: str, *, needed: bool
) -> None:
    """It is found by its account; where there is none, nothing is lacking."""
    path = f"/apis/apps/v1/namespaces/{LEASES}/deployments"
    labels = {"app": "explainer-of-a-test"}
    spec = {
        "serviceAccountName": EXPLAINER_ACCOUNT,
        "containers": [{"name": "main", "image": "i", "args": ["explainer", flag]}],
    }
    template = {"metadata": {"labels": labels}, "spec": spec}
    body = {
        "metadata": {"name": "mine"},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }
    assert list(explainer(client, LEASES)) == []
    client.create(path, body)
    try:
        rights, pods = explainer(client, LEASES)
    finally:
        client.delete(f"{path}/mine")

    assert (rights.state, pods.state) == ("bad", "bad")
    needs = EXPLAINER if needed else [right for right in EXPLAINER if right != POSTS]
    assert rights == Reviews(client, LEASES).account(EXPLAINER_ACCOUNT, needs)
