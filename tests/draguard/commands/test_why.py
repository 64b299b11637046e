"""`draguard why`, beside the real scheduler: what it says would be enough is enough."""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from draguard.__main__ import main
from simulator.cluster.workloads import (
    DRIVER,
    claim,
    claim_template,
    gpu_request,
    pod,
    pod_spec,
)
from tests.draguard.printed import masked, matches, printed
from tests.lab.cluster import NODES, RULES, Cluster, Json, await_true

Explain = Callable[..., Json]
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture
def why(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> Explain:
    """Run the command; gives its JSON."""

    def run(*arguments: str) -> Json:
        where = ("--kubeconfig", str(cluster.plane.kubeconfig), "-o", "json")
        return msgspec.json.decode(printed(capsys, "why", *arguments, *where))

    return run


def node(cluster: Cluster, name: str, gpus: int, **extra: str) -> None:
    cluster.player.add_node(name)
    devices = [
        {
            "name": f"gpu-{index}",
            "attributes": {
                "type": {"string": "gpu"},
                "uuid": {"string": f"GPU-{name}-{index}"},
                "productName": {"string": "NVIDIA A100"},
                **{key: {"string": value} for key, value in extra.items()},
            },
            "capacity": {"memory": {"value": "40Gi"}},
        }
        for index in range(gpus)
    ]
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "pool": pool, "nodeName": name, "devices": devices}
    cluster.player.publish(name, [{"metadata": {"name": f"{name}-gpus"}, "spec": spec}])


def wants(expression: str, **fields: Any) -> Json:
    request = gpu_request(**fields)
    request["exactly"]["selectors"] = [{"cel": {"expression": expression}}]
    return request


def start(cluster: Cluster, name: str, *requests: Json, **spec: Any) -> None:
    """Create a claim and a pod that uses it."""
    cluster.add(
        "resource.k8s.io/v1", "resourceclaims", claim(name, *(requests or (gpu_request(),)))
    )
    cluster.add("v1", "pods", pod(name, pod_spec(shared_claim=name) | spec))


def refusal(cluster: Cluster, name: str) -> str:
    """Wait until the scheduler has refused a pod; returns its message."""

    def message() -> str:
        conditions = cluster.get(f"{PODS}/{name}")["status"].get("conditions", [])
        found = [each for each in conditions if each["type"] == "PodScheduled"]
        return found[0].get("message", "") if found and found[0]["status"] == "False" else ""

    return await_true(f"{name} is refused", message)


def runs(cluster: Cluster, name: str) -> None:
    await_true(
        f"{name} runs", lambda: cluster.get(f"{PODS}/{name}")["status"]["phase"] == "Running"
    )


def changes(found: Json) -> list[tuple[str, str]]:
    return [(each["what"], each["which"]) for each in found["changes"]]


def test_an_attribute_that_the_driver_does_not_publish_is_the_reason(
    cluster: Cluster, why: Explain
) -> None:
    """The first claim of a newcomer, made by hand."""
    expression = f"device.attributes['{DRIVER}'].family == 'A100'"
    node(cluster, "node-a", 2)
    start(cluster, "first", wants(expression))
    refusal(cluster, "first")

    found = why("first")

    assert (found["finding"]["layer"], found["finding"]["reason"]) == (
        "Allocation",
        "SelectorFails",
    )
    assert ("DropSelector", expression) in changes(found)
    cluster.client.delete(f"{PODS}/first", {"gracePeriodSeconds": 0})
    start(cluster, "second", gpu_request())
    runs(cluster, "second")


def test_an_allocated_gpu_names_the_claim_that_has_it_and_freeing_it_is_enough(
    cluster: Cluster, why: Explain
) -> None:
    node(cluster, "node-a", 1)
    start(cluster, "first")
    runs(cluster, "first")
    start(cluster, "second")
    refusal(cluster, "second")

    found = why("claim/second")

    assert found["finding"]["reason"] == "Allocated"
    assert found["summary"]["requests"][0]["groups"][0]["by"] == ["default/first"]
    assert changes(found) == [("Free", "default/first")]
    cluster.client.delete(f"{PODS}/first", {"gracePeriodSeconds": 0})
    runs(cluster, "second")


