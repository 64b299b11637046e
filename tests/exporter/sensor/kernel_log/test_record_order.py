"""Places of kernel-log records that two ways of reading the log agree on."""

from hypothesis import given
from hypothesis import strategies as st

from exporter.sensor.kernel_log.record_order import RecordOrder

TIMES = st.lists(st.integers(0, 2**62), min_size=1, max_size=50)


def places(times: list[int]) -> list[int]:
    order = RecordOrder()
    return [order.place(time) for time in times]


@given(TIMES)
def test_places_only_rise_and_every_json_reader_holds_them(times: list[int]) -> None:
    found = places(times)
    assert found == sorted(set(found))
    assert found[-1] < 2**53 + len(times)


@given(st.lists(st.integers(0, 10**9), min_size=2, max_size=50, unique=True), st.data())
def test_a_ring_that_lost_its_beginning_gives_the_same_places(
    times: list[int], data: st.DataObject
) -> None:
    times.sort()
    begin = data.draw(st.integers(0, len(times) - 1))
    assert places(times)[begin:] == places(times[begin:])


def test_records_of_one_microsecond_keep_their_order() -> None:
    assert places([5, 5, 5, 6]) == [80, 81, 82, 96]


def test_a_clock_that_differs_between_processors_turns_no_order_round() -> None:
    assert places([1000, 998, 1001]) == [16000, 16001, 16016]


def test_a_record_of_the_device_gets_its_place_as_its_sequence() -> None:
    raw = b"6,4711,5,c;a message, with; both\n KEY=value\n"
    assert RecordOrder().renumber(raw) == (80, b"6,80,5,c;a message, with; both\n KEY=value\n")


def test_what_is_no_record_has_no_place_and_disturbs_none() -> None:
    order = RecordOrder()
    for raw in (b"", b"garbage", b"6,1", b"6,1,x,-;y", b"6,1," + b"9" * 21 + b",-;y"):
        assert order.renumber(raw) is None
    assert order.place(0) == 0
