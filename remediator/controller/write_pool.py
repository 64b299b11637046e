"""Writes of several nodes at the same time, each node's in the order of its decisions.

In a storm the one worker would wait for answers most of the time. A decision about a node first
waits for that node's own writes, so it never sees half of the decision before. An error of such a
write is raised there, as if it were written at once.
"""

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Condition, Event

SENDERS = 7
"""With the worker's own connection as many as the client keeps open."""


class Senders:
    """Safe to use from several threads."""

    def __init__(self, most: int = SENDERS) -> None:
        self._most = most
        self._pool = ThreadPoolExecutor(most, thread_name_prefix="writes")
        self._changed = Condition()
        self._under_way: Counter[str] = Counter()
        self._errors: dict[str, Exception] = {}
        """By node: the first error that is not raised yet."""

    def send(self, node: str, write: Callable[[], object]) -> bool:
        """Start a write of a node; return False if no sender is free, and do nothing then.

        Nothing is queued here: a replica that may write now may lose the lead meanwhile.
        """
        with self._changed:
            if self._under_way.total() >= self._most:
                return False
            revoked = Event()
            try:
                self._pool.submit(self._run, node, write, revoked)
            except RuntimeError:
                # Stopped, or no room for a thread more: then it is in the queue all the same.
                revoked.set()
                return False
            self._under_way[node] += 1
        return True

    def join(self, node: str) -> None:
        """Wait for the writes of a node. Raises what one of them raised, once."""
        with self._changed:
            self._changed.wait_for(lambda: not self._under_way[node])
            del self._under_way[node]
            error = self._errors.pop(node, None)
        if error is not None:
            raise error

    def stop(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _run(self, node: str, write: Callable[[], object], revoked: Event) -> None:
        with self._changed:
            if revoked.is_set():
                return
        error: Exception | None = None
        try:
            write()
        except Exception as raised:  # noqa: BLE001 - raised by `join`, in the next decision
            error = raised
        with self._changed:
            if error is not None:
                self._errors.setdefault(node, error)
            self._under_way[node] -= 1
            self._changed.notify_all()
