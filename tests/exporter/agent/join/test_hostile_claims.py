"""Claims as a hostile tenant writes them, through the real API server."""

from typing import Any

import msgspec

from exporter.agent.join.claim_details import ClaimDetails
from exporter.model.claim_objects import RawClaim
from exporter.model.device import NVIDIAS
from exporter.model.readings import ClaimDevice, ContainerDevices
from kubeapi.reflector import Reflector
from simulator.cluster.workloads import claim, gpu_request
from tests.exporter.running import wait_for
from tests.lab.cluster import Cluster

CLAIMS = "/apis/resource.k8s.io/v1/resourceclaims"
DEEPEST = 5_100
"""Levels that fit into the 10 KiB that the API server allows for a driver's parameters."""


def nested_claim() -> dict[str, Any]:
    """A claim whose parameters, which are nobody's business here, are nested as deep as may be."""
    made = claim("deep", gpu_request())
    deep = msgspec.Raw(b'{"a":' + b"[" * DEEPEST + b"]" * DEEPEST + b"}")
    opaque = {"driver": "gpu.nvidia.com", "parameters": deep}
    made["spec"]["devices"]["config"] = [{"requests": ["gpu"], "opaque": opaque}]
    return made


def add_nested(cluster: Cluster) -> None:
    cluster.client.create(
        "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims", nested_claim()
    )


def test_a_claim_nested_as_deep_as_the_server_allows_stops_no_watch(cluster: Cluster) -> None:
    with_claims: Reflector[RawClaim] = Reflector(cluster.client, CLAIMS, RawClaim)
    with_claims.start()
    try:
        assert with_claims.wait_synced(60)
        add_nested(cluster)
        wait_for(lambda: "default/deep" in with_claims.items(), what="the nested claim")
        assert not with_claims.dead
    finally:
        with_claims.stop()
    again: Reflector[RawClaim] = Reflector(cluster.client, CLAIMS, RawClaim)
    again.start()
    try:
        assert again.wait_synced(60)
        assert "default/deep" in again.items()
    finally:
        again.stop()


def test_a_claim_nested_as_deep_as_the_server_allows_is_read(cluster: Cluster) -> None:
    add_nested(cluster)
    held = ContainerDevices(
        "default",
        "train-0",
        "main",
        (ClaimDevice("deep", "default", "gpu.nvidia.com", "node-a", "gpu-0"),),
    )
    details = ClaimDetails(cluster.client, lambda: None, NVIDIAS)
    details.start()
    try:
        details.want([held])
        wait_for(details.details, what="details")
        assert details.source().up
    finally:
        details.stop()
