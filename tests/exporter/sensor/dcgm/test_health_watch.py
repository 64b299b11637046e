"""Health on an engine that others use too: our group is our own, and unwatched is unknown."""

import pytest

from exporter.sensor.dcgm.engine import cadence_of
from exporter.sensor.dcgm.options import Options
from simulator.dcgm_engine import SimulatedDcgm
from simulator.node import SimulatedNode
from tests.exporter.sensor.dcgm.running import Supervised, listening, simulated

FIRST = 0
NVLINK_ONLY = 0x2


@pytest.fixture
def dcgm(node: SimulatedNode, monkeypatch: pytest.MonkeyPatch) -> SimulatedDcgm:
    return simulated(node, monkeypatch)


def test_what_others_watch_of_all_gpus_changes_nothing_here(dcgm: SimulatedDcgm) -> None:
    dcgm.health.others_watch_all_gpus(NVLINK_ONLY)
    dcgm.health.add_incident(FIRST, "thermal", "fail", code=40)
    with Supervised(dcgm, listening(dcgm)) as seen:
        assert seen.reading(lambda reading: reading.health is not None).health


def test_watches_that_somebody_took_away_make_health_unknown_and_come_back(
    dcgm: SimulatedDcgm,
) -> None:
    dcgm.health.add_incident(FIRST, "thermal", "fail", code=40)
    with Supervised(dcgm, listening(dcgm)) as seen:
        assert seen.reading(lambda reading: reading.health is not None).health
        dcgm.health.others_clear_watches()
        seen.reading(lambda reading: reading.health is None)
        assert seen.reading(lambda reading: reading.health is not None).health
        reported = [state.reading.health for state in seen.states if state.reading is not None]
    assert () not in reported


@pytest.mark.parametrize(
    ("address", "every", "profiling"), [("embedded", 1.0, 15.0), ("localhost:5555", 15.0, 30.0)]
)
def test_a_profiled_average_of_a_host_engine_covers_the_interval(
    address: str, every: float, profiling: float
) -> None:
    cadence = cadence_of(Options(address=address, health=True, interval=30.0))
    assert (cadence.every, cadence.profiling) == (every, profiling)
