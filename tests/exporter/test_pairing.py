"""Which signals speak of the same error."""

from datetime import UTC, datetime, timedelta
from typing import Literal

from exporter.pairing import Pairing
from exporter.signals import Kind, Signal

START = datetime(2026, 11, 21, 8, tzinfo=UTC)


def signal(
    number: int,
    source: Literal["kmsg", "nvml"],
    seconds: float,
    *,
    code: int = 94,
    gi: int | None = None,
    kind: Kind = "xid",
    bus_id: str = "0000:18:00.0",
) -> Signal:
    return Signal(
        kind=kind,
        source=source,
        number=number,
        at=START + timedelta(seconds=seconds),
        code=code,
        gi=gi,
        bus_id=bus_id,
    )


def partners(*signals: Signal) -> list[int | None]:
    pairing = Pairing()
    paired = [pairing.pair(one) for one in signals]
    return [one.partner.number if one.partner else None for one in paired]


def test_kernel_line_and_event_within_five_seconds_are_one_error() -> None:
    assert partners(signal(1, "kmsg", 0), signal(2, "nvml", 0.2, gi=5)) == [None, 1]
    assert partners(signal(1, "nvml", 0), signal(2, "kmsg", 4.9)) == [None, 1]


def test_six_seconds_apart_they_are_two() -> None:
    assert partners(signal(1, "kmsg", 0), signal(2, "nvml", 6)) == [None, None]


def test_one_witness_alone_never_pairs_with_itself() -> None:
    assert partners(signal(1, "kmsg", 0), signal(2, "kmsg", 0.1)) == [None, None]


def test_each_sighting_has_one_partner() -> None:
    told = [signal(1, "kmsg", 0), signal(2, "kmsg", 1), signal(3, "nvml", 1.1)]
    assert partners(*told, signal(4, "nvml", 1.2), signal(5, "nvml", 1.3)) == [
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
    told = [signal(1, "kmsg", 0, gi=5), signal(2, "kmsg", 0, gi=3)]
    assert partners(*told, signal(3, "nvml", 0.2, gi=3), signal(4, "nvml", 0.2, gi=7)) == [
        None,
        None,
        2,
        None,
    ]


def test_a_lost_gpu_told_three_times_is_one_error() -> None:
    told = [
        signal(1, "kmsg", 0, code=79),
        signal(2, "kmsg", 0, code=79, kind="fell-off"),
        signal(3, "nvml", 0.3, code=79),
    ]
    assert partners(*told) == [None, 1, 1]
