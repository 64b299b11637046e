"""How large a report may become, in the worst world there is."""

from collections import Counter

import msgspec
import pytest

from exporter.agent.report import ledger, listed_gpus, outline, switches, xid_counts
from exporter.agent.report.severity import rank
from exporter.model.node_health import MigInstance, NodeHealth, SourceHealth, SxidRecord
from exporter.model.readings import FabricReading, GpuReading, LinkReading, MigReading, Observation
from exporter.model.signals import Partner, Signal
from exporter.model.xid import catalogue
from tests.exporter.worlds import START, at, seen, with_bus

SOURCES = ("nvml", "dcgm", "kmsg", "podresources")
PLACES = tuple(f"0000:{number:02x}:00.0" for number in range(8))
CODES = [*sorted(catalogue()), *range(700, 1000)][:200]
WIDE = '"\u4e2d' * 400
"""Every second mark is escaped in JSON, the others take three bytes."""


def h100(number: int, *, sliced: bool) -> GpuReading:
    """Return a reading in which everything is said that can be."""
    parts = tuple(
        MigReading(
            uuid=f"MIG-{number:08x}-0000-4000-8000-{place:012x}",
            gi=place + 7,
            ci=0,
            profile="1g.10gb",
            gi_profile_id=19,
            placement_start=place,
            placement_size=1,
        )
        for place in range(7)
    )
    return GpuReading(
        index=number,
        uuid=f"GPU-{number:08x}-0000-4000-8000-000000000000",
        bus_id=PLACES[number],
        serial="1652722012345",
        minor=number,
        product="NVIDIA H100 80GB HBM3",
        mig=sliced,
        links=tuple(LinkReading(link=link, up=True) for link in range(18)),
        fabric=FabricReading(
            state=3,
            status=0,
            health_mask=0x2AAA,
            health_summary=1,
            clique=4_294_967_295,
            cluster_uuid="00000000-0000-4000-8000-000000000000",
        ),
        sram_threshold=False,
        retired_pending=False,
        slowdown=0,
        recovery_supported=True,
        recovery_action=0,
        dbe_volatile=0,
        dbe_aggregate=0,
        remap_pending=None if sliced else False,
        remap_failure=None if sliced else False,
        instances=parts if sliced else None,
    )


def node(*, sliced: bool, text: str = "") -> NodeHealth:
    gpus = [h100(number, sliced=sliced) for number in range(8)]
    sources = tuple(
        SourceHealth(
            name=name,
            state="Down" if text else "Up",
            reason=text[:9],
            message=text,
            last_success=START,
        )
        for name in SOURCES
    )
    changes: Observation = msgspec.structs.replace(with_bus(seen(*gpus), *PLACES), sources=sources)
    fresh = ledger.begin("12345678-0000-4000-8000-000000000000", "1.2.3", START)
    return ledger.observe(fresh, changes)


def size(report: NodeHealth) -> int:
    return len(msgspec.json.encode(report))


def storm() -> list[Signal]:
    """Return every code on every slice, and more SXids than there is room for."""
    found: list[Signal] = []
    for number in range(8):
        for code in CODES:
            for place in range(7):
                found.append(_xid(len(found) + 1, number, code, place + 7))
    for switch in range(20):
        for code in range(40):
            found.append(_sxid(len(found) + 1, f"00{switch:02x}:c2:00.0", 10_000 + code))
    return found


def _xid(number: int, gpu: int, code: int, gi: int) -> Signal:
    return Signal(
        kind="xid",
        source="nvml",
        at=at(number / 1000),
        number=number,
        bus_id=PLACES[gpu],
        code=code,
        gi=gi,
        ci=0,
        reset=True,
        drain_reset=True,
        pid=4_194_303,
        process=WIDE[:32],
        message=WIDE[:160],
        caused_by=1023,
        partner=Partner(0),
    )


def _sxid(number: int, bus_id: str, code: int) -> Signal:
    return Signal(
        kind="sxid",
        source="kmsg",
        at=at(1),
        number=number,
        bus_id=bus_id,
        code=code,
        fatal=True,
        link=code % 64,
        message=WIDE[:160],
    )


@pytest.fixture(scope="module")
def stormy() -> NodeHealth:
    return ledger.take(node(sliced=True, text=WIDE), storm(), run="r" * 32, kernel_sequence=2**62)


def test_a_healthy_node_of_eight_gpus_fits_into_8_kib() -> None:
    assert size(outline.finished(node(sliced=False))) <= 8 << 10


def test_fifty_six_healthy_slices_take_what_their_names_take() -> None:
    whole = outline.finished(node(sliced=True))
    slices = [instance for gpu in whole.gpus for instance in gpu.instances]
    names = len(msgspec.json.encode(slices))
    assert len(slices) == 56
    assert size(whole) - names <= 7 << 10
    assert names <= 56 * len(msgspec.json.encode(_LONGEST_SLICE)) + 57


_LONGEST_SLICE = MigInstance(
    uuid="MIG-00000000-0000-4000-8000-000000000000",
    gi=13,
    ci=0,
    profile="1g.10gb+me",
    gi_profile_id=20,
    placement_start=6,
    placement_size=1,
)


