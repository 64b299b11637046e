"""Errors of NVSwitches, and the other words of the kernel log that are no XID of their own."""

from typing import Any

import msgspec
import pytest

from exporter.agent.report import ledger, outline, switches
from exporter.model.node_health import NodeHealth, SxidRecord, XidRecord
from exporter.model.signals import Signal
from tests.exporter.worlds import START, Sensed, at, gpu, mig_gpu, seen

FRESH = ledger.observe(ledger.begin("boot-1", "1", START), seen(gpu()))
SWITCH = "0000:c2:00.0"


def sxid(number: int, code: int = 20034, bus_id: str = SWITCH, **fields: Any) -> Signal:
    usual: dict[str, Any] = {"fatal": True, "link": 28, "message": "LTSSM Fault Up"}
    usual |= {"kind": "sxid", "source": "kmsg", "at": at(number), "number": number}
    return Signal(code=code, bus_id=bus_id, **(usual | fields))


def take(report: NodeHealth, *signals: Signal) -> NodeHealth:
    return ledger.take(report, signals, run="run-1", kernel_sequence=None)


def xids(report: NodeHealth) -> tuple[XidRecord, ...]:
    (found,) = report.gpus
    return found.xids


class TestSxids:
    def test_one_code_of_one_switch_is_one_record(self) -> None:
        later = sxid(2, fatal=False, link=3, message="again")
        (switch,) = take(FRESH, sxid(1), later).switches
        assert switch.pci_bus_id == SWITCH
        assert switch.sxids == (
            SxidRecord(
                code=20034,
                count=2,
                first_seen=at(1),
                last_seen=at(2),
                severity="Fatal",
                links=(3, 28),
                message="again",
                sources=("kmsg",),
            ),
        )

    def test_they_are_no_errors_of_a_gpu(self) -> None:
        assert take(FRESH, sxid(1, bus_id="0000:01:00.0")).gpus == FRESH.gpus

    def test_times_that_go_backwards_end_no_record_before_it_began(self) -> None:
        (switch,) = take(FRESH, sxid(1, at=at(100)), sxid(2, at=at(5))).switches
        assert (switch.sxids[0].first_seen, switch.sxids[0].last_seen) == (at(5), at(100))

    def test_a_severity_that_nobody_reported_stays_unknown(self) -> None:
        unstated = take(FRESH, sxid(1, fatal=None))
        assert unstated.switches[0].sxids[0].fatal is None
        assert take(unstated, sxid(2, fatal=False)).switches[0].sxids[0].fatal is False

    def test_the_summary_names_fatal_ones(self) -> None:
        assert outline.summary(take(FRESH, sxid(1))).attention == f"switch {SWITCH}: SXid 20034"
        assert not outline.summary(take(FRESH, sxid(1, fatal=False))).attention

    def test_a_flood_stays_bounded_keeps_the_fatal_and_is_counted(self) -> None:
        flood = [sxid(n, 30_000 + n, fatal=False, message="m" * 500) for n in range(2, 102)]
        report = take(FRESH, sxid(1), *flood)
        (switch,) = report.switches
        assert len(switch.sxids) == switches.MAX_CODES
        assert switch.sxids[0].code == 20034
        assert report.xids_dropped == 101 - switches.MAX_CODES

        assert switches.MAX_SWITCHES == 12, "as many as a DGX-2 has"
        places = [sxid(n, bus_id=f"{n:04x}:00:00.0") for n in range(1, 101)]
        report = take(FRESH, *places)
        assert len(report.switches) == switches.MAX_SWITCHES
        assert report.xids_dropped == 100 - switches.MAX_SWITCHES

    def test_links_stay_bounded(self) -> None:
        report = take(FRESH, *(sxid(n, link=n) for n in range(1, 200)))
        assert len(report.switches[0].sxids[0].links) == switches.MAX_LINKS


class TestOtherWords:
    def test_a_line_that_says_that_lines_are_left_out_marks_their_code(self) -> None:
        sensed = Sensed()
        lines = [sensed.kmsg(1, 119), sensed.kmsg(2, 13)]
        limit = sensed.kmsg(3, 119, kind="rate-limit")
        report = take(FRESH, *lines, limit, sensed.kmsg(40, 119))
        assert {record.code: (record.count, record.rate_limited) for record in xids(report)} == {
            13: (1, False),
            119: (2, True),
        }

    def test_without_a_record_such_a_line_counts_nothing(self) -> None:
        assert take(FRESH, Sensed().kmsg(1, 119, kind="rate-limit")).gpus == FRESH.gpus

    def test_the_cause_that_a_line_names_is_kept(self) -> None:
        sensed = Sensed()
        lines = [sensed.kmsg(1, 45, caused_by=95), sensed.kmsg(20, 45)]
        (record,) = xids(take(FRESH, *lines))
        assert (record.count, record.caused_by) == (2, 95)

    def test_cause_and_limit_move_with_the_count_to_its_slice(self) -> None:
        sensed = Sensed()
        known = ledger.observe(ledger.begin("boot-1", "1", START), seen(mig_gpu()))
        line = sensed.kmsg(1, 45, caused_by=95)
        limit = sensed.kmsg(1.1, 45, kind="rate-limit")
        report = take(known, line, limit, sensed.nvml(1.2, 45, gi=5))
        (record,) = xids(report)
        assert (record.gi, record.caused_by, record.rate_limited) == (5, 95, True)

    @pytest.mark.parametrize("kind", ["recovery", "topology", "a-kind-of-a-newer-sensor"])
    def test_news_that_only_ask_for_a_look_change_nothing_but_the_cursor(self, kind: str) -> None:
        report = take(FRESH, sxid(5, kind=kind))
        assert report.cursor.signal_sequence == 5
        assert msgspec.structs.replace(report, cursor=FRESH.cursor) == FRESH
