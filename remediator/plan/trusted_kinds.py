"""Which kinds of object a decision rests on, and what follows while one cannot be trusted.

A watch that is refused, gone or stale shows the cluster as it was. Acting on that evicts the pods
of a healthy GPU after a renumbering. So the view has for each kind of object the reason why its
copy cannot be trusted now, and each decision checks the kinds that it needs. PodGroups, JobSets,
ComputeDomains, Nodes and Events are in no row: without them the list of affected pods is
incomplete. That may delay an eviction (`drained_elsewhere`), and nothing else is wrong. Pure.
"""

from collections.abc import Mapping
from typing import Literal

WatchedKind = Literal["reports", "leases", "slices", "claims", "rules", "incidents"]
Decision = Literal["NoSchedule", "rebind", "untaint", "NoExecute", "True"]
"""`rebind`: a taint follows its hardware to another name. `NoExecute` stands for the Eviction API
too, `True` for a Node condition that requests repair."""

_PLACE: tuple[WatchedKind, ...] = ("reports", "leases", "slices", "rules", "incidents")
NEEDED: Mapping[Decision, tuple[WatchedKind, ...]] = {
    "NoSchedule": _PLACE,
    "rebind": ("slices", "rules", "incidents"),
    "untaint": _PLACE,
    "NoExecute": (*_PLACE, "claims"),
    "True": ("slices", "claims"),
}
"""What each decision rests on. `True` needs a live list of the node's pods as well."""

Blind = Mapping[WatchedKind, str]
"""By kind why its objects cannot be trusted now; a kind that can be trusted is not in it."""


def distrusted(blind: Blind, decision: Decision) -> str:
    """Return why a decision must not be taken now, "" when it may."""
    if not blind:  # nearly always
        return ""
    return "; ".join(blind[kind] for kind in NEEDED[decision] if blind.get(kind))
