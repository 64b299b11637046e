"""Each renewal of the Lease confirms the report: after a fresh look, with the hash of it."""

import threading
import time
from collections.abc import Generator
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from exporter.agent.report import ledger, outline
from exporter.agent.report.reporter import Reporter
from exporter.model.node_health import REPORT_HASH, NodeHealth, XidRecord
from exporter.self_metrics import SelfMetrics
from exporter.settings import Settings
from kubeapi.client import Client
from tests.exporter.agent.report.test_report_size import node
from tests.exporter.running import wait_for
from tests.remediator.controller.api import LEASES, REPORTS, Api, Json, serving

NOW = datetime(2026, 1, 5, 8, tzinfo=UTC)
NAME = "draguard-agent-node-a"
OFTEN = 0.02


class Reported:
    """A reporter and what the API server has of it."""

    def __init__(self, api: Api, reporter: Reporter) -> None:
        self._api, self.reporter = api, reporter

    def report(self) -> Json:
        return self._api.stored.get(REPORTS, {}).get("node-a", {}).get("status", {})

    def confirmed(self) -> str:
        lease = self._api.stored.get(LEASES, {}).get(NAME, {})
        return lease.get("metadata", {}).get("annotations", {}).get(REPORT_HASH, "")

    def renewals(self) -> int:
        return sum(LEASES in path for _, path in list(self._api.writes))


@pytest.fixture
def stage() -> Generator[Reported]:
    with serving() as (api, endpoint):
        settings = Settings(node_name="node-a", lease_interval=OFTEN, report_interval=120.0)
        client, adopted = Client(endpoint, timeout=60.0), threading.Event()
        metrics = SelfMetrics("1")
        reporter = Reporter(settings, client, metrics, lambda _: adopted.set())
        reporter.start()
        assert adopted.wait(60)
        try:
            yield Reported(api, reporter)
        finally:
            reporter.stop()
            client.close()


def report(xids: int = 0) -> NodeHealth:
    begun = ledger.begin("boot-1", "1", NOW)
    return msgspec.structs.replace(begun, xids_dropped=xids)


def test_the_lease_carries_the_hash_of_the_report_that_is_stored(stage: Reported) -> None:
    stage.reporter.offer(report())
    stage.reporter.observed()
    wait_for(stage.confirmed, what="the renewal")
    assert stage.confirmed() == stage.report()["contentHash"]
    assert stage.report()["reportIntervalSeconds"] == 120

    stage.reporter.offer(report(xids=1))
    stage.reporter.observed()
    wait_for(lambda: stage.report().get("xidsDropped") == 1, what="the news")
    stage.reporter.observed()
    wait_for(lambda: stage.confirmed() == stage.report()["contentHash"], what="its confirmation")


def test_a_loop_that_hangs_ends_the_renewals_though_the_thread_lives(stage: Reported) -> None:
    stage.reporter.offer(report())
    stage.reporter.observed()
    wait_for(lambda: stage.renewals() == 2, what="the renewal: not there, made")
    time.sleep(20 * OFTEN)
    assert stage.renewals() == 2

    stage.reporter.observed()
    wait_for(lambda: stage.renewals() == 3, what="the next look")


def test_what_was_offered_again_without_a_look_confirms_nothing(stage: Reported) -> None:
    """Claims that change are joined with the observation of before."""
    stage.reporter.offer(report())
    wait_for(stage.report, what="the report")
    time.sleep(10 * OFTEN)
    assert stage.renewals() == 0


def test_a_look_from_before_the_stored_report_was_known_confirms_nothing(stage: Reported) -> None:
    stage.reporter.observed()
    stage.reporter.forget()
    stage.reporter.offer(report())
    wait_for(stage.report, what="the report")
    time.sleep(10 * OFTEN)
    assert stage.renewals() == 0


def test_the_hash_leaves_out_times_of_looking_and_nothing_that_a_policy_acts_on() -> None:
    one = node(sliced=False)
    later = msgspec.structs.replace(one, observed_at=NOW + timedelta(minutes=5))
    assert outline.content_hash(one) == outline.content_hash(later)
    sealed = msgspec.structs.replace(one, content_hash="x")
    assert outline.content_hash(one) == outline.content_hash(sealed)
    (first, *others) = one.gpus
    again = XidRecord(code=79, count=1, first_seen=NOW, last_seen=NOW, epoch=1)
    worse = msgspec.structs.replace(first, xids=(*first.xids, again))
    sick = msgspec.structs.replace(one, gpus=(worse, *others))
    assert outline.content_hash(one) != outline.content_hash(sick)
