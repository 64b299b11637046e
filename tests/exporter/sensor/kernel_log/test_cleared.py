"""A log that is cleared while it is read by syslog(2): losses are counted, the state says so."""

from pathlib import Path

from tests.exporter.running import wait_for
from tests.exporter.sensor.kernel_log.ring import Ring
from tests.exporter.sensor.kernel_log.test_kmsg import XID, Received, running


def test_a_log_that_is_cleared_again_and_again_is_counted_and_reported(
    tmp_path: Path,
) -> None:
    received, ring = Received(), Ring()
    ring.write(1, "before")
    with running(received.reader(tmp_path / "kmsg", ring.read)):
        wait_for(lambda: received.sources)
        ring.text = b""
        wait_for(lambda: received.rejected == ["cleared"])
        for lost in range(2, 5):
            ring.write_and_clear(lost, XID)
            wait_for(lambda lost=lost: received.rejected == ["cleared"] * lost)
    assert received.messages() == ["before"]
    wait_for(lambda: len(received.sources) == 2)
    plain, cleared = received.sources
    assert (plain.up, plain.reason, cleared.up, cleared.reason) == (True, "", True, "Cleared")
    assert "dmesg -c" in cleared.message
    assert "SYSLOG" in cleared.message
    assert cleared.via == "Syslog"
