"""A sensor that is stopped for a while: it is not there, and then it is again."""

import signal

from simulator.node import SimulatedNode
from tests.exporter.running import Exporter, send, wait_for


def test_a_sensor_that_was_stale_reports_again(node: SimulatedNode) -> None:
    # It is called silent after three intervals and a deadline.
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
