"""Events are posted once each, and dropped where too many wait: a decision waits for none."""

from collections.abc import Generator
from contextlib import contextmanager

from kubeapi.client import Client
from kubeapi.event_recorder import EventRecorder
from remediator.plan.events import NAMESPACE, Event, manifest
from tests.lab.cluster import await_true
from tests.remediator.builders import at
from tests.remediator.controller.api import Api, serving

EVENTS = f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events"


def event(message: str) -> Event:
    return Event("Node", "node-a", "node-a", "DeviceTainted", message)


@contextmanager
def recorder(waiting: int = 5) -> Generator[tuple[Api, EventRecorder[Event]]]:
    with serving() as (api, endpoint):
        found = EventRecorder[Event](
            Client(endpoint, agent="test"),
            as_object=lambda event, now: (event.posted_in, manifest(event, now, {})),
            turn=lambda: 0.0,
            waiting=waiting,
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
