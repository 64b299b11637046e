"""The report as it is written."""

import msgspec

from exporter.agent.report import ledger, outline
from exporter.model.node_health import NodeHealth, XidRecord
from tests.exporter.worlds import START, Sensed, at, gpu, seen, unseen

FRESH = ledger.begin("boot-1", "1", START)


def report(*codes: int) -> NodeHealth:
    sensed = Sensed()
    known = ledger.observe(FRESH, seen(gpu(), gpu(2)))
    signals = [sensed.kmsg(10 * place, code) for place, code in enumerate(codes, start=1)]
    return ledger.take(known, signals, run="run-1", kernel_sequence=None)


def test_the_summary_names_the_worst_findings_and_no_application_error() -> None:
    found = outline.summary(report(13, 94, 79, 95, 48))
    assert found.attention == "GPU-1: XID 79, GPU-1: XID 48, GPU-1: XID 95 and 1 more"
    assert (found.gpus, found.present) == (2, 2)
    assert outline.summary(report(13, 31)).attention == ""


def test_the_summary_names_sources_that_are_down() -> None:
    assert outline.summary(ledger.observe(report(), unseen(5))).sources_down == "nvml"


def test_a_report_that_is_too_large_loses_the_least_severe_records_first() -> None:
    full = report(79)
    many = tuple(
        XidRecord(code=13, count=1, first_seen=at(n), last_seen=at(n), gi=n, message="m" * 100)
        for n in range(200)
    )
    gpus = tuple(
        msgspec.structs.replace(health, xids=(*health.xids, *many)) for health in full.gpus
    )
    large = msgspec.structs.replace(full, gpus=gpus)
    small = outline.finished(large, 20_000)
    assert len(msgspec.json.encode(small)) <= 20_000
    assert small.xids_dropped > 0
    assert small.gpus[0].xids[0].code == 79


def test_looking_again_is_no_change_but_an_xid_or_its_evidence_is() -> None:
    first = report(79)
    looked = ledger.observe(first, seen(gpu(), gpu(2), seconds=5))
    assert outline.change_key(ledger.observe(looked, seen(gpu(), gpu(2), seconds=6))) == (
        outline.change_key(looked)
    )
    # The XID was at 10 s: a reading after it is evidence, which is news once.
    after = ledger.observe(looked, seen(gpu(), gpu(2), seconds=11))
    assert outline.change_key(after) != outline.change_key(looked)
    assert outline.change_key(report(79, 79)) != outline.change_key(first)
