"""Whether a DaemonSet's pods may run on a node: its selector and its required affinity. Pure."""

from collections.abc import Callable, Mapping

import msgspec

from kubeapi.types import kubernetes_case

Test = Callable[[str | None, tuple[str, ...]], bool]


def _number(text: str | None) -> int | None:
    try:
        return None if text is None else int(text)
    except ValueError:
        return None


def _compared(value: str | None, values: tuple[str, ...], sign: int) -> bool:
    has, limit = _number(value), _number(values[0] if len(values) == 1 else None)
    return has is not None and limit is not None and sign * has > sign * limit


_OPERATORS: Mapping[str, Test] = {
    "In": lambda value, values: value in values,
    "NotIn": lambda value, values: value not in values,
    "Exists": lambda value, _: value is not None,
    "DoesNotExist": lambda value, _: value is None,
    "Gt": lambda value, values: _compared(value, values, 1),
    "Lt": lambda value, values: _compared(value, values, -1),
}
"""As the scheduler reads them: the value of a node, None without one, and those of the term."""


class _Requirement(msgspec.Struct, frozen=True):
    key: str
    operator: str
    values: tuple[str, ...] | None = ()

    def fits(self, has: Mapping[str, str]) -> bool:
        test = _OPERATORS.get(self.operator)
        return test is not None and test(has.get(self.key), self.values or ())


class _Term(msgspec.Struct, frozen=True, rename=kubernetes_case):
    match_expressions: tuple[_Requirement, ...] | None = ()
    match_fields: tuple[_Requirement, ...] | None = ()

    def fits(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether all is met; a term without requirements selects no node."""
        fields, expressions = self.match_fields or (), self.match_expressions or ()
        met = [each.fits({"metadata.name": name}) for each in fields]
        met += [each.fits(labels) for each in expressions]
        return bool(met) and all(met)


class _Required(msgspec.Struct, frozen=True, rename=kubernetes_case):
    node_selector_terms: tuple[_Term, ...] = ()


class _NodeAffinity(msgspec.Struct, frozen=True):
    required: _Required | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(msgspec.Struct, frozen=True, rename=kubernetes_case):
    node_affinity: _NodeAffinity | None = None


def selects(
    selector: Mapping[str, str], affinity: Affinity | None, name: str, labels: Mapping[str, str]
) -> bool:
    """Whether a pod with this selector and affinity may run on the node of this name."""
    if any(labels.get(key) != value for key, value in selector.items()):
        return False
    rules = affinity and affinity.node_affinity
    required = rules and rules.required
    return not required or any(term.fits(name, labels) for term in required.node_selector_terms)
