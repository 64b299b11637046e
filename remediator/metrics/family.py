"""One metric family as a row of a table: for the metrics page, the documents and alerting rules."""

from typing import Literal

import msgspec


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
