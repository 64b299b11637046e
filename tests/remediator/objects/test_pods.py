"""What a pod's own object tells about it."""

from typing import Any

import msgspec
import pytest

from remediator.objects.pods import PodFacts, RawPod, facts_of


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
