"""Posts Events in a thread of its own, so that no decision ever waits for one."""

import logging
import queue
import threading
from datetime import datetime

from kubeapi.client import ApiError, Client, Conflict
from remediator.controller.rate_limit import Pace
from remediator.model.taint_rule import labels_of_cluster
from remediator.plan import events

_log = logging.getLogger(__name__)
WAITING = 5000
"""Events that may wait; further ones are dropped: the incident and the log have them, too."""
REMEMBERED = 4096
"""Events remembered, so that a lasting state is not posted at every reconcile."""


class EventRecorder:
    """Posts each Event once, for as long as it is remembered."""

    def __init__(
        self, client: Client, pace: Pace, cluster_name: str = "", waiting: int = WAITING
    ) -> None:
        # With connections of its own, so that a write of the worker never waits for an Event.
        self._client = client.sibling()
        self._pace = pace
        self._labels = labels_of_cluster(cluster_name)
        self._waiting: queue.Queue[tuple[events.Event, datetime]] = queue.Queue(waiting)
        self._guard = threading.Lock()
        self._recorded: dict[events.Event, None] = {}
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

    def record(self, event: events.Event, now: datetime) -> None:
        """Have an Event posted unless it was posted before."""
        with self._guard:
            if event in self._recorded or self._waiting.full():
                return
            self._recorded[event] = None
            if len(self._recorded) > REMEMBERED:
                self._recorded.pop(next(iter(self._recorded)))
            self._waiting.put_nowait((event, now))

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                event = self._waiting.get(timeout=0.5)
            except queue.Empty:
                continue
            if self._await_turn():
                self._post(*event)

    def _await_turn(self) -> bool:
        while wait := self._pace.ask_for_event():
            if self._stopped.wait(wait):
                return False
        return True

    def _post(self, event: events.Event, now: datetime) -> None:
        path = f"/apis/events.k8s.io/v1/namespaces/{event.posted_in}/events"
        try:
            self._client.create(path, events.manifest(event, now, self._labels))
        except Conflict:
            return  # posted before
        except ApiError as error:
            _log.info("an Event could not be posted: %s", error)
            # Forgotten, so that the next reconcile that reports it tries again.
            with self._guard:
                self._recorded.pop(event, None)
