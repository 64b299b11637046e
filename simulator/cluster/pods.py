"""What a kubelet's PodResources must say about a pod, from the pod and its allocated claims.

Pure: decoded objects in, plain JSON with the field names of the PodResources v1 API out, as the
simulated kubelet takes it.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import msgspec


class Meta(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    namespace: str = ""
    uid: str = ""
    deletion_timestamp: datetime | None = None


class ContainerClaim(msgspec.Struct, frozen=True):
    """An entry of `resources.claims`; no request means all of the claim."""

    name: str
    request: str = ""


class Resources(msgspec.Struct, frozen=True):
    claims: tuple[ContainerClaim, ...] = ()


class Container(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    image: str = ""
    resources: Resources = Resources()
    restart_policy: str = ""


class PodClaim(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    resource_claim_name: str = ""


class PodSpec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str = ""
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    resource_claims: tuple[PodClaim, ...] = ()


class RequestMapping(msgspec.Struct, frozen=True, rename="camel"):
    container_name: str
    resource_name: str
    request_name: str


class ExtendedClaim(msgspec.Struct, frozen=True, rename="camel"):
    resource_claim_name: str
    request_mappings: tuple[RequestMapping, ...] = ()


class PodStatus(msgspec.Struct, frozen=True, rename="camel"):
    phase: str = ""
    resource_claim_statuses: tuple[PodClaim, ...] = ()
    extended_resource_claim_status: ExtendedClaim | None = None


class Pod(msgspec.Struct, frozen=True):
    metadata: Meta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class Result(msgspec.Struct, frozen=True, rename="camel"):
    """One allocated device."""

    request: str
    driver: str
    pool: str
    device: str
    share_id: str = msgspec.field(name="shareID", default="")


class Devices(msgspec.Struct, frozen=True):
    results: tuple[Result, ...] = ()


class Allocation(msgspec.Struct, frozen=True):
    devices: Devices = Devices()


class Consumer(msgspec.Struct, frozen=True):
    resource: str
    name: str
    uid: str


class ClaimStatus(msgspec.Struct, frozen=True, rename="camel"):
    allocation: Allocation | None = None
    reserved_for: tuple[Consumer, ...] = ()


class Claim(msgspec.Struct, frozen=True):
    metadata: Meta
    status: ClaimStatus = ClaimStatus()


Json = dict[str, Any]


def claim_names(pod: Pod) -> dict[str, str]:
    """Return the ResourceClaim behind each of the pod's own names for claims.

    A claim that turned out not to be needed is left out; one that is not made yet is "".
    """
    made = {entry.name: entry.resource_claim_name for entry in pod.status.resource_claim_statuses}
    names = {
        entry.name: entry.resource_claim_name or made.get(entry.name, "")
        for entry in pod.spec.resource_claims
    }
    return {name: claim for name, claim in names.items() if claim or name not in made}


def is_startable(pod: Pod, claims: Mapping[str, Claim]) -> bool:
    """Whether all of the pod's claims are allocated and reserved for it, as a kubelet checks."""
    names = list(claim_names(pod).values())
    if pod.status.extended_resource_claim_status is not None:
        names.append(pod.status.extended_resource_claim_status.resource_claim_name)
    found = (claims.get(f"{pod.metadata.namespace}/{name}") for name in names)
    return all(
        claim is not None
        and claim.status.allocation is not None
        and any(consumer.uid == pod.metadata.uid for consumer in claim.status.reserved_for)
        for claim in found
    )


def pod_resources(pod: Pod, claims: Mapping[str, Claim]) -> Json:
    """Return the pod as PodResources `List` shows it.

    Plain init containers do not appear, restartable ones do.
    """
    lasting = [
        container for container in pod.spec.init_containers if container.restart_policy == "Always"
    ]
    return {
        "name": pod.metadata.name,
        "namespace": pod.metadata.namespace,
        "containers": [
            {
                "name": container.name,
                "dynamic_resources": list(_of_container(pod, container, claims)),
            }
            for container in (*lasting, *pod.spec.containers)
        ],
    }


def _of_container(pod: Pod, container: Container, claims: Mapping[str, Claim]) -> Iterator[Json]:
    names = claim_names(pod)
    requested: dict[str, set[str]] = {}
    for entry in container.resources.claims:
        requested.setdefault(names.get(entry.name, ""), set()).add(entry.request)
    extended = pod.status.extended_resource_claim_status
    for mapping in extended.request_mappings if extended else ():
        if extended and mapping.container_name == container.name:
            requested.setdefault(extended.resource_claim_name, set()).add(mapping.request_name)
    for name, requests in requested.items():
        claim = claims.get(f"{pod.metadata.namespace}/{name}")
        if claim is not None and claim.status.allocation is not None:
            yield _dynamic(claim, claim.status.allocation.devices.results, requests)


def _dynamic(claim: Claim, results: tuple[Result, ...], requests: set[str]) -> Json:
    """Show the results of the requests; a result of `main/sub` belongs to the request `main`."""
    return {
        "claim_name": claim.metadata.name,
        "claim_namespace": claim.metadata.namespace,
        "claim_resources": [
            _resource(claim, result)
            for result in results
            if "" in requests or result.request.split("/", 1)[0] in requests
        ],
    }


def _resource(claim: Claim, result: Result) -> Json:
    cdi_name = f"k8s.{result.driver}/claim={claim.metadata.uid}-{result.device}"
    shared = {"share_id": result.share_id} if result.share_id else {}
    return {
        "driver_name": result.driver,
        "pool_name": result.pool,
        "device_name": result.device,
        "cdi_devices": [{"name": cdi_name}],
        **shared,
    }
