"""Each part of an observation ages by its own mark, whatever else the sensor sends."""

from datetime import timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.agent.ages import STALE, Ages
from exporter.model.node_health import SourceHealth
from exporter.model.readings import STARTING, DcgmReading, LastRead, Observation
from tests.exporter.worlds import at, gpu, seen

START = 60.0
HOUR = 3600.0
ALLOWED = 60.0
"""Two intervals, which is less than three."""
SOURCES = ("nvml", "dcgm", "kmsg", "podresources")


def begun() -> Ages:
    return Ages(interval=30.0, deadline=10.0, start=START, now=0.0)


def observed(seconds: float, **read: float) -> Observation:
    """Return what is sent at a second: each part read then, or at the second that is given."""
    times = dict.fromkeys(SOURCES, seconds) | read
    return Observation(
        at=at(seconds),
        reads={
            name: LastRead(1 + round(10 * then), seconds - then) for name, then in times.items()
        },
        sources=tuple(SourceHealth(name=name, state="Up") for name in SOURCES),
        nvml=seen(gpu(1), seconds=times["nvml"]).nvml,
        dcgm=DcgmReading(at=at(times["dcgm"])),
        containers=(),
        pci_gpus=("0000:01:00.0",),
    )


def starting(seconds: float, since: float = 0.0) -> Observation:
    """Return what a sensor sends that has not read NVML yet."""
    nvml = SourceHealth(name="nvml", state="Down", reason=STARTING)
    return Observation(
        at=at(seconds), sources=(nvml,), reads={"nvml": LastRead(0, seconds - since)}
    )


def aged(stuck: str, until: float) -> tuple[Ages, Observation]:
    """Return the ages after observations every ten seconds in which one part stays at second 0."""
    ages, last = begun(), observed(0.0)
    for second in range(0, int(until) + 1, 10):
        last = observed(float(second), **{stuck: 0.0})
        ages.look(float(second))
        ages.note("run-1", last, float(second))
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
        reads = {"nvml": LastRead(3, second)}
        ages.note("run-1", Observation(at=at(second), sources=(crashed,), reads=reads), second)
    assert ages.stale(300.0) == frozenset()


def test_a_start_that_never_ends_is_stale_after_the_time_that_a_start_may_take() -> None:
    ages, last = begun(), starting(0.0)
    ages.note("run-1", last, 0.0)
    assert ages.stale(START + ALLOWED - 1) == frozenset()
    stale = ages.stale(START + ALLOWED)
    assert stale == {"nvml"}
    assert ages.without(last, stale).sources[0].reason == STALE


def test_a_sensor_that_is_new_has_the_whole_time_to_start() -> None:
    ages = begun()
    ages.note("run-1", starting(0.0), 0.0)
    ages.look(30.0)
    ages.note("run-2", starting(START + ALLOWED, since=START + ALLOWED), START + ALLOWED)
    assert ages.stale(START + ALLOWED) == frozenset()


@pytest.mark.parametrize("already_running", [False, True])
def test_an_agent_that_was_not_there_does_not_take_an_old_reading_for_a_fresh_one(
    *, already_running: bool
) -> None:
    ages = begun()
    if already_running:
        ages.note("run-1", observed(5.0), 5.0)
    for second in range(10, 3601, 10):
        ages.look(float(second))
    ages.note("run-1", observed(3600.0, nvml=40.0), 3600.0)
    assert ages.stale(3600.0) == {"nvml"}


def test_a_reading_that_took_long_is_as_old_as_its_end() -> None:
    """The sensor gives a pass its time; a reading that it still shows is not stale here."""
    ages = begun()
    ages.note("run-1", observed(0.0), 0.0)
    last = msgspec.structs.replace(observed(95.0), nvml=seen(gpu(1), seconds=30.0).nvml)
    for second in range(10, 91, 10):
        ages.look(float(second))
    ages.note("run-1", last, 95.0)
    assert ages.stale(95.0) == frozenset()


def test_time_in_which_the_agent_did_not_run_ages_nothing() -> None:
    ages = begun()
    ages.note("run-1", observed(0.0), 0.0)
    ages.look(1000.0)
    assert ages.stale(1000.0) == frozenset()
    assert ages.silence(1000.0) < ALLOWED


def test_nor_does_it_when_a_message_is_the_first_thing_that_comes_after_it() -> None:
    ages = begun()
    ages.note("run-1", observed(0.0), 0.0)
    ages.note("run-1", observed(1000.0, nvml=0.0), 1000.0)
    assert ages.stale(1000.0) == frozenset()


def test_a_confirmation_needs_every_part_that_works_to_be_read_anew() -> None:
    ages = begun()
    ages.note("run-1", observed(0.0), 0.0)
    assert ages.confirms(0.0)
    assert not ages.confirms(0.0)
    ages.note("run-1", observed(10.0, nvml=0.0), 10.0)
    assert not ages.confirms(10.0)
    ages.note("run-1", observed(20.0), 20.0)
    assert ages.confirms(20.0)


def test_a_part_that_is_reported_as_stale_holds_no_confirmation_up() -> None:
    ages, last = aged("nvml", 50.0)
    ages.confirms(50.0)
    ages.note("run-1", observed(ALLOWED, nvml=0.0), ALLOWED)
    assert ages.confirms(ALLOWED)
    assert ages.without(last, ages.stale(ALLOWED)).nvml is None


def test_nothing_is_confirmed_before_nvml_has_answered() -> None:
    ages = begun()
    ages.note("run-1", starting(0.0), 0.0)
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
        ages.note("run-1", last, now)
        left = ages.without(last, ages.stale(now))
        oldest = at(now) - timedelta(seconds=ALLOWED)
        for part in (left.nvml, left.dcgm):
            assert part is None or part.at > oldest
        assert left.pci_gpus is None or read["podresources"] > now - ALLOWED
        for source in left.sources:
            assert source.up == (read[source.name] > now - ALLOWED)


@pytest.mark.parametrize("step", [-HOUR, HOUR])
def test_a_wall_clock_that_is_set_neither_revives_a_stuck_source_nor_ages_another(
    step: float,
) -> None:
    ages = begun()
    for second in range(0, 101, 10):
        last = observed(float(second), nvml=0.0)
        if second > 50:
            last = msgspec.structs.replace(last, at=at(second + step))
        ages.look(float(second))
        ages.note("run-1", last, float(second))
    assert ages.stale(100.0) == {"nvml"}
