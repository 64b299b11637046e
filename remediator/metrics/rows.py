"""Samples of the families, before a library makes a page of them."""

from collections.abc import Iterable, Mapping

from remediator.metrics.labels import value

Labels = tuple[str, ...]
"""Values in the order of the family's labels."""
Rows = Mapping[str, Mapping[Labels, float]]
"""By the family's name in `metrics.families`. A family or row that is absent is unknown."""


def labels(*texts: str) -> Labels:
    return tuple(value(text) for text in texts)


def ones(keys: Iterable[Labels]) -> dict[Labels, float]:
    return dict.fromkeys(keys, 1.0)
