"""Which source reported an error, and what bears a line of the log out, as the report keeps it."""

from typing import Any, Literal

import msgspec
import pytest

from exporter.agent.report import ledger
from exporter.model.node_health import SourceHealth
from exporter.model.readings import Observation
from tests.exporter.agent.report.test_ledger import known, only, take
from tests.exporter.worlds import Sensed, at, gpu, seen, unseen, with_bus


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


def test_how_the_line_of_a_requested_action_was_read_is_kept() -> None:
    line = msgspec.structs.replace(Sensed().kmsg(40, 154, recovery_to=1), source="syslog")
    found = only(take(known(gpu()), line))

    assert found.recovery_action.logged_source == "syslog"
    assert found.xids[0].sources == ("syslog",)


@pytest.mark.parametrize(
    ("source", "on_bus", "kept"),
    [
        ("syslog", False, False),
        ("syslog", True, True),
        ("syslog", None, True),
        ("kmsg", False, True),
    ],
)
def test_a_gpu_of_syslog_that_the_kernel_does_not_list_is_none(
    source: Literal["syslog", "kmsg"], on_bus: bool | None, kept: bool
) -> None:
    line = Sensed().kmsg(40, 79, 2)
    report = take(known(gpu()), msgspec.structs.replace(line, source=source))
    listed = (gpu().bus_id, line.bus_id) if on_bus else (gpu().bus_id,)
    look = seen(gpu(), seconds=41)

    after = ledger.observe(report, look if on_bus is None else with_bus(look, *listed))

    assert (f"unknown-{line.bus_id}" in {health.uuid for health in after.gpus}) == kept
    assert after.xids_dropped == (0 if kept else 1)
