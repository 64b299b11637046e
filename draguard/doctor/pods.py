"""Pods that do not come up: Draguard's own, and the GPU Operator's driver pods, as checks."""

import re
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

import msgspec

from draguard.cluster.installation import find_agents, find_replica_sets
from draguard.cluster.listing import listed
from draguard.connection.errors import forbidden
from draguard.connection.whoami import ahead, now
from draguard.doctor.check import Check, bad, ok, unknown, warn
from draguard.doctor.start_failures import Event, Started, start_failures
from draguard.phrases import count
from kubeapi.client import ApiError, Client
from kubeapi.types import kubernetes_case
from remediator.controller.emergency import FORBIDDEN

DRIVER_PODS = ("app.kubernetes.io/component=nvidia-driver", "app=nvidia-driver-daemonset")
"""Labels of the GPU Operator's driver pods, those of precompiled drivers included."""
OWN_PODS = "app.kubernetes.io/name=draguard"
_STARTING = frozenset({"", "ContainerCreating", "PodInitializing"})
"""Reasons for which a container waits before it starts; every other one is a failure."""
_NO_FAILURE = frozenset({"", "Completed", "Unknown"})
"""Reasons for which one has ended: Unknown, with another exit status than 0, after a reboot."""
_OUT_OF_MEMORY = "OOMKilled"
_MEMORY = {
    "sensor": "exporter.sensor.resources.limits.memory",
    "agent": "exporter.agent.resources.limits.memory",
    "remediator": "remediator.resources.limits.memory",
}
"""By container: the chart's value for its memory limit."""
_JUST_CREATED = timedelta(minutes=10)
"""Time for a pod to be scheduled and its images to be pulled: a driver's is large."""
_RECENT = timedelta(days=1)
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
        re.compile(r"Image|RegistryUnavailable|manifest unknown|not found"),
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


class _Terminated(msgspec.Struct, frozen=True, rename=kubernetes_case):
    reason: str = ""
    message: str = ""
    exit_code: int = 0
    finished_at: datetime | None = None

    @property
    def failure(self) -> str:
        """Return the reason if it failed, else ""."""
        if self.reason not in _NO_FAILURE:
            return self.reason
        return "Error" if self.exit_code and not self.reason else ""


class _State(msgspec.Struct, frozen=True):
    waiting: _Waiting | None = None
    terminated: _Terminated | None = None


class _ContainerStatus(msgspec.Struct, frozen=True, rename=kubernetes_case):
    name: str = ""
    ready: bool = False
    restart_count: int = 0
    state: _State = _State()
    last_state: _State = _State()

    @property
    def failing(self) -> str:
        """Return why it does not work, "" if it does or still starts for the first time."""
        waiting, ended = self.state.waiting, self.state.terminated
        if waiting and waiting.reason not in _STARTING:
            return waiting.reason
        if ended:
            return ended.failure
        before = self.last_state.terminated
        if before and before.failure and self.restart_count and not self.ready:
            return f"not ready after {before.failure}"
        return ""

    def out_of_memory(self, now: datetime | None) -> bool:
        """Whether it was killed within a day because it reached its memory limit."""
        return any(
            ended.reason == _OUT_OF_MEMORY and _within(_RECENT, ended.finished_at, now)
            for ended in (self.state.terminated, self.last_state.terminated)
            if ended
        )

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
        both = (self.state.terminated, self.last_state.terminated)
        stated = next((ended.message for ended in both if ended and ended.message), "")
        return " ".join(stated.split())


class _PodStatus(msgspec.Struct, frozen=True, rename=kubernetes_case):
    phase: str = ""
    reason: str = ""
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
    deletion_timestamp: datetime | None = None
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
    at = now(ahead(client))
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
            yield from judge(found.values(), at)
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


