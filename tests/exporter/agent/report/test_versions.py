"""Since when a version is there, over restarts of the agent and boots of the node."""

import msgspec
import pytest

from exporter.agent.report import ledger
from exporter.agent.report.clock_set import by_clock_of
from exporter.model.node_health import NodeHealth, VersionSince
from tests.exporter.worlds import START, at, gpu, seen, unseen

DRIVER = "595.45.04"
"""Of the readings of `seen`."""


def known() -> NodeHealth:
    return ledger.observe(ledger.begin("boot-1", "1", START), seen(gpu()))


def test_the_first_versions_that_are_seen_are_no_change() -> None:
    report = known()

    assert report.agent_since == VersionSince(version="1")
    assert report.driver_since == VersionSince(version=DRIVER)


@pytest.mark.parametrize("boot", ["boot-1", "boot-2"])
def test_another_agent_and_another_driver_are_dated_also_over_a_reboot(boot: str) -> None:
    adopted = ledger.adopt(known(), boot, "2", at(10))
    report = ledger.observe(adopted, unseen(20))
    report = ledger.observe(report, seen(gpu(), seconds=30, driver="600.1"))

    assert report.agent_since == VersionSince(version="2", time=at(10))
    assert report.driver_since == VersionSince(version="600.1", time=at(30))


def test_a_restart_and_a_reboot_with_the_same_versions_keep_their_dates() -> None:
    before = ledger.observe(known(), seen(gpu(), seconds=5, driver="600.1"))
    for boot in ("boot-1", "boot-2"):
        adopted = ledger.adopt(before, boot, "1", at(50))
        after = ledger.observe(adopted, seen(gpu(), seconds=60, driver="600.1"))

        assert (after.agent_since, after.driver_since) == (
            before.agent_since,
            before.driver_since,
        )


def test_a_report_of_an_older_agent_tells_which_versions_there_were() -> None:
    old = msgspec.structs.replace(known(), agent_since=VersionSince(), driver_since=VersionSince())
    report = ledger.adopt(old, "boot-2", "2", at(10))
    report = ledger.observe(report, seen(gpu(), seconds=30, driver="600.1"))

    assert (report.agent_since.time, report.driver_since.time) == (at(10), at(30))


def test_a_clock_that_was_set_takes_the_dates_along() -> None:
    report = ledger.observe(known(), seen(gpu(), seconds=5, driver="600.1"))
    report = by_clock_of(by_clock_of(report, at(0)), at(3600))
    report = ledger.observe(report, seen(gpu(), seconds=3605, driver="600.1"))

    assert report.driver_since.time == at(3605)
