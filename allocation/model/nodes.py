"""Nodes, and which of them a selector of a slice or a pod chooses (core/v1 NodeSelector). Pure."""

import re
from collections.abc import Mapping

import msgspec

from exporter.model.quantity import whole
from kubeapi.types import ObjectMeta

NAME = "metadata.name"
OF_CLASSES = "deviceclass.resource.kubernetes.io"
"""Domain of the extended resource that each DeviceClass has by its name."""
_INTEGER = re.compile(r"([+-]?)0*([0-9]{1,19})")


class NodeSelectorError(ValueError):
    """A selector that Kubernetes cannot read either: the scheduler gives up on the node."""


class Requirement(msgspec.Struct, frozen=True, gc=False):
    key: str
    operator: str
    values: tuple[str, ...] = ()


class Term(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """All of its requirements have to be met; one without any chooses no node."""

    match_expressions: tuple[Requirement, ...] = ()
    match_fields: tuple[Requirement, ...] = ()


class NodeSelector(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Any of its terms has to be met."""

    node_selector_terms: tuple[Term, ...] = ()

    @property
    def size(self) -> int:
        """Return how much is compared with each node: requirements, and their values."""
        return sum(
            1 + len(each.values)
            for term in self.node_selector_terms
            for each in (*term.match_expressions, *term.match_fields)
        )


CORDONED = "node.kubernetes.io/unschedulable"
_CONDITIONS = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
_PASSING = (
    "node.kubernetes.io/out-of-service",
    "node.cloudprovider.kubernetes.io/shutdown",
    "ToBeDeletedByClusterAutoscaler",
    "DeletionCandidateOfClusterAutoscaler",
    "startup-taint.cluster-autoscaler.kubernetes.io/",
    "ignore-taint.cluster-autoscaler.kubernetes.io/",
    "karpenter.sh/",
    "node.cilium.io/",
)
"""How taints begin that a node has while it comes or goes: nothing is to be done about them."""


class NodeTaint(msgspec.Struct, frozen=True, gc=False):
    key: str
    value: str = ""
    effect: str = ""

    @property
    def is_condition(self) -> bool:
        """Whether it says that the node is not ready: who removes it sees it return."""
        return self.key.startswith((*_CONDITIONS, *_PASSING)) and self.key != CORDONED

    @property
    def is_passing(self) -> bool:
        """Whether the node is on its way in or out."""
        return self.key.startswith(_PASSING)


class Node(msgspec.Struct, frozen=True, gc=False):
    name: str
    labels: Mapping[str, str] = {}
    unschedulable: bool = False
    """Cordoned."""
    taints: tuple[NodeTaint, ...] = ()
    capacity: Mapping[str, int] = {}
    """Whole numbers of extended resources, such as nvidia.com/gpu of a device plugin."""
    allocatable: Mapping[str, int] = {}
    """The same without what the plugin calls unhealthy."""

    def is_chosen(self, name: str, selector: NodeSelector | None, *, everywhere: bool) -> bool:
        """Whether the three fields of a slice or a device choose it. Raises NodeSelectorError."""
        if name or everywhere:
            return everywhere if not name else name == self.name
        return selector is not None and self.meets(selector)

    def meets(self, selector: NodeSelector) -> bool:
        """Raises NodeSelectorError, also where another term chooses the node."""
        fields = {NAME: self.name}
        # Lists, because what Kubernetes cannot read is found beside what is not met.
        answers = [
            [_is_met(each, self.labels) for each in term.match_expressions]
            + [_is_met(each, fields, of_fields=True) for each in term.match_fields]
            for term in selector.node_selector_terms
        ]
        return any(answer and all(answer) for answer in answers)


class NodeSpec(msgspec.Struct, frozen=True, gc=False):
    unschedulable: bool = False
    taints: tuple[NodeTaint, ...] = ()


class NodeStatus(msgspec.Struct, frozen=True, gc=False):
    capacity: dict[str, str | int] = {}
    allocatable: dict[str, str | int] = {}


class StoredNode(msgspec.Struct, frozen=True, gc=False):
    """A Node as the API server stores it."""

    metadata: ObjectMeta
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def node(self) -> Node:
        return Node(
            self.metadata.name,
            self.metadata.labels,
            self.spec.unschedulable,
            self.spec.taints,
            amounts_of_extended(self.status.capacity),
            amounts_of_extended(self.status.allocatable),
        )


_MOST = 1 << 40
"""More than any cluster has: sums of amounts stay within 64 bits, whatever a pod requests."""


def amounts_of_extended(amounts: Mapping[str, str | int]) -> dict[str, int]:
    """Return the extended resources among amounts: of a domain that is not Kubernetes' own."""
    found: dict[str, int] = {}
    for name, amount in amounts.items():
        domain, slash, _ = name.partition("/")
        if slash and (domain == OF_CLASSES or not domain.endswith("kubernetes.io")):
            found[name] = min(whole(amount) or 0, _MOST)
    return found


def _int64(text: str) -> int | None:
    """Return the number that Go reads from a text; None: it is none, or has more than 64 bits.

    As ParseInt of strconv with base 10, which reads labels and what they are compared with.
    """
    found = _INTEGER.fullmatch(text)
    number = int(found[1] + found[2]) if found else None
    return number if number is not None and -(1 << 63) <= number < 1 << 63 else None


def _is_met(requirement: Requirement, found: Mapping[str, str], *, of_fields: bool = False) -> bool:
    """As labels.Requirement of k8s.io/apimachinery; fields have two operators, and one value."""
    value, values = found.get(requirement.key), requirement.values
    match requirement.operator:
        case "In" | "NotIn" if of_fields and len(values) != 1:
            pass
        case "In" if values:
            return value in values
        case "NotIn" if values:
            return value not in values
        case "Exists" if not (values or of_fields):
            return value is not None
        case "DoesNotExist" if not (values or of_fields):
            return value is None
        case "Gt" | "Lt" if not of_fields and len(values) == 1:
            number, limit = _int64(value or ""), _int64(values[0])
            if limit is not None:
                more = 0 if number is None else number - limit
                return more > 0 if requirement.operator == "Gt" else more < 0
        case _:
            pass
    raise NodeSelectorError(f"{requirement.key} {requirement.operator} {list(values)} says nothing")
