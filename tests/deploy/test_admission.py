"""What the admission policies let whom write, answered by the real API server with real tokens."""

from collections.abc import Iterator
from itertools import product

import msgspec
import pytest

from kubeapi.lease import leases
from simulator.cluster.controlplane import ControlPlane
from tests.chain.scene import INCIDENTS, LEASES, REPORTS
from tests.deploy import rendered
from tests.deploy.guarded import (
    AGENT,
    EXPLAINER,
    RELEASE,
    REMEDIATOR,
    STRANGER,
    Guarded,
    Json,
    Write,
    identity,
    incident,
    lease,
    report,
)
from tests.lab.cluster import NODES

HERE, THERE, FRESH = "agent node-a", "agent node-b", "agent node-c"
"""The tokens of agents' pods on three nodes, the last of which has reported nothing yet."""
NOWHERE = "agent"
"""The token of an agent's pod that no node runs."""
REQUESTED = "requested for node-b"
"""A token that an account in the namespace requested, for a node of his choice."""
OWNED = [{"apiVersion": "v1", "kind": "Node", "name": "node-a", "uid": "a"}]
SEEN = {"status": {"bootID": "8f6c"}}
STATUS = f"{REPORTS}/node-a/status"
NO_NODE = "names no node"

REPORTING = [
    Write(HERE, "patch", STATUS, SEEN),
    Write(THERE, "patch", f"{REPORTS}/node-b/status", SEEN),
    Write(HERE, "patch", f"{REPORTS}/node-b/status", SEEN, "writes the report node-a and no other"),
    Write(THERE, "patch", STATUS, SEEN, "writes the report node-b and no other"),
    Write(REQUESTED, "patch", STATUS, SEEN, "writes the report node-b and no other"),
    Write(REQUESTED, "patch", f"{REPORTS}/node-b/status", SEEN),
    Write(NOWHERE, "patch", STATUS, SEEN, NO_NODE),
    Write(AGENT, "patch", STATUS, SEEN, NO_NODE),
    Write(AGENT, "create", REPORTS, report("node-c"), NO_NODE),
    Write(HERE, "create", REPORTS, report("node-c"), "writes the report node-a and no other"),
    Write(FRESH, "create", REPORTS, report("node-c")),
    Write(FRESH, "create", REPORTS, report("node-c", labels={"a": "b"}), "a name and nothing else"),
    Write(FRESH, "create", REPORTS, report("node-c", annotations={"a": "b"}), "nothing else"),
    Write(FRESH, "create", REPORTS, report("node-c", finalizers=["a.b/c"]), "nothing else"),
    Write(FRESH, "create", REPORTS, report("node-c", ownerReferences=OWNED), "nothing else"),
    Write(FRESH, "create", REPORTS, report("node-c") | {"spec": {"x": 1}}, "nothing else"),
    Write(HERE, "delete", f"{REPORTS}/node-a", {}, "deletes no report"),
    Write(HERE, "delete", f"{REPORTS}/node-b", {}, "deletes no report"),
    Write(HERE, "delete", REPORTS, {}, "deletes no report"),
    Write(HERE, "patch", f"{REPORTS}/node-a", {"spec": {"x": 1}}, "writes the status"),
    Write(HERE, "patch", f"{REPORTS}/node-a", {"metadata": {"labels": {"a": "b"}}}, "the status"),
    Write(STRANGER, "patch", STATUS, SEEN, "only draguard-agent on that node"),
    Write(REMEDIATOR, "patch", STATUS, SEEN, "only draguard-agent on that node"),
    Write("admin", "patch", STATUS, SEEN, "only draguard-agent on that node"),
    Write("admin", "patch", f"{REPORTS}/node-a", {"metadata": {"labels": {"a": "b"}}}),
    Write("admin", "delete", f"{REPORTS}/node-a", {}),
    Write("admin", "delete", REPORTS, {}),
    Write("admin", "create", REPORTS, report("node-c")),
]

AT = leases(LEASES)
KEPT = {"metadata": {"finalizers": ["example.com/kept"]}}


def kept_lease(name: str) -> Json:
    one = lease(name)
    return {**one, "metadata": {**one["metadata"], **KEPT["metadata"]}}


