"""A kernel log that is read and has no lines was last read just now."""

from simulator.node import SimulatedNode
from tests.exporter.running import Exporter, wait_for

FAMILY = "draguard_source_last_success_timestamp_seconds"


def test_a_silent_log_that_is_read_grows_no_older(node: SimulatedNode) -> None:
    with Exporter(node, "run", "--no-report") as exporter:
        first = wait_for(lambda: exporter.series(FAMILY).get('source="kmsg"'), what="the log")
        wait_for(
            lambda: exporter.series(FAMILY).get('source="kmsg"', 0.0) > first + 1, what="its clock"
        )
