"""What an agent gets of signals that have left the sensor's ring while it was away."""

from exporter.model.node_health import Cursor
from exporter.model.signals import Signal
from tests.exporter.worlds import Sensed


def taken(signals: list[Signal]) -> list[tuple[int, str, int]]:
    return [(signal.code, signal.bus_id[5:7], signal.times) for signal in signals]


def resumed(sensed: Sensed, number: int) -> list[Signal]:
    cursor = Cursor(kernel_sequence=None, sensor_run="run-1", signal_sequence=number)
    return sensed.ring.resume(cursor, "boot-1")


def test_an_error_before_a_storm_reaches_an_agent_that_had_counted_others() -> None:
    """A tenant's crash loop on one GPU must not hide the fault of another."""
    sensed = Sensed(capacity=10)
    known = sensed.kmsg(1, 13, 2).number
    sensed.kmsg(2, 95, 1)
    for second in range(40):
        sensed.kmsg(10 + second, 31, 2)

    found = taken(resumed(sensed, known))

    assert found[:2] == [(95, "01", 1), (31, "02", 30)]
    assert found[2:] == [(31, "02", 1)] * 10
    assert sensed.ring.dropped == 0


def test_a_sum_that_has_signals_which_were_counted_is_left_out_and_counted_as_dropped() -> None:
    sensed = Sensed(capacity=10)
    known = [sensed.kmsg(second, 31, 2).number for second in range(5)][2]
    for second in range(20):
        sensed.kmsg(10 + second, 31, 2)

    assert taken(resumed(sensed, known)) == [(31, "02", 1)] * 10
    assert sensed.ring.dropped == 12


def test_the_second_source_of_an_error_that_was_counted_is_no_error_of_its_own() -> None:
    sensed = Sensed(capacity=4)
    known = sensed.kmsg(1, 95, 1).number
    sensed.nvml(1.1, 95, 1)
    for second in range(10):
        sensed.kmsg(10 + second, 31, 2)

    assert (95, "01", 1) not in taken(resumed(sensed, known))
