"""A GPU that NVML and a DRA driver that started again both leave out."""

import pytest

from exporter.agent.report import ledger
from exporter.agent.report.ledger import Published
from exporter.model.node_health import NodeHealth
from tests.exporter.agent.report.test_gpu_state import BOTH, FRESH, first, unidentified
from tests.exporter.worlds import at, gpu, seen, with_bus


@pytest.mark.parametrize("offered", [None, Published(frozenset({"GPU-2"}))])
def test_a_gpu_off_the_bus_is_that_whether_or_not_it_is_published(
    offered: Published | None,
) -> None:
    report = ledger.observe(FRESH, with_bus(seen(gpu(), gpu(2)), *BOTH))
    left = with_bus(seen(gpu(2), seconds=90), BOTH[1])
    assert first(ledger.observe(report, left, published=offered)).presence_reason == "NotOnBus"


class TestMissedAndThenUnpublished:
    """A DRA driver that starts again publishes what NVML lists: that shows no purpose."""

    BOTH_OFFERED = Published(frozenset({"GPU-1", "GPU-2"}))
    OTHER_OFFERED = Published(frozenset({"GPU-2"}))

    def unpublished(self) -> NodeHealth:
        report = ledger.observe(FRESH, seen(gpu(), gpu(2)), published=self.BOTH_OFFERED)
        report = ledger.observe(report, seen(gpu(2), seconds=30), published=self.BOTH_OFFERED)
        for seconds in (40, 900):
            left = seen(gpu(2), seconds=seconds)
            report = ledger.observe(report, left, published=self.OTHER_OFFERED)
        return report

    def test_a_missing_gpu_that_a_restarted_driver_leaves_out_stays_missed_and_is_not_lost(
        self,
    ) -> None:
        found = first(self.unpublished())
        assert (found.presence, found.presence_reason) == ("Unknown", "NotListedThenUnpublished")
        assert found.presence_since == at(40)

    def test_one_that_is_published_again_is_lost_only_after_a_whole_minute(self) -> None:
        """It may have been given away, and the driver publishes it before NVML is read."""
        report = self.unpublished()
        for seconds, presence in ((930, "Unknown"), (980, "Unknown"), (990, "Lost")):
            left = seen(gpu(2), seconds=seconds)
            report = ledger.observe(report, left, published=self.BOTH_OFFERED)
            assert first(report).presence == presence

    def test_one_that_may_be_nameless_is_not_missed(self) -> None:
        changes = unidentified(930)
        report = ledger.observe(self.unpublished(), changes, published=self.OTHER_OFFERED)
        assert first(report).presence_reason == "NotPublished"


def test_one_that_was_given_away_and_is_unplugged_after_that_is_no_loss() -> None:
    offered = Published(frozenset({"GPU-2"}))
    report = ledger.observe(FRESH, with_bus(seen(gpu(), gpu(2)), *BOTH), published=offered)
    given_away = with_bus(seen(gpu(2), seconds=60), *BOTH)
    report = ledger.observe(report, given_away, published=offered)
    assert first(report).presence_reason == "NotPublished"

    unplugged = with_bus(seen(gpu(2), seconds=90), BOTH[1])
    for published, reason in ((offered, "NotPublished"), (None, "NotOnBus")):
        found = first(ledger.observe(report, unplugged, published=published))
        assert found.presence_reason == reason
