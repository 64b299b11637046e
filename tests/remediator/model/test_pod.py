"""What a pod's own object tells about it."""

from typing import Any

import msgspec
import pytest

from remediator.model.pod import PodFacts, RawPod, facts_of


def facts(**parts: Any) -> PodFacts:
    meta = {"name": "p", "namespace": "team", "uid": "u"} | parts.pop("metadata", {})
    return facts_of(msgspec.convert({"metadata": meta, **parts}, RawPod))


def owned(kind: str, name: str, labels: dict[str, str] | None = None) -> str:
    references = [
        {"kind": "Other", "name": "x"},
        {"kind": kind, "name": name, "controller": True, "uid": "o"},
    ]
    return facts(metadata={"ownerReferences": references, "labels": labels or {}}).owner


def test_a_bare_pod_owns_itself() -> None:
    assert facts() == PodFacts(namespace="team", name="p", uid="u")


@pytest.mark.parametrize(
    ("kind", "name", "labels", "owner"),
    [
        ("Job", "train", {}, "Job/train"),
        ("Job", "ring-0", {"jobset.sigs.k8s.io/jobset-name": "ring"}, "JobSet/ring"),
        ("ReplicaSet", "web-6f9c", {"pod-template-hash": "6f9c"}, "Deployment/web"),
        ("ReplicaSet", "web-6f9c", {"pod-template-hash": "9c"}, "ReplicaSet/web-6f9c"),
        ("ReplicaSet", "web-6f9c", {}, "ReplicaSet/web-6f9c"),
        ("StatefulSet", "db-x", {"pod-template-hash": "x"}, "StatefulSet/db-x"),
    ],
)
def test_the_owner_is_the_highest_that_the_pod_can_name(
    kind: str, name: str, labels: dict[str, str], owner: str
) -> None:
    assert owned(kind, name, labels) == owner


@pytest.mark.parametrize(
    ("version", "kind", "found"),
    [
        ("slinky.slurm.net/v1beta1", "NodeSet", "NodeSet.slinky.slurm.net"),
        ("batch/v1", "Job", "Job.batch"),
        ("v1", "Node", "Node"),
    ],
)
def test_the_kind_of_the_controller_is_named_with_its_group_and_without_a_version(
    version: str, kind: str, found: str
) -> None:
    owner = {"apiVersion": version, "kind": kind, "name": "x", "controller": True}

    assert facts(metadata={"ownerReferences": [owner]}).owner_kind == found


def test_an_owner_that_does_not_control_the_pod_counts_for_nothing() -> None:
    forged = {"apiVersion": "slinky.slurm.net/v0", "kind": "NodeSet", "name": "no-such-thing"}
    job = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "controller": True}

    assert facts(metadata={"ownerReferences": [forged, job]}).owner_kind == "Job.batch"
    assert facts(metadata={"ownerReferences": [forged]}).owner_kind == ""


@pytest.mark.parametrize(
    ("phase", "running"),
    [
        ("Pending", True),
        ("Running", True),
        ("Unknown", True),
        ("Succeeded", False),
        ("Failed", False),
    ],
)
def test_only_a_finished_pod_does_not_run(phase: str, running: bool) -> None:
    assert facts(status={"phase": phase}).running is running


def test_a_pod_that_is_being_deleted_terminates() -> None:
    assert facts(metadata={"deletionTimestamp": "2026-01-05T12:00:00Z"}).terminating


def test_its_claims_group_and_extended_claim_are_read() -> None:
    found = facts(
        spec={
            "resourceClaims": [
                {"name": "a", "resourceClaimName": "shared"},
                {"name": "b", "resourceClaimTemplateName": "t"},
            ],
            "schedulingGroup": {"podGroupName": "ring"},
        },
        status={
            "resourceClaimStatuses": [
                {"name": "b", "resourceClaimName": "p-b-x7"},
                {"name": "c", "resourceClaimName": None},
            ],
            "extendedResourceClaimStatus": {"resourceClaimName": "p-extended-resources-1"},
        },
    )

    assert found.claims == ("p-b-x7", "shared")
    assert found.pod_group == "ring"
    assert found.extended_claim == "p-extended-resources-1"


def asking(amounts: dict[str, Any], kind: str = "limits") -> dict[str, Any]:
    return {"name": "c", "resources": {kind: amounts}}


SPECS: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({"containers": [asking({"nvidia.com/gpu": "1", "cpu": "2"})]}, ("nvidia.com/gpu",)),
    ({"containers": [asking({"nvidia.com/gpu": 1}, "requests")]}, ("nvidia.com/gpu",)),
    (
        {"containers": [asking({"nvidia.com/mig-1g.10gb.shared": "3"})]},
        ("nvidia.com/mig-1g.10gb.shared",),
    ),
    ({"containers": [asking({"nvidia.com/renamed": "1"})]}, ("nvidia.com/renamed",)),
    (
        {"containers": [{}], "initContainers": [asking({"nvidia.com/gpu.shared": "1"})]},
        ("nvidia.com/gpu.shared",),
    ),
    ({"containers": [asking({"nvidia.com/gpu": "0"})]}, ()),
    ({"containers": [asking({"example.com/nic": "1"})]}, ()),
    ({"containers": None, "initContainers": None}, ()),
]


@pytest.mark.parametrize(("spec", "resources"), SPECS)
def test_extended_resources_that_may_be_gpus_are_read_of_all_containers(
    spec: dict[str, Any], resources: tuple[str, ...]
) -> None:
    assert facts(spec=spec).plugin_resources == resources


def test_a_mirror_pod_and_a_ready_one_are_known() -> None:
    static = facts(metadata={"annotations": {"kubernetes.io/config.mirror": "x"}})
    ready = facts(status={"conditions": [{"type": "Ready", "status": "True"}]})
    not_ready = facts(status={"conditions": [{"type": "Ready", "status": "False"}]})

    assert (static.mirror, static.ready) == (True, False)
    assert (ready.mirror, ready.ready, not_ready.ready) == (False, True, False)
