"""The reflector against servers that misbehave: its copy comes out right, and it always stops."""

import random
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

import msgspec
import pytest

from kubeapi.client import Client
from kubeapi.reflector import Pace, Reflector, ignore
from kubeapi.store import Change
from tests.kubeapi import hostile
from tests.kubeapi.hostile import Behaviour, Hostile, config_map
from tests.lab.cluster import await_true

PATH = "/api/v1/configmaps"
PACE = Pace(first_retry=0.01, longest_retry=0.05, missing_retry=0.05, idle=60.0)
_ENDS_BY_TIME = frozenset({"hangs", "drips", "silent"})
"""What ends when patience does, which is short for these alone: a machine may stand still."""
_SHORT = 0.4
A1, A2 = config_map("a", "1", color="red"), config_map("a", "2", color="blue")
B1 = config_map("b", "1")


class ConfigMap(msgspec.Struct, frozen=True):
    data: dict[str, str] = {}


@contextmanager
def reflecting(
    server: Hostile,
    on_change: Callable[[Change[ConfigMap]], None] = ignore,
    pace: Pace = PACE,
    what: str = "",
) -> Generator[Reflector[ConfigMap]]:
    """Run a reflector; `what` names what the server does, by which its patience is chosen."""
    brief = what in _ENDS_BY_TIME
    client = Client(server.endpoint, timeout=_SHORT if brief else 60.0)
    pace = msgspec.structs.replace(pace, idle=_SHORT) if brief else pace
    reflector = Reflector(client, PATH, ConfigMap, on_change=on_change, pace=pace)
    reflector.start()
    try:
        yield reflector
    finally:
        began = time.monotonic()
        reflector.stop()
        client.close()
        assert time.monotonic() - began < 30.0
        reflector._thread.join(60.0)  # pyright: ignore[reportPrivateUsage] # noqa: SLF001 - that it ends is the claim
        assert not reflector._thread.is_alive()  # pyright: ignore[reportPrivateUsage] # noqa: SLF001


def event(kind: str, item: hostile.Json) -> hostile.Json:
    return {"type": kind, "object": item}


def error_event(code: int) -> hostile.Json:
    return {"type": "ERROR", "object": {"kind": "Status", "code": code, "message": "no"}}


BAD: dict[str, Behaviour] = {
    "500": hostile.refusal(500),
    "429": hostile.refusal(429),
    "404": hostile.refusal(404),
    "410": hostile.refusal(410, "Expired"),
    "401": hostile.refusal(401),
    "hangs": hostile.hang,
    "drops": hostile.drop,
    "no HTTP": hostile.garbage,
    "half a chunk": hostile.cut_off_chunk,
    "drips": hostile.drip,
    "no JSON": hostile.body(b"<html>"),
    "other JSON": hostile.body(b"[1, 2]"),
    "a Status with 200": hostile.body(b'{"kind": "Status", "metadata": {}}'),
    "an item without a name": hostile.listing("5", {"metadata": {}}),
    "an item that is no object": hostile.body(
        b'{"metadata": {"resourceVersion": "5"}, "items": [7]}'
    ),
}
BAD_WATCH: dict[str, Behaviour] = {
    **{name: BAD[name] for name in ("500", "404", "410", "hangs", "drops", "no HTTP", "drips")},
    "ends at once": hostile.watch(then=hostile.ended),
    "half a chunk": hostile.cut_off_chunk,
    "silent": hostile.watch(),
    "half an event": hostile.watch(b'{"type": "ADDED", "obj', then=hostile.ended),
    "no JSON": hostile.watch(b"<html>\n"),
    "an event without object": hostile.watch(b'{"type": "ADDED"}\n'),
    "an object without name": hostile.watch(event("ADDED", {"metadata": {}})),
    "expired": hostile.watch(error_event(410)),
    "error 500": hostile.watch(error_event(500)),
    "error without code": hostile.watch(b'{"type": "ERROR", "object": 7}\n'),
}


