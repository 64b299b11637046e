"""Reports of nodes that are gone: they cost nothing more, and are deleted after a week."""

import logging
from collections.abc import Generator
from contextlib import contextmanager, suppress
from datetime import timedelta

import msgspec
import pytest

from kubeapi import clock
from remediator.controller.cache import Cache
from remediator.model.incident import IncidentSpec, incident_name
from remediator.model.node import NodeFacts
from remediator.plan.history import PRUNED_AT_ONCE
from remediator.plan.node_decision import report_to_prune
from remediator.plan.view import LeftReport, NodeView
from remediator.reconcile import StepsFailedError
from tests.lab.cluster import await_true
from tests.remediator.builders import (
    T0,
    at,
    gpu,
    incident,
    make_status,
    report,
    rule,
    uuid,
    view,
    with_fields,
)
from tests.remediator.clock import Clock
from tests.remediator.controller.api import INCIDENTS, NODES, REPORTS, serving
from tests.remediator.controller.test_blind_watches import Room, leader
from tests.remediator.controller.test_cache import health, raw_rule
from tests.remediator.controller.test_cache import incident as stored_incident

HOUR = 3600.0
DAY = 24 * HOUR
WEEK = 7 * DAY
LEFT = "node-gone"


def put_report(room: Room, node: str, days: float) -> None:
    status = report(gpu(0, node=node))
    status = with_fields(status, observed_at=clock.now() - timedelta(days=days))
    room.api.put(REPORTS, node, status=msgspec.to_builtins(status))


@contextmanager
def seen(reports: dict[str, float], nodes: tuple[str, ...] = ("node-there",)) -> Generator[Room]:
    """Give a leader that starts over reports of so many days ago, and Nodes."""
    with serving() as (api, endpoint):
        before = Room.__new__(Room)
        before.api = api
        for node, days in reports.items():
            put_report(before, node, days)
        for node in nodes:
            api.put(NODES, node)
        with leader(api, endpoint) as room:
            room.seen("Nodes are listed", lambda: room.cluster.informers.nodes.synced)
            look_at_all(room)
            yield room


def look_at_all(room: Room) -> frozenset[str]:
    """Look at each node whose turn it is, as the timer does; return those."""
    chosen = room.cluster.cache.choose_nodes()
    for node in sorted(chosen):
        with suppress(StepsFailedError):
            room.reconciler.reconcile(node, clock.now())
    return chosen


def kept(room: Room) -> set[str]:
    return set(room.api.stored.get(REPORTS, {}))


