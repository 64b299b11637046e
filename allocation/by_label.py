"""Which slices may be for a node, without a look at each selector. Pure.

A slice for one node or one rack requires a label that few nodes have, so a node is compared only
with the slices that require one of its labels, and with those that may be for any node.
"""

from collections import Counter
from collections.abc import Sequence

from allocation.model.nodes import NAME, Node, NodeSelectorError
from allocation.model.slices import ResourceSlice

_Label = tuple[str, str]


class ByLabel:
    """Slices by a label, or the name, that a node must have to be chosen: the rarest one."""

    def __init__(self, slices: Sequence[ResourceSlice]) -> None:
        self._slices = slices
        self._anywhere: list[int] = []
        self._by_label: dict[_Label, list[int]] = {}
        required = [_required_labels(each) for each in slices]
        common = Counter(
            label for terms in required for term in terms for labels in term for label in labels
        )
        for place, terms in enumerate(required):
            if not terms:
                self._anywhere.append(place)
            for term in terms:
                for label in min(term, key=lambda labels: sum(map(common.__getitem__, labels))):
                    self._by_label.setdefault(label, []).append(place)

    def near(self, node: Node) -> list[ResourceSlice]:
        """Return the slices that may be for a node, in their order."""
        if not self._slices:
            return []
        places = {*self._anywhere}
        for label in (*node.labels.items(), (NAME, node.name)):
            places.update(self._by_label.get(label, ()))
        return [self._slices[place] for place in sorted(places)]


def _required_labels(given: ResourceSlice) -> list[list[list[_Label]]]:
    """Return for each term of its selector the requirements of labels, each by what it accepts.

    []: it may be for any node. So is one whose selector cannot be read: an error on each node.
    """
    spec, selector = given.spec, given.spec.node_selector
    if spec.node_name or spec.all_nodes or selector is None:
        return []
    try:
        Node("").meets(selector)
    except NodeSelectorError:
        return []
    terms = [
        [
            [(each.key, value) for value in each.values]
            for each in (*term.match_expressions, *term.match_fields)
            if each.operator == "In"
        ]
        for term in selector.node_selector_terms
    ]
    return terms if all(terms) else []
