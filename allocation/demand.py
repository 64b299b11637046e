"""What a pod waits for, and on which nodes it may have it. Pure.

A node may be closed to the pod by itself (a cordon, a taint), by the pod (a selector), or by a
claim of the pod that is allocated somewhere else already.
"""

from typing import Self

import msgspec

from allocation.model.claims import Claim, Devices, Request
from allocation.model.nodes import CORDONED, Node, NodeSelector
from allocation.model.pods import EXTENDED_RESOURCES, PLAIN, NodeWhy, Pod


class Demand(msgspec.Struct, frozen=True):
    waiting: tuple[Claim, ...]
    """Among them the one that the scheduler would make for extended resources."""
    pod: Pod | None = None
    """None: of any pod."""
    placed: tuple[tuple[str, NodeSelector], ...] = ()
    """Claims of the pod that are allocated, and where."""

    @classmethod
    def of(cls, pod: Pod | None, waiting: tuple[Claim, ...], claims: tuple[Claim, ...]) -> Self:
        """Return the demand of a pod with these claims, of which some are allocated.

        They come in the order of the pod, as the scheduler allocates them; what it makes itself
        comes last. One that the pod names twice is allocated twice.
        """
        names = [*pod.claim_names().values()] if pod else []
        by_name = {claim.metadata.name: claim for claim in waiting}
        ordered = (
            *(by_name[name] for name in names if name in by_name),
            *(claim for claim in waiting if claim.metadata.name not in names),
        )
        allocations = [(claim.metadata.name, claim.status.allocation) for claim in claims]
        placed = tuple(
            (name, allocation.node_selector)
            for name, allocation in allocations
            if pod is not None and allocation is not None and allocation.node_selector is not None
        )
        return cls(ordered, pod, placed)

    def why_not_on(self, node: Node) -> tuple[NodeWhy, str] | None:
        """Return what closes a node to the pod, and by what. Raises NodeSelectorError."""
        for name, selector in self.placed:
            if not node.meets(selector):
                return "ClaimElsewhere", name
        return self.why_not_searched(node)

    def why_not_searched(self, node: Node) -> tuple[NodeWhy, str] | None:
        """Return what closes a node before devices are looked for. Raises NodeSelectorError."""
        if self.pod is not None:
            return self.pod.why_not_on(node)
        # Any pod may tolerate what is tainted on purpose, but no cordon, and no node that is ill.
        faults = [
            each for each in PLAIN.untolerated(node) if each.is_condition or each.key == CORDONED
        ]
        return PLAIN.why_not_on(Node(node.name, taints=tuple(faults)))

    @property
    def comparisons(self) -> int:
        """Return how much is compared with each node: of the pod, and of its allocated claims."""
        found = sum(selector.size for _, selector in self.placed)
        if self.pod is None:
            return found
        required = self.pod.spec.affinity.node_affinity.required
        return found + len(self.pod.spec.tolerations) + (required.size if required else 0)

    @property
    def may_end_in_error(self) -> bool:
        """Whether the scheduler may end with an error: it has not when it refuses the nodes."""
        condition = self.pod.condition("PodScheduled") if self.pod else None
        return condition is None or condition.reason != "Unschedulable"

    def claims_on(self, node: Node) -> tuple[Claim, ...]:
        """Return what DRA has to serve on a node: a device plugin there comes before it."""
        found: list[Claim] = []
        for claim in self.waiting:
            requests = tuple(
                each
                for each in claim.spec.devices.requests
                if not node.allocatable.get(resource_of(claim, each))
            )
            if requests == claim.spec.devices.requests:
                found.append(claim)
            elif requests:
                spec = msgspec.structs.replace(claim.spec, devices=Devices(requests))
                found.append(msgspec.structs.replace(claim, spec=spec))
        return tuple(found)


def resource_of(claim: Claim, request: Request) -> str:
    """Return the extended resource that a request is for, "" for none."""
    made = claim.metadata.name == EXTENDED_RESOURCES
    return request.name.partition("/")[2] if made else ""
