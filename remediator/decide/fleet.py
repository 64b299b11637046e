"""What budgets are counted against: every GPU's place, and what is going on elsewhere. Pure."""

from collections.abc import Iterable, Mapping
from datetime import datetime

import msgspec

from remediator.objects.incident import Incident
from remediator.objects.taints import Rule
from remediator.policy.limits import Ground


class GpuPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where one physical GPU is, for counting."""

    node: str
    pools: frozenset[str] = frozenset()
    """`driver/pool` of its devices."""
    classes: frozenset[str] = frozenset()
    """DeviceClasses through which its devices are claimed now."""
    domain: str = ""
    """NVLink domain: cluster UUID and clique of the fabric; "" for none."""


def names_on(ground: Ground, place: GpuPlace) -> Iterable[str]:
    """Return the grounds of one kind that a GPU stands on."""
    match ground:
        case "node":
            return (place.node,)
        case "pool":
            return place.pools
        case "class":
            return place.classes
        case "domain":
            return (place.domain,) if place.domain else ()
        case "cluster":
            return ("",)


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    """When we saw something change on a node; None: not since we started."""

    driver_at: datetime | None = None
    agent_at: datetime | None = None


class Fleet(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster beyond one node, as far as budgets need it."""

    rules: tuple[Rule, ...] = ()
    """Ours, of all nodes, as stored."""
    incidents: tuple[Incident, ...] = ()
    """Of all nodes, open and closed."""
    places: Mapping[str, GpuPlace] = {}
    """By GPU UUID."""
    totals: Mapping[tuple[Ground, str], int] = {}
    """GPUs on each ground; the cluster's is under ("cluster", "")."""
    changes: Mapping[str, Changed] = {}
    """By node."""
    policy_changed_at: datetime | None = None
    stopped: str = ""
    """Who pulled the emergency stop and why; "" while nobody did."""