def own_pods(found: Iterable[Pod], now: datetime | None = None) -> Iterator[Check]:
    """Name each container of Draguard that does not come up, and why; without any, nothing.

    `now` None: all that has a time is recent.
    """
    found = tuple(found)
    for pod, container in _failing(found):
        message = " ".join(container.message.split())
        words = _killed(container.failing) if container.out_of_memory(now) else container.failing
        says = f"{_where(pod, container, words)}{f': {message}' if message else ''}"
        fitting = (remedy for pattern, remedy in _CAUSES if pattern.search(container.cause))
        otherwise = _memory(container) if container.out_of_memory(now) else _logs(pod, container)
        yield bad("own pods", says, next(fitting, otherwise))
    for pod in sorted(found, key=lambda pod: pod.metadata.name):
        for container in pod.every:
            if not container.failing and container.out_of_memory(now):
                yield warn("own pods", _where(pod, container, _OUT_OF_MEMORY), _memory(container))


def driver_pods(found: Iterable[Pod], now: datetime | None = None) -> Iterator[Check]:
    """Name each driver pod of the GPU Operator that does not come up; without any, nothing.

    `now` None: all that has a time is recent.
    """
    found = tuple(pod for pod in found if pod.metadata.deletion_timestamp is None)
    failing = tuple(_failing(found))
    for pod, container in failing:
        says = f"{_where(pod, container, container.failing)}; its GPUs have no driver meanwhile"
        yield bad("driver pods", says, _logs(pod, container))
    named = {pod.metadata.uid for pod, _ in failing}
    starting = [
        pod
        for pod in sorted(found, key=lambda pod: pod.metadata.name)
        if pod.status.phase in {"Pending", "Failed"} and pod.metadata.uid not in named
    ]
    stuck = [
        pod
        for pod in starting
        if pod.status.phase == "Failed"
        or not _within(_JUST_CREATED, pod.metadata.creation_timestamp, now)
    ]
    for pod in stuck:
        waiting = (each.state.waiting.reason for each in pod.every if each.state.waiting)
        why = pod.status.reason or next(waiting, "")
        says = f"{_place(pod)}: {pod.status.phase}{f' ({why})' if why else ''}"
        remedy = f"kubectl -n {pod.metadata.namespace} describe pod {pod.metadata.name}"
        yield bad("driver pods", f"{says}; its GPUs have no driver meanwhile", remedy)
    if found and not failing and not stuck:
        begins = f"; {len(starting)} just created" if starting else ""
        pods = count(len(found), "pod", "pods")
        yield ok("driver pods", f"{pods} of the GPU Operator, none fails{begins}")


def _within(time: timedelta, at: datetime | None, now: datetime | None) -> bool:
    return at is None or now is None or now - at < time


def _killed(failing: str) -> str:
    return failing if _OUT_OF_MEMORY in failing else f"{failing} after {_OUT_OF_MEMORY}"


def _memory(container: _ContainerStatus) -> str:
    value = _MEMORY.get(container.name, f"the memory limit of container {container.name}")
    return f"raise {value} (in a pool: its own resources)"


def _failing(found: Iterable[Pod]) -> Iterator[tuple[Pod, _ContainerStatus]]:
    for pod in sorted(found, key=lambda pod: pod.metadata.name):
        yield from ((pod, container) for container in pod.every if container.failing)


def _place(pod: Pod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name} on {pod.spec.node_name or 'no node'}"


def _where(pod: Pod, container: _ContainerStatus, words: str) -> str:
    restarts = count(container.restart_count, "restart", "restarts")
    return f"{_place(pod)}: container {container.name}: {words}, {restarts}"


def _logs(pod: Pod, container: _ContainerStatus) -> str:
    namespace, name = pod.metadata.namespace, pod.metadata.name
    if not container.restart_count and container.state.waiting:
        return f"kubectl -n {namespace} describe pod {name}"
    previous = "" if container.state.terminated else " --previous"
    return f"kubectl -n {namespace} logs {name} -c {container.name}{previous}"