@pytest.mark.parametrize("name", BAD)
def test_lists_that_fail_are_repeated_until_one_is_good(name: str) -> None:
    good = hostile.listing("5", A1)
    with (
        Hostile([BAD[name], BAD[name], good], [hostile.watch()]) as server,
        reflecting(server, what=name) as reflector,
    ):
        assert reflector.wait_synced(60.0)
        assert dict(reflector.items()) == {"default/a": ConfigMap({"color": "red"})}
        # Where patience is short, a silent watch is soon an error again, for a moment.
        await_true("nothing is wrong any more", lambda: not reflector.error)


@pytest.mark.parametrize("name", BAD)
def test_it_stops_in_time_while_lists_fail_and_says_what_is_wrong(name: str) -> None:
    with Hostile([BAD[name]]) as server, reflecting(server, what=name) as reflector:
        if name != "410":
            await_true("the error is said", lambda: reflector.error)
        await_true("it was requested again", lambda: len(server.requests) > 1)
        assert not reflector.synced
        assert reflector.items() == {}


@pytest.mark.parametrize(
    ("statuses", "warned"),
    [
        ((429, 429, 429), []),
        ((429,) * 6, [429]),
        ((500, 500), [500]),
        ((429, 500, 429, 500), [500]),
        ((404, 404, 404), [404, 404]),
    ],
)
def test_a_server_that_is_busy_for_a_moment_is_no_warning_and_what_fails_on_is_one(
    statuses: tuple[int, ...], warned: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    """A refusal is said again once it counts as one."""
    lists = [*map(hostile.refusal, statuses), hostile.listing("5", A1)]
    with Hostile(lists, [hostile.watch()]) as server, reflecting(server) as reflector:
        assert reflector.wait_synced(60.0)

    loud = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert [int(line.split(": ")[1].split()[0]) for line in loud] == warned


@pytest.mark.parametrize("name", BAD_WATCH)
def test_after_a_broken_watch_the_copy_is_right_again(name: str) -> None:
    """Whether it goes on watching or lists again, what changed meanwhile is not lost."""
    before, after = hostile.listing("5", A1), hostile.listing("6", A2)
    healthy = hostile.watch(event("MODIFIED", A2))
    with (
        Hostile([before, after], [BAD_WATCH[name], BAD_WATCH[name], healthy]) as server,
        reflecting(server, what=name) as reflector,
    ):
        await_true(
            "the change arrived",
            lambda: reflector.items().get("default/a") == ConfigMap({"color": "blue"}),
        )
        await_true("all is well", lambda: not reflector.error)


@pytest.mark.parametrize(
    "name",
    ["no JSON", "an event without object", "an object without name", "expired", "error 500"],
)
def test_what_is_no_event_makes_it_list_again(name: str) -> None:
    """What the server tried to say is not known, so only a whole list can be trusted."""
    lists = [hostile.listing("5", A1), hostile.listing("6", A2)]
    with (
        Hostile(lists, [BAD_WATCH[name], hostile.watch()]) as server,
        reflecting(server, what=name) as reflector,
    ):
        await_true(
            "the change arrived",
            lambda: reflector.items().get("default/a") == ConfigMap({"color": "blue"}),
        )


@pytest.mark.parametrize("name", BAD_WATCH)
def test_it_stops_in_time_while_watches_fail(name: str) -> None:
    with (
        Hostile([hostile.listing("5", A1)], [BAD_WATCH[name]]) as server,
        reflecting(server, what=name) as reflector,
    ):
        assert reflector.wait_synced(60.0)
        await_true("it watches", lambda: any("watch=true" in line for line in server.requests))
        assert "default/a" in reflector.items()


def test_a_broken_watch_goes_on_from_the_last_version_it_received() -> None:
    bookmark = event("BOOKMARK", {"metadata": {"resourceVersion": "9"}})
    first = hostile.watch(event("ADDED", B1), bookmark, then=hostile.drop)
    with Hostile([hostile.listing("5", A1)], [first, hostile.watch()]) as server:
        with reflecting(server):
            await_true("it watches again", lambda: len(server.requests) >= 3)
        assert "resourceVersion=9&" in server.requests[2]
        assert sum("watch=true" not in line for line in server.requests) == 1


def test_deletions_that_no_watch_reported_are_delivered_after_the_next_list() -> None:
    seen: list[Change[ConfigMap]] = []
    lists = [hostile.listing("5", A1, B1), hostile.listing("6", A2)]
    with (
        Hostile(lists, [hostile.watch(error_event(410)), hostile.watch()]) as server,
        reflecting(server, seen.append) as reflector,
    ):
        await_true("b is gone", lambda: reflector.synced and "default/b" not in reflector.items())
        await_true("all were delivered", lambda: len(seen) == 4)
        red, blue = ConfigMap({"color": "red"}), ConfigMap({"color": "blue"})
        assert seen == [
            Change("default/a", None, red, listed=True),
            Change("default/b", None, ConfigMap(), listed=True),
            Change("default/a", red, blue, listed=True),
            Change("default/b", ConfigMap(), None, listed=True),
        ]


def test_what_a_watch_tells_is_news_and_what_a_list_tells_need_not_be() -> None:
    seen: list[Change[ConfigMap]] = []
    with (
        Hostile(
            [hostile.listing("5", A1)], [hostile.watch(event("MODIFIED", A2), event("DELETED", A2))]
        ) as server,
        reflecting(server, seen.append),
    ):
        await_true("all were delivered", lambda: len(seen) == 3)
        assert [change.listed for change in seen] == [True, False, False]


def test_a_quiet_watch_is_no_blind_one_because_a_list_decides() -> None:
    """Servers send no bookmark where nothing happens; the list finds what no watch delivered."""
    with (
        Hostile([hostile.listing("5", A1), hostile.listing("6", A2)], [hostile.watch()]) as server,
        reflecting(server, what="silent") as reflector,
    ):
        assert reflector.wait_synced(60.0)
        first = reflector.last_contact
        await_true(
            "it was listed again", lambda: reflector.items()["default/a"].data["color"] == "blue"
        )
        await_true("and counts as a contact", lambda: reflector.last_contact > first)
        assert not reflector.error
        assert not reflector.refused


def test_after_a_long_silence_it_lists_and_takes_no_replay_for_news() -> None:
    pace = Pace(first_retry=0.05, longest_retry=0.05, idle=0.2)
    seen: list[Change[ConfigMap]] = []
    watches = [hostile.refusal(500)] * 9 + [hostile.watch(event("MODIFIED", A2))]
    lists = [hostile.listing("5", A1), hostile.listing("6", A2)]
    with Hostile(lists, watches) as server, reflecting(server, seen.append, pace=pace):
        await_true("the change arrived", lambda: len(seen) == 2)
        assert seen[1].listed


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_collection_that_stays_refused_says_so_until_it_is_given_back(status: int) -> None:
    good, no = hostile.watch(), hostile.refusal(status)
    with (
        Hostile([hostile.listing("5", A1)], [no, no, no, no, good]) as server,
        reflecting(server) as reflector,
    ):
        await_true("it is refused", lambda: reflector.refused)
        await_true("it is given back", lambda: not reflector.refused)
        assert "default/a" in reflector.items()


def test_one_refusal_is_none_because_servers_that_start_refuse_for_a_moment() -> None:
    """For until they have read the roles."""
    with (
        Hostile(
            [hostile.listing("5", A1)],
            [hostile.refusal(403), hostile.refusal(403), hostile.watch()],
        ) as server,
        reflecting(server) as reflector,
    ):
        seen = False
        while len(server.requests) < 4:
            seen |= reflector.refused
            time.sleep(0.001)
        assert not seen


def test_a_list_that_breaks_off_between_two_pages_deletes_nothing() -> None:
    lists = [
        hostile.listing("5", A1, more="next"),
        hostile.listing("5", B1),
        hostile.listing("6", A1, more="next"),
        hostile.refusal(410),
        hostile.refusal(500),
    ]
    with (
        Hostile(lists, [hostile.watch(error_event(410)), hostile.watch()]) as server,
        reflecting(server) as reflector,
    ):
        await_true("the second list failed", lambda: len(server.requests) > 6)
        assert set(reflector.items()) == {"default/a", "default/b"}


def test_an_undecodable_object_is_counted_and_keeps_its_last_good_value() -> None:
    bad = config_map("a", "2") | {"data": 7}
    events = hostile.watch(event("MODIFIED", bad), event("ADDED", B1))
    worse = config_map("c", "1") | {"data": [1]}
    with (
        Hostile([hostile.listing("5", A1, worse)], [events]) as server,
        reflecting(server) as reflector,
    ):
        await_true("b arrived", lambda: "default/b" in reflector.items())
        assert reflector.items()["default/a"] == ConfigMap({"color": "red"})
        assert "default/c" not in reflector.items()
        assert reflector.undecodable == 2
        assert reflector.unreadable == {"default/a", "default/c"}


def test_an_object_is_unreadable_until_it_can_be_read_again_or_is_gone() -> None:
    bad_a, bad_b = A2 | {"data": 7}, config_map("b", "2") | {"data": 7}
    a3, c1 = config_map("a", "3"), config_map("c", "1")
    changes = [("MODIFIED", bad_a), ("MODIFIED", bad_b), ("MODIFIED", a3), ("DELETED", bad_b)]
    events = hostile.watch(*(event(kind, item) for kind, item in (*changes, ("ADDED", c1))))
    with (
        Hostile([hostile.listing("5", A1, B1)], [events]) as server,
        reflecting(server) as reflector,
    ):
        await_true("c arrived", lambda: "default/c" in reflector.items())
        assert reflector.undecodable == 2
        assert not reflector.unreadable


def test_a_collection_that_is_not_served_is_a_state_and_is_found_when_it_appears() -> None:
    with Hostile([hostile.refusal(404)]) as server, reflecting(server) as reflector:
        await_true("it says so", lambda: reflector.missing)
        server.go_on_with(hostile.listing("5"))
        assert reflector.wait_synced(60.0)
        assert not reflector.missing


def test_a_listener_that_fails_does_not_end_the_copy() -> None:
    def fail(change: Change[ConfigMap]) -> None:
        raise RuntimeError(change.key)

    with (
        Hostile([hostile.listing("5", A1)], [hostile.watch(event("ADDED", B1))]) as server,
        reflecting(server, fail) as reflector,
    ):
        await_true("both are there", lambda: len(reflector.items()) == 2)


def test_a_copy_once_taken_does_not_change_any_more() -> None:
    with (
        Hostile([hostile.listing("5", A1)], [hostile.watch(event("ADDED", B1))]) as server,
        reflecting(server) as reflector,
    ):
        await_true("both are there", lambda: len(reflector.items()) == 2)
        taken = reflector.items()
        assert taken is reflector.items()
        with pytest.raises(TypeError):
            taken["x"] = ConfigMap()  # type: ignore[index]


def test_a_server_that_ends_each_watch_at_once_is_not_hammered() -> None:
    pace = Pace(first_retry=0.05, longest_retry=0.2, idle=1.0)
    with (
        Hostile([hostile.listing("5")], [hostile.watch(then=hostile.ended)]) as server,
        reflecting(server, pace=pace),
    ):
        await_true("some watches", lambda: len(server.times) >= 6)
        assert server.times[5] - server.times[0] > 0.2


def test_a_reflector_that_was_never_started_stops_too() -> None:
    with Hostile([hostile.hang]) as server:
        client = Client(server.endpoint)
        Reflector(client, PATH, ConfigMap).stop()
        client.close()


def test_its_waits_leave_the_random_numbers_of_others_alone() -> None:
    before = random.getstate()
    with Hostile([BAD["500"], hostile.listing("5", A1)]) as server, reflecting(server) as reflector:
        await_true("it watches", lambda: reflector.synced and len(server.requests) > 2)
    assert random.getstate() == before
