"""What a ResourceClaim says, in each version's shape, and its key from CDI ids."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.model.claim_objects import (
    EXTENDED,
    ClaimDetail,
    ClaimKey,
    RawClaim,
    ResultDetail,
    class_of_extended,
    detail_of,
    is_extended,
    key_of,
)
from exporter.model.readings import ClaimDevice

UID = "5b696ac1-c323-589e-a082-e6045e980bf4"
OTHER = "00000000-c323-589e-a082-e6045e980bf4"
V1 = [
    {"name": "main", "exactly": {"deviceClassName": "gpu.nvidia.com", "adminAccess": True}},
    {
        "name": "any",
        "firstAvailable": [
            {"name": "big", "deviceClassName": "gpu.nvidia.com"},
            {"name": "small", "deviceClassName": "mig.nvidia.com"},
        ],
    },
]
V1BETA1 = [{"name": "main", "deviceClassName": "gpu.nvidia.com", "adminAccess": True}, V1[1]]
RESULTS: list[dict[str, Any]] = [
    {
        "request": "main",
        "driver": "gpu.nvidia.com",
        "pool": "node-a",
        "device": "gpu-0",
        "adminAccess": True,
    },
    {
        "request": "any/small",
        "driver": "gpu.nvidia.com",
        "pool": "node-a",
        "device": "gpu-1",
        "shareID": "share-1",
        "consumedCapacity": {"memory": "10Gi"},
    },
]
RESERVED = [
    {"resource": "pods", "name": "train-0", "uid": "pod-uid"},
    {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "gang", "uid": "group-uid"},
]


def claim(requests: Any = V1, results: Any = RESULTS, **meta: Any) -> RawClaim:
    raw = {
        "metadata": {"name": "claim", "namespace": "team", "uid": UID, **meta},
        "spec": {"devices": {"requests": requests}},
        "status": {"allocation": {"devices": {"results": results}}, "reservedFor": RESERVED},
    }
    return msgspec.json.decode(msgspec.json.encode(raw), type=RawClaim)


@pytest.mark.parametrize("requests", [V1, V1BETA1])
def test_requests_classes_shares_and_reservations_are_read(requests: Any) -> None:
    where: dict[str, Any] = {"driver": "gpu.nvidia.com", "pool": "node-a"}
    looks = ResultDetail(
        **where, device="gpu-0", request="main", admin=True, device_class="gpu.nvidia.com"
    )
    holds = ResultDetail(
        **where,
        device="gpu-1",
        request="any/small",
        share_id="share-1",
        memory=10 << 30,
        device_class="mig.nvidia.com",
    )
    found = detail_of(claim(requests))
    assert found == ClaimDetail(
        uid=UID, results=(looks, holds), pods=(("train-0", "pod-uid"),), pod_groups=("gang",)
    )
    assert (found.pod_uid("train-0"), found.pod_uid("train-1")) == ("pod-uid", "")


def test_a_claim_that_waits_has_no_results() -> None:
    bare = msgspec.json.decode(b'{"metadata": {"name": "c"}}', type=RawClaim)
    assert detail_of(bare).results == ()
    assert detail_of(claim(None, None)).results == ()


def test_an_extended_resource_has_the_class_of_all_its_requests() -> None:
    marked = claim(annotations={EXTENDED: "true"})
    assert is_extended(marked)
    assert not is_extended(claim())
    assert class_of_extended(detail_of(claim(results=RESULTS[:1]))) == "gpu.nvidia.com"
    assert class_of_extended(detail_of(marked)) == ""


def held(device: str, *cdi: str) -> ClaimDevice:
    return ClaimDevice("claim", "team", "gpu.nvidia.com", "node-a", device, "", cdi)


@pytest.mark.parametrize(
    ("cdi", "uid"),
    [
        ((f"k8s.gpu.nvidia.com/claim={UID}-gpu-1",), UID),
        # The kubelet repeats the ids of the devices before it.
        ((f"k8s.gpu.nvidia.com/claim={OTHER}-gpu-0", f"k8s.gpu.nvidia.com/claim={UID}-gpu-1"), UID),
        ((f"k8s.gpu.nvidia.com/claim={UID}-gpu-1", f"k8s.gpu.nvidia.com/claim={OTHER}-gpu-1"), ""),
        (("k8s.gpu.nvidia.com/device=gpu-1",), ""),
        (("k8s.gpu.nvidia.com/claim=uid-gpu-1",), ""),
        ((), ""),
    ],
)
def test_the_claims_uid_comes_from_the_cdi_id_of_the_device_itself(
    cdi: tuple[str, ...], uid: str
) -> None:
    assert key_of(held("gpu-1", *cdi)) == ClaimKey("team", "claim", uid)


@given(st.lists(st.text(max_size=80), max_size=3))
def test_any_cdi_id_is_read_or_not(cdi: list[str]) -> None:
    assert key_of(held("gpu-1", *cdi)).uid == ""
