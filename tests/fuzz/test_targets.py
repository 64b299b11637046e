"""A few inputs for every fuzz target; `make fuzz` tries a million."""

from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.run import random_of
from tests.fuzz.target import Target
from tests.fuzz.targets import TARGETS, inputs_of


def _named(target: Target) -> str:
    return target.name


@pytest.mark.parametrize("target", TARGETS, ids=_named)
@settings(
    deadline=None,
    max_examples=50,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(random=st.randoms(use_true_random=False))
def test_nothing_that_comes_in_does_harm(target: Target, random: Random) -> None:
    target.check(target.make(random))


@pytest.mark.parametrize("target", TARGETS, ids=_named)
def test_the_first_inputs_of_the_long_run_do_no_harm(target: Target) -> None:
    for number in range(max(3, 2 * target.share)):
        target.check(target.make(random_of(1, target.name, number)))


@pytest.mark.parametrize("target", TARGETS, ids=_named)
def test_an_input_can_be_made_again(target: Target) -> None:
    first, again = (repr(target.make(random_of(7, target.name, 3))) for _ in "ab")
    assert first == again
    assert "object at 0x" not in first


def test_the_shares_make_a_million() -> None:
    assert sum(target.share for target in TARGETS) == 1000
    assert sum(inputs_of(target, 1_000_000) for target in TARGETS) == 1_000_000
    assert len({target.name for target in TARGETS}) == len(TARGETS)
