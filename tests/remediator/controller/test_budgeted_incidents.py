"""Which incidents budgets count: the open ones, and the closed ones that began within a day."""

from datetime import timedelta

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from kubeapi.types import ObjectMeta
from remediator.controller.budgeted_incidents import BudgetedIncidents
from remediator.controller.cache import Cache
from remediator.model.incident import Incident
from remediator.plan.view import Fleet
from remediator.policy.limits import LIFTED, LONGEST_RATE, Cap, Caps, Limits, Rate
from tests.remediator.builders import at, policy
from tests.remediator.clock import Clock
from tests.remediator.plan.fleets import an_incident, budget, desired

DAY = int(LONGEST_RATE.total_seconds())


def closed(name: str, since: float, at_: float = 0) -> Incident:
    return an_incident(name, evicting_at=at(since), closed_at=at(at_))


def test_an_open_one_counts_however_old_it_is() -> None:
    counted = BudgetedIncidents(Clock().date)
    old = an_incident("a0", evicting_at=at(-90 * DAY))

    counted.put(old.name, old)

    assert counted.all() == (old,)


def test_a_closed_one_counts_for_a_day_after_it_began() -> None:
    clock = Clock()
    counted = BudgetedIncidents(clock.date)
    counted.put("a0-1", closed("a0", -60))
    clock.seconds = DAY - 61
    assert counted.all()

    clock.seconds = DAY - 60
    assert not counted.all()


def test_one_that_began_nothing_is_history_as_soon_as_it_is_closed() -> None:
    counted = BudgetedIncidents(Clock().date)
    counted.put("a0-1", an_incident("a0"))
    assert counted.all()

    counted.put("a0-1", an_incident("a0", closed_at=at(0)))

    assert not counted.all()


def test_one_that_is_opened_again_stays_when_its_day_is_over() -> None:
    clock = Clock()
    counted = BudgetedIncidents(clock.date)
    counted.put("a0-1", closed("a0", -60))
    counted.put("a0-1", an_incident("a0", evicting_at=at(-60)))

    clock.seconds = 2 * DAY

    assert len(counted.all()) == 1


def test_a_deleted_one_counts_no_more() -> None:
    counted = BudgetedIncidents(Clock().date)
    counted.put("a0-1", an_incident("a0"))
    counted.put("a0-1", None)

    assert counted.all() == ()


def test_the_world_hands_out_what_counts_and_finds_the_others_by_their_gpu() -> None:
    cache = Cache(lambda _: None, lambda: at(0))
    for number, incident in enumerate(
        (an_incident("a0"), closed("a1", -60), closed("a2", -2 * DAY))
    ):
        meta = ObjectMeta(name=incident.name, uid=incident.name, resource_version=str(number))
        cache.put_incident(incident.name, msgspec.structs.replace(incident, metadata=meta))

    assert [incident.name for incident in cache.fleet().incidents] == ["a0-1", "a1-1"]
    assert len(cache.view("node-a", lambda _: "").stored.incidents) == 3


TIMES = st.integers(-2 * DAY, 0)
INCIDENTS = st.builds(
    an_incident,
    st.sampled_from(["a0", "a1", "b0", "b1", "c0"]),
    st.sampled_from(["xid-95", "xid-79"]),
    opened=TIMES.map(at),
    evicting_at=st.none() | TIMES.map(at),
    tainted_at=st.none() | TIMES.map(at),
    closed_at=st.none() | TIMES.map(at),
)
CAPS = st.builds(
    Caps,
    node=st.sampled_from([None, Cap(1)]),
    cluster=st.sampled_from([None, Cap(2)]),
    rate=st.none()
    | st.builds(Rate, st.integers(1, 3), st.sampled_from([timedelta(minutes=10), LONGEST_RATE])),
)


@given(
    st.lists(INCIDENTS, unique_by=lambda incident: incident.name),
    st.builds(Limits, evict=CAPS, taint=CAPS, correlation=st.just(LIFTED.correlation)),
)
def test_what_does_not_count_changes_no_decision(reported: list[Incident], limits: Limits) -> None:
    counted = BudgetedIncidents(lambda: at(0))
    for incident in reported:
        counted.put(incident.name, incident)
    asks = (desired("z0", "NoExecute"), desired("a0", "NoSchedule"))
    all_of_them, few = Fleet(incidents=tuple(reported)), Fleet(incidents=counted.all())

    assert budget(asks, few, policy(limits), at(0)) == budget(
        asks, all_of_them, policy(limits), at(0)
    )
