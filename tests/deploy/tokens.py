"""Tokens of service accounts as kubelets get them: bound to a pod, and by it to the pod's node."""

from typing import Any

import msgspec

from kubeapi.client import Client

Json = dict[str, Any]
LASTS = 3600
"""Seconds; as a kubelet asks for by default."""


class _Issued(msgspec.Struct):
    token: str


class _Answer(msgspec.Struct):
    status: _Issued


def of_pod(admin: Client, pod: Json) -> str:
    """Return a token of the pod's account; it names the pod's node if the pod has one by now."""
    meta = pod["metadata"]
    bound = {"kind": "Pod", "apiVersion": "v1", "name": meta["name"], "uid": meta["uid"]}
    return _requested(admin, meta["namespace"], pod["spec"]["serviceAccountName"], bound)


def of_account(admin: Client, namespace: str, account: str) -> str:
    """Return a token bound to nothing, as `kubectl create token` gets it."""
    return _requested(admin, namespace, account, None)


def of_node(admin: Client, namespace: str, account: str, node: str) -> str:
    """Return a token bound to a Node, as whoever may make tokens in the namespace gets it."""
    bound = {"kind": "Node", "apiVersion": "v1", "name": node}
    return _requested(admin, namespace, account, bound)


def _requested(admin: Client, namespace: str, account: str, bound: Json | None) -> str:
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": LASTS, "boundObjectRef": bound},
    }
    return msgspec.json.decode(admin.create(path, body), type=_Answer).status.token
