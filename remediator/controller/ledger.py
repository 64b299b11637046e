"""Counts what happens to incidents, each transition once: when the API server has stored it.

A write that is refused or superseded counts nothing. One that may have been stored although no
answer came is settled by what is stored next: if that is what was written, it counts. A leader that
ends in between leaves one uncounted; none is counted twice, whichever replica leads.
"""

from collections.abc import Callable, Iterable

from kubeapi.client import ApiError
from remediator.metrics.transitions import LifecycleEvent, change_events, opening_events
from remediator.model.incident import Incident
from remediator.plan.steps import OpenIncident, WriteStatus

Count = Callable[[Iterable[LifecycleEvent]], None]
SERVER_ERROR = 500
"""An HTTP status from this on may be the answer to a write that was stored."""


def count_nothing(_: Iterable[LifecycleEvent]) -> None:
    """Count nothing."""


class Ledger:
    """Belongs to one writer. Not thread-safe: only the worker's thread calls it."""

    def __init__(self, count: Count = count_nothing) -> None:
        self._count = count
        self._unanswered: dict[str, OpenIncident | WriteStatus] = {}
        """By incident: the last write that was not answered."""

    def on_stored(self, step: OpenIncident | WriteStatus, answer: Incident) -> None:
        """Count a write that was answered with what is stored now."""
        self._unanswered.pop(answer.name, None)
        match step:
            case OpenIncident(incident):
                self._count(opening_events(incident))
            case WriteStatus(before, _, spared):
                self._count(change_events(before, answer, spared))

    def on_failed(self, step: OpenIncident | WriteStatus, error: ApiError) -> None:
        """Note a write that may have been stored all the same."""
        if error.status is None or error.status >= SERVER_ERROR:
            self._unanswered[step.incident.name] = step

    def settle(self, known: Callable[[], Iterable[Incident]], leading: Callable[[], bool]) -> None:
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
                self.on_stored(step, there)
