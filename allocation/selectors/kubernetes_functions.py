"""Functions of Kubernetes' own CEL libraries (k8s.io/apiserver v0.37.1, pkg/cel/library): a table.

Quantities and versions cross as messages that have one text for each value, so that `==` holds.
What a function raises of `FAILURES` makes the expression fail, as in Kubernetes; `UnsupportedError`
and `OddQuantityError` say that Kubernetes would go on. Anything else is a fault of our own. Pure.
"""

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, cast

import re2

from allocation.selectors import quantity, semver
from allocation.selectors.quantity import QuantityError
from allocation.selectors.semver import SemverError

MessageKind = Literal["quantity", "semver"]
Kind = Literal[MessageKind, "string", "int", "double", "bool", "list", "strings", "any"]
"""`list`: of anything. `strings`: a list of strings."""


FAILURES: tuple[type[Exception], ...] = (
    ValueError,
    TypeError,
    cast("type[Exception]", re2.error),  # pyright: ignore[reportUnknownMemberType] - untyped
)


class UnsupportedError(Exception):
    """What Kubernetes can compute, and a function here cannot."""


class Message(NamedTuple):
    """A quantity or a version, as text."""

    kind: MessageKind
    text: str

    @property
    def order(self) -> Any:
        """Return what orders values of a kind."""
        if self.kind == "quantity":
            return quantity.from_canonical(self.text)
        return semver.parse(self.text).order


class Overload(NamedTuple):
    """One way to call a function."""

    function: str
    takes: tuple[Kind, ...]
    gives: Kind
    call: Callable[..., Any]
    is_member: bool = True
    """Called as `a.f(b)`."""


def quantity_of(text: str) -> Message:
    return Message("quantity", quantity.canonical(quantity.parse(text)))


def semver_of(text: str, normalize: bool = False) -> Message:  # noqa: FBT001, FBT002 - CEL's order
    return Message("semver", str(semver.parse(text, normalize=normalize)))


def _is_quantity(text: str) -> bool:
    try:
        quantity.parse(text)
    except QuantityError:
        return False
    return True


def _is_semver(text: str, normalize: bool = False) -> bool:  # noqa: FBT001, FBT002 - CEL's order
    try:
        semver.parse(text, normalize=normalize)
    except SemverError:
        return False
    return True


def _compare(one: Message, other: Message) -> int:
    if one.kind != other.kind:
        raise TypeError(f"no such overload: a {one.kind} is compared with a {other.kind}")
    return (one.order > other.order) - (one.order < other.order)


def _is_greater(one: Message, other: Message) -> bool:
    return _compare(one, other) > 0


def _is_less(one: Message, other: Message) -> bool:
    return _compare(one, other) < 0


def _sign(one: Message) -> int:
    return _compare(one, Message("quantity", "0n"))


def _add(one: Message, more: Message | int) -> Message:
    value = quantity.from_canonical(more.text) if isinstance(more, Message) else more
    return Message("quantity", quantity.canonical(quantity.from_canonical(one.text) + value))


def _sub(one: Message, less: Message | int) -> Message:
    value = quantity.from_canonical(less.text) if isinstance(less, Message) else less
    return Message("quantity", quantity.canonical(quantity.from_canonical(one.text) - value))


def _as_integer(one: Message) -> int:
    found = quantity.integer(quantity.from_canonical(one.text))
    if found is None:
        raise ValueError("cannot convert value to integer")
    return found


def _is_integer(one: Message) -> bool:
    return quantity.integer(quantity.from_canonical(one.text)) is not None


def _as_float(one: Message) -> float:
    return float(quantity.from_canonical(one.text))


def _major(one: Message) -> int:
    return semver.parse(one.text).major


def _minor(one: Message) -> int:
    return semver.parse(one.text).minor


def _patch(one: Message) -> int:
    return semver.parse(one.text).patch


