"""A real cluster as one test sees it: empty at the start, and emptied at the end."""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

from kubeapi.client import ApiError, Client, NotFound
from kubeapi.discovery import served
from simulator.cluster.controlplane import ControlPlane
from simulator.cluster.nodes import NodePlayer
from simulator.cluster.workloads import device_classes

T = TypeVar("T")
CLEAN_SECONDS = 120.0
SHORTEST_PAUSE, LONGEST_PAUSE = 0.02, 0.1
"""Seconds between two looks: what comes soon is seen soon, what takes long is queried seldom."""
Json = dict[str, Any]
RULES = "/apis/resource.k8s.io/v1/devicetaintrules"
"""`Cluster` reads it in the version that its API server has."""
_RULE_VERSIONS = ("v1", "v1beta2", "v1alpha3")
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
NODES = "/api/v1/nodes"
_WRITTEN_OF_THEMSELVES = (
    "/apis/coordination.k8s.io/v1/namespaces/draguard-system/leases",
    "/api/v1/namespaces/default/events",
    "/api/v1/namespaces/kube-system/events",
)
"""What the programs of a test said of themselves; nothing makes it go."""
_OWNERS = ("/apis/apps/v1/deployments", "/apis/apps/v1/replicasets", "/apis/batch/v1/jobs")
_REST = (
    "/api/v1/pods",
    "/apis/policy/v1/poddisruptionbudgets",
    "/apis/resource.k8s.io/v1/resourceclaimtemplates",
    "/apis/resource.k8s.io/v1/resourceclaims",
    RULES,
    SLICES,
    NODES,
)
_OURS = ("nodedevicehealths", "deviceincidents")


def await_true(what: str, condition: Callable[[], T], timeout: float = 60.0) -> T:
    """Poll until the condition gives something true, and return it; fails saying `what`."""
    deadline = time.monotonic() + timeout
    pause = SHORTEST_PAUSE
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not within {timeout:.0f} s: {what}"
        time.sleep(pause)
        pause = min(pause * 1.2, LONGEST_PAUSE)
    return found


class Cluster:
    """`plane` the real control plane, `client` its admin, `player` the nodes' part."""

    def __init__(self, plane: ControlPlane, client: Client, player: NodePlayer) -> None:
        self.plane = plane
        self.client = client
        self.player = player
        self.namespace = "default"
        found = served(client, "resource.k8s.io", "devicetaintrules", _RULE_VERSIONS)
        self.rules = RULES.replace("/v1/", f"/{found or 'v1'}/")

    def get(self, path: str) -> Json:
        return msgspec.json.decode(self.client.get(path), type=dict[str, Any])

    def items(self, path: str) -> list[Json]:
        """Return the items at `path`; none when it is not served."""
        try:
            return self.get(self.rules if path == RULES else path)["items"]
        except NotFound:
            return []

    def add(self, group_version: str, resource: str, body: Json) -> Json:
        """Create a namespaced object, such as `add("apps/v1", "deployments", ...)`."""
        root = f"/apis/{group_version}" if "/" in group_version else f"/api/{group_version}"
        path = f"{root}/namespaces/{self.namespace}/{resource}"
        return msgspec.json.decode(self.client.create(path, body), type=dict[str, Any])

    def pods(self) -> list[Json]:
        return self.items("/api/v1/pods")

    def running(self) -> list[Json]:
        return [pod for pod in self.pods() if pod["status"]["phase"] == "Running"]

    def device_of(self, pod: str) -> str:
        """Return `pool/device` of the first device that the pod's claims were given."""
        return self.devices().get(pod, "")

    def devices(self) -> dict[str, str]:
        """Return `pool/device` by name of the pod that it is reserved for, for all claims."""
        found: dict[str, str] = {}
        for claim in self.items("/apis/resource.k8s.io/v1/resourceclaims"):
            status = claim.get("status", {})
            for consumer in status.get("reservedFor", []):
                result = status["allocation"]["devices"]["results"][0]
                found.setdefault(consumer["name"], f"{result['pool']}/{result['device']}")
        return found

    def clean(self) -> None:
        """Remove what tests make; returns when nothing of it is left and no node is played."""
        for node in self.player.nodes():
            self.player.remove_node(node)
        for path in _WRITTEN_OF_THEMSELVES:
            self.client.delete(path)
        self._delete_all(_OWNERS, {"propagationPolicy": "Background"})
        kinds = [*_REST, *self._custom()]
        deadline = time.monotonic() + CLEAN_SECONDS
        while left := [kind for kind in (*_OWNERS, *kinds) if self.items(kind)]:
            assert time.monotonic() < deadline, f"still there after a test: {', '.join(left)}"
            self._delete_all(left, {"gracePeriodSeconds": 0})
            time.sleep(0.02)

    def _custom(self) -> list[str]:
        return [
            f"/apis/draguard.dev/v1alpha1/{resource}"
            for resource in _OURS
            if served(self.client, "draguard.dev", resource, ["v1alpha1"])
        ]

    def _delete_all(self, paths: "list[str] | tuple[str, ...]", options: Json) -> None:
        for path in paths:
            for item in self.items(path):
                self._delete(path, item["metadata"], options)

    def _delete(self, path: str, metadata: Json, options: Json) -> None:
        namespace = metadata.get("namespace")
        if namespace:
            root, resource = path.rsplit("/", 1)
            path = f"{root}/namespaces/{namespace}/{resource}"
        path = self.rules if path == RULES else path
        with suppress(NotFound):
            self.client.delete(f"{path}/{metadata['name']}", options)


def install_classes(client: Client) -> None:
    """Create NVIDIA's device classes; fine when they exist."""
    for item in device_classes():
        try:
            client.create(CLASSES, item)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
