"""The emergency stop as it is pulled and let go on the real API server."""

import logging
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from kubeapi.client import ApiError, Client, Conflict
from kubeapi.types import ObjectMeta
from remediator.controller.emergency import ANNOTATION, NAMESPACES, Emergency, Namespace, stop_of
from tests.kubeapi.hostile import Hostile, listing, once, refusal
from tests.lab.cluster import await_true

OURS, OTHER = "emergency-test", "emergency-other"


def annotate(client: Client, namespace: str, value: str | None) -> None:
    body = {"metadata": {"annotations": {ANNOTATION: value}}}
    client.merge_patch(f"{NAMESPACES}/{namespace}", body)


class Changes(list[str]):
    """What was stopped each time that a listener got a change."""

    emergency: Emergency

    def __call__(self) -> None:
        self.append(self.emergency.stop_reason)


@pytest.fixture
def changes() -> Changes:
    return Changes()


@pytest.fixture
def emergency(client: Client, changes: Changes) -> Iterator[Emergency]:
    for namespace in (OURS, OTHER):
        with suppress(Conflict):
            client.create(NAMESPACES, {"metadata": {"name": namespace}})
        annotate(client, namespace, None)
    one = changes.emergency = Emergency(client, OURS, changes)
    one.start()
    try:
        await_true("the namespace is read", lambda: one.is_settled)
        yield one
    finally:
        one.stop()


def test_setting_the_annotation_stops_and_taking_it_away_releases(
    client: Client, emergency: Emergency, changes: Changes
) -> None:
    assert emergency.stop_reason == ""

    annotate(client, OURS, "ann: roll-out went wrong")
    await_true("it is stopped", lambda: emergency.stop_reason)
    assert emergency.stop_reason == emergency.read_stop() == "ann: roll-out went wrong"

    annotate(client, OURS, None)
    assert emergency.read_stop() == ""
    await_true("it is released", lambda: not emergency.stop_reason)
    await_true("both were notified", lambda: changes == ["ann: roll-out went wrong", ""])


def test_a_stop_that_stood_before_the_start_is_seen_before_anything_is_done(
    client: Client, emergency: Emergency
) -> None:
    annotate(client, OURS, "bob: wait for me")
    second = Emergency(client, OURS)

    assert not second.is_settled
    second.start()
    try:
        await_true("the namespace is read", lambda: second.is_settled)

        assert second.stop_reason == "bob: wait for me"
    finally:
        second.stop()


def test_another_namespace_stops_nothing(client: Client, emergency: Emergency) -> None:
    annotate(client, OTHER, "not ours")
    annotate(client, OURS, "ours")

    await_true("it is stopped", lambda: emergency.stop_reason)

    assert emergency.stop_reason == "ours"


@pytest.mark.parametrize(
    ("annotations", "reported"),
    [
        ({}, ""),
        ({ANNOTATION: "ann: why"}, "ann: why"),
        ({ANNOTATION: ""}, "no reason given"),
        ({ANNOTATION: " \n"}, "no reason given"),
        ({ANNOTATION: "ann:\nin two\tlines"}, "ann: in two lines"),
    ],
)
def test_a_stop_says_who_and_why_in_one_line(annotations: dict[str, str], reported: str) -> None:
    assert stop_of(Namespace(ObjectMeta(annotations=annotations))) == reported


def test_a_namespace_that_may_not_be_read_stops_nothing_and_that_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    logger = "remediator.controller.emergency"
    caplog.set_level(logging.WARNING, logger)
    with Hostile([refusal(403, "Forbidden")]) as server:
        client = Client(server.endpoint)
        blind = Emergency(client, OURS)
        blind.start()
        try:
            await_true("it is refused", lambda: blind.why_blind)
            assert not blind.is_settled
            blind.look()

            assert blind.is_settled
            await_true("more than once", lambda: len(server.requests) > 4)
            assert [blind.stop_reason, blind.stop_reason, blind.read_stop()] == ["", "", ""]
        finally:
            blind.stop()
            client.close()
    (stated,) = (record.getMessage() for record in caplog.records if record.name == logger)
    assert f"annotation {ANNOTATION} of namespace {OURS} stops nothing" in stated
    assert "allow get, list and watch" in stated


def test_an_api_server_that_fails_is_waited_for() -> None:
    with Hostile([refusal(500)]) as server:
        client = Client(server.endpoint)
        waiting = Emergency(client, OURS)
        waiting.start()
        try:
            await_true("it has failed", lambda: waiting.why_blind)

            assert not waiting.is_settled
        finally:
            waiting.stop()
            client.close()


@pytest.mark.parametrize("refusals", [1, 4])
def test_an_api_server_that_has_not_read_the_roles_yet_hides_no_stop(refusals: int) -> None:
    stopped = {"metadata": {"name": OURS, "annotations": {ANNOTATION: "ann: why"}}}
    may = threading.Event()
    refused = [refusal(403, "Forbidden")] * refusals
    with Hostile([*refused, once(may, listing("7", stopped))]) as server:
        client = Client(server.endpoint)
        early = Emergency(client, OURS)
        early.start()
        try:
            await_true("it was refused, and asks again", lambda: len(server.requests) > refusals)

            assert not early.is_settled

            may.set()
            await_true("the namespace is read", lambda: early.is_settled)
            assert early.stop_reason == "ann: why"
        finally:
            early.stop()
            client.close()


def test_a_stop_is_read_at_the_start_though_its_watch_still_waits() -> None:
    stopped = {"metadata": {"name": OURS, "annotations": {ANNOTATION: "ann: why"}}}
    with Hostile([refusal(403, "Forbidden"), listing("7", stopped)]) as server:
        client = Client(server.endpoint)
        one = Emergency(client, OURS)
        with suppress(ApiError):
            client.get(NAMESPACES)
        one.look()

        assert one.is_settled
        assert one.stop_reason == "ann: why"
        client.close()


def test_an_api_server_that_does_not_answer_a_look_is_waited_for() -> None:
    with Hostile([refusal(500)]) as server:
        client = Client(server.endpoint)
        one = Emergency(client, OURS)
        one.look()

        assert not one.is_settled
        client.close()
