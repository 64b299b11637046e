"""The doctor reads in Events why a pod of ours is not created or does not start."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from draguard.doctor.pod_status import Pod
from draguard.doctor.start_failures import Event, Started, start_failures

AT = datetime(2026, 11, 26, 3, 0, tzinfo=UTC)
NODES_HAVE = "docs/install.md, What your nodes have"
PENDING = Started("pod", "set", AT - timedelta(minutes=1), pending=True)


def event(kind: str, reason: str, message: str, *, name: str = "draguard-exporter") -> Event:
    uid = "set" if kind == "DaemonSet" else "pod"
    body = {
        "involvedObject": {"kind": kind, "name": name, "uid": uid},
        "reason": reason,
        "message": message,
        "lastTimestamp": AT,
    }
    return msgspec.convert(body, Event)


REFUSED = 'Error creating: pods "draguard-exporter-" is forbidden: '


@pytest.mark.parametrize(
    ("kind", "reason", "message", "remedy"),
    [
        (
            "DaemonSet",
            "FailedCreate",
            f'{REFUSED}pod rejected: RuntimeClass "nvidia" not found',
            NODES_HAVE,
        ),
        (
            "DaemonSet",
            "FailedCreate",
            f'{REFUSED}violates PodSecurity "baseline:latest": hostPath volumes',
            "kubectl label namespace draguard-system pod-security.kubernetes.io/enforce=privileged",
        ),
        (
            "DaemonSet",
            "FailedCreate",
            f"{REFUSED}insufficient quota to match these scopes: [{{PriorityClass In []}}]",
            "stack=gke",
        ),
        (
            "DaemonSet",
            "FailedCreate",
            f"{REFUSED}unable to validate against any security context constraint: []",
            "stack=openshift",
        ),
        (
            "Pod",
            "FailedMount",
            'MountVolume.SetUp failed for volume "pod-resources" : hostPath type check failed: '
            "/var/lib/kubelet/pod-resources is not a directory",
            "exporter.kubeletPath",
        ),
        # So the kubelet of Kubernetes 1.37 has it.
        (
            "Pod",
            "FailedMount",
            'MountVolume.SetUp failed for volume "pod-resources" : hostPath type check failed, '
            "/nowhere/pod-resources is not a directory, unable to determine its type",
            "exporter.kubeletPath",
        ),
        (
            "Pod",
            "FailedMount",
            'MountVolume.SetUp failed for volume "driver" : hostPath type check failed: '
            "/home/kubernetes/bin/nvidia is not a directory",
            NODES_HAVE,
        ),
        (
            "Pod",
            "FailedCreatePodSandBox",
            'failed to get sandbox runtime: no runtime for "nvidia" is configured',
            NODES_HAVE,
        ),
        (
            "Pod",
            "FailedMount",
            'configmap "draguard-policy" not found',
            "kubectl -n draguard-system describe pod draguard-exporter",
        ),
    ],
)
def test_what_keeps_a_pod_from_starting_is_named_with_what_to_do(
    kind: str, reason: str, message: str, remedy: str
) -> None:
    (found,) = start_failures([event(kind, reason, message)], [PENDING], {"set"}, "draguard-system")

    assert (found.about, found.state) == ("own pods", "bad")
    assert found.says.startswith(f"{kind} draguard-exporter: {reason}: ")
    assert message[-30:] in found.says
    assert remedy in found.remedy


def test_a_secret_in_an_event_is_masked_before_its_message_is_cut() -> None:
    message = f"pull of https://robot:{'s3cret' * 40}@registry.example.com/x failed"

    (found,) = start_failures([event("Pod", "Failed", message)], [PENDING], {"set"}, "n")

    assert "s3cret" not in found.says


def test_the_same_of_many_pods_is_one_line() -> None:
    events = [event("Pod", "FailedMount", "no such folder", name=f"e-{n}") for n in range(5)]

    (found,) = start_failures([*events, *events], [PENDING], {"set"}, "draguard-system")

    assert found.says == "Pod e-0, e-1, e-2 and 2 more: FailedMount: no such folder"


@pytest.mark.parametrize(
    ("kind", "pods", "lacking"),
    [
        ("Pod", [Started("pod", "set", AT, pending=False)], {"set"}),
        ("Pod", [Started("another", "set", AT, pending=True)], {"set"}),
        ("DaemonSet", [Started("pod", "set", AT + timedelta(seconds=1), pending=False)], {"set"}),
        ("DaemonSet", [], set[str]()),
    ],
    ids=["it runs", "it is gone", "one was created since", "none is missing"],
)
def test_what_is_over_is_no_line(kind: str, pods: list[Started], lacking: set[str]) -> None:
    events = [event(kind, "FailedCreate", "RuntimeClass x not found")]

    assert list(start_failures(events, pods, lacking, "draguard-system")) == []


@pytest.mark.parametrize(("kind", "pods"), [("DaemonSet", []), ("Pod", [PENDING])])
def test_of_several_refusals_the_last_counts(kind: str, pods: list[Started]) -> None:
    before = event(kind, "FailedCreate", "RuntimeClass x not found")
    after = msgspec.structs.replace(
        event(kind, "FailedCreate", "violates PodSecurity"),
        last_timestamp=AT + timedelta(minutes=1),
    )

    (found,) = start_failures([after, before], pods, {"set"}, "draguard-system")

    assert "violates PodSecurity" in found.says


def test_a_container_that_fails_is_not_reported_by_its_events_again() -> None:
    waiting = {"name": "agent", "state": {"waiting": {"reason": "ImagePullBackOff"}}}
    body: dict[str, Any] = {
        "metadata": {"name": "draguard-exporter", "uid": "pod"},
        "status": {"phase": "Pending", "containerStatuses": [waiting]},
    }
    events = [event("Pod", "Failed", "Failed to pull image"), event("Pod", "Failed", "Error")]

    failing = msgspec.convert(body, Pod)
    assert list(start_failures(events, [failing.started()], set(), "draguard-system")) == []
    body["status"]["containerStatuses"] = []
    creating = msgspec.convert(body, Pod)
    assert len([*start_failures(events, [creating.started()], set(), "draguard-system")]) == 1
