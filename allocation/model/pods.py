"""Pods: which nodes they may run on, which devices they request, how far the kubelet is. Pure.

Of the nodes, cordon, taints, node selector and required node affinity are read here, as the plugins
of kube-scheduler 1.37 do it. Memory, CPU, topology and what other plugins want are not: the message
of the condition PodScheduled has them.
"""

from collections.abc import Collection, Mapping
from typing import Literal, Self

import msgspec

from allocation.model.claims import (
    BLOCKING,
    Choice,
    Claim,
    ClaimSpec,
    Condition,
    Devices,
    Request,
    Toleration,
)
from allocation.model.nodes import CORDONED, Node, NodeSelector, NodeTaint, amounts_of_extended
from kubeapi.types import NamespacedMeta, kubernetes_case

NodeWhy = Literal[
    "ClaimElsewhere",
    "NodeCordoned",
    "NodeNotReady",
    "NodeTainted",
    "NodeAffinity",
    "OtherResources",
]
"""The last: by what is not read here, of which the scheduler alone knows."""
EXTENDED_RESOURCES = "<extended-resources>"
"""Name of a claim that the scheduler has not made yet, as in its own memory."""
AFFINITY = "nodeAffinity"
CORDON = NodeTaint(CORDONED, effect="NoSchedule")


class NodeAffinity(msgspec.Struct, frozen=True, gc=False):
    required: NodeSelector | None = msgspec.field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=None
    )


