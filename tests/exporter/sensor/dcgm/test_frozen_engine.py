"""A host engine that sits in the driver goes on answering, from memory."""

from datetime import UTC, datetime, timedelta

import pytest

from exporter.sensor.dcgm.abi import INT64, Kind
from exporter.sensor.dcgm.freshness import Freshness
from exporter.sensor.dcgm.values import Answer
from simulator.dcgm_engine import SimulatedDcgm
from simulator.node import SimulatedNode
from tests.exporter.running import HANGS_AFTER
from tests.exporter.sensor.dcgm.running import TEMPERATURE, Supervised, listening, simulated, values


@pytest.fixture
def dcgm(node: SimulatedNode, monkeypatch: pytest.MonkeyPatch) -> SimulatedDcgm:
    return simulated(node, monkeypatch)


@pytest.fixture
def tcp(dcgm: SimulatedDcgm) -> str:
    return listening(dcgm)


def test_what_an_engine_says_from_memory_alone_is_not_shown(dcgm: SimulatedDcgm, tcp: str) -> None:
    uuid = dcgm.node.gpu(0).uuid
    with Supervised(dcgm, tcp, sample_deadline=HANGS_AFTER, start_deadline=3.0) as seen:
        seen.reading(lambda state: values(state, uuid).get(TEMPERATURE))
        dcgm.node.hang(0)
        down = seen.down("EngineFrozen")
        # Read anew it says the same from memory, and that is not shown either.
        again = seen.wait(lambda state: not state.source.up)
        between = seen.states[seen.states.index(down) : seen.states.index(again) + 1]
        assert not [state for state in between if state.reading and values(state.reading, uuid)]
        dcgm.node.heal(0)
        reading = seen.reading(lambda state: values(state, uuid))
    assert values(reading, uuid)[TEMPERATURE] == 31


START = datetime(2026, 1, 5, tzinfo=UTC)
FIRST, SECOND = (Kind.GPU, 0), (Kind.GPU, 1)


def temperature(gpu: int, at: float) -> Answer:
    """An answer whose time stamp is so many seconds after START."""
    stamp = round((START.timestamp() + at) * 1_000_000)
    return Answer((Kind.GPU, gpu), TEMPERATURE, 0, INT64, stamp, 31)


def frozen(freshness: Freshness, now: float, *answers: Answer) -> frozenset[tuple[int, int]]:
    return freshness.frozen(answers, START + timedelta(seconds=now), now)


def test_a_gpu_whose_time_stamps_stand_still_is_frozen_and_its_neighbour_is_not() -> None:
    freshness = Freshness(90)
    assert not frozen(freshness, 0, temperature(0, 0), temperature(1, 0))
    assert not frozen(freshness, 90, temperature(0, 0), temperature(1, 90))
    assert frozen(freshness, 91, temperature(0, 0), temperature(1, 91)) == {FIRST}
    assert not frozen(freshness, 120, temperature(0, 119), temperature(1, 119))


def test_an_engine_with_another_clock_is_believed_once_its_stamps_move() -> None:
    freshness = Freshness(90)
    assert frozen(freshness, 0, temperature(0, -7200)) == {FIRST}
    assert not frozen(freshness, 30, temperature(0, -7170))
    assert not frozen(freshness, 60, temperature(0, -7140))


def test_what_was_old_from_the_start_and_does_not_move_is_never_believed() -> None:
    freshness = Freshness(90)
    for now in range(0, 3600, 30):
        assert frozen(freshness, now, temperature(1, -100)) == {SECOND}
