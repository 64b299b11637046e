"""The incidents that budgets count: the open ones, and the closed ones that began lately.

Every other closed one is history. There are tens of thousands of these, so a decision that went
through all of them would cost more each month.
"""

from collections.abc import Callable
from datetime import datetime
from heapq import heappop, heappush

from remediator.model.incident import Incident
from remediator.policy.limits import LONGEST_RATE


class BudgetedIncidents:
    """An index; `Cache` feeds it under its lock."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._found: dict[str, Incident] = {}
        self._ends: list[tuple[datetime, str]] = []
        """A heap: when a closed one stops counting, and its name."""
        self._copy: tuple[Incident, ...] | None = None

    def put(self, name: str, new: Incident | None) -> None:
        """Take in a change of an incident, None when it is gone."""
        old = self._found.pop(name, None)
        until = None if new is None or new.open else _counts_until(new)
        if new is not None and (new.open or until is not None):
            self._found[name] = new
            if until is not None:
                heappush(self._ends, (until, name))
        if old is not None or name in self._found:
            self._copy = None

    def all(self) -> tuple[Incident, ...]:
        """Return the open ones, and the closed ones that began within `LONGEST_RATE`."""
        now = self._now()
        while self._ends and self._ends[0][0] <= now:
            _, name = heappop(self._ends)
            # The incident may have changed since this entry was made, and have a later one.
            found = self._found.get(name)
            until = None if found is None or found.open else _counts_until(found)
            if until is not None and until <= now:
                del self._found[name]
                self._copy = None
        if self._copy is None:
            self._copy = tuple(self._found.values())
        return self._copy


def _counts_until(incident: Incident) -> datetime | None:
    """Return when what an incident began is out of every rate; None where it began nothing."""
    status = incident.status
    dates = (status.eviction.tainted_at, status.eviction.evicting_at, status.repair.requested_at)
    begun = [at for at in dates if at is not None]
    return max(begun) + LONGEST_RATE if begun else None
