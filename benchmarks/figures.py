"""Measured values into the figures of one table. Pure.

Nothing is asserted here: a budget is text beside a figure, for the reader to compare.
"""

import math
from collections.abc import Iterable, Sequence

import msgspec


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the table; `values` in `unit`, one for each time it was measured."""

    what: str
    unit: str
    values: tuple[float, ...]
    budget: str = ""
    digits: int = 1
    part: bool = False
    """A part of the figure above it."""


class Section(msgspec.Struct, frozen=True):
    """What one benchmark found; notes are sentences below the table."""

    title: str
    figures: tuple[Figure, ...]
    notes: tuple[str, ...] = ()


def percentile(values: Sequence[float], share: float) -> float:
    """Return the nearest-rank percentile, a value that was measured; `share` is 0.99 for p99.

    Raises ValueError without values.
    """
    if not values:
        raise ValueError("there is no percentile of nothing")
    rank = max(1, math.ceil(share * len(values)))
    return sorted(values)[rank - 1]


def ratios(over: Iterable[float], under: Iterable[float]) -> tuple[float, ...]:
    """Return the ratio of each pair that was measured together."""
    return tuple(value / other for value, other in zip(over, under, strict=True))


def milliseconds(seconds: Iterable[float]) -> tuple[float, ...]:
    return tuple(1000.0 * value for value in seconds)