RENEWED = {"spec": {"renewTime": "2026-07-30T10:00:00.000000Z"}}
LIVING = [
    Write(HERE, "patch", f"{AT}/draguard-agent-node-a", RENEWED),
    Write(HERE, "patch", f"{AT}/draguard-agent-node-b", RENEWED, "draguard-agent-node-a and no"),
    Write(HERE, "patch", f"{AT}/{REMEDIATOR}", RENEWED, "draguard-agent-node-a and no other"),
    Write(FRESH, "create", AT, lease("draguard-agent-node-c")),
    Write(HERE, "create", AT, lease("draguard-agent-node-c"), "draguard-agent-node-a and no other"),
    Write(HERE, "create", AT, lease("unheard-of"), "draguard-agent-node-a and no other"),
    Write(HERE, "delete", f"{AT}/draguard-agent-node-a", {}, "deletes a Lease"),
    Write(THERE, "patch", f"{AT}/draguard-agent-node-b", RENEWED | KEPT),
    Write(HERE, "patch", f"{AT}/draguard-agent-node-a", KEPT, "a finalizer on a Lease"),
    Write(FRESH, "create", AT, kept_lease("draguard-agent-node-c"), "a finalizer on a Lease"),
    Write(REMEDIATOR, "patch", f"{AT}/{REMEDIATOR}", KEPT, "a finalizer on a Lease"),
    Write("admin", "patch", f"{AT}/{REMEDIATOR}", KEPT),
    Write(NOWHERE, "patch", f"{AT}/draguard-agent-node-a", RENEWED, NO_NODE),
    Write(AGENT, "patch", f"{AT}/draguard-agent-node-a", RENEWED, NO_NODE),
    Write(AGENT, "create", AT, lease("draguard-agent-node-c"), NO_NODE),
    Write(REMEDIATOR, "patch", f"{AT}/{REMEDIATOR}", RENEWED),
    Write(REMEDIATOR, "patch", f"{AT}/draguard-agent-node-a", RENEWED, "Lease draguard-remediator"),
    Write(REMEDIATOR, "create", AT, lease("draguard-agent-node-c"), "Lease draguard-remediator"),
    Write(REMEDIATOR, "delete", f"{AT}/{REMEDIATOR}", {}, "deletes a Lease"),
    Write(EXPLAINER, "create", AT, lease(EXPLAINER)),
    Write(EXPLAINER, "create", AT, kept_lease(EXPLAINER), "a finalizer on a Lease"),
    Write(EXPLAINER, "create", AT, lease("draguard-agent-node-c"), "Lease draguard-explainer"),
    Write(EXPLAINER, "patch", f"{AT}/{REMEDIATOR}", RENEWED, "Lease draguard-explainer"),
    Write(EXPLAINER, "delete", f"{AT}/{REMEDIATOR}", {}, "deletes a Lease"),
    Write(REMEDIATOR, "create", AT, lease(EXPLAINER), "Lease draguard-remediator"),
    Write("admin", "delete", f"{AT}/draguard-agent-node-a", {}),
    Write("admin", "create", AT, lease("draguard-agent-node-c")),
    Write(STRANGER, "create", leases("default"), lease("draguard-agent-node-a")),
]

EVENTS = "/apis/events.k8s.io/v1/namespaces/{}/events"
TEAM = EVENTS.format("default")


def an_event(**changes: object) -> Json:
    """Return an Event as the explainer posts it, about a pod."""
    regarding = {"apiVersion": "v1", "kind": "Pod", "namespace": "default", "name": "train"}
    return {
        "metadata": {"name": "e", "namespace": "default"},
        "regarding": regarding,
        "reason": "WaitsInAllocation",
        "note": "Allocated: request gpu needs 2",
        "type": "Warning",
        "action": "Explain",
        "reportingController": "draguard.dev/explainer",
        "reportingInstance": "draguard-explainer",
        "eventTime": "2026-07-30T10:00:00.000000Z",
        **changes,
    }


