"""The namespaces take turns: none crowds out the others. Pure."""

from collections import Counter
from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import TypeVar

T = TypeVar("T")


def in_turn(entries: Iterable[T], namespace: Callable[[T], str]) -> list[T]:
    """Return the first entry of each namespace, then the second ones, and so on.

    Within a namespace, and within a turn, the order stays.
    """
    before = Counter[str]()
    ranked: list[tuple[int, T]] = []
    for entry in entries:
        name = namespace(entry)
        ranked.append((before[name], entry))
        before[name] += 1
    return [entry for _, entry in sorted(ranked, key=itemgetter(0))]
