"""What may be done on a node now: one matrix of acts against what must be known for each.

An act is refused while anything in its row is in doubt: it then changes nothing, in neither
direction. A watch that is refused, gone or stale shows the cluster as it was; acting on that
evicts the pods of a healthy GPU after a renumbering. By a clock that is wrong everything may be
old, and while two policies disagree it is not known which of them stops what.

PodGroups, JobSets, ComputeDomains, Nodes and Events are in no row: without them the list of
affected pods is incomplete. That may delay an eviction (`pods`), and nothing else is wrong. What
is in doubt about one GPU alone is its board's.
"""

from collections.abc import Mapping
from typing import Literal

import msgspec

WatchedKind = Literal["reports", "leases", "slices", "claims", "rules", "incidents"]
Blind = Mapping[WatchedKind, str]
"""By kind of object, why what is known of it cannot be trusted now. A kind that can be trusted is
not in it."""
Knowledge = WatchedKind | Literal["report", "clock", "policy"]
"""`report`: the node's own, present, fresh and of a schema that is known. `clock`: ours. `policy`:
that of the leader and that of this process are one."""
Act = Literal[
    "restrict", "rebind", "release", "disrupt", "begin a call", "name pods", "end a clock"
]
"""`rebind`: a taint follows its hardware to another name. `release`: a taint or an incident ends.
`disrupt`: pods begin to be evicted, by NoExecute or the Eviction API. `begin a call`: the repair of
a node becomes needed. `name pods`: who holds a device of the node."""

_PLACE: tuple[WatchedKind, ...] = ("reports", "leases", "slices", "rules", "incidents")
NEEDED: Mapping[Act, tuple[tuple[Knowledge, ...], ...]] = {
    "restrict": (_PLACE, ("report",)),
    "rebind": (("slices", "rules", "incidents"),),
    "release": (_PLACE,),
    "disrupt": ((*_PLACE, "claims"), ("clock",), ("policy",)),
    "begin a call": (("clock",), ("policy",)),
    "name pods": (("slices", "claims"),),
    "end a clock": (("clock",),),
}
"""By act, groups of what it rests on: the first group with a doubt gives the reason."""


class Trust(msgspec.Struct, frozen=True):
    """What is in doubt on one node now, and so what must not be done there."""

    doubts: Mapping[Knowledge, str] = {}
    """Why each kind of knowledge cannot be trusted. What can be is not in it, or is ""."""

    def refusal(self, act: Act) -> str:
        """Return why an act must not be done now, "" when it may."""
        if not self.doubts:  # nearly always
            return ""
        for group in NEEDED[act]:
            if why := "; ".join(self.doubts[kind] for kind in group if self.doubts.get(kind)):
                return why
        return ""
