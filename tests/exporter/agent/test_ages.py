"""Each part of an observation ages by its own mark, whatever else the sensor sends."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.agent.ages import STALE, Ages
from exporter.model.node_health import SourceHealth
from exporter.model.readings import STARTING, DcgmReading, Observation
from tests.exporter.worlds import at, gpu, seen

START = 60.0
ALLOWED = 60.0
"""Two intervals, which is less than three."""
SOURCES = ("nvml", "dcgm", "kmsg", "podresources")


def begun() -> Ages:
    return Ages(interval=30.0, deadline=10.0, start=START, now=0.0)


def observed(seconds: float, **read: float) -> Observation:
    """Return what is sent at a second: each part read then, or at the second that is given."""
    times = dict.fromkeys(SOURCES, seconds) | read
    sources = tuple(
        SourceHealth(name=name, state="Up", last_success=at(times[name])) for name in SOURCES
    )
    nvml = seen(gpu(1), seconds=times["nvml"]).nvml
    return Observation(
        at=at(seconds),
        sources=sources,
        nvml=nvml,
        dcgm=DcgmReading(at=at(times["dcgm"])),
        node_at=at(times["podresources"]),
        containers=(),
        pci_gpus=("0000:01:00.0",),
    )


def aged(stuck: str, until: float) -> tuple[Ages, Observation]:
    """Return the ages after observations every ten seconds in which one part stays at second 0."""
    ages, last = begun(), observed(0.0)
    for second in range(0, int(until) + 1, 10):
        last = observed(float(second), **{stuck: 0.0})
        ages.look(float(second))
        ages.note(last, float(second))
    return ages, last


@pytest.mark.parametrize("stuck", SOURCES)
def test_a_part_that_is_not_read_is_stale_within_three_intervals_and_no_other_is(
    stuck: str,
) -> None:
    ages, last = aged(stuck, ALLOWED - 10)
    assert ages.stale(ALLOWED - 1) == frozenset()
    assert ages.due(ALLOWED - 1) == 1.0
    assert ages.stale(ALLOWED) == {stuck}

    left = ages.without(last, frozenset({stuck}))
    down = {source.name: source.reason for source in left.sources if not source.up}
    assert down == {stuck: STALE}
    parts = {"nvml": left.nvml, "dcgm": left.dcgm, "podresources": left.pci_gpus}
    assert [name for name, part in parts.items() if part is None] == [stuck] * (stuck != "kmsg")
    assert left.containers is None if stuck == "podresources" else left.containers == ()


def test_a_source_that_says_why_it_is_down_is_not_also_stale() -> None:
    ages = begun()
    crashed = SourceHealth(name="nvml", state="Down", reason="Crashed")
    for second in (0.0, 300.0):
        ages.note(Observation(at=at(second), sources=(crashed,)), second)
    assert ages.stale(300.0) == frozenset()


def test_a_start_that_never_ends_is_stale_after_the_time_that_a_start_may_take() -> None:
    ages = begun()
    starting = SourceHealth(name="nvml", state="Down", reason=STARTING)
    last = Observation(at=at(0), sources=(starting,))
    ages.note(last, 0.0)
    assert ages.stale(START + ALLOWED - 1) == frozenset()
    stale = ages.stale(START + ALLOWED)
    assert stale == {"nvml"}
    assert ages.without(last, stale).sources[0].reason == STALE


def test_an_agent_that_is_new_does_not_take_an_old_reading_for_a_fresh_one() -> None:
    ages = begun()
    ages.note(observed(3600.0, nvml=0.0), 5.0)
    assert ages.stale(5.0) == {"nvml"}
    assert not ages.stale(5.0) & {"kmsg", "dcgm"}


def test_time_in_which_the_agent_did_not_run_ages_nothing() -> None:
    ages = begun()
    ages.note(observed(0.0), 0.0)
    ages.look(1000.0)
    assert ages.stale(1000.0) == frozenset()
    assert ages.silence(1000.0) < ALLOWED


def test_nor_does_it_when_a_message_is_the_first_thing_that_comes_after_it() -> None:
    ages = begun()
    ages.note(observed(0.0), 0.0)
    ages.note(observed(1000.0, nvml=0.0), 1000.0)
    assert ages.stale(1000.0) == frozenset()


def test_a_confirmation_needs_every_part_that_works_to_be_read_anew() -> None:
    ages = begun()
    ages.note(observed(0.0), 0.0)
    assert ages.confirms(0.0)
    assert not ages.confirms(0.0)
    ages.note(observed(10.0, nvml=0.0), 10.0)
    assert not ages.confirms(10.0)
    ages.note(observed(20.0), 20.0)
    assert ages.confirms(20.0)


def test_a_part_that_is_reported_as_stale_holds_no_confirmation_up() -> None:
    ages, last = aged("nvml", 50.0)
    ages.confirms(50.0)
    ages.note(observed(ALLOWED, nvml=0.0), ALLOWED)
    assert ages.confirms(ALLOWED)
    assert ages.without(last, ages.stale(ALLOWED)).nvml is None


def test_nothing_is_confirmed_before_nvml_has_answered() -> None:
    ages = begun()
    starting = SourceHealth(name="nvml", state="Down", reason=STARTING)
    ages.note(Observation(at=at(0), sources=(starting,)), 0.0)
    assert not ages.confirms(0.0)


@given(
    steps=st.lists(
        st.tuples(st.floats(0.1, 25.0), st.sets(st.sampled_from(SOURCES))), min_size=1, max_size=40
    )
)
def test_what_is_left_of_an_observation_was_read_within_the_time_allowed(
    steps: list[tuple[float, set[str]]],
) -> None:
    ages, now = begun(), 0.0
    read = dict.fromkeys(SOURCES, 0.0)
    for pause, anew in steps:
        now += pause
        read |= dict.fromkeys(anew, now)
        last = observed(now, **read)
        ages.look(now)
        ages.note(last, now)
        left = ages.without(last, ages.stale(now))
        oldest = at(now) - timedelta(seconds=ALLOWED)
        for part in (left.nvml, left.dcgm):
            assert part is None or part.at > oldest
        assert left.pci_gpus is None or read["podresources"] > now - ALLOWED
        for source in left.sources:
            assert source.up == (read[source.name] > now - ALLOWED)


def test_the_times_of_the_clock_that_is_set_change_no_age() -> None:
    """The wall clock is set back an hour: what is read then still moves."""
    ages = begun()
    ages.note(observed(7200.0), 0.0)
    for step in range(1, 10):
        ages.look(10.0 * step)
        ages.note(observed(3600.0 + 10.0 * step), 10.0 * step)
    assert ages.stale(90.0) == frozenset()
