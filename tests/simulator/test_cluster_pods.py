"""What PodResources says of a pod, from its claims: pure, for the shapes that clusters have."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from simulator.cluster.pods import Claim, Pod, claim_names, is_startable, pod_resources
from simulator.kubelet import Kubelet

Json = dict[str, Any]


def pod_with(
    claims: list[Json], containers: list[Json], status: Json | None = None, **spec: Any
) -> Pod:
    return msgspec.convert(
        {
            "metadata": {"name": "p", "namespace": "ns", "uid": "pod-uid"},
            "spec": {"resourceClaims": claims, "containers": containers, **spec},
            "status": status or {},
        },
        Pod,
    )


def claim_with(name: str, *results: Json, reserved: str = "pod-uid") -> Claim:
    return msgspec.convert(
        {
            "metadata": {"name": name, "namespace": "ns", "uid": f"{name}-uid"},
            "status": {
                "allocation": {"devices": {"results": list(results)}},
                "reservedFor": [{"resource": "pods", "name": "p", "uid": reserved}],
            },
        },
        Claim,
    )


def result(request: str, device: str, **more: str) -> Json:
    return {"request": request, "driver": "gpu.nvidia.com", "pool": "n", "device": device, **more}


def container(name: str, *claims: Json, **more: str) -> Json:
    return {"name": name, "resources": {"claims": list(claims)}, **more}


def devices_of(pod: Pod, *claims: Claim) -> dict[str, list[str]]:
    reported = pod_resources(pod, {f"ns/{claim.metadata.name}": claim for claim in claims})
    return {
        container["name"]: [
            device["device_name"]
            for dynamic in container["dynamic_resources"]
            for device in dynamic["claim_resources"]
        ]
        for container in reported["containers"]
    }


def test_a_container_gets_all_of_a_claim_or_the_requests_that_it_names() -> None:
    pod = pod_with(
        [{"name": "c", "resourceClaimName": "shared"}],
        [
            container("all", {"name": "c"}),
            container("one", {"name": "c", "request": "b"}),
            container("both", {"name": "c", "request": "a"}, {"name": "c", "request": "b"}),
            container("none"),
        ],
    )
    claim = claim_with("shared", result("a", "gpu-0"), result("b/alternative", "gpu-1"))
    assert devices_of(pod, claim) == {
        "all": ["gpu-0", "gpu-1"],
        "one": ["gpu-1"],
        "both": ["gpu-0", "gpu-1"],
        "none": [],
    }


def test_restartable_init_containers_appear_and_plain_ones_do_not() -> None:
    pod = pod_with(
        [{"name": "c", "resourceClaimName": "shared"}],
        [container("main", {"name": "c"})],
        initContainers=[
            container("setup", {"name": "c"}),
            container("sidecar", {"name": "c"}, restartPolicy="Always"),
        ],
    )
    assert devices_of(pod, claim_with("shared", result("a", "gpu-0"))) == {
        "sidecar": ["gpu-0"],
        "main": ["gpu-0"],
    }


def test_claims_of_templates_are_found_through_the_status() -> None:
    pod = pod_with(
        [{"name": "c", "resourceClaimTemplateName": "t"}, {"name": "unneeded"}, {"name": "late"}],
        [container("main", {"name": "c"})],
        {
            "resourceClaimStatuses": [
                {"name": "c", "resourceClaimName": "p-c-x"},
                {"name": "unneeded"},
            ]
        },
    )
    assert claim_names(pod) == {"c": "p-c-x", "late": ""}
    assert devices_of(pod, claim_with("p-c-x", result("a", "gpu-3"))) == {"main": ["gpu-3"]}


def test_extended_resources_and_share_ids_are_reported_as_the_simulated_kubelet_takes_them() -> (
    None
):
    mapping = {"containerName": "main", "resourceName": "nvidia.com/gpu", "requestName": "r-0"}
    pod = pod_with(
        [],
        [container("main"), container("other")],
        {
            "extendedResourceClaimStatus": {
                "resourceClaimName": "p-extended",
                "requestMappings": [mapping],
            }
        },
    )
    claim = claim_with("p-extended", result("r-0", "gpu-2", shareID="s-1"), result("r-1", "gpu-4"))
    reported = pod_resources(pod, {"ns/p-extended": claim})
    assert reported["containers"] == [
        {
            "name": "main",
            "dynamic_resources": [
                {
                    "claim_name": "p-extended",
                    "claim_namespace": "ns",
                    "claim_resources": [
                        {
                            "driver_name": "gpu.nvidia.com",
                            "pool_name": "n",
                            "device_name": "gpu-2",
                            "cdi_devices": [
                                {"name": "k8s.gpu.nvidia.com/claim=p-extended-uid-gpu-2"}
                            ],
                            "share_id": "s-1",
                        }
                    ],
                }
            ],
        },
        {"name": "other", "dynamic_resources": []},
    ]
    Kubelet(Path("never-started")).set_pods([reported])


@pytest.mark.parametrize(
    ("claims", "startable"),
    [
        ([claim_with("shared", result("a", "gpu-0"))], True),
        ([claim_with("shared", result("a", "gpu-0"), reserved="somebody-else")], False),
        ([msgspec.convert({"metadata": {"name": "shared", "namespace": "ns"}}, Claim)], False),
        ([], False),
    ],
)
def test_a_pod_starts_only_with_allocated_claims_that_are_reserved_for_it(
    claims: list[Claim],
    startable: bool,
) -> None:
    pod = pod_with([{"name": "c", "resourceClaimName": "shared"}], [])
    known = {f"ns/{claim.metadata.name}": claim for claim in claims}
    assert is_startable(pod, known) is startable
