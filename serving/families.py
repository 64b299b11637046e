"""Metric families and their samples as values: for a page, the documents and alerting rules. Pure.

Any text becomes a label value that a page can carry; different texts stay different.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

LONGEST = 256
"""Characters; Kubernetes' own names have 253 at most and are never cut."""
_UNREADABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")
"""Prometheus stops reading at a NUL, and lone surrogates are not UTF-8. A line break is kept: the
page escapes it, as it does quotes and backslashes."""
Labels = tuple[str, ...]
"""Values in the order of the family's labels."""
Rows = Mapping[str, Mapping[Labels, float]]
"""By the family's name. A family or row that is absent is unknown."""


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """One metric family; `name` without the prefix, and a counter's without `_total`."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    text: str
    labels: tuple[str, ...] = ()
    prefix: str
    known: tuple[tuple[str, ...], ...] = ()
    """All values of each label, where they are known: every series exists from the start, at 0, so
    that `increase()` sees the first event."""
    buckets: tuple[float, ...] = ()
    """Upper bounds of a histogram, in its unit; () for the library's own."""

    @property
    def base_name(self) -> str:
        """Return the name for a client library, which adds `_total` to a counter itself."""
        return f"{self.prefix}_{self.name}"

    @property
    def full_name(self) -> str:
        """Return the name for PromQL; a histogram's series add `_bucket`, `_sum`, `_count`."""
        return f"{self.base_name}{'_total' if self.kind == 'counter' else ''}"


def labels(*texts: str) -> Labels:
    return tuple(value(text) for text in texts)


def ones(keys: Iterable[Labels]) -> dict[Labels, float]:
    return dict.fromkeys(keys, 1.0)


def value(text: str) -> str:
    """Return text as a label value; one that had to be changed ends in a mark of the original."""
    # Most texts are printable, and that check is ten times as fast as the pattern.
    if len(text) <= LONGEST and (text.isprintable() or not _UNREADABLE.search(text)):
        return text
    mark = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    kept = _UNREADABLE.sub("\ufffd", text[: LONGEST - len(mark) - 1])
    return f"{kept}~{mark}"
