"""Pods that do not come up: Draguard's own, and the GPU Operator's driver pods, as checks."""

import re
from collections.abc import Iterable, Iterator
from datetime import datetime

import msgspec

from draguard.cluster.installation import find_agents, find_replica_sets
from draguard.cluster.listing import listed
from draguard.connection.errors import forbidden
from draguard.doctor.check import Check, bad, ok, unknown
from draguard.doctor.start_failures import Event, Started, start_failures
from draguard.phrases import count
from kubeapi.client import ApiError, Client
from kubeapi.types import kubernetes_case
from remediator.controller.emergency import FORBIDDEN

DRIVER_PODS = ("app.kubernetes.io/component=nvidia-driver", "app=nvidia-driver-daemonset")
"""Labels of the GPU Operator's driver pods, those of precompiled drivers included."""
OWN_PODS = "app.kubernetes.io/name=draguard"
_FAILING = frozenset(
    {
        *("CrashLoopBackOff", "ImagePullBackOff", "ErrImagePull", "ErrImageNeverPull"),
        *("InvalidImageName", "RunContainerError"),
        *("CreateContainerError", "CreateContainerConfigError"),
    }
)
"""Reasons for which a container waits and that do not end by themselves."""
_OTHER_ARCHITECTURE = (
    "build the image for this node's architecture as well (docs/install.md, The images)"
)
_EXEC_FORMAT = "exec format error"
"""Of Linux: what an image of another architecture ends with, whatever the runtime."""
_CAUSES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"no match(ing manifest)? for (platform|linux/)"), _OTHER_ARCHITECTURE),
    (re.compile(_EXEC_FORMAT), _OTHER_ARCHITECTURE),
    (
        re.compile(r"unauthorized|denied|authentication required", re.IGNORECASE),
        "give the registry's login with image.pullSecrets (docs/install.md, The images)",
    ),
    (
        re.compile(r"ErrImageNeverPull"),
        "load the image on this node, or set image.registry and image.pullPolicy=IfNotPresent "
        "(docs/install.md, The images)",
    ),
    (
        re.compile(r"ImagePull|InvalidImageName|manifest unknown|not found"),
        "check image.registry and the tags: no image of Draguard is published "
        "(docs/install.md, The images)",
    ),
)
"""Words of containerd and CRI-O, and what to do; the first that fits."""
_MESSAGE = 200
"""Characters of a message that are shown."""


class _Waiting(msgspec.Struct, frozen=True):
    reason: str = ""
    message: str = ""


class _Terminated(msgspec.Struct, frozen=True):
    reason: str = ""
    message: str = ""


class _State(msgspec.Struct, frozen=True):
    waiting: _Waiting | None = None
    terminated: _Terminated | None = None


class _ContainerStatus(msgspec.Struct, frozen=True, rename=kubernetes_case):
    name: str = ""
    restart_count: int = 0
    state: _State = _State()
    last_state: _State = _State()

    @property
    def failing(self) -> str:
        """Return the reason for which it waits, "" if it does not or if that will end."""
        waiting, ended = self.state.waiting, self.state.terminated
        if ended and _EXEC_FORMAT in ended.message:
            return ended.reason or "Terminated"
        return waiting.reason if waiting and waiting.reason in _FAILING else ""

    @property
    def message(self) -> str:
        """Return how it ended, or why it does not start; of a long message what is most telling."""
        waiting = self.state.waiting
        return self._ended[-_MESSAGE:] or (waiting.message[:_MESSAGE] if waiting else "")

    @property
    def cause(self) -> str:
        """Return where `_CAUSES` are searched. How it ended may be its log, with any word in it."""
        ended = _EXEC_FORMAT if _EXEC_FORMAT in self._ended else ""
        waiting = self.state.waiting.message if self.state.waiting else ""
        return f"{self.failing} {ended} {waiting}"

    @property
    def _ended(self) -> str:
        ended = self.state.terminated or self.last_state.terminated
        return " ".join(ended.message.split()) if ended else ""


class _PodStatus(msgspec.Struct, frozen=True, rename=kubernetes_case):
    phase: str = ""
    container_statuses: tuple[_ContainerStatus, ...] | None = ()
    init_container_statuses: tuple[_ContainerStatus, ...] | None = ()


class _PodSpec(msgspec.Struct, frozen=True, rename=kubernetes_case):
    node_name: str = ""


