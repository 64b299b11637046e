"""When a node is believed: by what its agent writes, and by what of it can be read."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import timedelta
from socket import socket
from threading import Event

from kubeapi.client import Client
from remediator.controller.agents import AGENT_LEASE_PREFIX
from remediator.controller.observe import Cluster
from remediator.controller.rate_limit import Pace
from tests.kubeapi import hostile
from tests.kubeapi.hostile import Behaviour, Hostile
from tests.lab.cluster import await_true
from tests.remediator.builders import T0, uuid

LISTED = {
    "type": "BOOKMARK",
    "object": {
        "metadata": {
            "resourceVersion": "9",
            "annotations": {"k8s.io/initial-events-end": "true"},
        }
    },
}


def health(version: str, presence: object) -> hostile.Json:
    gpu = {"uuid": uuid(0), "presence": presence, "presenceTransitionTime": "2026-01-05T11:00:00Z"}
    status = {"bootID": "b", "observedTime": T0.isoformat(), "gpus": [gpu]}
    return {"metadata": {"name": "node-a", "resourceVersion": version}, "status": status}


def lease(version: str, node: str = "node-a") -> hostile.Json:
    name = f"{AGENT_LEASE_PREFIX}{node}"
    meta = {"name": name, "namespace": "draguard-system", "resourceVersion": version}
    return {"metadata": meta, "spec": {"renewTime": "2026-01-05T12:00:00.000000Z"}}


def event(kind: str, item: hostile.Json) -> hostile.Json:
    return {"type": kind, "object": item}


def ended_after(gate: Event) -> Behaviour:
    def behave(connection: socket, end: Event) -> None:
        gate.wait(60)
        hostile.ended(connection, end)

    return behave


@contextmanager
def watching(watches: list[Behaviour]) -> Generator[tuple[Cluster, Callable[[str], None]]]:
    """Give a cluster, and what starts one of its watches; each answer is one of the script."""
    with Hostile([hostile.hang], watches) as server:
        cluster = Cluster(
            Client(server.endpoint, timeout=60.0),
            mark=lambda _: None,
            urgent=lambda _: None,
            leading=lambda: False,
            pace=Pace(1, 1, has_urgent=lambda: False),
            lease_namespace="draguard-system",
            stale_after=600.0,
            now=lambda: T0,
        )

        def start(resource: str) -> None:
            (one,) = [
                reflector
                for reflector in cluster.informers.reflectors()
                if reflector.resource == resource
            ]
            requested = len(server.requests)
            one.start()
            await_true(f"{resource} are watched", lambda: len(server.requests) >= requested + 2)

        try:
            yield cluster, start
        finally:
            cluster.stop()


def stale(cluster: Cluster) -> str:
    return cluster.peek("node-a").agent.stale


def test_a_report_that_cannot_be_read_is_not_believed_until_one_can() -> None:
    """The agent is alive, so nothing else would end the word of before: healthy, for ever."""
    bad, good = Event(), Event()
    script = [
        hostile.watch(event("ADDED", health("1", "Present")), LISTED),
        hostile.watch(then=ended_after(bad)),
        hostile.watch(event("MODIFIED", health("2", 7)), then=ended_after(good)),
        hostile.watch(event("MODIFIED", health("3", "Present"))),
    ]
    with watching(script) as (cluster, start):
        start("nodedevicehealths")
        assert stale(cluster) == ""

        bad.set()
        await_true("it is noticed", lambda: "cannot be read" in stale(cluster))
        assert cluster.peek("node-a").agent.report is not None, "the last good one is kept"

        good.set()
        await_true("it is believed again", lambda: stale(cluster) == "")


def test_how_far_a_nodes_clock_is_behind_is_known_by_the_lease_of_its_agent() -> None:
    later = Event()
    renewed = lease("2")
    renewed["spec"] = {"renewTime": "2026-01-05T11:15:00.000000Z"}
    script = [
        hostile.watch(event("ADDED", lease("1")), LISTED),
        hostile.watch(then=ended_after(later)),
        hostile.watch(event("MODIFIED", renewed)),
    ]
    with watching(script) as (cluster, start):
        assert cluster.peek("node-a").agent.behind is None
        start("leases")
        assert cluster.peek("node-a").agent.behind == timedelta()

        later.set()
        await_true("it is", lambda: cluster.peek("node-a").agent.behind == timedelta(minutes=45))


def incident(version: str, tainted_at: str) -> hostile.Json:
    name = f"{uuid(0).lower()}-1"
    return {
        "metadata": {"name": name, "uid": "u-1", "resourceVersion": version},
        "spec": {"node": "node-a", "uuid": uuid(0)},
        "status": {"fault": {"class": "gpu"}, "eviction": {"taintedTime": tainted_at}},
    }


def test_an_incident_that_cannot_be_read_is_named_until_it_can() -> None:
    bad, good = Event(), Event()
    script = [
        hostile.watch(event("ADDED", incident("1", T0.isoformat())), LISTED),
        hostile.watch(then=ended_after(bad)),
        hostile.watch(
            event("MODIFIED", incident("2", "0000-01-01T00:00:00Z")), then=ended_after(good)
        ),
        hostile.watch(event("MODIFIED", incident("3", T0.isoformat()))),
    ]
    with watching(script) as (cluster, start):
        start("deviceincidents")
        assert cluster.peek("node-a").stored.unread == frozenset()

        bad.set()
        named = frozenset({f"{uuid(0).lower()}-1"})
        await_true("it is noticed", lambda: cluster.peek("node-a").stored.unread == named)
        assert len(cluster.peek("node-a").stored.incidents) == 1, "the last good one is kept"

        good.set()
        await_true("it is read again", lambda: not cluster.peek("node-a").stored.unread)


def test_an_agent_of_which_nothing_is_stored_any_more_is_forgotten() -> None:
    """Else nodes that come and go would be remembered for ever."""
    gone = Event()
    script = [
        hostile.watch(LISTED),
        hostile.watch(),
        hostile.watch(event("ADDED", lease("1")), LISTED),
        hostile.watch(then=ended_after(gone)),
        hostile.watch(event("DELETED", lease("2"))),
    ]
    with watching(script) as (cluster, start):
        start("nodedevicehealths")
        start("leases")
        assert stale(cluster) == ""

        gone.set()
        await_true("it is forgotten", lambda: "not reported yet" in stale(cluster))


def test_an_agent_whose_lease_is_gone_is_believed_by_its_report() -> None:
    gone = Event()
    script = [
        hostile.watch(event("ADDED", health("1", "Present")), LISTED),
        hostile.watch(),
        hostile.watch(event("ADDED", lease("1")), LISTED),
        hostile.watch(then=ended_after(gone)),
        hostile.watch(event("DELETED", lease("2")), event("ADDED", lease("3", "node-b"))),
    ]
    with watching(script) as (cluster, start):
        start("nodedevicehealths")
        start("leases")
        (leases,) = [
            reflector
            for reflector in cluster.informers.reflectors()
            if reflector.resource == "leases"
        ]
        gone.set()
        await_true("what came after is reported", lambda: "node-b" in str(leases.items().keys()))

        assert stale(cluster) == ""
