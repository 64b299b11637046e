"""Pods that do not come up: Draguard's own, and the GPU Operator's driver pods, as checks."""

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import partial

from draguard.cluster.installation import AGENT_ACCOUNT, find_agents, find_replica_sets
from draguard.cluster.listing import listed
from draguard.connection.errors import forbidden
from draguard.connection.whoami import ahead, now
from draguard.doctor.check import Check, bad, ok, unknown, warn
from draguard.doctor.pod_status import (
    EXEC_FORMAT,
    FAILED,
    JUST_CREATED,
    OUT_OF_MEMORY,
    PENDING,
    ContainerStatus,
    Pod,
    within,
)
from draguard.doctor.start_failures import Event, start_failures
from draguard.phrases import age, count
from kubeapi.client import ApiError, Client
from remediator.controller.emergency import FORBIDDEN

DRIVER_PODS = ("app.kubernetes.io/component=nvidia-driver", "app=nvidia-driver-daemonset")
"""Labels of the GPU Operator's driver pods, those of precompiled drivers included."""
OWN_PODS = "app.kubernetes.io/name=draguard"
_MEMORY = {
    "sensor": "exporter.sensor.resources.limits.memory",
    "agent": "exporter.agent.resources.limits.memory",
    "remediator": "remediator.resources.limits.memory",
    "explainer": "explainer.resources.limits.memory",
}
"""By container: the chart's value for its memory limit."""
_OTHER_ARCHITECTURE = (
    "build the image for this node's architecture as well (docs/install.md, The images)"
)
_CAUSES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"no match(ing manifest)? for (platform|linux/)"), _OTHER_ARCHITECTURE),
    (re.compile(EXEC_FORMAT), _OTHER_ARCHITECTURE),
)
"""Words of containerd, CRI-O and Linux, and what to do; the first that fits."""
_OF_IMAGES = frozenset(
    (
        *("ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName"),
        *("ImageInspectError", "RegistryUnavailable"),
    )
)
"""Reasons for which a container waits for its image."""
_IMAGE_CAUSES = (
    *_CAUSES,
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
        re.compile(r""),
        "check image.registry and the tags; of a chart that pins digests, set "
        'image.exporter.digest and image.controller.digest to yours or to "" '
        "(docs/install.md, The images)",
    ),
)