class _Owner(msgspec.Struct, frozen=True):
    uid: str = ""
    controller: bool = False


class _PodMeta(msgspec.Struct, frozen=True, rename=kubernetes_case):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    creation_timestamp: datetime | None = None
    owner_references: tuple[_Owner, ...] = ()


class Pod(msgspec.Struct, frozen=True):
    metadata: _PodMeta
    spec: _PodSpec = _PodSpec()
    status: _PodStatus = _PodStatus()

    @property
    def every(self) -> Iterator[_ContainerStatus]:
        yield from self.status.init_container_statuses or ()
        yield from self.status.container_statuses or ()

    @property
    def started(self) -> Started:
        meta = self.metadata
        owner = next((ref.uid for ref in meta.owner_references if ref.controller), "")
        # What a container waits for is a line of its own, and Events say the same once more.
        pending = self.status.phase == "Pending" and not any(each.failing for each in self.every)
        return Started(meta.uid, owner, meta.creation_timestamp, pending)


def pods(client: Client, namespace: str) -> Iterator[Check]:
    """Check both kinds of pods. Raises ApiError."""
    own = f"/api/v1/namespaces/{namespace}/pods"
    for about, path, selectors, judge in (
        ("own pods", own, (OWN_PODS,), own_pods),
        ("driver pods", "/api/v1/pods", DRIVER_PODS, driver_pods),
    ):
        try:
            found = {
                pod.metadata.uid: pod
                for selector in selectors
                for pod in listed(client, path, Pod, {"labelSelector": selector})[0]
            }
        except ApiError as error:
            if error.status != FORBIDDEN:
                raise
            yield unknown(about, forbidden(error.message), "docs/cli.md, Rights")
        else:
            yield from judge(found.values())
            if about == "own pods":
                yield from _not_started(client, namespace, found.values())


def _not_started(client: Client, namespace: str, found: Iterable[Pod]) -> Iterator[Check]:
    path = f"/api/v1/namespaces/{namespace}/events"
    try:
        events, _ = listed(client, path, Event, {"fieldSelector": "type=Warning"})
        workloads = find_agents(client, namespace)
        sets = find_replica_sets(client, namespace)
    except ApiError as error:
        if error.status != FORBIDDEN:
            raise
        yield unknown("own pods", forbidden(error.message), "docs/cli.md, Rights")
    else:
        lacking = {
            workload.metadata.uid
            for workload in workloads
            if workload.status.number_ready < workload.status.desired_number_scheduled
        } | {each.metadata.uid for each in sets if each.status.replicas < each.spec.replicas}
        yield from start_failures(events, (pod.started for pod in found), lacking, namespace)


def own_pods(found: Iterable[Pod]) -> Iterator[Check]:
    """Name each container of Draguard that does not come up, and why; without any, nothing."""
    for pod, container in _failing(found):
        message = " ".join(container.message.split())
        says = f"{_where(pod, container)}{f': {message}' if message else ''}"
        fitting = (remedy for pattern, remedy in _CAUSES if pattern.search(container.cause))
        yield bad("own pods", says, next(fitting, _logs(pod, container)))


def driver_pods(found: Iterable[Pod]) -> Iterator[Check]:
    """Name each driver pod of the GPU Operator that does not come up; without any, nothing."""
    found = tuple(found)
    failing = tuple(_failing(found))
    for pod, container in failing:
        says = f"{_where(pod, container)}; its GPUs have no driver meanwhile"
        yield bad("driver pods", says, _logs(pod, container))
    if found and not failing:
        yield ok(
            "driver pods", f"{count(len(found), 'pod', 'pods')} of the GPU Operator, none fails"
        )


def _failing(found: Iterable[Pod]) -> Iterator[tuple[Pod, _ContainerStatus]]:
    for pod in sorted(found, key=lambda pod: pod.metadata.name):
        yield from ((pod, container) for container in pod.every if container.failing)


def _where(pod: Pod, container: _ContainerStatus) -> str:
    restarts = count(container.restart_count, "restart", "restarts")
    return (
        f"{pod.metadata.namespace}/{pod.metadata.name} on {pod.spec.node_name or 'no node'}: "
        f"container {container.name}: {container.failing}, {restarts}"
    )


def _logs(pod: Pod, container: _ContainerStatus) -> str:
    namespace, name = pod.metadata.namespace, pod.metadata.name
    return f"kubectl -n {namespace} logs {name} -c {container.name} --previous"