class Affinity(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    node_affinity: NodeAffinity = NodeAffinity()


class SchedulingGate(msgspec.Struct, frozen=True, gc=False):
    name: str


class PodClaim(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A claim of a pod: one that exists, or one that is made from a template."""

    name: str
    """Within the pod."""
    resource_claim_name: str = ""
    resource_claim_template_name: str = ""


class Resources(msgspec.Struct, frozen=True, gc=False):
    requests: dict[str, str | int] = {}


class Container(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    name: str
    resources: Resources = Resources()
    restart_policy: str = ""
    """Always: of an init container that goes on running beside the others."""


class PodSpec(msgspec.Struct, frozen=True, gc=False, rename="camel", kw_only=True):
    node_name: str = ""
    node_selector: dict[str, str] = {}
    affinity: Affinity = Affinity()
    tolerations: tuple[Toleration, ...] = ()
    scheduler_name: str = "default-scheduler"
    scheduling_gates: tuple[SchedulingGate, ...] = ()
    resource_claims: tuple[PodClaim, ...] = ()
    init_containers: tuple[Container, ...] = ()
    containers: tuple[Container, ...] = ()


class Waiting(msgspec.Struct, frozen=True, gc=False):
    reason: str = ""
    message: str = ""


class Terminated(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    reason: str = ""
    """Error, Completed, OOMKilled; StartError where the runtime could not start it."""
    message: str = ""
    exit_code: int = 0


class ContainerState(msgspec.Struct, frozen=True, gc=False):
    waiting: Waiting | None = None
    terminated: Terminated | None = None


class DeviceHealth(msgspec.Struct, frozen=True, gc=False, rename=kubernetes_case):
    """What a driver tells the kubelet about a device (KEP-4680)."""

    resource_id: str
    """A CDI device, or `driver/pool/device`."""
    health: str = ""
    """Healthy, Unhealthy or Unknown."""
    message: str = ""


class AllocatedResource(msgspec.Struct, frozen=True, gc=False):
    name: str
    """`claim:<claim of the pod>/<request>`."""
    resources: tuple[DeviceHealth, ...] = ()


class ContainerStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    name: str
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()
    """Of the start before."""
    allocated_resources_status: tuple[AllocatedResource, ...] = ()


class ClaimStatusOfPod(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    name: str
    resource_claim_name: str = ""
    """"": the pod needs none."""


class ExtendedResourceClaim(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    resource_claim_name: str = ""


class PodStatus(msgspec.Struct, frozen=True, gc=False, rename="camel", kw_only=True):
    phase: str = ""
    reason: str = ""
    message: str = ""
    nominated_node_name: str = ""
    conditions: tuple[Condition, ...] = ()
    resource_claim_statuses: tuple[ClaimStatusOfPod, ...] = ()
    extended_resource_claim_status: ExtendedResourceClaim = ExtendedResourceClaim()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()


class Pod(msgspec.Struct, frozen=True, gc=False):
    metadata: NamespacedMeta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    def claim_names(self) -> dict[str, str]:
        """Return the claims by their names within the pod; "": none was made yet.

        A claim that the scheduler made for an extended resource stands under its own name.
        """
        made = {each.name: each.resource_claim_name for each in self.status.resource_claim_statuses}
        given = {
            each.name: each.resource_claim_name or made.get(each.name)
            for each in self.spec.resource_claims
        }
        # A status without a name: the pod does not need it.
        found = {name: claim or "" for name, claim in given.items() if claim != ""}
        extended = self.status.extended_resource_claim_status.resource_claim_name
        return found | ({extended: extended} if extended else {})

    def claim_keys(self) -> list[str]:
        """Return `namespace/name` of its claims that were made, each once."""
        names = dict.fromkeys(filter(None, self.claim_names().values()))
        return [f"{self.metadata.namespace}/{name}" for name in names]

    def templates_due(self, claims: Collection[str]) -> dict[str, str]:
        """Return the templates of claims that are still to be made, by their names within the pod.

        `claims` has `namespace/name` of those that exist: one that is gone is made anew, under
        another name. Of a pod with a node, or one that has ended, none is made.
        """
        if self.spec.node_name or self.status.phase in {"Succeeded", "Failed"}:
            return {}
        names, namespace = self.claim_names(), self.metadata.namespace
        return {
            each.name: each.resource_claim_template_name
            for each in self.spec.resource_claims
            if each.resource_claim_template_name
            and each.name in names
            and f"{namespace}/{names[each.name]}" not in claims
        }

    def extended_resources(self) -> dict[str, int]:
        """Return how much it requests of extended resources, such as nvidia.com/gpu."""
        sizes = {name: self._sizes(name) for name in sorted(self._names())}
        return {name: sum(amount for _, amount in each) for name, each in sizes.items()}

    def extended_claim(self, classes: Mapping[str, str]) -> Claim | None:
        """Return the claim that the scheduler makes where DRA serves them (KEP-5004).

        `classes` has the name of the DeviceClass by that of the resource. None: of no class.
        """
        requests = tuple(
            Request(f"{container}/{name}", Choice(device_class_name=classes[name], count=amount))
            for name in sorted(self._names() & classes.keys())
            for container, amount in self._sizes(name)
        )
        meta = NamespacedMeta(name=EXTENDED_RESOURCES, namespace=self.metadata.namespace)
        return Claim(meta, ClaimSpec(Devices(requests))) if requests else None

    def with_one(self, container: str, resource: str) -> Self:
        """Return the pod where a container requests one of an extended resource."""

        def of(each: Container) -> Container:
            requests = each.resources.requests | {resource: 1}
            return msgspec.structs.replace(each, resources=Resources(requests))

        first, later = (
            tuple(of(each) if each.name == container else each for each in some)
            for some in (self.spec.init_containers, self.spec.containers)
        )
        spec = msgspec.structs.replace(self.spec, init_containers=first, containers=later)
        return msgspec.structs.replace(self, spec=spec)

    def _names(self) -> set[str]:
        every = (*self.spec.init_containers, *self.spec.containers)
        return {
            name
            for each in every
            for name, n in amounts_of_extended(each.resources.requests).items()
            if n
        }

    def _sizes(self, resource: str) -> list[tuple[str, int]]:
        """Return how much each container requests for itself, as the scheduler counts it.

        An init container that ends first uses what later containers will have, and the largest of
        those that need more than that counts.
        """
        early, later = self.spec.init_containers, self.spec.containers
        every = [
            (each.name, each in later or each.restart_policy == "Always", amount)
            for each in (*early, *later)
            if (amount := amounts_of_extended(each.resources.requests).get(resource, 0))
        ]
        stay = [(name, amount) for name, stays, amount in every if stays]
        ends = [
            (name, amount - sum(more for _, beside, more in every[place:] if beside))
            for place, (name, stays, amount) in enumerate(every)
            if not stays
        ]
        largest = max(ends, key=lambda entry: entry[1], default=("", 0))
        return [*([largest] if largest[1] > 0 else []), *stay]

    @property
    def is_of_one_node(self) -> bool:
        """Whether it is for a node by its name, as those of a DaemonSet are."""
        required = self.spec.affinity.node_affinity.required
        return (
            any(term.match_fields for term in required.node_selector_terms) if required else False
        )

    def condition(self, kind: str) -> Condition | None:
        return next((each for each in self.status.conditions if each.type == kind), None)

    def containers(self) -> tuple[ContainerStatus, ...]:
        """Return the statuses of all containers, those that start first before the others."""
        return (*self.status.init_container_statuses, *self.status.container_statuses)

    def untolerated(self, node: Node) -> list[NodeTaint]:
        """Return the taints of a node that keep the pod away, a cordon first."""
        return [
            taint
            for taint in (*((CORDON,) if node.unschedulable else ()), *node.taints)
            if taint.effect in BLOCKING
            and not any(each.tolerates(taint) for each in self.spec.tolerations)
        ]

    def why_not_on(self, node: Node) -> tuple[NodeWhy, str] | None:
        """Return why the pod does not run on a node, and by what; None: nothing here keeps it.

        Raises NodeSelectorError.
        """
        spec = self.spec
        for taint in self.untolerated(node):
            if taint.key == CORDON.key:
                return "NodeCordoned", ""
            return "NodeNotReady" if taint.is_condition else "NodeTainted", taint.key
        for key, value in spec.node_selector.items():
            if node.labels.get(key) != value:
                return "NodeAffinity", f"{key}={value}"
        required = spec.affinity.node_affinity.required
        if required is not None and not node.meets(required):
            return "NodeAffinity", AFFINITY
        return None


PLAIN = Pod(NamespacedMeta())
"""A pod that tolerates nothing, and chooses no node."""
