"""What Prometheus gets about the cluster, gathered from the caches at a bounded rate."""

import threading
from collections.abc import Callable, Iterable, Mapping
from time import monotonic

from remediator.controller.cache import Cache
from remediator.metrics.budgets import budget_rows
from remediator.metrics.devices import admit_unknown, device_rows
from remediator.metrics.incidents import incident_rows
from remediator.metrics.mig import mig_rows
from remediator.plan.spending import Used
from remediator.plan.view import WatchedKind
from serving.families import Rows, labels

_COUNTED: tuple[WatchedKind, ...] = ("slices", "claims", "rules")
"""What devices are counted from."""
FRESH = 5.0
"""Seconds for which the same rows are returned: many may scrape, and a large cluster costs."""


def cluster_rows(
    cache: Cache,
    stale_agents: Mapping[str, bool],
    limits: Iterable[Used] = (),
    brakes: Rows | None = None,
    unread: Mapping[WatchedKind, int] | None = None,
) -> Rows:
    """Return the samples of everything that is known; `unread` as `Informers.unread_counts`."""
    unread = unread or {}
    stale = {labels(node): float(unanswered) for node, unanswered in stale_agents.items()}
    return {
        **incident_rows(cache.incidents(), cache.rules()),
        **device_rows(admit_unknown(cache.stock(), unread)),
        **budget_rows(limits),
        **mig_rows(cache.mig_requests()),
        **(brakes or {}),
        "agent_stale": stale,
        "unread_objects": {labels(kind): float(unread.get(kind, 0)) for kind in _COUNTED},
    }


class ClusterMetrics:
    """Thread-safe. Exports nothing before all was listed once: a part would look like the whole.

    Afterwards it exports the last known state, and the age of the watches shows how old that is.
    """

    def __init__(
        self,
        whole: Callable[[], bool],
        gather: Callable[[], Rows],
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._whole = whole
        self._gather = gather
        self._clock = clock
        self._guard = threading.Lock()
        self._rows: Rows = {}
        self._made: float | None = None

    def rows(self) -> Rows:
        """Return the rows, the same object while they are fresh; {} while little is known."""
        with self._guard:
            now = self._clock()
            due = self._whole() if self._made is None else now - self._made >= FRESH
            if due:
                self._rows, self._made = self._gather(), now
            return self._rows
