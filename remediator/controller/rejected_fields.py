"""The whole status of incidents of which the API server refuses a part.

An older CRD may lack a value or a field, and then less is stored. Decisions go on from the whole
status, which is remembered here. Without its phase or rules, an incident would be written again at
each decision, and since when its devices are tainted would be lost. The whole status is written
when it changes, and tried again after a while, because the CRD may have been replaced.
"""

from collections.abc import Callable
from time import monotonic

import msgspec

from remediator.model.incident import Incident
from remediator.model.incident_status import IncidentStatus

FIRST_TRY, LAST_TRY = 300.0, 3600.0
"""Seconds until the same status is tried again; twice as long each time, up to the second."""


class _Part(msgspec.Struct, frozen=True):
    uid: str
    stored: IncidentStatus
    whole: IncidentStatus
    wait: float
    due: float


class Unstored:
    """The worker's thread writes and the watches' threads read, so an entry is replaced whole."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._parts: dict[str, _Part] = {}
        """By incident."""

    def note(self, stored: Incident, whole: IncidentStatus) -> None:
        """Remember the whole status of an incident of which a part is stored."""
        before = self._parts.get(stored.name)
        again = before is not None and before.whole == whole
        wait = before.wait if before and again else FIRST_TRY / 2
        self._parts[stored.name] = _Part(stored.metadata.uid, stored.status, whole, wait, 0.0)
        self.put_off(stored.name)

    def put_off(self, name: str) -> None:
        """Double the time until the status of an incident is tried again."""
        if part := self._parts.get(name):
            wait = min(part.wait * 2, LAST_TRY)
            self._parts[name] = msgspec.structs.replace(part, wait=wait, due=self._clock() + wait)

    def forget(self, name: str) -> None:
        self._parts.pop(name, None)

    def restore_whole(self, incident: Incident) -> Incident:
        """Return an incident with its whole status if the stored one is the part that we wrote."""
        part = self._parts.get(incident.name)
        if part is None or (part.uid, part.stored) != (incident.metadata.uid, incident.status):
            return incident
        return msgspec.structs.replace(incident, status=part.whole)

    def due_statuses(self) -> dict[str, IncidentStatus]:
        """Return by incident the status that is to be tried again."""
        now = self._clock()
        return {name: part.whole for name, part in list(self._parts.items()) if now >= part.due}
