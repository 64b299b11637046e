"""The nodes that name one GPU: which of them decides about it, and which cast doubt on it. Pure.

A board is in one node, and its UUID may be named by more: it was moved, a dead node's slices stay,
or an agent lies. Its incident must have one writer, or two nodes begin its clocks anew in turn.
"""

from collections.abc import Callable, Set
from functools import cached_property

import msgspec


# `dict=True`: a cached_property keeps its value in the instance's dict, which a Struct lacks.
class Claimants(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The nodes that name one GPU, by how they do."""

    reporting: Set[str]
    """The stored report lists it."""
    publishing: Set[str]
    published_last: Set[str]
    """They published it within the last day, and do so no more."""
    handling: Set[str]
    """They have its open incidents; without any, its rules."""
    known: Set[str]
    """Nodes of `handling` of which a report is stored."""
    why_stale: Callable[[str], str]
    """Returns why a node's report is not trusted now, "" when it is."""

    @cached_property
    def fresh(self) -> Set[str]:
        return frozenset(node for node in self.reporting if not self.why_stale(node))

    @cached_property
    def live(self) -> Set[str]:
        """One of the nodes that publish it and are not silent, first that of its incident."""
        mine = self.publishing & self.handling
        # Not each is looked at: of a made-up UUID there may be many.
        order = (*sorted(mine), *sorted(self.publishing - mine))
        found = next((node for node in order if not self.why_stale(node)), None)
        return frozenset(() if found is None else (found,))

    @cached_property
    def heirs(self) -> Set[str]:
        """The nodes that have it now, where only silent nodes are left to publish it.

        A board that is lost may keep its node's driver from starting, while the slices of the dead
        node that it came from stay. So it is of those that freshly report it and were seen to
        publish it last; else of the node that has its open incident, or its rules, unless another
        one freshly reports it. What a report says of slices is not enough here: its incident would
        taint the GPU of an agent that was silent for a minute.
        """
        if not self.publishing or self.live:
            return frozenset()
        if last := self.fresh & self.published_last:
            return last
        handlers = self.handling & self.known
        return handlers if self.fresh <= handlers else frozenset()

    @cached_property
    def deciding(self) -> str:
        """The one node that decides about it, "" where none names it: the same for each node.

        Each of these groups narrows the choice to its nodes, if one is left; at last the name does.
        Where any node can know how the GPU is, this one can.
        """
        nodes = self.reporting | self.publishing | self.published_last | self.handling
        for group in (
            self.fresh & self.publishing,
            self.fresh & self.published_last,
            self.fresh,
            self.live,
            self.handling & self.known,
            self.publishing,
            self.handling,
            self.published_last,
        ):
            nodes = nodes & group or nodes
        return min(nodes, default="")

    def doubts(self, node: str) -> tuple[Set[str], Set[str]]:
        """Return the nodes that dispute it with a node, and those that only publish it too.

        A stale report does not count. Nor does a mere report against a node that both reports and
        publishes the GPU: otherwise a lying agent could keep any GPU from being tainted. Nor do
        slices of a node without a fresh report of it, against one that publishes the GPU and
        freshly reports it, or has it after them (`heirs`): a dead node keeps its slices, and so
        does a driver that cannot start where the board was.
        """
        publishers = self.publishing | self.heirs
        # While no node publishes it, it is that of the node that did so last.
        owners = publishers or self.published_last
        owned = node in owners and (node in self.reporting or node in self.heirs)
        rivals = frozenset[str]() if owned else self.fresh
        unreported = frozenset[str]()
        if node in self.heirs or (owned and not self.why_stale(node)):
            unreported = publishers - self.fresh - {node}
        return (rivals | publishers) - unreported - {node}, unreported
