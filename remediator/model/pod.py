"""What is read of a Pod: its owner, its claims and GPU resources, whether it still runs. Pure."""

from collections.abc import Iterator
from datetime import datetime

import msgspec

from exporter.model.plugin_ids import possibly_gpu
from exporter.model.quantity import whole
from kubeapi.types import NamespacedMeta, kubernetes_case

POD_TEMPLATE_HASH = "pod-template-hash"
"""Label that a Deployment puts on its pods; its ReplicaSet is named `<deployment>-<hash>`."""
MIRROR = "kubernetes.io/config.mirror"
"""Annotation of the API server's copy of a static pod."""
JOBSET = "jobset.sigs.k8s.io/jobset-name"


class PodFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One pod of a node."""

    namespace: str
    name: str
    uid: str
    owner: str = ""
    """Top owner as far as the pod itself shows: `Job/train`, `Deployment/web`; "" for none."""
    owner_kind: str = ""
    """Kind of its controller with its API group, as kubectl spells it: `Job.batch`, `Node`; "" for
    none. Owners that do not control it count for nothing: who creates a pod may name any."""
    pod_group: str = ""
    """Name of its PodGroup in its namespace; "" for none."""
    running: bool = True
    """Not finished: it may still use its devices."""
    terminating: bool = False
    mirror: bool = False
    """Of a static pod: to delete it changes nothing on the node."""
    ready: bool = False
    started: datetime | None = None
    """When its node began to run it, by the node's clock; until then when it was created. None:
    not known."""
    extended_claim: str = ""
    """ResourceClaim made for its extended resources; "" for none."""
    claims: tuple[str, ...] = ()
    """ResourceClaims of its spec, by name."""
    plugin_resources: tuple[str, ...] = ()
    """Extended resources that it requests, such as `nvidia.com/gpu`: what may be GPUs, sorted."""


class OwnerReference(msgspec.Struct, frozen=True, rename=kubernetes_case):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    controller: bool = False


class PodMeta(NamespacedMeta, frozen=True):
    owner_references: tuple[OwnerReference, ...] = ()
    deletion_timestamp: datetime | None = None


class PodClaim(msgspec.Struct, frozen=True, rename=kubernetes_case):
    """The pod's own name for a claim, and the claim behind it."""

    name: str
    resource_claim_name: str | None = None


class SchedulingGroup(msgspec.Struct, frozen=True, rename=kubernetes_case):
    pod_group_name: str | None = None


class Amounts(msgspec.Struct, frozen=True):
    """What a container requests, by resource name."""

    limits: dict[str, str | float] | None = None
    requests: dict[str, str | float] | None = None


class Container(msgspec.Struct, frozen=True):
    resources: Amounts = Amounts()


class PodSpec(msgspec.Struct, frozen=True, rename=kubernetes_case):
    containers: tuple[Container, ...] | None = ()
    init_containers: tuple[Container, ...] | None = ()
    """Sidecars are among them. One that has ended held its GPU for the whole pod, too."""
    resource_claims: tuple[PodClaim, ...] = ()
    scheduling_group: SchedulingGroup | None = None


class ExtendedClaim(msgspec.Struct, frozen=True, rename=kubernetes_case):
    resource_claim_name: str = ""


class PodCondition(msgspec.Struct, frozen=True):
    type: str = ""
    status: str = ""


class PodStatus(msgspec.Struct, frozen=True, rename=kubernetes_case):
    phase: str = ""
    start_time: datetime | None = None
    conditions: tuple[PodCondition, ...] | None = ()
    resource_claim_statuses: tuple[PodClaim, ...] = ()
    extended_resource_claim_status: ExtendedClaim | None = None


class RawPod(msgspec.Struct, frozen=True):
    """The object as the API server stores it, cut to what is read."""

    metadata: PodMeta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


def facts_of(pod: RawPod) -> PodFacts:
    """Cut a pod down to what decisions rest on."""
    group, extended = pod.spec.scheduling_group, pod.status.extended_resource_claim_status
    named = (*pod.spec.resource_claims, *pod.status.resource_claim_statuses)
    claims = {claim.resource_claim_name for claim in named if claim.resource_claim_name}
    return PodFacts(
        namespace=pod.metadata.namespace,
        name=pod.metadata.name,
        uid=pod.metadata.uid,
        owner=_owner(pod.metadata),
        owner_kind=_kind(pod.metadata),
        pod_group=(group.pod_group_name or "") if group else "",
        running=pod.status.phase not in {"Succeeded", "Failed"},
        terminating=pod.metadata.deletion_timestamp is not None,
        mirror=MIRROR in pod.metadata.annotations,
        ready=any(
            (condition.type, condition.status) == ("Ready", "True")
            for condition in pod.status.conditions or ()
        ),
        started=pod.status.start_time or pod.metadata.creation_timestamp,
        extended_claim=extended.resource_claim_name if extended else "",
        claims=tuple(sorted(claims)),
        plugin_resources=tuple(sorted(set(_plugin_resources(pod.spec)))),
    )


def _owner(meta: PodMeta) -> str:
    """Return the controller, and the controller above it as its own labels name it."""
    found = _controller(meta)
    if found is None:
        return ""
    template = meta.labels.get(POD_TEMPLATE_HASH, "")
    if found.kind == "ReplicaSet" and template and found.name.endswith(f"-{template}"):
        return f"Deployment/{found.name.removesuffix(f'-{template}')}"
    if found.kind == "Job" and meta.labels.get(JOBSET):
        return f"JobSet/{meta.labels[JOBSET]}"
    return f"{found.kind}/{found.name}"


def _kind(meta: PodMeta) -> str:
    """Return the kind of the controller, whatever version of its API names it."""
    found = _controller(meta)
    if found is None:
        return ""
    group, grouped, _ = found.api_version.rpartition("/")
    return f"{found.kind}.{group}" if grouped else found.kind


def _controller(meta: PodMeta) -> OwnerReference | None:
    return next((owner for owner in meta.owner_references if owner.controller), None)


def _plugin_resources(spec: PodSpec) -> Iterator[str]:
    """Yield the resources that may be GPUs.

    NVIDIA's device plugin names all of its resources `nvidia.com/...`, renamed ones too. Other
    hardware under that name counts as well: a pod too many delays a repair, one too few loses work.
    """
    for container in (*(spec.containers or ()), *(spec.init_containers or ())):
        for amounts in (container.resources.limits, container.resources.requests):
            for resource, amount in (amounts or {}).items():
                if possibly_gpu(resource) and whole(amount) != 0:
                    yield resource
