"""The process as a whole, on an API server in memory: when it posts Events, and when not."""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.client import HTTPConnection

import pytest

from allocation.__main__ import Explainer
from allocation.explainer.settings import Settings
from tests.allocation.explainer.snapshots import text
from tests.exporter.running import free_port
from tests.lab.cluster import await_true
from tests.remediator.controller.api import PODS, Api, serving

EVENTS = "/apis/events.k8s.io/v1/namespaces/{}/events"
MANY = 100
"""Pods that wait: more than may get an Event at once."""


class Running:
    """An explainer that leads, and pods of one namespace."""

    def __init__(self, api: Api, server: str) -> None:
        self._api, self._port = api, free_port()
        listen = f"127.0.0.1:{self._port}"
        self.explainer = Explainer(
            Settings(kube_server=server, listen=listen, leader_elect=False, event_after=0.0)
        )

    def put(self, name: str, phase: str = "Pending", namespace: str = "team") -> None:
        """Put a pod whose claim does not exist."""
        self._api.put(
            PODS,
            name,
            metadata={"namespace": namespace, "creationTimestamp": text(0)},
            spec={"resourceClaims": [{"name": "gpu", "resourceClaimName": "missing"}]},
            status={"phase": phase},
        )

    def trusts(self) -> bool:
        return self._answer("/readyz")[0] == 200

    def looks(self) -> bool:
        return "draguard_explainer_look_age_seconds NaN" not in self._answer("/metrics")[1]

    def _answer(self, path: str) -> tuple[int, str]:
        connection = HTTPConnection("127.0.0.1", self._port, timeout=5)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def posts(self) -> int:
        return self._api.writes.count(("POST", EVENTS.format("team")))

    def has_event(self, pod: str) -> bool:
        stored = list(self._api.stored.get(EVENTS.format("team"), {}).values())
        return pod in {each["regarding"]["name"] for each in stored}


@contextmanager
def running() -> Generator[tuple[Api, Running]]:
    with serving() as (api, endpoint):
        found = Running(api, endpoint.server)
        thread = threading.Thread(target=found.explainer.run)
        thread.start()
        try:
            yield api, found
        finally:
            found.explainer.stop()
            thread.join()


def test_what_waits_to_be_posted_is_dropped_where_pods_cannot_be_trusted() -> None:
    with running() as (api, explainer):
        for number in range(MANY):
            explainer.put(f"train-{number}")
        await_true("the first Events are posted", lambda: explainer.posts() > 0)

        api.refuse(PODS)
        await_true("they cannot be trusted", lambda: not explainer.trusts())
        before = explainer.posts()
        await_true("it looks no more", lambda: not explainer.looks())
        for number in range(MANY):
            explainer.put(f"train-{number}", "Running")
        explainer.put("late")
        api.allow(PODS)

        await_true("a pod that waits has its Event", lambda: explainer.has_event("late"))
        one_under_way = 1
        assert explainer.posts() <= before + one_under_way + 1


def test_events_that_were_posted_before_take_no_turn_of_a_new_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """There is room for two at each look."""
    old = 8
    for name, value in (("WAITING", 2), ("BETWEEN", 0.1), ("EVENTS_AT_ONCE", float(old))):
        monkeypatch.setattr(f"allocation.__main__.{name}", value)
    with running() as (api, explainer):
        for number in range(old):
            explainer.put(f"train-{number}")
        await_true("all of them have their Events", lambda: explainer.posts() == old)

        for number in range(3 * old):
            if number == old // 2:
                explainer.put("late")
            explainer.put(f"other-{number}", namespace="other")

        await_true("a pod that waits has its Event", lambda: explainer.has_event("late"))
        paths = [path for _, path in api.writes]
        before_late = paths[old : paths.index(EVENTS.format("team"), old)]
        assert len(before_late) < old
