"""The one table of our own families, and which DCGM fields a page needs.

A metric is a row: name, type, help, labels, where its values are from and what it
needs. Documentation, dashboards and rules are made from it, and may use only names
found here, in the counters file or in `self_metrics`. Pure.
"""

from exporter.metrics import (
    families_claims,
    families_gpu,
    families_link,
    families_node,
    families_xid,
)
from exporter.metrics.counters import Counters
from exporter.metrics.metric import Metric

METRICS: tuple[Metric, ...] = (
    *families_gpu.METRICS,
    *families_xid.METRICS,
    *families_link.METRICS,
    *families_claims.METRICS,
    *families_node.METRICS,
)

NEEDED: tuple[int, ...] = tuple(sorted((*families_gpu.NEEDED, *families_link.NEEDED)))
"""DCGM fields that are read for these families, whatever the counters file says."""


def requested_fields(counters: Counters) -> tuple[int, ...]:
    """Return the DCGM fields that a page with these counters needs, in order."""
    return tuple(sorted({*counters.requested, *NEEDED}))
