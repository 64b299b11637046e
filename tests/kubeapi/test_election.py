"""Who leads: never two at once, whatever their clocks say, and somebody soon."""

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kubeapi import clock
from kubeapi.client import Client, Conflict
from kubeapi.election import Candidate, Elector, Terms, new_identity
from kubeapi.lease import Lease, LeaseMeta, LeaseSpec, leases, read, take
from tests.kubeapi.hostile import Gate
from tests.lab.cluster import Cluster, await_true

TERMS = Terms()
NAMESPACE = "leaders"
LEASE_NAME = "the-leader"
T0 = datetime(2026, 11, 21, tzinfo=UTC)


def held(holder: str, renewals: int = 0) -> Lease:
    renewed = T0 + timedelta(seconds=renewals)
    spec = LeaseSpec(holder_identity=holder, lease_duration_seconds=10, renew_time=renewed)
    return Lease(metadata=LeaseMeta(), spec=spec)


def test_a_lease_that_nobody_holds_may_be_taken_once_it_was_looked_at() -> None:
    one = Candidate("one", TERMS)
    assert not one.may_take(0)
    for free in (None, held("")):
        one.saw(free, 1)
        assert one.may_take(1)


def test_anothers_lease_may_be_taken_when_it_was_seen_unchanged_for_its_whole_time() -> None:
    one = Candidate("one", TERMS)
    one.saw(held("other", 0), 100)
    one.saw(held("other", 0), 109)
    assert not one.may_take(110)
    assert one.may_take(110.1)
    one.saw(held("other", 1), 110.1)
    assert not one.may_take(120)


def test_whatever_the_holders_clock_says_only_our_own_counts() -> None:
    one = Candidate("one", TERMS)
    one.saw(held("other", renewals=-(10**8)), 100)
    assert not one.may_take(109)
    one.saw(held("other", renewals=10**8), 109)
    assert not one.may_take(118)
    assert one.may_take(119.1)


def test_the_right_to_write_counts_from_before_the_renewal_was_requested() -> None:
    one = Candidate("one", TERMS)
    one.saw(None, 0)
    one.took(held("one"), sent_at=1)
    assert one.leads(6.9)
    assert not one.leads(7)


def test_a_leader_that_sees_another_holder_stops_at_once() -> None:
    one = Candidate("one", TERMS)
    one.took(held("one"), sent_at=0)
    one.saw(held("other"), 1)
    assert not one.leads(1)


LATE = st.sampled_from([0.1, 0.9, 2.0, 3.9, 4.1, 5.9, 6.1, 9.9, 10.1])


@given(st.lists(st.tuples(st.sampled_from(["one", "two"]), LATE), min_size=2, max_size=40))
def test_two_never_lead_at_once_however_late_each_of_them_looks(
    turns: list[tuple[str, float]],
) -> None:
    """Each turn writes what it read, as preconditions have it."""
    candidates = {name: Candidate(name, TERMS) for name in ("one", "two")}
    stored: Lease | None = None
    now, renewals = 0.0, 0
    for name, later in turns:
        now += later
        mine = candidates[name]
        mine.saw(stored, now)
        if mine.may_take(now):
            renewals += 1
            stored = held(name, renewals)
            mine.took(stored, now)
        leaders = [candidate for candidate in candidates.values() if candidate.leads(now)]
        assert len(leaders) <= 1


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[Client]:
    with suppress(Conflict):
        cluster.client.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    cluster.client.delete(leases(NAMESPACE))
    yield cluster.client
    cluster.client.delete(leases(NAMESPACE))


FAST = Terms(lease=6, renew_deadline=4, renew=0.2, retry=0.2, request=1.5)
LONG = Terms(lease=60, renew_deadline=40, renew=0.2, retry=0.2, request=15)
"""Nobody loses the Lease by a busy machine."""


def elector(client: Client, gained: list[str], terms: Terms = FAST) -> Elector:
    name = new_identity()
    return Elector(
        client,
        NAMESPACE,
        LEASE_NAME,
        identity=name,
        now=clock.now,
        on_gain=lambda: gained.append(name),
        terms=terms,
    )


def test_one_of_two_leads_and_hands_over_at_once_when_it_stops(namespace: Client) -> None:
    gained: list[str] = []
    one, two = (elector(namespace, gained, LONG) for _ in range(2))
    one.start()
    try:
        await_true("one leads and was told so", lambda: one.leading and gained)
        two.start()
        await_true("two knows whom it follows", lambda: gained[0] in str(two))
        assert not two.leading
        began = clock.now()
        one.stop()
        await_true("two leads", lambda: two.leading)
        assert (clock.now() - began).total_seconds() < LONG.lease
        await_true("two was told so", lambda: len(set(gained)) == 2)
    finally:
        one.stop()
        two.stop()
    stored = read(namespace, NAMESPACE, LEASE_NAME)
    assert stored is not None
    assert not stored.spec.holder_identity
    assert stored.spec.lease_transitions == 2


def test_a_leader_that_cannot_reach_the_server_stops_before_another_begins(
    cluster: Cluster, namespace: Client
) -> None:
    endpoint = cluster.plane.endpoint()
    gained: list[str] = []
    with Gate(cluster.plane.layout.api_port) as gate:
        cut_off = Client(replace(endpoint, server=f"https://127.0.0.1:{gate.port}"))
        one, two = elector(cut_off, gained), elector(namespace, gained)
        one.start()
        try:
            await_true("one leads", lambda: one.leading)
            two.start()
            gate.shut()
            both = False

            def two_leads() -> bool:
                nonlocal both
                second, first = two.leading, one.leading
                both |= first and second
                return second

            await_true("two leads", two_leads)
            assert not both
            assert not one.leading
            assert one.error, "it says that it cannot renew"
        finally:
            one.stop()
            two.stop()
            cut_off.close()


def test_a_lease_that_somebody_else_wrote_meanwhile_is_not_taken(namespace: Client) -> None:
    first = take(namespace, NAMESPACE, LEASE_NAME, None, "one", 10, clock.now())
    take(namespace, NAMESPACE, LEASE_NAME, first, "one", 10, clock.now())

    with pytest.raises(Conflict):
        take(namespace, NAMESPACE, LEASE_NAME, first, "two", 10, clock.now())
    with pytest.raises(Conflict):
        take(namespace, NAMESPACE, LEASE_NAME, None, "two", 10, clock.now())


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_election_that_a_bug_ended_is_dead_and_one_that_was_stopped_is_not(
    namespace: Client,
) -> None:
    def fail() -> None:
        raise RuntimeError("a bug")

    stricken = Elector(
        namespace, NAMESPACE, LEASE_NAME, identity="one", now=clock.now, on_gain=fail, terms=FAST
    )
    assert not stricken.dead
    stricken.start()
    await_true("it is known to be dead", lambda: stricken.dead)
    stricken.stop()

    stopped = elector(namespace, [])
    stopped.start()
    assert not stopped.dead
    stopped.stop()
    assert not stopped.dead
