"""What the report keeps of who told of an error, and of what bears a line of the log out."""

from typing import Any

import msgspec
import pytest

from exporter.health import ledger
from exporter.readings import Observation
from exporter.report import SourceHealth
from tests.exporter.health.test_ledger import known, only, take
from tests.exporter.worlds import Sensed, at, gpu, seen, unseen


def test_a_load_that_syslog_reads_ends_no_epoch_unless_nvml_was_away_for_it() -> None:
    """Every program of the node can forge such a line."""
    load = msgspec.structs.replace(
        Sensed().kmsg(40, 0, kind="driver-load"), source="syslog", kernel_sequence=None
    )
    down = SourceHealth(name="nvml", state="Down", reason="DriverNotLoaded")
    away = ledger.observe(known(gpu()), Observation(at=at(30), sources=(down,)))
    hung = ledger.observe(known(gpu()), unseen(30))

    assert only(take(known(gpu()), load)).epoch == 1
    assert only(take(hung, load)).epoch == 1
    assert only(take(away, load)).epoch == 2


@pytest.mark.parametrize(
    ("before", "now", "rose"),
    [
        ({"dbe_aggregate": 4}, {"dbe_aggregate": 5}, True),
        ({"dbe_volatile": 4}, {"dbe_volatile": 0}, False),
        ({"dbe_aggregate": None}, {"dbe_aggregate": 5}, False),
        ({"remap_pending": False}, {"remap_pending": True}, True),
        ({"remap_failure": False}, {"remap_failure": True}, True),
        ({"retired_pending": False}, {"retired_pending": True}, True),
        ({"remap_pending": None}, {"remap_pending": True}, False),
        ({"remap_pending": True}, {"remap_pending": True}, False),
    ],
)
def test_a_memory_counter_that_rose_tells_when(
    before: dict[str, Any], now: dict[str, Any], rose: bool
) -> None:
    report = ledger.observe(known(gpu(**before)), seen(gpu(**now), seconds=30))
    later = ledger.observe(report, seen(gpu(**now), seconds=60))

    assert only(report).memory.rose_at == only(later).memory.rose_at
    assert only(report).memory.rose_at == (at(30) if rose else None)


def test_how_the_line_of_a_wanted_action_was_read_is_kept() -> None:
    line = msgspec.structs.replace(Sensed().kmsg(40, 154, recovery_to=1), source="syslog")
    found = only(take(known(gpu()), line))

    assert found.recovery_action.logged_source == "syslog"
    assert found.xids[0].sources == ("syslog",)
