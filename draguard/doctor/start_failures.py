"""Warning Events of Draguard's pods that do not come up, into checks. Pure.

A pod that its DaemonSet or ReplicaSet may not create has no status, and one whose volumes or
sandbox fail only waits: Events alone have the reason.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from datetime import UTC, datetime

import msgspec

from draguard.doctor.check import Check, bad
from draguard.phrases import some
from draguard.redaction import redacted
from kubeapi.types import kubernetes_case

_STACK = "choose the stack of what the nodes have (docs/install.md, What your nodes have)"
_CAUSES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"RuntimeClass .* not found|no runtime for .* is configured"), _STACK),
    (
        re.compile(r"violates PodSecurity"),
        "kubectl label namespace {namespace} pod-security.kubernetes.io/enforce=privileged",
    ),
    (
        re.compile(r"insufficient quota"),
        "add a ResourceQuota for the priority classes; on GKE set stack=gke",
    ),
    (
        re.compile(r"security context constraint"),
        "on OpenShift set stack=openshift, which binds SecurityContextConstraints",
    ),
    (
        re.compile(r"hostPath type check failed[:,] \S*/pod-resources"),
        "set exporter.kubeletPath to the kubelet's folder (docs/install.md, What your nodes have)",
    ),
    (re.compile(r"hostPath type check failed"), _STACK),
)
"""Words of the API server, the kubelet and containerd, and what to do; the first that fits."""
_POD = "Pod"
_UNDATED = datetime.min.replace(tzinfo=UTC)
_MESSAGE = 200
"""Characters of a message that are shown."""


class _Object(msgspec.Struct, frozen=True):
    kind: str = ""
    name: str = ""
    uid: str = ""


class Event(msgspec.Struct, frozen=True, rename=kubernetes_case):
    involved_object: _Object = _Object()
    reason: str = ""
    message: str = ""
    last_timestamp: datetime | None = None
    event_time: datetime | None = None

    @property
    def at(self) -> datetime | None:
        return self.last_timestamp or self.event_time


class Started(msgspec.Struct, frozen=True):
    """What is known of one of Draguard's pods."""

    uid: str
    owner: str
    """UID of what created it."""
    created: datetime | None
    pending: bool


def start_failures(
    events: Iterable[Event], pods: Iterable[Started], lacking: Collection[str], namespace: str
) -> Iterator[Check]:
    """Name what keeps pods from being created or started now; what is over is no line.

    `lacking` has the UIDs of the DaemonSets and ReplicaSets with fewer pods than they should have.
    """
    pods = tuple(pods)
    names: dict[tuple[str, str, str], list[str]] = {}
    for event in _newest(events):
        if _lasts(event, pods, lacking):
            about = event.involved_object
            message = " ".join(redacted(event.message).split())[:_MESSAGE]
            found = names.setdefault((about.kind, event.reason, _general(message, about)), [])
            if about.name not in found:
                found.append(about.name)
    for (kind, reason, message), whose in sorted(names.items()):
        fitting = (remedy for pattern, remedy in _CAUSES if pattern.search(message))
        otherwise = f"kubectl -n {{namespace}} describe {kind.lower()} {whose[0]}"
        says = f"{kind} {some(sorted(whose))}: {reason}: {message}"
        yield bad("own pods", says, next(fitting, otherwise).format(namespace=namespace))


def _general(message: str, about: _Object) -> str:
    """Return a message without the object's own name, so that those of many are one line."""
    return message.replace(f'"{about.name}-', '"').replace(about.name, "")


def _newest(events: Iterable[Event]) -> Iterator[Event]:
    """Leave out what failed before for another reason: the last failure of each object counts."""
    by_age = sorted(events, key=lambda event: event.at or _UNDATED)
    return iter({event.involved_object: event for event in by_age}.values())


def _lasts(event: Event, pods: Iterable[Started], lacking: Collection[str]) -> bool:
    about = event.involved_object
    if about.kind == _POD:
        return any(pod.uid == about.uid and pod.pending for pod in pods)
    if about.uid not in lacking or event.reason != "FailedCreate":
        return False
    created = [pod.created for pod in pods if pod.owner == about.uid and pod.created]
    return event.at is None or all(moment < event.at for moment in created)
