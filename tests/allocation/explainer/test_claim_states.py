"""The state of each claim: that of the pod that has come farthest with it."""

import msgspec
import pytest

from allocation.explainer.claim_states import (
    POD_CLAIM,
    ClaimState,
    claim_states,
    consumers,
    missing_claims,
)
from allocation.layers.finding import Finding, WaitReason
from allocation.model.claims import Claim
from allocation.model.pods import EXTENDED_RESOURCES, ExtendedResourceClaim, Pod
from tests.allocation.explainer.snapshots import at, claim, pod, text

RUNS = pod(node="node-a", phase="Running")
HANGS = pod(node="node-a", created=7)
WAITS = pod()


def finding(reason: WaitReason) -> Finding:
    return Finding(layer="Allocation", reason=reason, message="m")


def states(
    *claims: Claim, pods: tuple[Pod, ...] = (), reason: WaitReason = "Allocated"
) -> list[ClaimState]:
    named = {each.key: each for each in claims}
    findings = {each.metadata.uid: finding(reason) for each in pods}
    return [
        *claim_states(named, consumers(pods, named), findings),
        *missing_claims(pods, named, findings),
    ]


@pytest.mark.parametrize(
    ("given", "pods", "state", "reason"),
    [
        (claim(), (), "Pending", "NoPod"),
        (claim(), (WAITS,), "Pending", "Allocated"),
        (claim(device_name="gpu-0"), (), "Unused", "Unused"),
        (claim(device_name="gpu-0", reserved=[pod("gone")]), (), "Allocated", "Reserved"),
        (claim(device_name="gpu-0"), (WAITS,), "Binding", "Allocated"),
        (claim(device_name="gpu-0", reserved=[HANGS]), (HANGS,), "Preparing", "Allocated"),
        (claim(device_name="gpu-0", reserved=[RUNS]), (RUNS,), "Running", "Allocated"),
        (claim(deletionTimestamp=text(3)), (WAITS,), "Deleting", "ClaimDeleting"),
        (claim(), (pod(phase="Failed"),), "Pending", "NoPod"),
    ],
)
def test_a_claim_is_in_one_state(
    given: Claim, pods: tuple[Pod, ...], state: str, reason: str
) -> None:
    (found,) = states(given, pods=pods)

    assert (found.state, found.reason) == (state, reason)


def test_the_pod_that_has_come_farthest_counts() -> None:
    shared = claim(device_name="gpu-0", reserved=[RUNS])
    other = pod("a-second")

    (found,) = states(shared, pods=(other, RUNS))

    assert (found.state, found.pod) == ("Running", "train")


def test_a_reason_that_is_not_known_yet_is_not_evaluated() -> None:
    named = {"team/job": claim()}

    (found,) = claim_states(named, consumers([WAITS], named), {})

    assert found.reason == "NotEvaluated"


def test_the_state_has_its_time_from_the_objects() -> None:
    pending = states(claim(created=1), pods=(WAITS,))
    binding = states(claim(device_name="gpu-0", allocated=2), pods=(WAITS,))
    preparing = states(claim(device_name="gpu-0", reserved=[HANGS]), pods=(HANGS,))

    assert [found.since for (found,) in (pending, binding, preparing)] == [at(1), at(2), at(7)]


def test_class_and_driver_are_those_of_the_claim() -> None:
    (found,) = states(claim(device_name="gpu-0", annotations={POD_CLAIM: "gpu"}))

    assert (found.device_class, found.driver, found.pod_claim) == ("gpu", "gpu.nvidia.com", "gpu")


def test_a_claim_that_does_not_exist_is_pending_for_the_pod_that_names_it() -> None:
    (found,) = states(pods=(pod(claim="nowhere"),), reason="ClaimMissing")

    assert (found.name, found.pod, found.pod_claim) == ("", "train", "gpu")
    assert (found.state, found.reason) == ("Pending", "ClaimMissing")
    assert found.key == "team/train/gpu"


def test_what_a_pod_requests_of_extended_resources_is_pending() -> None:
    requests = {"requests": {"nvidia.com/gpu": "1"}}
    waits = pod(claim="", containers=[{"name": "main", "resources": requests}])

    findings = {waits.metadata.uid: finding("Insufficient")}

    (found,) = missing_claims([waits], {}, findings, {"nvidia.com/gpu"})

    assert (found.state, found.reason) == ("Pending", "Insufficient")
    assert [*missing_claims([waits], {}, findings, {"example.com/fuse"})] == []


def test_a_claim_for_extended_resources_that_is_gone_is_pending_as_one_not_made() -> None:
    requests = {"requests": {"nvidia.com/gpu": "1"}}
    waits = pod(claim="", containers=[{"name": "main", "resources": requests}])
    stale = msgspec.structs.replace(
        waits.status, extended_resource_claim_status=ExtendedResourceClaim("gone")
    )
    waits = msgspec.structs.replace(waits, status=stale)

    found = missing_claims(
        [waits], {}, {waits.metadata.uid: finding("Allocated")}, {"nvidia.com/gpu"}
    )

    assert [each.pod_claim for each in found] == [EXTENDED_RESOURCES]


def test_a_claim_that_is_used_again_waits_since_its_pod() -> None:
    (found,) = states(claim(created=1), pods=(pod(created=500),))

    assert found.since == found.demanded == at(500)


def test_a_claim_that_was_allocated_before_its_pod_is_bound_since_its_pod() -> None:
    (found,) = states(claim(device_name="gpu-0", created=1, allocated=2), pods=(pod(created=500),))

    assert (found.state, found.since) == ("Binding", at(500))


def test_nothing_is_missing_for_a_pod_on_a_node() -> None:
    assert states(pods=(RUNS,)) == []