def test_two_hundred_codes_on_fifty_six_slices_fit_into_256_kib(stormy: NodeHealth) -> None:
    assert size(stormy) > outline.MAX_BYTES
    written = outline.finished(stormy)
    assert outline.MAX_BYTES * 0.95 < size(written) <= outline.MAX_BYTES


def test_texts_are_cut_before_a_record_is_left_out(stormy: NodeHealth) -> None:
    few = tuple(
        msgspec.structs.replace(gpu, xids=gpu.xids[:60], xids_dropped=0) for gpu in stormy.gpus
    )
    large = msgspec.structs.replace(stormy, gpus=few, switches=(), xids_dropped=0)
    assert size(large) > outline.MAX_BYTES
    written = outline.finished(large)
    assert size(written) <= outline.MAX_BYTES
    assert written.xids_dropped == 0
    assert [len(gpu.xids) for gpu in written.gpus] == [60] * 8


def test_what_was_left_out_is_counted_where_it_belongs(stormy: NodeHealth) -> None:
    written = outline.finished(stormy)
    for gpu in written.gpus:
        assert len(gpu.xids) + gpu.xids_dropped == 7 * len(CODES)
    of_gpus = sum(gpu.xids_dropped for gpu in written.gpus)
    kept = sum(len(switch.sxids) for switch in written.switches)
    assert written.xids_dropped == of_gpus + 20 * 40 - kept


def test_nothing_left_out_is_more_severe_than_what_was_kept(stormy: NodeHealth) -> None:
    sent = Counter(rank(code) for code in CODES for _ in range(8 * 7))
    kept = Counter(
        rank(record.code) for gpu in outline.finished(stormy).gpus for record in gpu.xids
    )
    worst_left_out = min(place for place in sent if kept[place] < sent[place])
    assert max(kept) == worst_left_out
    assert kept[0] == 8 * 7, "every slice's lost GPU is reported"


def test_a_storm_takes_no_more_memory_than_its_records(stormy: NodeHealth) -> None:
    first = storm()
    again = [msgspec.structs.replace(signal, number=len(first) + signal.number) for signal in first]
    later = ledger.take(stormy, again, run="r" * 32, kernel_sequence=None)
    assert {len(gpu.xids) for gpu in later.gpus} == {xid_counts.MAX_RECORDS}
    assert {len(switch.sxids) for switch in later.switches} == {switches.MAX_CODES}
    assert len(later.switches) == switches.MAX_SWITCHES


def test_a_report_without_a_storm_is_left_as_it_is() -> None:
    healthy = node(sliced=True)
    written = outline.finished(healthy)
    nameless = tuple(
        msgspec.structs.replace(
            gpu,
            recovery_action=msgspec.structs.replace(gpu.recovery_action, action=""),
            fabric=msgspec.structs.replace(gpu.fabric, state_name="", summary_name=""),
        )
        for gpu in written.gpus
    )
    assert (nameless, written.xids_dropped, written.truncated) == (healthy.gpus, 0, ())
    assert {gpu.recovery_action.action for gpu in written.gpus} == {"None"}


def test_times_of_looking_are_no_change_but_states_are() -> None:
    def key(report: NodeHealth) -> object:
        return outline.change_key(report)

    first = node(sliced=False)
    gpu = first.gpus[0]

    def with_gpu(**fields: object) -> NodeHealth:
        changed = msgspec.structs.replace(gpu, **fields)
        return msgspec.structs.replace(first, gpus=(changed, *first.gpus[1:]))

    looked = msgspec.structs.replace(gpu.memory, remap_observed_at=at(60))
    assert key(with_gpu(memory=looked)) == key(first)
    worn = msgspec.structs.replace(gpu.memory, sram_threshold_exceeded="True")
    assert key(with_gpu(memory=worn)) != key(first)
    failed = msgspec.structs.replace(gpu.nvlink, down=(1,), failed=(1,))
    assert key(with_gpu(nvlink=failed)) != key(first)
    missing = msgspec.structs.replace(first.inventory, missing=PLACES[:1])
    assert key(msgspec.structs.replace(first, inventory=missing)) != key(first)
    record = SxidRecord(code=1, count=1, first_seen=START, last_seen=START)
    assert key(msgspec.structs.replace(first, switches=(record,))) != key(first)


def test_a_board_whose_uuid_changes_all_the_time_does_not_fill_the_report() -> None:
    report = ledger.begin("boot-1", "1", START)
    steady = h100(1, sliced=False)
    for number in range(300):
        changing = msgspec.structs.replace(h100(0, sliced=False), uuid=f"GPU-{number:036d}")
        report = ledger.observe(report, seen(changing, steady, seconds=number))
        changes = [_xid(number + 1, 0, 31, 1)]
        report = ledger.take(report, changes, run="run-1", kernel_sequence=None)
    assert len(report.gpus) == 2 + listed_gpus.MAX_GONE
    assert size(outline.finished(report)) <= outline.MAX_BYTES
    named = {gpu.uuid for gpu in report.gpus}
    assert {f"GPU-{299:036d}", f"GPU-{298:036d}", steady.uuid} <= named
    assert (
        sum(record.count for gpu in report.gpus for record in gpu.xids) + report.xids_dropped == 300
    )