OF_A_NODE = {"apiVersion": "v1", "kind": "Node", "name": "node-a"}
POSTING = [
    Write(EXPLAINER, "create", TEAM, an_event()),
    Write(EXPLAINER, "create", TEAM, an_event(reason="WaitIsOver", type="Normal")),
    Write(EXPLAINER, "create", TEAM, an_event(reason="Evicted"), "and no others"),
    Write(EXPLAINER, "create", TEAM, an_event(reason="WaitsInVain 7"), "and no others"),
    Write(
        EXPLAINER,
        "create",
        TEAM,
        an_event(reportingController="kubelet"),
        "and no others",
    ),
    Write(EXPLAINER, "create", TEAM, an_event(regarding=OF_A_NODE), "about nothing else"),
    Write("admin", "create", TEAM, an_event(reason="Evicted", reportingController="kubelet")),
]

CASE = f"{INCIDENTS}/gpu-0-1"
HELD = f"{INCIDENTS}/gpu-0-2"
"""Of which user ana wants a hold."""


def hold(by: str, reason: str = "a test") -> Json:
    return {"spec": {"hold": {"until": "2099-07-30T18:00:00Z", "by": by, "reason": reason}}}


def inheriting(**more: object) -> Json:
    one = incident("gpu-1-1")
    return {**one, "spec": {**one["spec"], **more}}


def account(name: str) -> str:
    return f"system:serviceaccount:{LEASES}:{name}"


VOUCHED = {"repairConfirmed": {"by": "ana", "reason": "new board"}}
OTHER_GPU = {"metadata": {"labels": {"draguard.dev/gpu": "GPU-1"}}}
TICKET = {"metadata": {"labels": {"example.com/ticket": "4711"}}}
OWNER = {"metadata": {"ownerReferences": OWNED}}
TELLING = [
    Write(REMEDIATOR, "create", INCIDENTS, incident("gpu-1-1")),
    Write(REMEDIATOR, "patch", f"{CASE}/status", {"status": {"phase": "Tainted"}}),
    Write(REMEDIATOR, "delete", CASE, {}),
    Write(REMEDIATOR, "patch", HELD, {"spec": {"fault": "lost"}}),
    Write(REMEDIATOR, "patch", f"{HELD}/status", {"status": {"phase": "Tainted"}}),
    Write(REMEDIATOR, "patch", CASE, hold(account(REMEDIATOR)), "draguard-remediator changes none"),
    Write(REMEDIATOR, "patch", HELD, hold("ana", "no test"), "draguard-remediator changes none"),
    Write(REMEDIATOR, "patch", HELD, {"spec": {"hold": None}}, "draguard-remediator changes none"),
    Write(REMEDIATOR, "patch", CASE, {"spec": VOUCHED}, "draguard-remediator changes none"),
    Write(REMEDIATOR, "patch", CASE, {"spec": {"inheritedFrom": "x"}}, "changes none"),
    Write(REMEDIATOR, "create", INCIDENTS, inheriting(**hold("ana")["spec"], inheritedFrom="a-1")),
    Write(REMEDIATOR, "create", INCIDENTS, inheriting(**hold("ana")["spec"]), "carries them over"),
    Write(
        REMEDIATOR, "create", INCIDENTS, inheriting(**VOUCHED), "never with spec.repairConfirmed"
    ),
    Write(REMEDIATOR, "patch", CASE, KEPT, "no finalizer on a DeviceIncident"),
    Write(
        REMEDIATOR,
        "create",
        INCIDENTS,
        incident("gpu-1-1", **KEPT["metadata"]),
        "no finalizer on a DeviceIncident",
    ),
    Write("admin", "patch", CASE, hold("admin")),
    Write(STRANGER, "patch", CASE, hold(account(STRANGER))),
    Write("admin", "patch", CASE, hold("ana"), "names the user who writes it: admin"),
    Write(STRANGER, "patch", CASE, hold(REMEDIATOR), f"writes it: {account(STRANGER)}"),
    Write("admin", "patch", CASE, {"spec": VOUCHED}, "names the user who writes it"),
    Write("admin", "patch", HELD, hold("ana", "no test"), "names the user who writes it"),
    Write(
        "admin", "patch", HELD, {"spec": {"hold": {"until": "2098-01-01T00:00:00Z"}}}, "it: admin"
    ),
    Write("admin", "patch", HELD, hold("admin")),
    Write("admin", "patch", HELD, {"spec": {"hold": None}}),
    Write("admin", "patch", HELD, TICKET),
    Write("admin", "patch", HELD, {"spec": {"ignore": {"by": "admin", "reason": "x"}}}),
    Write("admin", "patch", HELD, {"spec": {"inheritedFrom": "x"}}, "users write spec.hold"),
    Write("admin", "patch", CASE, TICKET),
    Write("admin", "patch", CASE, {"metadata": {"finalizers": ["example.com/archive"]}}),
    Write("admin", "delete", CASE, {}),
    Write("admin", "delete", INCIDENTS, {}),
    Write("admin", "create", INCIDENTS, incident("gpu-1-1"), "only draguard-remediator opens"),
    Write("admin", "patch", CASE, OTHER_GPU, "draguard.dev/gpu stay"),
    Write("admin", "patch", CASE, OWNER, "its owners"),
    Write("admin", "patch", f"{CASE}/status", {"status": {"phase": "Recovered"}}, "the status"),
    Write(HERE, "patch", f"{CASE}/status", {"status": {"phase": "Recovered"}}, "the status"),
    Write(RELEASE, "patch", f"{CASE}/status", {"status": {"phase": "Recovered"}}, "the status"),
]

