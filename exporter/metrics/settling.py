"""XID counts that may still move to a slice, so that as counters they only grow.

An error that no source has placed on a MIG slice may be placed by the next one: the
NVML event follows the kernel line within a second, and the ledger then moves the count.
A counter that takes a count back looks like a restart to Prometheus. So such a count is
shown once SETTLED seconds have passed, and one that moves still later stays visible
where it was, too. The report and the taint do not wait.
Pure: the moment comes with what is counted.
"""

import math
from collections.abc import Iterable, Mapping

from exporter.metrics.xid_changes import Change, Counted

SETTLED = 5.0
"""Seconds after which an error that nobody placed is taken to have no better place; the other
source of an error is reported within one."""
MOST = 4096
"""Codes at places that are remembered."""

_Young = list[tuple[float, int]]
"""When something was counted, and how much; oldest first."""


class Settling:
    """Remembers what is young and what moved late; for one thread."""

    def __init__(self) -> None:
        self._young: dict[Counted, _Young] = {}
        self._moved_late: dict[Counted, int] = {}

    def took(self, changes: Iterable[Change], moment: float) -> None:
        """Note changes of counts; `moment` is in seconds of any clock that never goes back."""
        for change in changes:
            if change.may_move and change.more > 0:
                young = self._still_young(change.counted, moment)
                self._keep(change.counted, [*young, (moment, change.more)])
            elif change.may_move:
                self._take_back(change.counted, -change.more, moment)

    def corrections(self, moment: float) -> Mapping[Counted, int]:
        """Return what to add to counts before they are shown: below 0 while they are young."""
        found = dict(self._moved_late)
        for counted in list(self._young):
            young = self._still_young(counted, moment)
            self._keep(counted, young)
            found[counted] = found.get(counted, 0) - sum(count for _, count in young)
        return {counted: more for counted, more in found.items() if more}

    def pause(self) -> float:
        """Return after how many seconds at most a page should be made again."""
        return SETTLED if self._young else math.inf

    def _take_back(self, counted: Counted, count: int, moment: float) -> None:
        left: _Young = []
        for at, young in self._still_young(counted, moment):
            taken = min(count, young)
            count -= taken
            if young > taken:
                left.append((at, young - taken))
        self._keep(counted, left)
        if count:
            self._moved_late[counted] = self._moved_late.get(counted, 0) + count
            if len(self._moved_late) > MOST:
                del self._moved_late[next(iter(self._moved_late))]

    def _still_young(self, counted: Counted, moment: float) -> _Young:
        return [change for change in self._young.get(counted, []) if moment - change[0] < SETTLED]

    def _keep(self, counted: Counted, young: _Young) -> None:
        self._young.pop(counted, None)
        if young:
            self._young[counted] = young
        if len(self._young) > MOST:
            del self._young[next(iter(self._young))]
