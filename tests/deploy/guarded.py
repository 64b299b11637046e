"""An API server with the chart's admission policies, and everybody who may try to write there.

Each account is cluster-admin, so that what is refused is refused by a policy and not by a role.
Writes are dry runs: admission answers, and nothing changes.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import msgspec

from exporter.model.device import Device
from kubeapi.client import ApiError, Client
from kubeapi.endpoint import Endpoint
from kubeapi.lease import leases
from remediator.model import taint_rule
from simulator.cluster.controlplane import ControlPlane
from tests.chain.conftest import install
from tests.chain.scene import INCIDENTS, LEASES, REPORTS
from tests.deploy import tokens
from tests.lab.cluster import NODES, await_true

Json = dict[str, Any]
AGENT, REMEDIATOR, RELEASE = "draguard-agent", "draguard-remediator", "draguard-cleanup"
EXPLAINER = "draguard-explainer"
STRANGER = "stranger"
RULES = "/apis/resource.k8s.io/{version}/devicetaintrules"
FORBIDDEN = 403
PATIENCE = 60.0
"""Seconds for one answer: a busy machine answers late."""
_NODES = ("node-a", "node-b", "node-c")
_WITH_SPEC = {
    "op": "add",
    "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec",
    "value": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
}
"""A later release may have one; without it the server drops it before admission."""
_REPORTS = "nodedevicehealths.draguard.dev"
_DRY = {"dryRun": "All"}


class Write(NamedTuple):
    """One attempt, and the words of its refusal; none: it is allowed."""

    who: str
    verb: str
    path: str
    body: Json
    refused: str = ""


def desired_rule(**changes: str) -> taint_rule.Rule:
    """Return a rule as the remediator writes it."""
    device = Device("gpu.nvidia.com", "node-a", changes.get("device", "gpu-0"))
    return taint_rule.Rule(
        device=device,
        effect="NoSchedule",
        fault=changes.get("fault", "gpu"),
        cause="xid-95",
        incident="gpu-0-1",
        uuid="GPU-0",
        gpu="GPU-0",
        node="node-a",
    )


class Guarded:
    """The server and a client for each of those who write."""

    def __init__(self, plane: ControlPlane, policies: str, version: str = "v1") -> None:
        self.plane = plane
        self.rules = RULES.format(version=version)
        self.version = version
        self._server = plane.endpoint()
        self.admin = Client(self._server, timeout=PATIENCE)
        self._clients: dict[str, Client] = {"admin": self.admin}
        install(plane, self.admin)
        patch = msgspec.json.encode([_WITH_SPEC]).decode()
        plane.kubectl("patch", "crd", _REPORTS, "--type=json", f"--patch={patch}")
        self._accounts()
        self._store()
        plane.kubectl("apply", "-f", "-", stdin=policies)
        await_true("the policies are in force", self._in_force)

    def close(self) -> None:
        for client in self._clients.values():
            client.close()

    def refusal(self, write: Write) -> str:
        """Return the words with which a policy refuses; "" when it does not."""
        try:
            self._ask(write)
        except ApiError as error:
            if error.status == FORBIDDEN and "ValidatingAdmissionPolicy" in error.message:
                return error.message
            raise
        return ""

    def enter_with(self, who: str, role: str, *, within: str = "") -> None:
        """Add an account that has this ClusterRole, in one namespace or all, and nothing else."""
        path, name = f"/api/v1/namespaces/{LEASES}/serviceaccounts", who.replace(" ", "-")
        self.admin.create(path, {"metadata": {"name": name}})
        self._bind(name, role, within)
        self._enter(who, tokens.of_account(self.admin, LEASES, name), within)

    def client(self, who: str) -> Client:
        return self._clients[who]

    def _ask(self, write: Write) -> None:
        client = self._clients[write.who]
        match write.verb:
            case "create":
                client.create(write.path, write.body, _DRY)
            case "patch":
                client.merge_patch(write.path, write.body, _DRY)
            case "delete":
                client.delete(write.path, None, _DRY)
            case other:
                raise ValueError(other)

    def _accounts(self) -> None:
        everybody = (AGENT, REMEDIATOR, EXPLAINER, RELEASE, STRANGER)
        for node in _NODES:
            self.admin.create(NODES, {"metadata": {"name": node}})
        for account in everybody:
            path = f"/api/v1/namespaces/{LEASES}/serviceaccounts"
            self.admin.create(path, {"metadata": {"name": account}})
            self._bind(account, "cluster-admin")
        for node in (*_NODES, ""):
            self._enter(f"agent {node}".strip(), tokens.of_pod(self.admin, self._pod(AGENT, node)))
        self._enter("requested for node-b", tokens.of_node(self.admin, LEASES, AGENT, "node-b"))
        for account in everybody:
            self._enter(account, tokens.of_account(self.admin, LEASES, account))

    def _bind(self, account: str, name: str, within: str = "") -> None:
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole"}
        where = f"namespaces/{within}/rolebindings" if within else "clusterrolebindings"
        self.admin.create(
            f"/apis/rbac.authorization.k8s.io/v1/{where}",
            {
                "metadata": {"name": f"{name}-for-{account}"},
                "roleRef": {**role, "name": name},
                "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": LEASES}],
            },
        )

    def _pod(self, account: str, node: str) -> Json:
        spec: Json = {"serviceAccountName": account, "schedulerName": "nobody"}
        spec |= {"containers": [{"name": "main", "image": "example.com/draguard:1"}]}
        spec |= {"nodeName": node} if node else {}
        body = {"metadata": {"name": f"{account}-{node or 'nowhere'}"}, "spec": spec}
        path = f"/api/v1/namespaces/{LEASES}/pods"
        return msgspec.json.decode(self.admin.create(path, body))

    def _enter(self, who: str, token: str, within: str = "") -> None:
        at = self._server
        endpoint = Endpoint(server=at.server, token=token, ca_file=at.ca_file)
        client = Client(endpoint, timeout=PATIENCE)
        self._clients[who] = client
        path = f"/api/v1/namespaces/{within}" if within else NODES
        await_true(f"{who} may read", partial(_may_read, client, path))

    def _store(self) -> None:
        """Put there what is changed and deleted later."""
        for node in _NODES[:2]:
            self.admin.create(REPORTS, report(node))
            self.admin.create(leases(LEASES), lease(f"draguard-agent-{node}"))
        self.admin.create(leases(LEASES), lease(REMEDIATOR))
        self.admin.create(INCIDENTS, incident("gpu-0-1"))
        held = {"until": "2099-07-30T18:00:00Z", "by": "ana", "reason": "a test"}
        kept = incident("gpu-0-2")
        self.admin.create(INCIDENTS, {**kept, "spec": {**kept["spec"], "hold": held}})
        for body in (
            taint_rule.manifest(desired_rule(), self.version),
            taint_rule.manifest(desired_rule(device="gpu-5"), self.version),
            foreign("theirs", "example.com/broken", full("gpu-6")),
            foreign("maintenance", "draguard.dev/maintenance", full("gpu-7")),
        ):
            self.admin.create(self.rules, body)

    def _in_force(self) -> bool:
        """A policy and its binding reach the server by watches of its own."""
        tries = (
            Write(STRANGER, "patch", f"{REPORTS}/node-a/status", {"status": {"bootID": "x"}}),
            Write(REMEDIATOR, "delete", f"{leases(LEASES)}/{REMEDIATOR}", {}),
            Write(STRANGER, "create", INCIDENTS, incident("new-1")),
            Write(STRANGER, "create", self.rules, foreign("n", "draguard.dev/gpu", full("gpu-1"))),
            Write(RELEASE, "patch", f"{NODES}/node-a", {"metadata": {"labels": {"a": "b"}}}),
        )
        return all(map(self.refusal, tries))


def _may_read(client: Client, path: str) -> bool:
    try:
        client.get(path)
    except ApiError:
        return False
    return True


def report(node: str, **more: object) -> Json:
    return {
        "apiVersion": "draguard.dev/v1alpha1",
        "kind": "NodeDeviceHealth",
        "metadata": {"name": node, **more},
    }


def lease(name: str) -> Json:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name},
        "spec": {"holderIdentity": "somebody"},
    }


def incident(name: str, **more: object) -> Json:
    return {
        "apiVersion": "draguard.dev/v1alpha1",
        "kind": "DeviceIncident",
        "metadata": {"name": name, "labels": {"draguard.dev/gpu": "GPU-0"}, **more},
        "spec": {"node": "node-a", "uuid": "GPU-0"},
    }


def full(device: str) -> Mapping[str, str]:
    return {"driver": "gpu.nvidia.com", "pool": "node-a", "device": device}


def foreign(
    name: str, key: str, selector: Mapping[str, str], labels: Mapping[str, str] | None = None
) -> Json:
    """Return a rule as a person writes it."""
    taint = {"key": key, "value": "x", "effect": "NoSchedule"}
    spec: Json = {"taint": taint} | ({"deviceSelector": dict(selector)} if selector else {})
    metadata = {"name": name, "labels": dict(labels or {})}
    return {"kind": "DeviceTaintRule", "metadata": metadata, "spec": spec}


def identity(write: Write) -> str:
    return f"{write.who} {write.verb} {write.path.rpartition('/')[2]}: {write.refused or 'allowed'}"
