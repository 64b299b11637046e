"""Extended resources: what device plugins offer on nodes, and which of them DRA serves. Pure."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from allocation.model.claims import DeviceClass
from allocation.model.nodes import OF_CLASSES, Node
from allocation.model.pods import Pod


class Supply(msgspec.Struct, frozen=True):
    """One extended resource of device plugins, over all nodes that have it."""

    resource: str
    requested: int
    """By the pod that waits."""
    nodes: int
    installed: int
    allocatable: int
    """The rest of `installed` is what the plugins call unhealthy."""
    used: int | None
    """Requested by pods that have a node; None: they cannot be listed."""
    largest: int
    """Allocatable on the node that has most."""
    most_free: int | None
    """On one node, also on one that keeps the pod away: then that is why."""


def supplies(
    requested: Mapping[str, int],
    nodes: Sequence[Node],
    used: Mapping[str, Mapping[str, int]] | None,
) -> tuple[Supply, ...]:
    """Return what there is of each resource; `used` is by node and resource."""
    found: list[Supply] = []
    for resource, amount in sorted(requested.items()):
        having = [node for node in nodes if node.capacity.get(resource)]
        taken = {node.name: (used or {}).get(node.name, {}).get(resource, 0) for node in having}
        free = [node.allocatable.get(resource, 0) - taken[node.name] for node in having]
        supply = Supply(
            resource=resource,
            requested=amount,
            nodes=len(having),
            installed=sum(node.capacity[resource] for node in having),
            allocatable=sum(node.allocatable.get(resource, 0) for node in having),
            used=None if used is None else sum(taken.values()),
            largest=max((node.allocatable.get(resource, 0) for node in having), default=0),
            most_free=None if used is None else max(free, default=0),
        )
        found.append(supply)
    return tuple(found)


def requests_by_node(pods: Iterable[Pod]) -> dict[str, dict[str, int]]:
    """Return what pods request of each extended resource, by node."""
    found: dict[str, dict[str, int]] = {}
    for pod in pods:
        on_node = found.setdefault(pod.spec.node_name, {})
        for name, amount in pod.extended_resources().items():
            on_node[name] = on_node.get(name, 0) + amount
    return found


def classes_of_resources(classes: Iterable[DeviceClass]) -> dict[str, str]:
    """Return the DeviceClass by the extended resource that it serves.

    Of several for one resource it is the newest, and of those the first by name.
    """
    found: dict[str, str] = {}
    # Stable: by name, and then the oldest first, so that the newest is written last.
    by_name = sorted(classes, key=lambda each: each.metadata.name, reverse=True)
    for each in sorted(by_name, key=_age):
        if each.spec.extended_resource_name:
            found[each.spec.extended_resource_name] = each.metadata.name
        found[f"{OF_CLASSES}/{each.metadata.name}"] = each.metadata.name
    return found


def _age(given: DeviceClass) -> float:
    created = given.metadata.creation_timestamp
    return created.timestamp() if created else 0.0
