"""Which signals speak of the same error."""

import itertools
import tracemalloc
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.agent.report.xid_counts import Layout, counted
from exporter.model import xid_dedup
from exporter.model.node_health import XidRecord
from exporter.model.signals import Kind, Signal
from exporter.model.xid_dedup import Dedup, adds_nothing

START = datetime(2026, 1, 5, 8, tzinfo=UTC)
Source = Literal["kmsg", "syslog", "nvml", "dcgm"]
SOURCES: tuple[Source, ...] = ("kmsg", "nvml", "dcgm")


def signal(
    number: int,
    source: Source,
    seconds: float,
    *,
    code: int = 94,
    gi: int | None = None,
    kind: Kind = "xid",
    bus_id: str = "0000:18:00.0",
    uuid: str = "",
    unfinished: bool = False,
) -> Signal:
    return Signal(
        kind=kind,
        source=source,
        number=number,
        at=START + timedelta(seconds=seconds),
        code=code,
        gi=gi,
        bus_id=bus_id,
        uuid=uuid,
        unfinished=unfinished,
    )


def records(before: Iterable[Signal]) -> tuple[XidRecord, ...]:
    """Count signals of one GPU in the order in which they come, as the agent does."""
    pairs = Dedup()
    kept: tuple[XidRecord, ...] = ()
    for event in before:
        kept = counted(kept, pairs.pair(event), epoch=1, layout=Layout(mig=True))
    return kept


def partners(*signals: Signal) -> list[int | None]:
    pairs = Dedup()
    paired = [pairs.pair(event) for event in signals]
    return [event.partner.number if event.partner else None for event in paired]


def test_kernel_line_and_event_within_five_seconds_are_one_error() -> None:
    assert partners(signal(1, "kmsg", 0), signal(2, "nvml", 0.2, gi=5)) == [None, 1]
    assert partners(signal(1, "nvml", 0), signal(2, "kmsg", 4.9)) == [None, 1]


def test_the_log_is_one_source_however_it_is_read() -> None:
    assert partners(signal(1, "syslog", 0), signal(2, "nvml", 0.2, gi=5)) == [None, 1]
    assert partners(signal(1, "syslog", 0), signal(2, "syslog", 0.2)) == [None, None]
    assert partners(signal(1, "syslog", 0), signal(2, "kmsg", 0.2)) == [None, None]


def test_six_seconds_apart_they_are_two() -> None:
    assert partners(signal(1, "kmsg", 0), signal(2, "nvml", 6)) == [None, None]


def test_one_source_alone_never_pairs_with_itself() -> None:
    assert partners(signal(1, "kmsg", 0), signal(2, "kmsg", 0.1)) == [None, None]


def details(number: int, seconds: float, gi: int | None = None) -> Signal:
    """Return a line of an XID 13 that others follow."""
    return signal(number, "kmsg", seconds, code=13, gi=gi, unfinished=True)


@pytest.mark.parametrize("event", [0, 1, 2, 3])
def test_the_lines_of_one_error_and_its_event_are_one_in_every_order(event: int) -> None:
    lines = [details(1, 0), details(2, 0.0015), signal(3, "kmsg", 0.003, code=13, gi=5)]
    came = [*lines[:event], signal(4, "nvml", 0.2, code=13, gi=5), *lines[event:]]
    (record,) = records(came)
    assert (record.code, record.count, record.gi) == (13, 1, 5)
    assert record.sources == ("kmsg", "nvml")


def test_the_last_line_ends_an_error_and_the_next_one_begins_another() -> None:
    fault = [details(1, 0), details(2, 0.0015), signal(3, "kmsg", 0.003, code=13)]
    again = [details(4, 0.4), signal(5, "kmsg", 0.4015, code=13)]
    assert partners(*fault, *again) == [None, 1, 1, None, 4]
    assert records([*fault, *again])[0].count == 2


def test_an_error_whose_last_line_never_came_ends_after_a_second() -> None:
    assert partners(details(1, 0), details(2, 0.9), details(3, 2.0)) == [None, 1, None]


def test_lines_that_go_on_for_ever_are_an_error_for_each_ten_seconds() -> None:
    every = [details(number, 0.5 * number) for number in range(1, 122)]
    assert records(every)[0].count == 6


def test_lines_of_slices_that_come_mixed_are_one_error_for_each_slice() -> None:
    mixed = [details(number, 0.002 * number, gi=number % 2 + 1) for number in range(1, 21)]
    last = [signal(20 + gi, "kmsg", 0.05, code=13, gi=gi) for gi in (1, 2)]
    assert [(found.gi, found.count) for found in records([*mixed, *last])] == [(1, 1), (2, 1)]


