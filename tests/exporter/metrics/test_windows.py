"""Sliding windows: dcgm-exporter's vectors, and that MIG slices are told apart."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from exporter.agent.report import ledger
from exporter.metrics import windows
from exporter.metrics.windows import Windows
from exporter.metrics.xid_changes import Place, between
from exporter.model.node_health import GpuHealth, NodeHealth, XidRecord
from exporter.model.readings import NvmlReading
from tests.exporter.worlds import START, Sensed, at, gpu, mig_gpu, seen


def report(*counted: tuple[str, int | None, int, int, float]) -> NodeHealth:
    """Each entry: UUID, GPU instance, code, count, last seen."""
    by_gpu: dict[str, list[XidRecord]] = {}
    for uuid, gi, code, count, seconds in counted:
        record = XidRecord(
            code=code, count=count, first_seen=START, last_seen=at(seconds), gi=gi, ci=None
        )
        by_gpu.setdefault(uuid, []).append(record)
    return NodeHealth(
        gpus=tuple(
            GpuHealth(uuid=uuid, presence="Present", presence_since=START, xids=tuple(xids))
            for uuid, xids in by_gpu.items()
        )
    )


def whole(uuid: str) -> Place:
    return uuid, None, None


def test_xids_of_three_gpus_are_counted_for_each() -> None:
    found = Windows(300, 300)
    first = report(*((f"GPU-{n}", None, code, 1, 10) for n in (1, 2, 3) for code in (42, 46)))
    found.took(between(NodeHealth(), first))
    counts = found.counts(at(20)).xids
    assert counts == {whole(f"GPU-{n}"): {42: 1, 46: 1} for n in (1, 2, 3)}
    more = report(
        *((f"GPU-{n}", None, code, 1, 10) for n in (1, 2, 3) for code in (42, 46)),
        ("GPU-1", None, 19, 1, 20),
    )
    found.took(between(first, more))
    assert found.counts(at(20)).xids[whole("GPU-1")] == {19: 1, 42: 1, 46: 1}
    assert found.counts(at(20)).xids[whole("GPU-2")] == {42: 1, 46: 1}


def test_the_same_xid_again_is_counted_again() -> None:
    found = Windows(300, 300)
    once, twice = report(("GPU-1", None, 31, 1, 0)), report(("GPU-1", None, 31, 2, 5))
    found.took(between(NodeHealth(), once))
    found.took(between(once, twice))
    assert found.counts(at(10)).xids == {whole("GPU-1"): {31: 2}}


def test_what_is_older_than_the_window_is_forgotten() -> None:
    found = Windows(300, 300)
    found.took(
        between(NodeHealth(), report(("GPU-1", None, 31, 1, 0), ("GPU-1", None, 43, 1, 250)))
    )
    assert found.counts(at(299)).xids == {whole("GPU-1"): {31: 1, 43: 1}}
    assert found.counts(at(300)).xids == {whole("GPU-1"): {43: 1}}
    assert found.counts(at(900)).xids == {}


def test_a_slice_is_no_gpu_and_no_other_slice() -> None:
    """dcgm-exporter books GPU instance 1 of any GPU to GPU 1."""
    found = Windows(300, 300)
    found.took(between(NodeHealth(), report(("GPU-2", 1, 94, 1, 0), ("GPU-2", 5, 94, 3, 0))))
    assert found.counts(at(1)).xids == {("GPU-2", 1, None): {94: 1}, ("GPU-2", 5, None): {94: 3}}


def test_a_count_that_moves_to_the_slice_of_a_better_source_is_one() -> None:
    """The kernel log names the GPU, NVML's event the slice: one error, counted at the slice."""
    sensed = Sensed()
    begun = ledger.observe(ledger.begin("boot-1", "1", START), seen(mig_gpu(2)))
    by_log = ledger.take(begun, [sensed.kmsg(1, 94, 2)], run="run-1", kernel_sequence=None)
    event = sensed.nvml(2, 94, 2, gi=5, ci=0)
    by_both = ledger.take(by_log, [event], run="run-1", kernel_sequence=None)
    found = Windows(300, 300)
    found.took(between(begun, by_log))
    assert found.counts(at(3)).xids == {whole("GPU-2"): {94: 1}}
    found.took(between(by_log, by_both))
    assert found.counts(at(3)).xids == {("GPU-2", 5, 0): {94: 1}}


def test_clock_events_are_counted_by_sample() -> None:
    """dcgm-exporter's vector: two thermal reasons twice and idle once."""
    found = Windows(300, 300)
    for seconds, mask in ((0, 0x60), (30, 0x60), (60, 0x1)):
        found.sampled(NvmlReading(at=at(seconds), gpus=(gpu(1, slowdown=mask),)))
    assert found.counts(at(60)).clocks == {
        "GPU-1": {"gpu_idle": 1, "hw_thermal": 2, "sw_thermal": 2}
    }


def test_all_nine_reasons_are_distinguished() -> None:
    found = Windows(300, 300)
    found.sampled(NvmlReading(at=at(0), gpus=(gpu(1, slowdown=0x1FF),)))
    assert found.counts(at(0)).clocks == {"GPU-1": dict.fromkeys(windows.CLOCK_EVENTS.values(), 1)}


def test_the_same_sample_reported_twice_is_one() -> None:
    found = Windows(300, 300)
    reading = NvmlReading(at=at(0), gpus=(gpu(1, slowdown=1),))
    found.sampled(reading)
    found.sampled(reading)
    assert found.counts(at(0)).clocks == {"GPU-1": {"gpu_idle": 1}}


def test_a_clock_that_was_set_back_far_does_not_keep_the_future_for_ever() -> None:
    found = Windows(300, 300)
    found.took(between(NodeHealth(), report(("GPU-1", None, 31, 1, 0))))
    assert found.counts(START - timedelta(days=1)).xids == {}


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 3), st.integers(0, 900))))
def test_the_window_holds_what_was_counted_in_it(news: list[tuple[int, int, int]]) -> None:
    """Against plain counting of what each report has more than the one before."""
    found, last = Windows(300, 300), NodeHealth()
    counts: dict[int, int] = {}
    booked: list[tuple[int, int]] = []
    for code, more, seconds in sorted(news, key=lambda entry: entry[2]):
        counts[code] = counts.get(code, 0) + more
        after = report(*(("GPU-1", None, xid, n, seconds) for xid, n in counts.items() if n))
        found.took(between(last, after))
        last = after
        booked.extend([(code, seconds)] * more)
    inside = [code for code, seconds in booked if 600 < seconds <= 900]
    expected = {code: inside.count(code) for code in set(inside)}
    assert found.counts(at(900)).xids.get(whole("GPU-1"), {}) == expected
