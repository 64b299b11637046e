"""Events are posted once each, and dropped where too many wait: a decision waits for none."""

import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from datetime import datetime
from time import monotonic

from kubeapi.client import ApiError, Client, Conflict
from kubeapi.endpoint import Endpoint
from kubeapi.event_recorder import SHORTEST_PAUSE, EventRecorder, Result
from remediator.plan.events import NAMESPACE, Event, manifest
from tests.lab.cluster import await_true
from tests.remediator.builders import at
from tests.remediator.controller.api import Api, serving

EVENTS = f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events"


def event(message: str) -> Event:
    return Event("Node", "node-a", "node-a", "DeviceTainted", message)


def as_object(event: Event, now: datetime) -> tuple[str, dict[str, object]]:
    if event.message == "broken":
        raise ValueError
    return event.posted_in, manifest(event, now, {})


class Clock:
    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


class Refusing(Client):
    """Answers each write with this error."""

    def __init__(self, error: ApiError) -> None:
        super().__init__(Endpoint(server="http://127.0.0.1:1"))
        self._error = error

    def sibling(self, timeout: float | None = None) -> Client:  # noqa: ARG002 - as of a client
        return self

    def create(self, path: str, body: object, params: Mapping[str, str] | None = None) -> bytes:  # noqa: ARG002 - as of a client
        raise self._error


@contextmanager
def recorder(
    waiting: int = 5,
    *,
    client: Client | None = None,
    turn: Callable[[], float] = lambda: 0.0,
    results: list[Result] | None = None,
    clock: Callable[[], float] = monotonic,
) -> Generator[tuple[Api, EventRecorder[Event]]]:
    with serving() as (api, endpoint):
        found = EventRecorder[Event](
            client or Client(endpoint, agent="test"),
            as_object=as_object,
            turn=turn,
            on_result=([] if results is None else results).append,
            waiting=waiting,
            elapsed=clock,
        )
        try:
            yield api, found
        finally:
            found.stop()


def posted_notes(api: Api) -> list[str]:
    return sorted(stored["note"] for stored in api.stored.get(EVENTS, {}).values())


def test_an_event_that_comes_again_is_posted_once() -> None:
    with recorder() as (api, events):
        events.start()
        for message in ("first", "first", "second"):
            events.record(event(message), at(0))

        await_true("both are posted", lambda: posted_notes(api) == ["first", "second"])
        assert api.writes == [("POST", EVENTS)] * 2


def test_events_beyond_those_that_may_wait_are_dropped_and_may_come_later() -> None:
    with recorder(waiting=2) as (api, events):
        for message in ("first", "second", "third"):  # nothing is posted before the start
            events.record(event(message), at(0))
        events.start()
        await_true("those that waited are posted", lambda: posted_notes(api) == ["first", "second"])

        events.record(event("third"), at(1))

        await_true("there is room again", lambda: posted_notes(api) == ["first", "second", "third"])


def test_what_is_forgotten_is_not_posted_until_it_is_recorded_again() -> None:
    with recorder() as (api, events):
        events.record(event("old"), at(0))
        events.forget()
        events.record(event("new"), at(0))
        events.start()
        await_true("the new one is posted", lambda: posted_notes(api) == ["new"])

        events.forget()
        events.record(event("new"), at(1))
        events.record(event("old"), at(1))

        await_true("both are posted", lambda: posted_notes(api) == ["new", "old"])
        assert api.writes == [("POST", EVENTS)] * 3


def test_an_event_that_is_forgotten_before_its_turn_is_not_posted() -> None:
    forgotten, results = threading.Event(), list[Result]()

    def turn() -> float:
        if not forgotten.is_set():
            events.forget()
            forgotten.set()
        return 0.0

    with recorder(turn=turn, results=results) as (api, events):
        events.record(event("old"), at(0))
        events.start()
        forgotten.wait()
        events.record(event("new"), at(1))

        await_true("one is posted", lambda: results == ["posted"])
        assert posted_notes(api) == ["new"]


def test_a_refused_event_is_tried_again_after_growing_pauses() -> None:
    clock, results = Clock(), list[Result]()
    with recorder(clock=clock, results=results) as (api, events):
        api.read_only.add(EVENTS)
        events.start()
        for refusals, pause in ((1, SHORTEST_PAUSE), (3, 2 * SHORTEST_PAUSE)):
            events.record(event("refused"), at(0))
            await_true("it is refused", lambda n=refusals: len(results) == n)
            clock.seconds += pause - 1
            events.record(event("refused"), at(1))
            events.record(event(f"other {pause}"), at(1))
            await_true("only the other is", lambda n=refusals: len(results) == n + 1)
            clock.seconds += 1
        api.read_only.clear()
        events.record(event("refused"), at(2))

        await_true("it is posted", lambda: results == [*["failed"] * 4, "posted"])
        assert posted_notes(api) == ["refused"]


def test_an_event_without_an_answer_is_tried_again_at_once() -> None:
    results, client = list[Result](), Refusing(ApiError("no answer"))
    with recorder(client=client, results=results) as (_, events):
        events.start()
        for number in range(2):
            events.record(event("late"), at(0))
            await_true("there is no answer", lambda n=number: len(results) > n)

        assert results == ["failed", "failed"]


def test_a_conflict_over_a_quota_is_no_event_that_exists() -> None:
    results, client = list[Result](), Refusing(Conflict("quota", status=409, reason="Conflict"))
    with recorder(client=client, results=results) as (_, events):
        events.start()
        events.record(event("late"), at(0))

        await_true("it is not posted", lambda: results == ["failed"])


def test_an_event_that_cannot_be_made_does_not_keep_the_others_back() -> None:
    results = list[Result]()
    with recorder(results=results) as (_, events):
        events.start()
        events.record(event("broken"), at(0))
        events.record(event("sound"), at(0))

        await_true("the other is posted", lambda: results == ["failed", "posted"])