def _sum(values: Sequence[Any]) -> Any:
    if not values or any(type(value) not in {int, float} for value in values):
        raise UnsupportedError("the sum of a list that is empty, or not of numbers")
    return sum(values)


def _min(values: Sequence[Any]) -> Any:
    return min(_comparable(values, empty=False))


def _max(values: Sequence[Any]) -> Any:
    return max(_comparable(values, empty=False))


def _is_sorted(values: Sequence[Any]) -> bool:
    return all(left <= right for left, right in itertools.pairwise(_comparable(values)))


def _comparable(values: Sequence[Any], *, empty: bool = True) -> Sequence[Any]:
    if not (values or empty):
        raise ValueError("called on an empty list")
    if any(isinstance(value, Message) for value in values):
        raise TypeError("no such overload: quantities and versions in a list have no order")
    return values


def _includes(values: Any, value: Any) -> bool:
    """Whether a list has a value, or is it. In CEL `true` is no 1."""
    every = cast("list[Any]", values) if isinstance(values, list) else [values]
    return any(
        isinstance(each, bool) == isinstance(value, bool) and each == value for each in every
    )


@functools.lru_cache(maxsize=256)
def _pattern(text: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    return re2.compile(text, options)  # pyright: ignore[reportUnknownMemberType] - untyped


def _find(text: str, pattern: str) -> str:
    found = _pattern(pattern).search(text)
    return found.group() if found else ""


def _find_all(text: str, pattern: str, most: int = -1) -> list[str]:
    found = [match.group() for match in _pattern(pattern).finditer(text)]
    return found if most < 0 else found[:most]


_MESSAGES: tuple[MessageKind, ...] = ("quantity", "semver")
_SCALARS: tuple[Kind, ...] = ("string", "int", "double", "bool", "semver")
OVERLOADS: tuple[Overload, ...] = (
    Overload("quantity", ("string",), "quantity", quantity_of, is_member=False),
    Overload("isQuantity", ("string",), "bool", _is_quantity, is_member=False),
    Overload("sign", ("quantity",), "int", _sign, is_member=False),
    Overload("asInteger", ("quantity",), "int", _as_integer),
    Overload("isInteger", ("quantity",), "bool", _is_integer),
    Overload("asApproximateFloat", ("quantity",), "double", _as_float),
    Overload("add", ("quantity", "quantity"), "quantity", _add),
    Overload("add", ("quantity", "int"), "quantity", _add),
    Overload("sub", ("quantity", "quantity"), "quantity", _sub),
    Overload("sub", ("quantity", "int"), "quantity", _sub),
    *(Overload("isGreaterThan", (kind, kind), "bool", _is_greater) for kind in _MESSAGES),
    *(Overload("isLessThan", (kind, kind), "bool", _is_less) for kind in _MESSAGES),
    *(Overload("compareTo", (kind, kind), "int", _compare) for kind in _MESSAGES),
    Overload("semver", ("string",), "semver", semver_of, is_member=False),
    Overload("semver", ("string", "bool"), "semver", semver_of, is_member=False),
    Overload("isSemver", ("string",), "bool", _is_semver, is_member=False),
    Overload("isSemver", ("string", "bool"), "bool", _is_semver, is_member=False),
    Overload("major", ("semver",), "int", _major),
    Overload("minor", ("semver",), "int", _minor),
    Overload("patch", ("semver",), "int", _patch),
    Overload("find", ("string", "string"), "string", _find),
    Overload("findAll", ("string", "string"), "strings", _find_all),
    Overload("findAll", ("string", "string", "int"), "strings", _find_all),
    Overload("isSorted", ("list",), "bool", _is_sorted),
    Overload("sum", ("list",), "any", _sum),
    Overload("min", ("list",), "any", _min),
    Overload("max", ("list",), "any", _max),
    *(Overload("includes", ("list", kind), "bool", _includes) for kind in _SCALARS),
    *(Overload("includes", (kind, kind), "bool", _includes) for kind in _SCALARS),
)