class TestOnACluster:
    def test_the_report_of_a_node_that_is_gone_for_a_week_is_deleted_and_no_other(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO)
        ages = {LEFT: 7.1, "node-silent": 6.9, "node-there": 30, "node-new": 0}
        with seen(ages) as room:
            look_at_all(room)

            assert kept(room) == {"node-silent", "node-there", "node-new"}
            assert f"deleted the report of a node that is gone: {LEFT} since=" in caplog.text
            await_true("it is known", lambda: LEFT not in room.cluster.cache.nodes())

    def test_one_with_an_open_incident_is_kept(self) -> None:
        with seen({LEFT: 30}) as room:
            name = incident_name(uuid(0, LEFT), 1)
            spec = IncidentSpec(LEFT, uuid(0, LEFT))
            status = make_status(fault_class="gpu", phase="Suspected")
            room.api.put(
                INCIDENTS,
                name,
                spec=msgspec.to_builtins(spec),
                status=msgspec.to_builtins(status),
            )
            room.seen("it is known", lambda: room.cluster.cache.has_incident(LEFT))
            look_at_all(room)

            assert kept(room) == {LEFT}

    def test_a_few_are_deleted_at_once(self) -> None:
        many = {f"node-{number}": 8.0 for number in range(PRUNED_AT_ONCE + 5)}
        with seen(many) as room:
            look_at_all(room)
            assert len(kept(room)) == 5

            room.seen("it is known", lambda: len(room.cluster.cache.nodes()) == 5)
            look_at_all(room)
            assert kept(room) == set()

    @pytest.mark.parametrize("collection", [NODES, REPORTS, INCIDENTS])
    def test_nothing_is_deleted_while_a_watch_is_refused(self, collection: str) -> None:
        with seen({LEFT: 30}) as room:
            room.api.refuse(collection)
            watches = {each.resource: each for each in room.cluster.informers.reflectors()}
            refused = watches[collection.rpartition("/")[2]]
            room.seen("it is noticed", lambda: refused.refused)
            room.cluster.observe("node-there")
            look_at_all(room)
            look_at_all(room)

            assert kept(room) == {LEFT}

    def test_nothing_is_deleted_before_what_the_leader_before_wrote_is_known(self) -> None:
        with seen({LEFT: 30}) as room:
            room.api.frozen.add(INCIDENTS)
            name = incident_name(uuid(0), 1)
            status = make_status(fault_class="gpu", phase="Evicting", evicting_at=T0)
            room.api.put(
                INCIDENTS,
                name,
                spec=msgspec.to_builtins(IncidentSpec("node-a", uuid(0))),
                status=msgspec.to_builtins(status),
            )
            look_at_all(room)
            assert kept(room) == {LEFT}

    def test_an_agent_that_is_back_keeps_its_report_also_while_the_watch_lags(self) -> None:
        with seen({LEFT: 30}) as room:
            room.api.frozen.add(REPORTS)
            put_report(room, LEFT, 0)
            look_at_all(room)

            assert kept(room) == {LEFT}

    def test_a_role_without_the_right_is_logged_once_and_stops_nothing(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        with seen({LEFT: 30, "node-other": 30}) as room:
            room.api.read_only.add(REPORTS)
            look_at_all(room)
            room.reconciler.reconcile(LEFT, clock.now())

            assert kept(room) == {LEFT, "node-other"}
            warned = [each for each in caplog.records if each.levelno >= logging.WARNING]
            assert ["upgrade the roles" in each.getMessage() for each in warned] == [True]


class TestWhoIsLookedAt:
    """By the timer: reports, rules, incidents and Nodes still mark theirs."""

    def cache(self, *, known: bool = True) -> tuple[Cache, Clock]:
        time = Clock()
        cache = Cache(lambda _: None, now=time.date)
        cache.nodes_known = known
        cache.put_node("node-there", NodeFacts(name="node-there", uid="u"))
        for node in ("node-there", LEFT):
            cache.put_report(node, health(node, report(gpu(0, node=node))))
        return cache, time

    def test_a_node_that_is_gone_is_not_once_its_agent_must_be_silent(self) -> None:
        cache, time = self.cache()
        time.seconds = 2 * HOUR - 1
        assert cache.choose_nodes() == {"node-there", LEFT}

        time.seconds = 2 * HOUR
        assert cache.choose_nodes() == {"node-there"}
        assert cache.nodes() == {"node-there", LEFT}

    def test_it_is_again_when_its_report_is_written_and_when_its_node_is_back(self) -> None:
        cache, time = self.cache()
        time.seconds = DAY
        assert LEFT not in cache.choose_nodes()

        cache.put_report(LEFT, health(LEFT, report(gpu(0, node=LEFT))))
        assert LEFT in cache.choose_nodes()

        time.seconds = 2 * DAY
        cache.put_node(LEFT, NodeFacts(name=LEFT, uid="u2"))
        assert LEFT in cache.choose_nodes()

    def test_all_are_while_nodes_are_not_known(self) -> None:
        cache, time = self.cache(known=False)
        time.seconds = DAY

        assert cache.choose_nodes() == {"node-there", LEFT}

    def test_a_node_with_an_incident_or_a_rule_is(self) -> None:
        for with_rule in (False, True):
            cache, time = self.cache()
            time.seconds = 2 * WEEK
            if with_rule:
                raw = raw_rule(LEFT)
                cache.put_rule(raw.metadata.name, raw)
            else:
                cache.put_incident("i-1", stored_incident(LEFT))
            assert LEFT in cache.choose_nodes()
            assert cache.view(LEFT, str).agent.left is None

    def test_it_is_once_more_for_its_report_to_be_deleted(self) -> None:
        cache, time = self.cache()
        time.seconds = WEEK - 1
        assert LEFT not in cache.choose_nodes()
        assert cache.view(LEFT, str).agent.left is None

        time.seconds = WEEK
        assert LEFT in cache.choose_nodes()
        left = cache.view(LEFT, str).agent.left
        assert left is not None
        assert (left.name, left.since) == (LEFT, at(0))

    def test_the_week_begins_when_the_node_goes(self) -> None:
        cache, time = self.cache()
        time.seconds = 2 * WEEK
        cache.put_node("node-there", None)
        cache.choose_nodes()
        assert cache.view("node-there", str).agent.left is None

        old = with_fields(report(), observed_at=at(0))
        cache.put_report("node-there", health("node-there", old), listed=True)
        cache.choose_nodes()
        assert cache.view("node-there", str).agent.left is None, "it is listed once more"

        time.seconds = 3 * WEEK
        cache.choose_nodes()
        assert cache.view("node-there", str).agent.left is not None

    def test_one_whose_turn_it_is_not_waits_for_the_next(self) -> None:
        cache, time = self.cache()
        names = [f"node-{number}" for number in range(PRUNED_AT_ONCE)]
        for name in names:
            cache.put_report(name, health(name, report()))
        time.seconds = WEEK
        cache.put_report("node-0", None)
        chosen = cache.choose_nodes()

        assert chosen == {"node-there", LEFT, *names} - {"node-0"}

    def test_a_date_of_the_future_is_now(self) -> None:
        cache, time = self.cache()
        late = with_fields(report(), observed_at=at(3 * WEEK))
        cache.put_report("node-late", health("node-late", late), listed=True)
        time.seconds = WEEK
        cache.choose_nodes()

        assert cache.view("node-late", str).agent.left is not None


GONE = LeftReport(name="node-a", uid="u", resource_version="1", since=T0)


def left_view(**fields: object) -> NodeView:
    """The view of a node that is gone, with its report."""
    silent = view(gpu(0), stale="the agent has not reported", left=GONE, nodes_known=True)
    return with_fields(silent, **fields)


@pytest.mark.parametrize(
    ("fields", "pruned"),
    [
        ({}, True),
        ({"left": None}, False),
        ({"nodes_known": False}, False),
        ({"facts": NodeFacts(name="node-a", uid="u")}, False),
        ({"stale": ""}, False),
        ({"blind": {"incidents": "not listed yet"}}, False),
        ({"clock_doubt": "the clock jumped"}, False),
        ({"incidents": (incident(),)}, False),
        ({"incidents": (incident(closed_at=T0),)}, True),
        ({"incidents": (incident(node="node-b"),)}, True),
        ({"rules": (rule(),)}, False),
        ({"rules": (rule(node="node-b"),)}, True),
        ({"unseen": (rule(),)}, False),
        ({"unread": frozenset({"another"})}, False),
    ],
)
def test_a_report_goes_only_where_all_that_it_rests_on_is_known(
    fields: dict[str, object], *, pruned: bool
) -> None:
    assert (report_to_prune(left_view(**fields), at(WEEK)) is not None) == pruned


def test_a_report_goes_a_week_after_its_node_and_no_second_before() -> None:
    assert report_to_prune(left_view(), at(WEEK - 1)) is None
    assert report_to_prune(left_view(), at(WEEK)) == GONE
