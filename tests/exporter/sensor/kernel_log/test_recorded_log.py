"""What a real driver wrote into the kernel log when programs crashed (recordings/README.md)."""

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from exporter.model.signals import Signal
from exporter.model.xid_dedup import Dedup
from exporter.sensor.kernel_log import driver_lines

BOOT = datetime(2026, 11, 25, tzinfo=UTC)
RECORDS = (Path(__file__).parent / "recordings" / "h100-r580.kmsg").read_bytes().splitlines()


def signals() -> list[Signal]:
    """Return what the driver says, numbered and paired."""
    pairs = Dedup()
    read = [driver_lines.understand(driver_lines.split(raw), BOOT) for raw in RECORDS]
    found = [signal for signal in read if signal is not None]
    return [
        pairs.pair(msgspec.structs.replace(signal, number=n)) for n, signal in enumerate(found, 1)
    ]


def test_each_crash_is_one_error_however_many_lines_it_has() -> None:
    errors = [signal for signal in signals() if signal.kind == "xid" and signal.partner is None]
    assert [error.code for error in errors] == [31, 31, 13, 13, 43, 43, 31]
    lines = Counter(signal.code for signal in signals() if signal.kind == "xid")
    assert lines == {13: 400, 31: 3, 43: 2}


def test_no_line_names_a_process_that_only_happened_to_run() -> None:
    assert {signal.process for signal in signals() if signal.code} == {"", "crash"}


def test_the_driver_and_the_gpu_introduce_themselves() -> None:
    kinds = [signal.kind for signal in signals() if signal.kind != "xid"]
    assert kinds == ["driver-load", "identity"]
