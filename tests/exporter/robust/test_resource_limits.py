"""When a vendor process takes too much memory or processor."""

import os

from hypothesis import given
from hypothesis import strategies as st

from exporter.sensor.supervisor.resource_limits import (
    SPIN_SECONDS,
    Excess,
    ResourceLimits,
    Taken,
    taken,
)

MIB = 1 << 20


def rests(limits: ResourceLimits, shares: list[float], *, events: int = 0) -> Excess | None:
    """Have the process rest for stretches of 5 s, each with a share of a core."""
    cpu, found = 0.0, limits.judge(Taken(0, 0.0), 0.0, resting=True)
    for number, share in enumerate(shares, 1):
        cpu += 5 * share
        for _ in range(events):
            limits.reported()
        found = found or limits.judge(Taken(0, cpu), 5.0 * number, resting=True)
    return found


def test_more_memory_than_allowed_is_a_leak_and_says_how_much() -> None:
    assert ResourceLimits(512).judge(Taken(512 * MIB, 0), 0, resting=False) is None
    found = ResourceLimits(512).judge(Taken(600 * MIB, 0), 0, resting=False)
    assert found is not None
    assert found.reason == "Leaking"
    assert "600 MiB" in found.sentence
    assert "--child-memory-limit" in found.sentence


def test_a_process_that_burns_a_core_while_nothing_is_requested_spins() -> None:
    found = rests(ResourceLimits(512), [1.0] * 6)
    assert found is not None
    assert (found.reason, "100% of a core over 30 s" in found.sentence) == ("Spinning", True)


def test_less_than_half_a_minute_is_no_spin() -> None:
    assert rests(ResourceLimits(512), [1.0] * 5) is None


def test_a_minute_of_it_is_one_when_it_begins_late() -> None:
    assert rests(ResourceLimits(512), [0.0] * 30 + [1.0] * 6) is not None


def test_what_a_sample_costs_is_no_spin() -> None:
    limits = ResourceLimits(512)
    cpu = 0.0
    for number in range(100):
        assert limits.judge(Taken(0, cpu), 10.0 * number, resting=True) is None
        limits.works()
        cpu += 9.0


def test_telling_a_storm_of_events_is_work() -> None:
    assert rests(ResourceLimits(512), [0.9] * 20, events=500) is None
    assert rests(ResourceLimits(512), [0.9] * 20, events=5) is not None


def test_what_cannot_be_read_condemns_nobody() -> None:
    assert ResourceLimits(1).judge(None, 0, resting=True) is None


_HALF_A_CORE_OR_LESS = st.integers(0, 128).map(lambda part: part / 256)
"""Sums of these are exact: with others half a core may come out as a hair more."""


@given(st.lists(_HALF_A_CORE_OR_LESS, min_size=1, max_size=60))
def test_half_a_core_or_less_never_condemns(shares: list[float]) -> None:
    assert rests(ResourceLimits(512), shares) is None


@given(st.lists(st.floats(0.51, 8), min_size=int(SPIN_SECONDS / 5), max_size=60))
def test_more_for_long_enough_always_does(shares: list[float]) -> None:
    assert rests(ResourceLimits(512), shares) is not None


def test_this_process_takes_something_and_one_that_is_gone_nothing() -> None:
    found = taken(os.getpid())
    assert found is not None
    assert found.memory > MIB
    assert found.cpu > 0
    assert taken(2**30) is None