def test_when_lines_were_printed_decides_and_not_when_they_were_read() -> None:
    read = [details(1, 0), details(2, 5.0), signal(3, "kmsg", -2.0, code=13)]
    places = (24_000 * line.number for line in read)
    lines = [
        msgspec.structs.replace(line, kernel_sequence=place)
        for line, place in zip(read, places, strict=True)
    ]
    assert partners(*lines) == [None, 1, 1]


def test_further_lines_that_name_nothing_new_need_not_be_kept() -> None:
    pairs = Dedup()
    lines = [details(1, 0), details(2, 0.1), details(3, 0.2, gi=5), details(4, 0.3, gi=5)]
    last = signal(5, "kmsg", 0.4, code=13)
    kept = [line.number for line in (*lines, last) if not adds_nothing(pairs.pair(line))]
    assert kept == [1, 3, 5]


def test_lines_of_another_instance_gpu_or_source_are_of_another_error() -> None:
    assert partners(details(1, 0, gi=1), details(2, 0.001, gi=2)) == [None, None]
    other = signal(2, "kmsg", 0.001, code=13, bus_id="0000:19:00.0")
    assert partners(details(1, 0), other) == [None, None]
    dcgm = [signal(2, "dcgm", 0.1, code=13), signal(3, "dcgm", 0.2, code=13)]
    assert partners(details(1, 0), *dcgm) == [None, 1, None]


def test_who_does_not_listen_yet_tells_of_no_error_in_the_log() -> None:
    """A new sensor reads lines that another one had paired already."""
    pairs = Dedup()
    pairs.pair(signal(1, "kmsg", 0, code=79), {"nvml", "dcgm"})
    before = [signal(2, "nvml", 3, code=79, gi=5), signal(3, "kmsg", 3, code=79)]
    paired = [pairs.pair(event) for event in before]
    assert [event.partner and event.partner.number for event in paired] == [None, 2]
    text = pairs.pair(signal(4, "kmsg", 0.1, code=79, kind="fell-off"))
    assert text.partner is not None
    assert text.partner.number == 1


def test_each_sighting_has_one_partner() -> None:
    before = [signal(1, "kmsg", 0), signal(2, "kmsg", 1), signal(3, "nvml", 1.1)]
    assert partners(*before, signal(4, "nvml", 1.2), signal(5, "nvml", 1.3)) == [
        None,
        None,
        1,
        2,
        None,
    ]


def test_other_codes_and_other_gpus_are_other_errors() -> None:
    assert partners(signal(1, "kmsg", 0), signal(2, "nvml", 0, code=95)) == [None, None]
    other = signal(2, "nvml", 0, bus_id="0000:2a:00.0")
    assert partners(signal(1, "kmsg", 0), other) == [None, None]


def test_two_named_instances_do_not_pair_but_the_fitting_one_does() -> None:
    before = [signal(1, "kmsg", 0, gi=5), signal(2, "kmsg", 0, gi=3)]
    assert partners(*before, signal(3, "nvml", 0.2, gi=3), signal(4, "nvml", 0.2, gi=7)) == [
        None,
        None,
        2,
        None,
    ]


def test_a_lost_gpu_reported_three_times_is_one_error() -> None:
    before = [
        signal(1, "kmsg", 0, code=79),
        signal(2, "kmsg", 0, code=79, kind="fell-off"),
        signal(3, "nvml", 0.3, code=79),
    ]
    assert partners(*before) == [None, 1, 1]


@pytest.mark.parametrize("named", [(), ("nvml",), ("kmsg", "nvml"), ("dcgm",), SOURCES])
@pytest.mark.parametrize("order", list(itertools.permutations(SOURCES)))
def test_three_sources_in_any_order_are_one_count_with_three_sources(
    order: tuple[Source, ...], named: tuple[Source, ...]
) -> None:
    before = [
        signal(number, source, 0.2 * number, gi=5 if source in named else None)
        for number, source in enumerate(order, start=1)
    ]
    [record] = records(before)
    assert (record.count, record.gi) == (1, 5 if named else None)
    assert record.sources == ("dcgm", "kmsg", "nvml")


def test_what_dcgm_tells_a_minute_later_of_the_same_moment_is_no_further_error() -> None:
    storm = [signal(number, "kmsg", number, code=31) for number in range(3, 90)]
    before = [signal(1, "kmsg", 0), signal(2, "nvml", 0.3), *storm]
    assert partners(*before, signal(99, "dcgm", 0.4))[-1] == 1


def test_the_times_of_the_events_are_compared_not_of_their_telling() -> None:
    before = [signal(1, "kmsg", 0), signal(2, "kmsg", 60)]
    assert partners(*before, signal(3, "dcgm", 60.5), signal(4, "dcgm", 0.5)) == [
        None,
        None,
        2,
        1,
    ]


def test_an_error_waits_two_minutes_for_its_sources() -> None:
    later = signal(2, "kmsg", 121, code=31)
    assert partners(signal(1, "kmsg", 0), later, signal(3, "dcgm", 0)) == [None, None, None]


