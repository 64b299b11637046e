"""What budgets are counted against: every GPU's place, and what is going on elsewhere. Pure."""

from collections.abc import Iterable, Mapping
from datetime import datetime

import msgspec

from remediator.model.incident import Incident
from remediator.model.taint_rule import Rule
from remediator.plan.emptied_rules import Emptied
from remediator.policy.limits import Ground

NODE_SHARE = 16
"""GPUs of one node that count in a total, however many it publishes: HGX machines have 8, trays of
GB200 4, few have more than 16. So a node that invents GPUs raises no cap by more than these."""


class GpuPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where one physical GPU is, for counting."""

    node: str
    pools: frozenset[str] = frozenset()
    """`driver/pool` of its devices."""
    classes: frozenset[str] = frozenset()
    """DeviceClasses through which its devices are claimed now."""
    domain: str = ""
    """NVLink domain: cluster UUID and clique of the fabric; "" for none."""
    product: str = ""
    """Product name and driver version; "" where it is not published."""


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
        case "product":
            return (place.product,) if place.product else ()
        case "cluster":
            return ("",)


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    """When something changed on a node, as we saw it or its agent reports; None: unknown."""

    driver_at: datetime | None = None
    agent_at: datetime | None = None


class Fleet(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster beyond one node, as far as budgets need it."""

    rules: tuple[Rule, ...] = ()
    """Ours, of all nodes, as stored."""
    incidents: tuple[Incident, ...] = ()
    """Of all nodes: the open ones, and those that are closed and began within `LONGEST_RATE`.
    Older ones that are closed count for nothing and need not be here."""
    places: Mapping[str, GpuPlace] = {}
    """By GPU UUID, of every GPU that was published within the last 24 h."""
    totals: Mapping[tuple[Ground, str], int] = {}
    """GPUs on each ground, likewise, of each node no more than `NODE_SHARE`; the cluster's is under
    ("cluster", "")."""
    changes: Mapping[str, Changed] = {}
    """By node."""
    policy_changed_at: datetime | None = None
    seen_node: str = ""
    """The node decided about, if it is there: its incidents may still record that it is gone."""
    filled_again: frozenset[Emptied] = frozenset()
    """Rules of that node that have pods again, while their incidents record that no pod is left."""
    stopped: str = ""
    """The user and reason of the emergency stop; "" while it is off."""
