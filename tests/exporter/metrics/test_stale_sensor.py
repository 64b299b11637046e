"""What the page says of the sensor's own counts while the sensor is stale."""

import pytest

from exporter.agent.report import ledger
from exporter.metrics.snapshot import Snapshot
from exporter.model.readings import NvmlReading, Observation
from tests.exporter.metrics.pages import rendered, snapshot
from tests.exporter.worlds import START, at

COUNTS = {
    "draguard_sensor_frames_refused_total": "refused",
    "draguard_observations_cut_total": "cut",
    "draguard_signals_dropped_total": "signals_dropped",
    "draguard_nvml_restarts_total": "restarts",
    "draguard_dcgm_restarts_total": "dcgm_restarts",
}


@pytest.mark.parametrize("family", COUNTS)
def test_a_count_of_a_stale_sensor_is_absent_and_not_0(family: str) -> None:
    unreachable = Snapshot(node="node-a", at=at(30), report=ledger.begin("boot-1", "1", START))
    assert family not in rendered(unreachable)
    observation = Observation(at=START, nvml=NvmlReading(at=START))
    received = snapshot(observation, **{COUNTS[family]: 3})
    assert rendered(received)[family] == [({}, 3.0)]