def test_in_a_burst_lines_and_late_events_pair_one_to_one() -> None:
    lines = [signal(number, "kmsg", 0.01 * number) for number in range(1, 31)]
    events = [signal(100 + number, "nvml", 0.01 * number + 0.4) for number in range(1, 31)]
    before = sorted((*lines, *events), key=lambda event: event.at)
    answered = [number for number in partners(*before) if number]
    assert answered == list(range(1, 31))


def test_a_source_that_names_the_instance_prefers_the_error_that_has_it() -> None:
    before = [signal(1, "kmsg", 0), signal(2, "kmsg", 0, gi=3)]
    assert partners(*before, signal(3, "nvml", 0.2, gi=3), signal(4, "nvml", 0.2, gi=5)) == [
        None,
        None,
        2,
        1,
    ]


def test_a_gpu_known_by_uuid_only_pairs_once_its_bus_id_was_reported() -> None:
    late = signal(2, "dcgm", 0.1, bus_id="", uuid="GPU-1")
    assert partners(signal(1, "kmsg", 0), late) == [None, None]
    both = signal(1, "nvml", 0, uuid="GPU-1")
    assert partners(both, late) == [None, 1]
    introduced = signal(1, "kmsg", 0, kind="identity", uuid="GPU-1")
    line = signal(2, "kmsg", 0)
    later = signal(3, "dcgm", 0.1, bus_id="", uuid="GPU-1")
    assert partners(introduced, line, later) == [None, None, 2]


def test_signals_that_name_no_gpu_never_pair() -> None:
    assert partners(signal(1, "nvml", 0, bus_id=""), signal(2, "dcgm", 0, bus_id="")) == [None] * 2


def test_switch_errors_and_other_news_never_pair() -> None:
    before = [signal(1, "kmsg", 0, kind="sxid"), signal(2, "nvml", 0, kind="sxid")]
    assert partners(*before) == [None, None]


def test_a_late_source_of_a_storm_is_not_counted_again() -> None:
    lines = [signal(number, "kmsg", number / 1000) for number in range(1, 3001)]
    late = [signal(5000 + number, "dcgm", number / 1000) for number in range(1, 3001)]
    assert None not in partners(*lines, *late)[3000:]


def test_an_error_stays_open_around_all_that_was_reported_of_it() -> None:
    before = [signal(1, "kmsg", 0), signal(2, "nvml", 4.9), signal(3, "dcgm", 5.2)]
    assert partners(*before) == [None, 1, 1]


def test_of_a_storm_the_newest_are_kept() -> None:
    lines = [signal(number, "kmsg", number / 1000) for number in range(1, 301)]
    assert partners(*lines, signal(999, "nvml", 0.4))[-1] == 301 - xid_dedup.KEPT_OF_ONE_CODE


def test_a_storm_that_both_reported_hides_no_further_error() -> None:
    lines = [signal(number, "kmsg", number / 1000) for number in range(1, 3001)]
    events = [signal(5000 + number, "nvml", number / 1000) for number in range(1, 3001)]
    before = [event for pair in zip(lines, events, strict=True) for event in pair]
    assert partners(*before, signal(9999, "nvml", 3))[-1] is None


def test_after_a_storm_a_new_error_is_new() -> None:
    lines = [signal(number, "kmsg", number / 1000) for number in range(1, 3001)]
    assert partners(*lines, signal(5000, "nvml", 60))[-1] is None


def test_a_storm_of_many_codes_on_many_gpus_is_kept_in_little_memory() -> None:
    pairs = Dedup()
    tracemalloc.start()
    for number in range(1, 60_001):
        code, bus = number % 100, f"0000:{number // 100 % 16:02x}:00.0"
        pairs.pair(signal(number, "kmsg", number / 1000, code=code, bus_id=bus))
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 1500 * xid_dedup.KEPT


@given(
    st.lists(st.lists(st.sampled_from([1, 2, 3]), min_size=1, max_size=4), min_size=1, max_size=4),
    st.sets(st.sampled_from(SOURCES)),
    st.randoms(use_true_random=False),
)
def test_every_order_of_the_tellings_gives_the_same_totals(
    bursts: list[list[int]], naming: set[Source], random: Random
) -> None:
    """Bursts of errors 15 s apart, each reported by all; a source names instances or does not."""
    before: list[Signal] = []
    for place, burst in enumerate(bursts):
        for (error, gi), (lag, source) in itertools.product(enumerate(burst), enumerate(SOURCES)):
            seconds = 15 * place + 0.3 * error + 0.1 * lag
            instance = gi if source in naming else None
            before.append(signal(len(before) + 1, source, seconds, gi=instance))
    random.shuffle(before)
    errors = [gi if naming else None for gi in itertools.chain(*bursts)]
    assert {record.gi: record.count for record in records(before)} == Counter(errors)