def test_the_page_that_the_documents_show_is_its_golden(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a pod that waits where two GPUs are allocated and one is tainted."""
    node(cluster, "node-a", 2)
    node(cluster, "node-b", 1)
    taint_device(cluster, "draguard-rule-of-gpu-1", "gpu-1", "draguard.dev/lost")
    for name, place in (("train", "node-a"), ("infer", "node-b")):
        start(cluster, name, nodeSelector={"kubernetes.io/hostname": place})
        runs(cluster, name)
    start(cluster, "notebook")
    refusal(cluster, "notebook")

    where = ("--kubeconfig", str(cluster.plane.kubeconfig))
    matches("why-a-pod-that-waits", masked(printed(capsys, "why", "notebook", *where)))


def taint_device(cluster: Cluster, rule: str, device: str, key: str) -> None:
    """Create a rule for a device of node-a."""
    selector = {"driver": DRIVER, "pool": "node-a", "device": device}
    taint = {"key": key, "value": "x", "effect": "NoSchedule"}
    spec = {"deviceSelector": selector, "taint": taint}
    cluster.client.create(RULES, {"metadata": {"name": rule}, "spec": spec})


def test_a_taint_of_a_rule_is_named_and_removing_it_is_enough(
    cluster: Cluster, why: Explain
) -> None:
    node(cluster, "node-a", 1)
    taint_device(cluster, "sick", "gpu-0", "team/hold")
    start(cluster, "first")
    refusal(cluster, "first")

    found = why("first")

    assert found["finding"]["reason"] == "Tainted"
    assert "tainted with team/hold (sick)" in found["finding"]["message"]
    assert changes(found) == [("RemoveRule", "sick")]
    cluster.client.delete(f"{RULES}/sick")
    runs(cluster, "first")


def test_where_all_is_cordoned_nobody_has_to_order_gpus(cluster: Cluster, why: Explain) -> None:
    node(cluster, "node-a", 2)
    cluster.client.merge_patch(f"{NODES}/node-a", {"spec": {"unschedulable": True}})
    start(cluster, "first")
    refusal(cluster, "first")

    found = why("first")

    assert (found["finding"]["layer"], found["finding"]["reason"]) == (
        "Scheduling",
        "NodeCordoned",
    )
    assert changes(found) == [("Uncordon", "node-a")]
    cluster.client.merge_patch(f"{NODES}/node-a", {"spec": {"unschedulable": False}})
    runs(cluster, "first")


def test_enough_gpus_on_two_nodes_are_not_enough_on_one(cluster: Cluster, why: Explain) -> None:
    node(cluster, "node-a", 1)
    node(cluster, "node-b", 1)
    start(cluster, "pair", gpu_request(count=2))
    refusal(cluster, "pair")

    found = why("pair")

    assert found["finding"]["reason"] == "TooFewTogether"
    assert changes(found) == [("OneDevice", "default/pair/gpu")]


def test_a_class_that_does_not_exist_is_named(cluster: Cluster, why: Explain) -> None:
    node(cluster, "node-a", 1)
    request = gpu_request()
    request["exactly"]["deviceClassName"] = "tpu.example.com"
    start(cluster, "first", request)
    refusal(cluster, "first")

    found = why("first")

    assert found["finding"]["reason"] == "ClassMissing"
    assert found["finding"]["message"] == "DeviceClass tpu.example.com does not exist"


def test_without_any_device_the_drivers_that_publish_are_named(
    cluster: Cluster, why: Explain
) -> None:
    cluster.player.add_node("node-a")
    start(cluster, "first")
    refusal(cluster, "first")

    found = why("first")["finding"]

    assert found["reason"] == "NoDevices"
    assert found["message"].endswith("class gpu.nvidia.com; published by drivers: nothing")


def test_a_template_that_does_not_exist(cluster: Cluster, why: Explain) -> None:
    cluster.add("v1", "pods", pod("first", pod_spec(template="eight-gpus")))

    found = why("first")["finding"]

    assert (found["layer"], found["reason"]) == ("Admission", "TemplateMissing")


def test_a_quota_that_refuses_the_claim_is_quoted(cluster: Cluster, why: Explain) -> None:
    quota = {"hard": {"count/resourceclaims.resource.k8s.io": "0"}}
    cluster.add("v1", "resourcequotas", {"metadata": {"name": "none"}, "spec": quota})
    path = "/api/v1/namespaces/default/resourcequotas/none"
    # As the quota controller would, which the lab does not run.
    used = {"count/resourceclaims.resource.k8s.io": "0"}
    cluster.client.merge_patch(f"{path}/status", {"status": {**quota, "used": used}})
    try:
        cluster.add(
            "resource.k8s.io/v1", "resourceclaimtemplates", claim_template("one", gpu_request())
        )
        cluster.add("v1", "pods", pod("first", pod_spec(template="one")))

        await_true("the refusal is known", lambda: why("first")["finding"]["evidence"])
        found = why("first")["finding"]
    finally:
        cluster.client.delete(path)

    assert (found["layer"], found["reason"]) == ("Admission", "ClaimNotCreated")
    assert "exceeded quota: none" in found["evidence"][0]


def test_a_claim_that_does_not_exist(cluster: Cluster, why: Explain) -> None:
    cluster.add("v1", "pods", pod("first", pod_spec(shared_claim="mine")))

    assert why("first")["finding"]["reason"] == "ClaimMissing"


def test_a_gate_keeps_a_pod_from_the_scheduler(cluster: Cluster, why: Explain) -> None:
    start(cluster, "first", schedulingGates=[{"name": "kueue.x-k8s.io/admission"}])

    found = why("first")["finding"]

    assert (found["reason"], found["layer"]) == ("SchedulingGated", "Admission")


def test_a_claim_without_a_pod_waits_for_one(cluster: Cluster, why: Explain) -> None:
    node(cluster, "node-a", 1)
    cluster.add("resource.k8s.io/v1", "resourceclaims", claim("mine", gpu_request()))

    found = why("claim/mine")["finding"]

    assert found["reason"] == "NoPod"
    assert found["message"].endswith("it would fit on node-a")


def test_where_devices_fit_the_scheduler_s_other_reason_is_quoted(
    cluster: Cluster, why: Explain
) -> None:
    node(cluster, "node-a", 1)
    spec = pod_spec(shared_claim="first")
    spec["containers"][0]["resources"]["requests"] = {"cpu": "900"}
    start(cluster, "first", containers=spec["containers"])
    refusal(cluster, "first")

    found = why("first")["finding"]

    assert found["reason"] == "OtherResources"
    assert found["evidence"] == ["1 nodes: Insufficient cpu"]


def test_a_pod_that_runs_names_its_devices(cluster: Cluster, why: Explain) -> None:
    node(cluster, "node-a", 1)
    start(cluster, "first")
    runs(cluster, "first")

    found = why("first")["finding"]

    assert found["reason"] == "Running"
    assert found["message"] == f"it runs on node-a with {DRIVER}/node-a/gpu-0"


def test_an_extended_resource_that_dra_serves_is_explained_like_a_claim(
    cluster: Cluster, why: Explain
) -> None:
    node(cluster, "node-a", 1)
    cluster.add("v1", "pods", pod("first", pod_spec(extended_gpus=2)))
    refusal(cluster, "first")

    found = why("first")

    assert found["finding"]["reason"] == "TooFew"
    assert found["summary"]["requests"][0]["request"] == "main/nvidia.com/gpu"


def test_a_device_plugin_that_has_too_few_is_counted(cluster: Cluster, why: Explain) -> None:
    cluster.player.add_node("node-a")
    have = {"capacity": {"nvidia.com/gpu": "4"}, "allocatable": {"nvidia.com/gpu": "3"}}
    cluster.client.merge_patch(f"{NODES}/node-a/status", {"status": have})
    cluster.add("v1", "pods", pod("first", pod_spec(extended_gpus=2)))
    runs(cluster, "first")
    cluster.add("v1", "pods", pod("second", pod_spec(extended_gpus=2)))
    refusal(cluster, "second")

    found = why("second")["finding"]

    assert found["reason"] == "Insufficient"
    assert found["evidence"] == [
        "1 nodes: Insufficient nvidia.com/gpu",
        "nvidia.com/gpu: 4 installed on 1 nodes, 1 unhealthy, 2 requested by other pods, "
        "1 free on the emptiest node",
    ]


ROLES = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"


@pytest.fixture
def tenant(cluster: Cluster) -> Iterator[str]:
    """A user who may read what is in one namespace."""
    rules = [
        {"apiGroups": [""], "resources": ["pods", "events"], "verbs": ["get", "list"]},
        {
            "apiGroups": ["resource.k8s.io"],
            "resources": ["resourceclaims", "resourceclaimtemplates"],
            "verbs": ["get", "list"],
        },
    ]
    cluster.client.create(f"{ROLES}/roles", {"metadata": {"name": "ana"}, "rules": rules})
    subject = {"kind": "User", "name": "ana", "apiGroup": "rbac.authorization.k8s.io"}
    role = {"kind": "Role", "name": "ana", "apiGroup": "rbac.authorization.k8s.io"}
    binding = {"metadata": {"name": "ana"}, "roleRef": role, "subjects": [subject]}
    cluster.client.create(f"{ROLES}/rolebindings", binding)
    yield "ana"
    cluster.client.delete(f"{ROLES}/rolebindings/ana")
    cluster.client.delete(f"{ROLES}/roles/ana")


def test_with_the_rights_of_one_namespace_the_scheduler_is_quoted_and_the_rights_are_named(
    cluster: Cluster, why: Explain, tenant: str
) -> None:
    node(cluster, "node-a", 1)
    start(cluster, "first", gpu_request(count=2))
    message = refusal(cluster, "first")

    await_true("ana may", lambda: _reason(why, "first", "--as", tenant))
    found = why("first", "--as", tenant)["finding"]

    assert (found["layer"], found["reason"]) == ("Allocation", "NotRead")
    assert found["evidence"][0] == message
    assert any("ana may not list resourceslices" in each for each in found["todo"])
    assert "node-a" not in str(found)


def test_without_the_right_to_list_nodes_devices_say_what_they_can(
    cluster: Cluster, why: Explain, tenant: str
) -> None:
    """No node brings back a device that another claim has."""
    node(cluster, "node-a", 1)
    path = "/apis/rbac.authorization.k8s.io/v1"
    groups = [{"apiGroups": ["resource.k8s.io"], "resources": ["*"], "verbs": ["list"]}]
    cluster.client.create(f"{path}/clusterroles", {"metadata": {"name": "dra"}, "rules": groups})
    subject = {"kind": "User", "name": tenant, "apiGroup": "rbac.authorization.k8s.io"}
    role = {"kind": "ClusterRole", "name": "dra", "apiGroup": "rbac.authorization.k8s.io"}
    binding = {"metadata": {"name": "dra"}, "roleRef": role, "subjects": [subject]}
    cluster.client.create(f"{path}/clusterrolebindings", binding)
    try:
        start(cluster, "first")
        runs(cluster, "first")
        start(cluster, "second")
        start(cluster, "third", gpu_request(), nodeSelector={"zone": "b"})
        refusal(cluster, "third")
        await_true("ana may", lambda: _reason(why, "second", "--as", tenant) == "Allocated")
        cluster.client.delete(f"{PODS}/first", {"gracePeriodSeconds": 0})
        runs(cluster, "second")
        cluster.client.delete(f"{PODS}/second", {"gracePeriodSeconds": 0})
        await_true("it is free", lambda: _reason(why, "third", "--as", tenant) == "NotRead")
    finally:
        cluster.client.delete(f"{path}/clusterroles/dra")
        cluster.client.delete(f"{path}/clusterrolebindings/dra")


def _reason(why: Explain, *arguments: str) -> str:
    """Return the reason; "" while a role binding has not reached the authorizer."""
    try:
        return why(*arguments)["finding"]["reason"]
    except AssertionError:
        return ""


def test_an_event_that_cannot_be_read_is_named_and_hides_no_reason(
    cluster: Cluster, why: Explain
) -> None:
    """The year 0, which the server stores and Python has no time for."""
    node(cluster, "node-a", 1)
    start(cluster, "pair", gpu_request(count=2))
    refusal(cluster, "pair")
    event = {
        "metadata": {"name": "odd", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "name": "pair", "namespace": "default"},
        "lastTimestamp": "0000-01-01T00:00:00Z",
    }
    cluster.add("v1", "events", event)

    found = why("pair")

    assert found["finding"]["reason"] == "TooFew"
    assert ["cannot read odd" in each for each in found["unread"]] == [True]


def test_a_claim_that_a_pod_names_twice_needs_twice_as_much(cluster: Cluster, why: Explain) -> None:
    node(cluster, "node-a", 1)
    names = [{"name": name, "resourceClaimName": "first"} for name in ("one", "two")]
    start(cluster, "first", resourceClaims=names, containers=[{"name": "main", "image": "x"}])

    assert "cannot allocate all claims" in refusal(cluster, "first")
    assert why("first")["finding"]["reason"] == "TooFew"


@pytest.mark.parametrize("target", ["?", "..", "a?x=1", "a/../b", "claim/?", "Trainer-0"])
def test_what_can_be_no_name_changes_no_path(
    target: str, cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ("--kubeconfig", str(cluster.plane.kubeconfig))
    cluster.add("v1", "pods", pod("trainer-0", pod_spec()))
    try:
        ended = main(["why", target, *where])
    except SystemExit as error:
        ended = error.code
    stated = capsys.readouterr().err

    assert ended == (2 if target.startswith("a/") else 1)
    assert "no pod" in stated or "no claim" in stated or "name a pod as" in stated


def test_what_can_be_no_namespace_changes_no_path(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ("--kubeconfig", str(cluster.plane.kubeconfig), "-n", "?")

    assert main(["why", "first", *where]) == 1
    assert "no namespace can be called '?'" in capsys.readouterr().err


def test_a_pod_that_does_not_exist_names_what_is_alike_and_who_cannot_create_pods(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.add("v1", "pods", pod("trainer-0", pod_spec()))
    event = {
        "metadata": {"name": "failed", "namespace": "default"},
        "involvedObject": {"kind": "Job", "name": "trainer", "namespace": "default"},
        "reason": "FailedCreate",
        "message": "exceeded quota: gpus",
        "type": "Warning",
    }
    cluster.add("v1", "events", event)

    ended = main(["why", "trainer-1", "--kubeconfig", str(cluster.plane.kubeconfig)])

    assert ended == 1
    stated = capsys.readouterr().err
    assert "no pod 'trainer-1' in namespace default (did you mean trainer-0?)" in stated
    assert "Job trainer cannot create pods: exceeded quota: gpus" in stated


@pytest.mark.parametrize("target", ["node/a", "claim/", "team/pod/x", ""])
def test_what_is_no_pod_and_no_claim_is_a_usage_error(
    target: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["why", target])

    assert ended.value.code == 2
    assert "claim/NAME" in capsys.readouterr().err


def test_pods_with_devices_and_claims_are_completed(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    node(cluster, "node-a", 1)
    start(cluster, "first")
    runs(cluster, "first")
    start(cluster, "second")
    cluster.add("v1", "pods", pod("no-devices", pod_spec()))
    capsys.readouterr()

    main(["__complete", "--kubeconfig", str(cluster.plane.kubeconfig), "why", ""])

    assert capsys.readouterr().out.splitlines() == [
        "second\tPending",
        "first\tRunning",
        "claim/first\tallocated",
        "claim/second\tnot allocated",
        ":4",
    ]
