"""Plays the parts of a kubelet and a GPU driver that plain Node objects need.

Pods that the real scheduler binds to its nodes become Running, deleted ones are finished, and
ResourceSlices given as plain objects are published. One worker thread, fed by two watches.
"""

import contextlib
import heapq
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from time import monotonic

from kubeapi import clock
from kubeapi.client import ApiError, Client, Conflict, NotFound
from kubeapi.reflector import Reflector
from kubeapi.store import Change
from simulator.cluster import publisher
from simulator.cluster.pods import Claim, Pod, is_startable, pod_resources

NODES = "/api/v1/nodes"
_CLAIMS = "/apis/resource.k8s.io/v1/resourceclaims"
_NOT_READY = "node.kubernetes.io/not-ready"
RUNTIME = "containerd://2.1.4"
"""What a kubelet with a recent containerd reports."""
_CAPACITY = {"cpu": "128", "memory": "1Ti", "pods": "250", "ephemeral-storage": "1Ti"}
_RETRY_SECONDS = 0.2
_log = logging.getLogger(__name__)


def ignore(node: str) -> None:
    """Do nothing about a node whose pods changed."""


class NodePlayer:
    """Plays the nodes that were given to `add_node`.

    `on_change` gets the name of a node whose `pods_of` may have changed, on a thread of the
    player; it must be short and must not raise.
    """

    def __init__(self, client: Client, on_change: Callable[[str], None] = ignore) -> None:
        self._client = client
        self._on_change = on_change
        self._nodes: set[str] = set()
        self._due: list[tuple[float, str]] = []
        self._wake = threading.Condition()
        self._stopped = False
        self._pods = Reflector(client, "/api/v1/pods", Pod, on_change=self._pod_changed)
        self._claims = Reflector(client, _CLAIMS, Claim, on_change=self._claim_changed)
        self._thread = threading.Thread(target=self._run, name="node player", daemon=True)

    def start(self) -> None:
        self._pods.start()
        self._claims.start()
        self._thread.start()

    def stop(self) -> None:
        with self._wake:
            self._stopped = True
            self._wake.notify()
        self._pods.stop()
        self._claims.stop()
        self._thread.join()

    def add_node(self, name: str, labels: Mapping[str, str] | None = None) -> None:
        """Register a node that is Ready and has room; fine when it exists. Raises ApiError."""
        self._nodes.add(name)
        all_labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", **(labels or {})}
        node = {"apiVersion": "v1", "kind": "Node"}
        with contextlib.suppress(Conflict):
            self._client.create(NODES, {**node, "metadata": {"name": name, "labels": all_labels}})
        now = clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "KubeletReady",
            "message": "played by a simulator",
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        }
        status = {
            "capacity": _CAPACITY,
            "allocatable": _CAPACITY,
            "conditions": [ready],
            "nodeInfo": {"containerRuntimeVersion": RUNTIME},
        }
        self._client.merge_patch(f"{NODES}/{name}/status", {"status": status})
        taints = publisher.read(self._client, f"{NODES}/{name}")["spec"].get("taints", [])
        kept = [taint for taint in taints if taint["key"] != _NOT_READY]
        self._client.merge_patch(f"{NODES}/{name}", {"spec": {"taints": kept}})
        for key in self._pods.items():
            self._later(key, 0.0)

    def remove_node(self, name: str) -> None:
        """Take the node out of the cluster; its slices go with it by garbage collection."""
        self._nodes.discard(name)
        with contextlib.suppress(NotFound):
            self._client.delete(f"{NODES}/{name}")

    def nodes(self) -> list[str]:
        """Return the names of the nodes that are played."""
        return sorted(self._nodes)

    def publish(
        self, node: str, slices: Iterable[publisher.Json], *, new_generation: bool = False
    ) -> list[publisher.Json]:
        """Make the node's ResourceSlices equal to `slices`; see `publisher.publish`."""
        return publisher.publish(self._client, node, slices, new_generation=new_generation)

    def pods_of(self, node: str) -> list[publisher.Json]:
        """Return what the node's PodResources must answer now: its running pods.

        As `simulator.kubelet.Kubelet.set_pods` takes it.
        """
        claims = self._claims.items()
        return [
            pod_resources(pod, claims)
            for _, pod in sorted(self._pods.items().items())
            if pod.spec.node_name == node and pod.status.phase == "Running"
        ]

    def _pod_changed(self, change: Change[Pod]) -> None:
        pod = change.new or change.old
        if pod is not None and pod.spec.node_name:
            self._later(change.key, 0.0)
            if change.new is None:
                self._report(pod.spec.node_name)

    def _claim_changed(self, change: Change[Claim]) -> None:
        claim = change.new or change.old
        for consumer in claim.status.reserved_for if claim else ():
            self._later(f"{claim.metadata.namespace}/{consumer.name}" if claim else "", 0.0)

    def _report(self, node: str) -> None:
        if node in self._nodes:
            self._on_change(node)

    def _later(self, key: str, seconds: float) -> None:
        with self._wake:
            heapq.heappush(self._due, (monotonic() + seconds, key))
            self._wake.notify()

    def _next(self) -> str | None:
        """Wait for the next pod to look at; None when it is time to stop."""
        with self._wake:
            while not self._stopped:
                if self._due and self._due[0][0] <= monotonic():
                    return heapq.heappop(self._due)[1]
                self._wake.wait(self._due[0][0] - monotonic() if self._due else None)
        return None

    def _run(self) -> None:
        while (key := self._next()) is not None:
            pod = self._pods.items().get(key)
            if pod is None or pod.spec.node_name not in self._nodes:
                continue
            try:
                self._play(pod)
            except (NotFound, Conflict):
                continue
            except ApiError as error:
                _log.info("%s: %s; again soon", key, error)
                self._later(key, _RETRY_SECONDS)

    def _play(self, pod: Pod) -> None:
        """Do what the node's kubelet would do next about the pod. Raises ApiError."""
        if pod.metadata.deletion_timestamp is not None:
            path = _path(pod)
            uid = {"uid": pod.metadata.uid}
            self._client.delete(path, {"gracePeriodSeconds": 0, "preconditions": uid})
        elif pod.status.phase == "Pending" and is_startable(pod, self._claims.items()):
            # By its UID: another pod may have its name by now.
            body = {"metadata": {"uid": pod.metadata.uid}, "status": _running(pod)}
            self._client.merge_patch(f"{_path(pod)}/status", body)
        elif pod.status.phase == "Running":
            self._report(pod.spec.node_name)


def _path(pod: Pod) -> str:
    return f"/api/v1/namespaces/{pod.metadata.namespace}/pods/{pod.metadata.name}"


def _running(pod: Pod) -> publisher.Json:
    now = clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": now}
        for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    ]
    containers = [
        {
            "name": container.name,
            "image": container.image,
            "imageID": "",
            "ready": True,
            "started": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": now}},
        }
        for container in pod.spec.containers
    ]
    return {
        "phase": "Running",
        "startTime": now,
        "podIP": "192.0.2.1",
        "conditions": conditions,
        "containerStatuses": containers,
    }
