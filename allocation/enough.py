"""Whether a change is enough alone: for the scheduler's whole attempt, not on one node. Pure.

An error on any node ends the attempt. So a change must take away the errors that there are, and
bring none. Only nodes that it touches are searched anew, and of these only where one can come up.
"""

from collections.abc import Callable, Sequence
from functools import cached_property

import msgspec

from allocation.answers import Answers
from allocation.attempt import Attempt, may_fail
from allocation.demand import Demand
from allocation.model.claims import Claim
from allocation.model.nodes import Node
from allocation.remedies import Change, Scene, apply_change
from allocation.search import Cluster, allocate
from allocation.usage import PoolName

Around = Callable[[Sequence[Node], tuple[Claim, ...]], Scene]
"""Returns what matters to claims on some nodes."""


class Enough:
    """An attempt, to which changes are made; methods raise NodeSelectorError and CapacityError."""

    def __init__(self, before: Attempt, cluster: Cluster, around: Around, answers: Answers) -> None:
        self.before = before
        self._cluster, self._around, self._answers = cluster, around, answers

    def takes(self, change: Change, whole: Scene) -> bool:
        """Whether a change with which one node serves the claims leaves no node with an error."""
        if not self._risky:
            return True
        waiting, after = self.before.demand.waiting, apply_change(whole, change)
        pools = _touched(whole, after)
        nodes = [
            node
            for node in self._risky
            if pools is None
            or any(
                (pool.driver, pool.name) in pools for pool in self._cluster.published.pools_of(node)
            )
        ]
        if self.before.errors.keys() - {node.name for node in nodes}:
            return False
        demand = msgspec.structs.replace(self.before.demand, waiting=after.waiting)
        cluster = self._cluster
        if pools is not None:
            cluster = apply_change(self._around(nodes, waiting), change).cluster()
        return not any(self._fails(demand, node, cluster) for node in nodes)

    def opens(self, demand: Demand) -> bool:
        """Whether a demand for which more nodes are open meets no error on any of them."""
        before = self.before.demand
        return not self.before.errors and not any(
            may_fail(demand.claims_on(node), node, self._cluster, self._answers)
            and self._fails(demand, node, self._cluster)
            for node in self.before.nodes
            if before.why_not_searched(node) and not demand.why_not_searched(node)
        )

    @cached_property
    def _risky(self) -> list[Node]:
        """The nodes that are searched and where an error comes up, or may after a change."""
        demand = self.before.demand
        return [
            node
            for node in self.before.nodes
            if node.name in self.before.errors
            or (
                not demand.why_not_searched(node)
                and may_fail(demand.claims_on(node), node, self._cluster, self._answers)
            )
        ]

    def _fails(self, demand: Demand, node: Node, cluster: Cluster) -> bool:
        """Whether it does, or may: what is not evaluated here may be an error there."""
        found = allocate(demand.claims_on(node), node, cluster, self._answers)
        return found.fault is not None or found.ending == "NotEvaluated"


def _touched(before: Scene, after: Scene) -> set[PoolName] | None:
    """Return the pools that a change touches; None: it changes what is requested of each pool."""
    if after.waiting is not before.waiting:
        return None
    kept = set(map(id, after.claims))
    freed = [claim for claim in before.claims if id(claim) not in kept]
    changed = [
        given
        for given, other in zip(before.slices, after.slices, strict=True)
        if given is not other
    ]
    pools = {(given.spec.driver, given.spec.pool.name) for given in changed}
    return pools | {(result.driver, result.pool) for claim in freed for result in claim.results}
