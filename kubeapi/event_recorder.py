"""Posts Events in a thread of its own, so that no work ever waits for one."""

import logging
import math
import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from datetime import datetime
from time import monotonic
from typing import Generic, Literal, TypeVar

from kubeapi.client import ApiError, Client

T = TypeVar("T", bound=Hashable)
_log = logging.getLogger(__name__)
Result = Literal["posted", "failed", "dropped"]
WAITING = 5000
"""Events that may wait; further ones are dropped: what they say is to be read elsewhere, too."""
REMEMBERED = 4096
"""Events remembered, so that a lasting state is not posted again and again."""
REFUSALS = frozenset({400, 403, 404, 422})
"""HTTP statuses that last: a quota, a namespace that ends, a right that lacks."""
SHORTEST_PAUSE, LONGEST_PAUSE = 10.0, 1800.0
"""Seconds after a refusal in which the same Event is not tried; twice as many after each."""
_NEVER = 0.0, 0.0
"""Of an Event that was never recorded, as those are kept that were."""


class EventRecorder(Generic[T]):
    """Posts each Event once, for as long as it is remembered.

    `as_object` returns the namespace and the object of one; `turn` returns 0 and charges a write
    that may go now, else the seconds to wait with it; `on_result` gets what became of each.
    """

    def __init__(
        self,
        client: Client,
        *,
        as_object: Callable[[T, datetime], tuple[str, dict[str, object]]],
        turn: Callable[[], float],
        on_result: Callable[[Result], None] = lambda _result: None,
        waiting: int = WAITING,
        remembered: int = REMEMBERED,
        elapsed: Callable[[], float] = monotonic,
    ) -> None:
        # With connections of its own, so that no other write waits for an Event.
        self._client = client.sibling()
        self._as_object, self._turn, self._on_result = as_object, turn, on_result
        self._most, self._remembered, self._elapsed = waiting, remembered, elapsed
        self._guard = threading.Condition()
        self._waiting: deque[tuple[T, datetime]] = deque()
        self._recorded: dict[T, tuple[float, float]] = {}
        """The pause after the last refusal, and when it ends: never of one that waits, is posted or
        cannot be made."""
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="events", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        with self._guard:
            self._guard.notify()
        # The thread may wait for an answer.
        self._client.abort()
        if self._thread.ident is not None:
            self._thread.join(2.0)
        self._client.close()

    def due(self, events: Iterable[T]) -> list[T]:
        """Return those that would be posted if they were recorded now, and there were room."""
        every, now = [*events], self._elapsed()
        with self._guard:
            return [each for each in every if now >= self._recorded.get(each, _NEVER)[1]]

    def record(self, event: T, now: datetime) -> None:
        """Have an Event posted unless it was posted before."""
        with self._guard:
            if not self.due((event,)):
                return
            full = len(self._waiting) >= self._most
            if not full:
                pause, _ = self._recorded.get(event, _NEVER)
                self._recorded[event] = pause, math.inf
                if len(self._recorded) > self._remembered:
                    self._recorded.pop(next(iter(self._recorded)))
                self._waiting.append((event, now))
                self._guard.notify()
        if full:
            self._on_result("dropped")

    def forget(self) -> None:
        """Post none of those that wait, and take each for new that is recorded from now on."""
        with self._guard:
            self._waiting.clear()
            self._recorded.clear()

    def _run(self) -> None:
        while not self._stopped.is_set():
            with self._guard:
                self._guard.wait_for(lambda: self._waiting or self._stopped.is_set())
            try:
                self._take_turn()
            except Exception:  # noqa: BLE001 - logged with its trace; the others are posted
                _log.exception("an Event could not be posted: this is a bug, please report it")
                self._on_result("failed")
                self._stopped.wait(1.0)

    def _take_turn(self) -> None:
        """Post the first one that waits, or wait for its turn. Raises what its makers raise."""
        if self._stopped.is_set():
            return
        if wait := self._turn():
            self._stopped.wait(wait)
            return
        with self._guard:
            if not self._waiting:
                return  # forgotten in the meantime
            event, now = self._waiting.popleft()
        namespace, made = self._as_object(event, now)
        try:
            self._client.create(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events", made)
        except ApiError as error:
            if error.reason == "AlreadyExists":
                return  # posted before
            self._retry_later(event, error)
        else:
            self._on_result("posted")

    def _retry_later(self, event: T, error: ApiError) -> None:
        """Have an Event posted that is recorded again: after a pause if it was refused."""
        with self._guard:
            pause, _ = self._recorded.pop(event, _NEVER)
            if error.status in REFUSALS:
                pause = min(max(2 * pause, SHORTEST_PAUSE), LONGEST_PAUSE)
                self._recorded[event] = pause, self._elapsed() + pause
        self._on_result("failed")
        _log.info("an Event could not be posted: %s", error)
