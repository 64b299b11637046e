"""Posts Events in a thread of its own, so that no work ever waits for one."""

import logging
import queue
import threading
from collections.abc import Callable, Hashable
from datetime import datetime
from typing import Generic, Literal, TypeVar

from kubeapi.client import ApiError, Client, Conflict

T = TypeVar("T", bound=Hashable)
_log = logging.getLogger(__name__)
Result = Literal["posted", "failed", "dropped"]
WAITING = 5000
"""Events that may wait; further ones are dropped: what they say is to be read elsewhere, too."""
REMEMBERED = 4096
"""Events remembered, so that a lasting state is not posted again and again."""


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
    ) -> None:
        # With connections of its own, so that no other write waits for an Event.
        self._client = client.sibling()
        self._as_object, self._turn, self._on_result = as_object, turn, on_result
        self._waiting: queue.Queue[tuple[T, datetime]] = queue.Queue(waiting)
        self._remembered, self._guard = remembered, threading.Lock()
        self._recorded: dict[T, None] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="events", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        # The thread may wait for an answer.
        self._client.abort()
        if self._thread.ident is not None:
            self._thread.join(2.0)
        self._client.close()

    def record(self, event: T, now: datetime) -> None:
        """Have an Event posted unless it was posted before."""
        with self._guard:
            if event in self._recorded:
                return
            full = self._waiting.full()
            if not full:
                self._recorded[event] = None
                if len(self._recorded) > self._remembered:
                    self._recorded.pop(next(iter(self._recorded)))
                self._waiting.put_nowait((event, now))
        if full:
            self._on_result("dropped")

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                event = self._waiting.get(timeout=0.5)
            except queue.Empty:
                continue
            while not self._stopped.is_set() and (wait := self._turn()):
                self._stopped.wait(wait)
            if not self._stopped.is_set():
                self._post(*event)

    def _post(self, event: T, now: datetime) -> None:
        namespace, made = self._as_object(event, now)
        try:
            self._client.create(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events", made)
        except Conflict:
            return  # posted before
        except ApiError as error:
            # Forgotten, so that who reports it again tries again.
            with self._guard:
                self._recorded.pop(event, None)
            self._on_result("failed")
            _log.info("an Event could not be posted: %s", error)
        else:
            self._on_result("posted")
