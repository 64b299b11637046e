"""Whether a node's agent is alive, measured on our own clock.

Age counts from when a change of the node's Lease or report was seen here, so a
node's wrong clock neither hides nor invents an agent. Only the first sight
after our own start looks at the Lease's own time: an agent that died long ago
must not seem fresh because we have just started. Pure but for its memory.
"""

from collections.abc import Callable
from datetime import datetime, timedelta


class Freshness:
    """`tick` gives monotonic seconds; `stale_after` is in seconds."""

    def __init__(self, stale_after: float, tick: Callable[[], float]) -> None:
        self._stale_after = stale_after
        self._tick = tick
        self._seen: dict[str, float] = {}

    def changed(self, node: str) -> None:
        """Note that the node's agent wrote something just now."""
        self._seen[node] = self._tick()

    def first_seen(self, node: str, written_at: datetime | None, now: datetime) -> None:
        """Note what was found at our start, and count its own age; the youngest sign counts."""
        if written_at is None:
            return
        age = max(now - written_at, timedelta())
        heard = self._tick() - age.total_seconds()
        self._seen[node] = max(heard, self._seen.get(node, heard))

    def forget(self, node: str) -> None:
        self._seen.pop(node, None)

    def stale(self, node: str) -> str:
        """Return why the node's report is not to be believed now, "" when it is fresh."""
        seen = self._seen.get(node)
        if seen is None:
            return f"the agent of {node} has not been heard of"
        if self._tick() - seen > self._stale_after:
            return f"the agent of {node} has been silent for more than {self._stale_after:g} s"
        return ""