NODE = f"{NODES}/node-a"
OURS = {"type": "DraguardDeviceRepairNeeded", "status": "True"}
READY = {"type": "AcceleratedHardwareReady", "status": "False"}
KUBELETS = {"type": "Ready", "status": "True"}
MARK = {"annotations": {"draguard.dev/node-conditions": "DraguardDeviceRepairNeeded"}}
KUBELETS_OWN = [
    {"capacity": {"cpu": "1"}},
    {"capacity": None},
    {"allocatable": {"cpu": "1"}},
    {"addresses": [{"type": "InternalIP", "address": "192.0.2.9"}]},
    {"daemonEndpoints": {"kubeletEndpoint": {"Port": 10251}}},
    {"nodeInfo": {"kubeletVersion": "v9.0.0"}},
    {"images": [{"names": ["example.com/other:1"]}]},
    {"volumesInUse": ["kubernetes.io/csi/example.com^v"]},
    {"volumesAttached": [{"name": "kubernetes.io/csi/example.com^v", "devicePath": ""}]},
    {"runtimeHandlers": [{"name": "runc"}]},
    {"features": {"supplementalGroupsPolicy": True}},
    {"declaredFeatures": ["Some"]},
    {"phase": "Terminated"},
]
HANDING_OVER = [
    Write(REMEDIATOR, "patch", f"{NODE}/status", {"status": {"conditions": [OURS]}}),
    Write(REMEDIATOR, "patch", f"{NODE}/status", {"status": {"conditions": [OURS, READY]}}),
    Write(RELEASE, "patch", f"{NODE}/status", {"metadata": MARK, "status": {"conditions": []}}),
    Write(
        REMEDIATOR,
        "patch",
        f"{NODE}/status",
        {"status": {"conditions": [OURS, KUBELETS]}},
        "and no other",
    ),
    *(
        Write(REMEDIATOR, "patch", f"{NODE}/status", {"status": status}, "conditions of a Node's")
        for status in KUBELETS_OWN
    ),
    Write(
        REMEDIATOR,
        "patch",
        f"{NODE}/status",
        {"metadata": {"annotations": {"example.com/other": "x"}}},
        "the annotation draguard.dev/node-conditions",
    ),
    Write(RELEASE, "patch", f"{NODE}/status", {"metadata": {"labels": {"a": "b"}}}, "nor its"),
    Write(REMEDIATOR, "patch", NODE, {"spec": {"unschedulable": True}}, "neither its spec"),
    Write("admin", "patch", f"{NODE}/status", {"status": {"conditions": [KUBELETS]}}),
    Write("admin", "patch", NODE, {"spec": {"unschedulable": True}}),
]


@pytest.fixture(scope="module")
def guarded(control_plane_built: None, policies: str) -> Iterator[Guarded]:
    with ControlPlane() as plane:
        one = Guarded(plane, policies)
        one.admin.merge_patch(f"{AT}/draguard-agent-node-b", KEPT)
        one.admin.merge_patch(f"{NODE}/status", {"status": {"capacity": {"cpu": "2"}}})
        yield one
        one.close()


