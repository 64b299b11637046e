"""The parts of a Pod that decisions use: its owner, its claims and GPU resources, and its phase."""

from collections.abc import Iterator
from datetime import datetime

import msgspec

from exporter.model.plugin_ids import possibly_gpu
from exporter.model.quantity import whole
from kubeapi.types import NamespacedMeta, kubernetes_case

POD_TEMPLATE_HASH = "pod-template-hash"
"""Label of a Deployment's pods. The name of their ReplicaSet is `<deployment>-<label's value>`."""
MIRROR = "kubernetes.io/config.mirror"
"""Annotation of a mirror pod, which the kubelet creates in the API server for a static pod."""
JOBSET = "jobset.sigs.k8s.io/jobset-name"


class PodFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One pod of a node."""

    namespace: str
    name: str
    uid: str
    owner: str = ""
    """Top owner as far as the pod's metadata shows it: `Job/train`, `Deployment/web`; "": none."""
    owner_kind: str = ""
    """Kind and API group of its controller, as in kubectl: `Job.batch`, `Node`; "": none. Owner
    references without `controller: true` are ignored: the pod's creator can write any."""
    pod_group: str = ""
    """Name of its PodGroup, which is in the pod's namespace; "": none."""
    running: bool = True
    """Whether its phase is neither Succeeded nor Failed: it may still use its devices."""
    terminating: bool = False
    grace_ends: datetime | None = None
    """Until when it may take to end: its `deletionTimestamp`. None: it is not terminating."""
    mirror: bool = False
    """Whether it is the mirror of a static pod: its deletion does not stop the containers."""
    ready: bool = False
    started: datetime | None = None
    """Its `status.startTime`, which the kubelet sets by the node's clock once it admits the pod.
    None: not yet."""
    extended_claim: str = ""
    """ResourceClaim that the scheduler made for its extended resources; "": none."""
    claims: tuple[str, ...] = ()
    """Names of its other ResourceClaims."""
    plugin_resources: tuple[str, ...] = ()
    """Extended resources in its requests that may be GPUs, such as `nvidia.com/gpu`, sorted."""


class OwnerReference(msgspec.Struct, frozen=True, rename=kubernetes_case):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    controller: bool = False


class PodMeta(NamespacedMeta, frozen=True):
    owner_references: tuple[OwnerReference, ...] = ()
    deletion_timestamp: datetime | None = None


class PodClaim(msgspec.Struct, frozen=True, rename=kubernetes_case):
    """An entry of `spec.resourceClaims` or `status.resourceClaimStatuses`: the claim it names."""

    name: str
    resource_claim_name: str | None = None


class SchedulingGroup(msgspec.Struct, frozen=True, rename=kubernetes_case):
    pod_group_name: str | None = None


class Amounts(msgspec.Struct, frozen=True):
    """Resources of a container, by resource name."""

    limits: dict[str, str | float] | None = None
    requests: dict[str, str | float] | None = None


class Container(msgspec.Struct, frozen=True):
    resources: Amounts = Amounts()


class PodSpec(msgspec.Struct, frozen=True, rename=kubernetes_case):
    containers: tuple[Container, ...] | None = ()
    init_containers: tuple[Container, ...] | None = ()
    """Sidecars too. The pod keeps the GPU of an init container after that container has ended."""
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
    """A Pod as the API server stores it, cut to the fields that are read."""

    metadata: PodMeta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


def facts_of(pod: RawPod) -> PodFacts:
    """Return the facts about a pod that decisions use."""
    group, extended = pod.spec.scheduling_group, pod.status.extended_resource_claim_status
    # The spec names a claim that exists by itself. One that is made from a template is named in the
    # status only.
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
        grace_ends=pod.metadata.deletion_timestamp,
        mirror=MIRROR in pod.metadata.annotations,
        ready=any(
            (condition.type, condition.status) == ("Ready", "True")
            for condition in pod.status.conditions or ()
        ),
        started=pod.status.start_time,
        extended_claim=extended.resource_claim_name if extended else "",
        claims=tuple(sorted(claims)),
        plugin_resources=tuple(sorted(set(_plugin_resources(pod.spec)))),
    )


def _owner(meta: PodMeta) -> str:
    """Return the top owner as `kind/name`, "" for a pod without a controller.

    ReplicaSets and Jobs are not read: the pod's labels name the Deployment or JobSet above them.
    """
    found = _controller(meta)
    if found is None:
        return ""
    template = meta.labels.get(POD_TEMPLATE_HASH, "")
    # A ReplicaSet that no Deployment made has no such suffix.
    if found.kind == "ReplicaSet" and template and found.name.endswith(f"-{template}"):
        return f"Deployment/{found.name.removesuffix(f'-{template}')}"
    if found.kind == "Job" and meta.labels.get(JOBSET):
        return f"JobSet/{meta.labels[JOBSET]}"
    return f"{found.kind}/{found.name}"


def _kind(meta: PodMeta) -> str:
    """Return kind and API group of the controller, without the API version."""
    found = _controller(meta)
    if found is None:
        return ""
    group, grouped, _ = found.api_version.rpartition("/")
    return f"{found.kind}.{group}" if grouped else found.kind


def _controller(meta: PodMeta) -> OwnerReference | None:
    # An object has one controller at most: the API server refuses a second.
    return next((owner for owner in meta.owner_references if owner.controller), None)


def _plugin_resources(spec: PodSpec) -> Iterator[str]:
    """Yield the names of resources that may be GPUs.

    NVIDIA's device plugin names all its resources `nvidia.com/...`, even renamed ones. Other
    hardware has such names, too, and counts: a pod too many only delays a repair, but a pod too few
    loses its work.
    """
    for container in (*(spec.containers or ()), *(spec.init_containers or ())):
        for amounts in (container.resources.limits, container.resources.requests):
            for resource, amount in (amounts or {}).items():
                if possibly_gpu(resource) and whole(amount) != 0:
                    yield resource
