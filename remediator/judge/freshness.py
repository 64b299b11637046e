"""Whether a node's agent is alive, measured on our own clock.

Age counts from when a change of the node's Lease or report was seen here, so a
node's wrong clock neither hides nor invents an agent. Only the first sight
after our own start looks at the Lease's own time: an agent that died long ago
must not seem fresh because we have just started. Pure but for its memory.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Literal, get_args

Sign = Literal["report", "Lease"]
"""By what an agent is heard. Each is told by a thread of its own, which alone writes its times."""
_SIGNS: tuple[Sign, ...] = get_args(Sign)


class Freshness:
    """`tick` gives monotonic seconds; `stale_after` is in seconds."""

    def __init__(self, stale_after: float, tick: Callable[[], float]) -> None:
        self._stale_after = stale_after
        self._tick = tick
        self._seen: dict[tuple[str, Sign], float] = {}

    def changed(self, node: str, sign: Sign) -> None:
        """Note that the node's agent wrote this just now."""
        self._seen[node, sign] = self._tick()

    def first_seen(self, node: str, sign: Sign, written_at: datetime | None, now: datetime) -> None:
        """Note what was found at our start, and count its own age."""
        if written_at is None:
            return
        age = max(now - written_at, timedelta())
        heard = self._tick() - age.total_seconds()
        self._seen[node, sign] = max(heard, self._seen.get((node, sign), heard))

    def forget(self, node: str) -> None:
        for sign in _SIGNS:
            self._seen.pop((node, sign), None)

    def stale(self, node: str) -> str:
        """Return why the node's report is not to be believed now, "" when it is fresh.

        The youngest sign counts.
        """
        heard = [self._seen.get((node, sign)) for sign in _SIGNS]
        youngest = max((at for at in heard if at is not None), default=None)
        if youngest is None:
            return f"the agent of {node} has not been heard of"
        if self._tick() - youngest > self._stale_after:
            return f"the agent of {node} has been silent for more than {self._stale_after:g} s"
        return ""