@pytest.mark.parametrize(
    "write", [*REPORTING, *LIVING, *POSTING, *TELLING, *HANDING_OVER], ids=identity
)
def test_a_write_is_let_through_or_refused_with_the_reason(guarded: Guarded, write: Write) -> None:
    refusal = guarded.refusal(write)

    assert bool(refusal) == bool(write.refused), refusal or "it was let through"
    assert write.refused in refusal


OUR_NAMESPACE = f"/api/v1/namespaces/{LEASES}"
OPERATOR = "operator"
NAMESPACE_OWNER = "owner of the namespace"
"""May do everything in it and nothing elsewhere."""
ONLY_STOPS = "only set or remove the annotation draguard.dev/stop of this namespace"
STOPPING = [
    Write(
        OPERATOR, "patch", OUR_NAMESPACE, {"metadata": {"annotations": {"draguard.dev/stop": "x"}}}
    ),
    Write(OPERATOR, "patch", OUR_NAMESPACE, {"metadata": {"annotations": {"a": "b"}}}, ONLY_STOPS),
    Write(
        OPERATOR, "patch", OUR_NAMESPACE, {"metadata": {"annotations": {"kept": None}}}, ONLY_STOPS
    ),
    Write(
        OPERATOR,
        "patch",
        OUR_NAMESPACE,
        {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}},
        ONLY_STOPS,
    ),
    Write(OPERATOR, "patch", OUR_NAMESPACE, {"metadata": {"finalizers": ["a.b/c"]}}, ONLY_STOPS),
    Write(NAMESPACE_OWNER, "patch", OUR_NAMESPACE, {"metadata": {"labels": {"a": "b"}}}),
    Write("admin", "patch", OUR_NAMESPACE, {"metadata": {"labels": {"a": "b"}}}),
    Write(STRANGER, "patch", OUR_NAMESPACE, {"metadata": {"annotations": {"a": "b"}}}),
]
"""A stranger is cluster-admin here, as all but the operator."""


@pytest.fixture(scope="module")
def with_operator(guarded: Guarded) -> Guarded:
    flags = (f"--namespace={LEASES}", "--show-only=templates/user-roles.yaml")
    guarded.plane.kubectl("apply", "-f", "-", stdin=rendered.text((), *flags))
    guarded.admin.merge_patch(OUR_NAMESPACE, {"metadata": {"annotations": {"kept": "as it is"}}})
    guarded.enter_with(OPERATOR, "draguard-operator")
    guarded.enter_with(NAMESPACE_OWNER, "cluster-admin", within=LEASES)
    return guarded


@pytest.mark.parametrize("write", STOPPING, ids=identity)
def test_an_operator_may_stop_us_and_change_nothing_else_of_our_namespace(
    with_operator: Guarded, write: Write
) -> None:
    refusal = with_operator.refusal(write)

    assert bool(refusal) == bool(write.refused), refusal or "it was let through"
    assert write.refused in refusal


OF_AN_EDITOR = {
    ("", "pods", "create"),
    ("", "serviceaccounts", "impersonate"),
    ("", "serviceaccounts/token", "create"),
    ("", "configmaps", "patch"),
    ("coordination.k8s.io", "leases", "patch"),
}
"""What the document says that the role edit lets one do in our namespace."""


def test_who_may_edit_our_namespace_may_do_what_our_accounts_may(guarded: Guarded) -> None:
    role = guarded.plane.kubectl("get", "clusterrole", "system:aggregate-to-edit", "-o=json")
    rules: list[Json] = msgspec.json.decode(role)["rules"]
    given = {
        request
        for rule in rules
        for request in product(rule["apiGroups"], rule["resources"], rule["verbs"])
    }

    assert given >= OF_AN_EDITOR


@pytest.mark.usefixtures("helm_built")
def test_an_installation_elsewhere_is_guarded_by_its_own_accounts() -> None:
    stated = rendered.text((), "--show-only=templates/admission.yaml", "--namespace=gpu-health")

    assert LEASES not in stated
    assert "system:serviceaccount:gpu-health:draguard-agent" in stated


@pytest.mark.usefixtures("helm_built")
@pytest.mark.parametrize("off", ["admission.enabled=false", "metricsOnly=true"])
def test_without_reports_or_by_choice_there_is_no_policy(off: str) -> None:
    kinds = {manifest["kind"] for manifest in rendered.objects((off,))}

    assert not any(kind.startswith("ValidatingAdmission") for kind in kinds)
