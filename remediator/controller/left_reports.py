"""Reports whose Nodes are gone: for how long, and which of them are pruned next.

Nothing else deletes them, and each would cost memory and a look for ever. Not thread-safe: the
cache has the lock.
"""

from collections.abc import Callable, Collection
from datetime import datetime
from itertools import islice

from exporter.model.node_health import NodeDeviceHealth
from remediator.freshness import SILENT
from remediator.plan.history import PRUNED_AT_ONCE
from remediator.plan.recovery import NODE_GONE_FOR
from remediator.plan.view import LeftReport


class LeftReports:
    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._since: dict[str, datetime] = {}
        """As `LeftReport.since`, by name."""
        self._turn: frozenset[str] = frozenset()

    def note(
        self, name: str, report: NodeDeviceHealth | None, *, gone: bool, listed: bool = False
    ) -> None:
        """Note that a report, or its Node, came, changed or went; `gone`: no such Node is known.

        What is `listed` may have been written long ago. At start, reports may be listed first.
        """
        if report is None or not gone:
            self._since.pop(name, None)
            return
        now = self._now()
        at = min(report.status.observed_at or now, now) if listed else now
        self._since[name] = max(at, self._since.get(name, at))

    def choose(self, busy: Collection[str]) -> frozenset[str]:
        """Select a few to be pruned; return the other nodes with silent agents, no `busy` one."""
        now = self._now()
        silent = sorted(
            (since, name)
            for name, since in self._since.items()
            if now - since >= SILENT and name not in busy
        )
        due = (name for since, name in silent if now - since >= NODE_GONE_FOR)
        self._turn = frozenset(islice(due, PRUNED_AT_ONCE))
        return frozenset(name for _, name in silent) - self._turn

    def find(self, report: NodeDeviceHealth | None) -> LeftReport | None:
        """Return a report as one to be pruned, if it was selected."""
        if report is None or report.metadata.name not in self._turn & self._since.keys():
            return None
        meta = report.metadata
        return LeftReport(
            name=meta.name,
            uid=meta.uid,
            resource_version=meta.resource_version,
            since=self._since[meta.name],
        )
