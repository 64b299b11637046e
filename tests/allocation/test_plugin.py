"""What device plugins offer, and which DeviceClass serves an extended resource."""

from datetime import UTC, datetime

import msgspec

from allocation.model.claims import DeviceClass
from allocation.model.nodes import Node
from allocation.plugin import classes_of_resources, supplies

GPU = "nvidia.com/gpu"


def test_what_is_unhealthy_is_installed_and_not_free() -> None:
    nodes = (
        Node("node-a", capacity={GPU: 8}, allocatable={GPU: 6}),
        Node("node-b", capacity={GPU: 8}, allocatable={GPU: 0}),
        Node("cpu"),
    )
    (found,) = supplies({GPU: 4}, nodes, {"node-a": {GPU: 5}, "cpu": {GPU: 9}})

    assert (found.nodes, found.installed, found.allocatable) == (2, 16, 6)
    assert (found.used, found.largest, found.most_free) == (5, 6, 1)


def test_without_the_pods_what_is_free_is_unknown() -> None:
    (found,) = supplies({GPU: 4}, (Node("a", capacity={GPU: 8}, allocatable={GPU: 8}),), None)

    assert (found.used, found.most_free, found.largest) == (None, None, 8)


def device_class(name: str, resource: str, day: int) -> DeviceClass:
    created = datetime(2026, 1, day, tzinfo=UTC)
    return msgspec.convert(
        {
            "metadata": {"name": name, "creationTimestamp": created},
            "spec": {"extendedResourceName": resource},
        },
        DeviceClass,
    )


def test_the_newest_class_serves_a_resource_and_of_those_the_first_by_name() -> None:
    classes = [
        device_class("b", GPU, 2),
        device_class("a", GPU, 2),
        device_class("old", GPU, 1),
        device_class("other", "", 1),
    ]

    found = classes_of_resources(classes)

    assert found[GPU] == "a"
    assert found["deviceclass.resource.kubernetes.io/other"] == "other"