def pods(client: Client, namespace: str, *, logs: bool = True) -> Iterator[Check]:
    """Check both kinds of pods; without `logs`, no end of one is shown. Raises ApiError."""
    own = f"/api/v1/namespaces/{namespace}/pods"
    at = now(ahead(client))
    for about, path, selectors, judge in (
        ("own pods", own, (OWN_PODS,), partial(own_pods, logs=logs)),
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
                yield from _not_started(client, namespace, found.values(), at)


def _not_started(
    client: Client, namespace: str, found: Iterable[Pod], at: datetime
) -> Iterator[Check]:
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
        yield from start_failures(events, (pod.started(at) for pod in found), lacking, namespace)


def own_pods(
    found: Iterable[Pod], now: datetime | None = None, *, logs: bool = True
) -> Iterator[Check]:
    """Name each container of Draguard that does not come up, and why; without any, nothing.

    `now` None: all that has a time is recent.
    """
    found = sorted(found, key=lambda pod: pod.metadata.name)
    lives = [
        pod
        for pod in found
        if pod.status.phase != FAILED and pod.metadata.deletion_timestamp is None
    ]
    for pod, container in _failing(lives, now):
        message, killed = container.message(ended=logs), container.out_of_memory(now)
        words = container.failing(now)
        if killed and OUT_OF_MEMORY not in words:
            words = f"{words} after {OUT_OF_MEMORY}"
        says = f"{_where(pod, container, words)}{f': {message}' if message else ''}"
        causes = _IMAGE_CAUSES if container.waits_for in _OF_IMAGES else _CAUSES
        fitting = (remedy for pattern, remedy in causes if pattern.search(container.cause))
        otherwise = _memory(container) if killed else _logs(pod, container)
        yield bad("own pods", says, next(fitting, otherwise))
    for pod in lives:
        for container in pod.every:
            if not container.failing(now) and container.out_of_memory(now):
                yield warn("own pods", _where(pod, container, OUT_OF_MEMORY), _memory(container))
    for pod, says in _terminating(found, now):
        yield warn("own pods", says, _describe(pod))
    for pod in _not_replaced(found, lives, now):
        why = f" ({pod.status.reason})" if pod.status.reason else ""
        says = f"{_place(pod)}: {FAILED}{why}, and no pod runs in its place"
        yield warn("own pods", says, _describe(pod))


def _not_replaced(
    found: Iterable[Pod], lives: Iterable[Pod], now: datetime | None
) -> Iterator[Pod]:
    """Leave out what an eviction or a shutdown of a node left behind beside a younger pod."""

    def place(pod: Pod) -> tuple[str, str]:
        account = pod.spec.service_account_name
        return account, pod.spec.node_name if account == AGENT_ACCOUNT else ""

    youngest: dict[tuple[str, str], datetime] = {}
    for pod in lives:
        created = pod.metadata.creation_timestamp
        if created and (pod.status.phase != PENDING or within(JUST_CREATED, pod.begun, now)):
            youngest[place(pod)] = max(created, youngest.get(place(pod), created))
    for pod in found:
        if pod.status.phase == FAILED and pod.metadata.deletion_timestamp is None:
            created, after = pod.metadata.creation_timestamp, youngest.get(place(pod))
            if after is None or (created is not None and after < created):
                yield pod


def driver_pods(found: Iterable[Pod], now: datetime | None = None) -> Iterator[Check]:
    """Name each driver pod of the GPU Operator that does not come up; without any, nothing.

    `now` None: all that has a time is recent.
    """
    found = sorted(found, key=lambda pod: pod.metadata.name)
    lives = [pod for pod in found if pod.metadata.deletion_timestamp is None]
    failing = tuple(_failing(lives, now))
    for pod, container in failing:
        where = _where(pod, container, container.failing(now))
        says = f"{where}; its GPUs have no driver meanwhile"
        yield bad("driver pods", says, _logs(pod, container))
    named = {pod.metadata.uid for pod, _ in failing}
    starting = [
        pod
        for pod in lives
        if pod.status.phase in {PENDING, FAILED} and pod.metadata.uid not in named
    ]
    stuck = [
        pod
        for pod in starting
        if pod.status.phase == FAILED or not within(JUST_CREATED, pod.begun, now)
    ]
    for pod in stuck:
        waiting = (each.state.waiting.reason for each in pod.every if each.state.waiting)
        why = pod.status.reason or next(waiting, "")
        says = f"{_place(pod)}: {pod.status.phase}{f' ({why})' if why else ''}"
        yield bad("driver pods", f"{says}; its GPUs have no driver meanwhile", _describe(pod))
    terminating = tuple(_terminating(found, now))
    for pod, says in terminating:
        yield bad("driver pods", f"{says}; no other starts there meanwhile", _describe(pod))
    if lives and not failing and not stuck and not terminating:
        begins = f"; {len(starting)} just created" if starting else ""
        pods = count(len(lives), "pod", "pods")
        yield ok("driver pods", f"{pods} of the GPU Operator, none fails{begins}")


def _terminating(found: Iterable[Pod], now: datetime | None) -> Iterator[tuple[Pod, str]]:
    """Give the pods that should be gone by now, in words: something on the node holds them."""
    for pod in found:
        deleted = pod.metadata.deletion_timestamp
        if now is not None and not within(JUST_CREATED, deleted, now):
            yield pod, f"{_place(pod)}: Terminating for {age(deleted, now)}"


def _memory(container: ContainerStatus) -> str:
    value = _MEMORY.get(container.name, f"the memory limit of container {container.name}")
    return f"raise {value} (in a pool: its own resources)"


def _failing(found: Iterable[Pod], now: datetime | None) -> Iterator[tuple[Pod, ContainerStatus]]:
    for pod in found:
        yield from ((pod, container) for container in pod.every if container.failing(now))


def _place(pod: Pod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name} on {pod.spec.node_name or 'no node'}"


def _where(pod: Pod, container: ContainerStatus, words: str) -> str:
    restarts = count(container.restart_count, "restart", "restarts")
    return f"{_place(pod)}: container {container.name}: {words}, {restarts}"


def _logs(pod: Pod, container: ContainerStatus) -> str:
    if container.waits_for or (not container.restart_count and container.state.waiting):
        return _describe(pod)
    namespace, name = pod.metadata.namespace, pod.metadata.name
    previous = "" if container.state.terminated else " --previous"
    return f"kubectl -n {namespace} logs {name} -c {container.name}{previous}"


def _describe(pod: Pod) -> str:
    return f"kubectl -n {pod.metadata.namespace} describe pod {pod.metadata.name}"
