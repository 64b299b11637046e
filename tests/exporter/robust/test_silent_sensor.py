"""A sensor that is stopped for a while: it is not there, and then it is again."""

import signal

from simulator.node import SimulatedNode
from tests.exporter.robust.peers import FakeSensor
from tests.exporter.running import Exporter, send, wait_for


def test_a_sensor_that_was_stale_reports_again(node: SimulatedNode) -> None:
    # It is called silent after an interval and two deadlines.
    with Exporter(node, "run", "--no-report", "--sample-deadline=3") as exporter:
        exporter.wait_shows("DCGM_FI_DEV_GPU_TEMP")
        sensor = exporter.sensor()
        send(sensor, signal.SIGSTOP)
        try:
            wait_for(lambda: exporter.get("/readyz")[0] == 503, what="not ready")
            wait_for(lambda: not exporter.shows("DCGM_FI_DEV_GPU_TEMP"), what="no stale values")
        finally:
            send(sensor, signal.SIGCONT)
        exporter.wait_shows("DCGM_FI_DEV_GPU_TEMP")
        wait_for(lambda: exporter.get("/readyz")[0] == 200, what="ready")
        assert exporter.sensor() == sensor
        node.inject_xid(0, 79)
        exporter.wait_count(79, 1)


def test_a_sensor_that_takes_a_connection_and_says_nothing_is_unreachable(
    node: SimulatedNode,
) -> None:
    """One whose thread for connections is stuck: the kernel connects all the same."""
    with (
        FakeSensor(node.root / "sensor.sock"),
        Exporter(node, "agent", "--no-report", "--sample-deadline=2") as agent,
    ):
        agent.wait_shows('draguard_source_up{source="nvml",reason="SensorUnreachable"} 0')
        assert "no message from the sensor" in agent.get("/readyz")[1]
