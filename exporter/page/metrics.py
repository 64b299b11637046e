"""The one table of our own families, and which DCGM fields a page needs.

A metric is a row: name, type, help, labels, where its values are from and what it
needs. Documentation, dashboards and rules are made from it, and may use only names
found here, in the counters file or in `self_metrics`. Pure.
"""

from exporter.page import metrics_claims, metrics_gpu, metrics_link, metrics_node, metrics_xid
from exporter.page.counters import Counters
from exporter.page.metric import Metric

METRICS: tuple[Metric, ...] = (
    *metrics_gpu.METRICS,
    *metrics_xid.METRICS,
    *metrics_link.METRICS,
    *metrics_claims.METRICS,
    *metrics_node.METRICS,
)

NEEDED: tuple[int, ...] = tuple(sorted((*metrics_gpu.NEEDED, *metrics_link.NEEDED)))
"""DCGM fields that are read for these families, whatever the counters file says."""


def wanted(counters: Counters) -> tuple[int, ...]:
    """Return the DCGM fields that a page with these counters needs, in order."""
    return tuple(sorted({*counters.wanted, *NEEDED}))
