"""Where a GPU is, and which places a line of the policy means. Pure.

Names only, never labels: a kubelet can set labels on its own Node, and a node must not be able to
choose how it is treated.
"""

from collections.abc import Collection, Iterator
from fnmatch import fnmatchcase
from itertools import product

import msgspec


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a GPU is. Names that a kubelet cannot set on itself; labels are none of these."""

    node: str = ""
    pools: frozenset[tuple[str, str]] = frozenset()
    """Driver and pool of each of its devices."""
    device_classes: frozenset[str] = frozenset()
    """Through which its devices are claimed; those at the opening while an incident is open."""
    devices: frozenset[str] = frozenset()
    """UUIDs: the GPU and its published slices."""

    def within(self, driver: str, pool: str) -> "Place":
        """Return the place of only the devices that are published in one pool."""
        return msgspec.structs.replace(self, pools=frozenset({(driver, pool)}))


ANYWHERE = Place()


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One of the ways to see a place: with one driver, one pool, one DeviceClass of it."""

    node: str
    driver: str
    pool: str
    device_class: str


class Match(msgspec.Struct, frozen=True, kw_only=True):
    """Which points are meant: every key that is given must match, by any of its patterns."""

    nodes: tuple[str, ...] = ()
    drivers: tuple[str, ...] = ()
    pools: tuple[str, ...] = ()
    device_classes: tuple[str, ...] = ()

    def covers(self, point: Point) -> bool:
        return all(
            not patterns or matches(name, patterns)
            for name, patterns in (
                (point.node, self.nodes),
                (point.driver, self.drivers),
                (point.pool, self.pools),
                (point.device_class, self.device_classes),
            )
        )


class Area(msgspec.Struct, frozen=True, kw_only=True):
    """Places that a maintenance window or an exemption means: any of these."""

    nodes: tuple[str, ...] = ()
    pools: tuple[str, ...] = ()
    devices: frozenset[str] = frozenset()
    """UUIDs of GPUs or slices; one of a slice means the GPU that it is on."""

    def holds(self, place: Place) -> bool:
        return (
            matches(place.node, self.nodes)
            or any(matches(pool, self.pools) for _, pool in place.pools)
            or not self.devices.isdisjoint(place.devices)
        )


def matches(name: str, patterns: Collection[str]) -> bool:
    """Whether a name is one of these or fits one of these shell patterns (`*`, `?`, `[a-c]`).

    No name fits nothing, not even `*`.
    """
    return bool(name) and any(fnmatchcase(name, pattern) for pattern in patterns)


def points(place: Place) -> Iterator[Point]:
    """Yield every way to see a place; what is unknown of it is ""."""
    pools = sorted(place.pools) or [("", "")]
    for (driver, pool), device_class in product(pools, sorted(place.device_classes) or [""]):
        yield Point(node=place.node, driver=driver, pool=pool, device_class=device_class)
