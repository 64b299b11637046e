"""Counts what happens to incidents, each transition once: when the API server has stored it.

A write that is refused or superseded counts nothing. One that may have been stored although no
answer came is settled by what is stored next: if that is what was written, it counts. A leader that
ends in between leaves one uncounted; none is counted twice, whichever replica leads.
"""

from collections.abc import Callable, Iterable

from kubeapi.client import ApiError
from remediator.metrics.transitions import Happened, changed, opened
from remediator.model.incident import Incident
from remediator.plan.steps import OpenIncident, WriteStatus

Count = Callable[[Iterable[Happened]], None]
SERVER_ERROR = 500
"""An HTTP status from this on may be the answer to a write that was stored."""


def uncounted(_: Iterable[Happened]) -> None:
    """Count nothing."""


class Ledger:
    """Belongs to one writer. Not thread-safe: only the worker's thread calls it."""

    def __init__(self, count: Count = uncounted) -> None:
        self._count = count
        self._unanswered: dict[str, OpenIncident | WriteStatus] = {}
        """By incident: the last write that was not answered."""

    def stored(self, step: OpenIncident | WriteStatus, answer: Incident) -> None:
        """Count a write that was answered with what is stored now."""
        self._unanswered.pop(answer.name, None)
        match step:
            case OpenIncident(incident):
                self._count(opened(incident))
            case WriteStatus(before, _, spared):
                self._count(changed(before, answer, spared))

    def failed(self, step: OpenIncident | WriteStatus, error: ApiError) -> None:
        """Note a write that may have been stored all the same."""
        if error.status is None or error.status >= SERVER_ERROR:
            self._unanswered[step.incident.name] = step

    def look(self, known: Callable[[], Iterable[Incident]], leading: Callable[[], bool]) -> None:
        """Settle the writes that were not answered, by what is known to be stored now."""
        if not self._unanswered:
            return
        if not leading():
            self._unanswered.clear()  # what is stored may be another leader's
            return
        stored = {
            incident.name: incident for incident in known() if incident.name in self._unanswered
        }
        for name, step in list(self._unanswered.items()):
            there, before = stored.get(name), step.incident.metadata
            if there is None or before.resource_version == there.metadata.resource_version:
                continue  # not stored, or not received yet
            del self._unanswered[name]
            if isinstance(step, OpenIncident) or step.status == there.status:
                self.stored(step, there)
