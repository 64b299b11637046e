"""The first list: by watch where it is served, by pages where not, and what was known before."""

import threading
from collections.abc import Generator
from contextlib import contextmanager

import msgspec
import pytest

from kubeapi.client import Client
from kubeapi.reflector import Pace, Reflector
from kubeapi.store import Change
from tests.kubeapi import hostile
from tests.kubeapi.hostile import Behaviour, Hostile, config_map
from tests.lab.cluster import await_true

PATH = "/api/v1/configmaps"
PACE = Pace(first_retry=0.01, longest_retry=0.05, missing_retry=0.05, idle=60.0, initial=60.0)
A1, B1 = config_map("a", "1", color="red"), config_map("b", "2")


class ConfigMap(msgspec.Struct, frozen=True):
    data: dict[str, str] = {}


RED = ConfigMap({"color": "red"})


def added(item: hostile.Json) -> hostile.Json:
    return {"type": "ADDED", "object": item}


END = {
    "type": "BOOKMARK",
    "object": {
        "metadata": {
            "resourceVersion": "9",
            "annotations": {"k8s.io/initial-events-end": "true"},
        }
    },
}
BOOKMARK = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "5"}}}


@contextmanager
def reflecting(
    server: Hostile,
    seen: list[Change[ConfigMap]],
    known: dict[str, ConfigMap] | None = None,
    pace: Pace = PACE,
) -> Generator[Reflector[ConfigMap]]:
    client = Client(server.endpoint, timeout=60.0)
    reflector = Reflector(
        client,
        PATH,
        ConfigMap,
        on_change=seen.append,
        pace=pace,
        by_watch=True,
        known=known or {},
    )
    reflector.start()
    try:
        yield reflector
    finally:
        reflector.stop()
        client.close()


def watches(server: Hostile) -> list[str]:
    return [request.split(" ", 2)[1] for request in server.requests if "watch=true" in request]


def test_all_is_known_at_the_bookmark_that_says_so_and_the_watch_goes_on_from_it() -> None:
    first = hostile.watch(added(A1), BOOKMARK, added(B1), END)
    with Hostile([hostile.refusal(500)], [first, hostile.watch()]) as server:
        with reflecting(server, []) as reflector:
            assert reflector.wait_synced(60.0)
            await_true("it watches", lambda: len(watches(server)) == 2)
            assert set(reflector.items()) == {"default/a", "default/b"}
        requested, went_on = watches(server)[:2]
        assert "sendInitialEvents=true" in requested
        assert "resourceVersionMatch=NotOlderThan" in requested
        assert "resourceVersion=9&" in went_on
        assert all("watch=true" in line for line in server.requests)


UNSERVED: dict[str, Behaviour] = {
    "422": hostile.refusal(422, "Invalid", "sendInitialEvents is forbidden for watch"),
    "400": hostile.refusal(400),
    "ends early": hostile.watch(added(B1), then=hostile.ended),
    "is silent": hostile.watch(added(B1)),
    "drops": hostile.drop,
}


@pytest.mark.parametrize("name", UNSERVED)
def test_where_it_is_not_served_or_not_finished_pages_are_listed(name: str) -> None:
    pace = msgspec.structs.replace(PACE, initial=0.3) if name == "is silent" else PACE
    with (
        Hostile([hostile.listing("5", A1)], [UNSERVED[name], hostile.watch()]) as server,
        reflecting(server, [], pace=pace) as reflector,
    ):
        assert reflector.wait_synced(60.0)
        assert dict(reflector.items()) == {"default/a": RED}
        await_true("it watches on", lambda: "resourceVersion=5&" in watches(server)[-1])


def test_a_server_that_refused_it_once_is_not_queried_again() -> None:
    gone = hostile.watch({"type": "ERROR", "object": {"code": 410, "message": "too old"}})
    lists = [hostile.listing("5", A1), hostile.listing("6", A1)]
    with (
        Hostile(lists, [UNSERVED["422"], gone, hostile.watch()]) as server,
        reflecting(server, []),
    ):
        await_true("it listed again", lambda: "resourceVersion=6&" in "".join(watches(server)))
        assert sum("sendInitialEvents" in watch for watch in watches(server)) == 1


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_server_in_trouble_is_not_burdened_with_a_list_instead(status: int) -> None:
    good = hostile.watch(added(A1), END)
    with (
        Hostile([hostile.listing("5")], [hostile.refusal(status), good, hostile.watch()]) as server,
        reflecting(server, []) as reflector,
    ):
        assert reflector.wait_synced(60.0)
        assert all("watch=true" in line for line in server.requests)


def test_of_what_was_known_before_only_the_changes_are_reported() -> None:
    seen: list[Change[ConfigMap]] = []
    known = {"default/a": RED, "default/gone": ConfigMap()}
    looked = threading.Event()
    listed = hostile.once(looked, hostile.watch(added(A1), END))
    with (
        Hostile([hostile.drop], [listed, hostile.watch()]) as server,
        reflecting(server, seen, known) as reflector,
    ):
        assert set(reflector.items()) == {"default/a", "default/gone"}
        looked.set()
        assert reflector.wait_synced(60.0)
        await_true("both were notified", lambda: len(seen) == 2)
        assert seen == [
            Change("default/a", RED, RED, listed=True),
            Change("default/gone", ConfigMap(), None, listed=True),
        ]


def test_it_waits_as_long_as_the_server_asks_and_never_more_than_a_minute() -> None:
    slow = hostile.refusal(429, headers="retry-after: 1\r\n")
    with (
        Hostile([hostile.listing("5")], [slow, hostile.watch(END), hostile.watch()]) as server,
        reflecting(server, []) as reflector,
    ):
        assert reflector.wait_synced(60.0)
        first, second = server.times[:2]
        assert 1.0 <= second - first < 60.0
