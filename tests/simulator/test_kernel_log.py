"""The simulated kernel log: /dev/kmsg records, and the driver's lines in them."""

import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator import driver_messages
from simulator.kernel_log import USER, KernelLog, record

RECORD = re.compile(rb"(\d+),(\d+),(\d+),-;([ -~]*)\n(?: [A-Z]+=[ -~]*\n)*")


@pytest.fixture
def log(tmp_path: Path) -> KernelLog:
    log = KernelLog(tmp_path / "kmsg")
    log.reboot()
    return log


def test_a_record_has_priority_sequence_time_flags_and_message() -> None:
    written = record("NVRM: hello", sequence=7, microseconds=1234, keys={"SUBSYSTEM": "pci"})
    assert written == b"3,7,1234,-;NVRM: hello\n SUBSYSTEM=pci\n"


def test_a_line_forged_by_user_space_has_facility_1() -> None:
    assert record("x", sequence=0, microseconds=0, facility=USER, level=4) == b"12,0,0,-;x\n"


def test_what_is_not_printable_is_escaped() -> None:
    written = record("a\\b\nc\té", sequence=0, microseconds=0)
    assert written == rb"3,0,0,-;a\x5cb\x0ac\x09\xc3\xa9" + b"\n"


@given(st.text())
def test_any_message_stays_one_record(message: str) -> None:
    message = message.encode(errors="ignore").decode()
    found = RECORD.fullmatch(record(message, sequence=1, microseconds=2))
    assert found is not None
    escaped = re.sub(rb"\\x([0-9a-f]{2})", lambda m: bytes([int(m[1], 16)]), found[4])
    assert escaped.decode() == message


def test_sequences_go_on_across_writers_and_start_again_after_a_reboot(
    log: KernelLog,
) -> None:
    other = KernelLog(log.path)
    assert [log.write("a"), other.write("b"), log.write("c"), other.write("d")] == [0, 1, 2, 3]
    other.write_raw(b"\xff garbage without a head\n")
    assert log.write("e") == 4
    log.reboot()
    assert log.write("f") == 0
    assert log.text().count("\n") == 1


def test_times_are_those_of_the_machine_since_boot_whoever_writes(log: KernelLog) -> None:
    before = time.monotonic()
    log.write("a")
    KernelLog(log.path).write("b")
    times = [int(line.split(",")[2]) / 1e6 for line in log.text().splitlines()]
    assert before - 1e-5 <= times[0] <= times[1] <= time.monotonic()


def test_a_gap_shows_as_missing_sequence_numbers(log: KernelLog) -> None:
    log.skip(10)
    assert log.write("after") == 11


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            driver_messages.xid("0000:2a:00.0", 79, pid=0),
            "NVRM: Xid (PCI:0000:2a:00): 79, pid='<unknown>', name=<unknown>, "
            "GPU has fallen off the bus.",
        ),
        (
            driver_messages.xid("0000:01:00.0", 94, pid=7194, gi=5),
            "NVRM: Xid (PCI:0000:01:00 GPU-I:05): 94, pid=7194, "
            "Contained: CE User Channel (0x9). RST: No, D-RST: No",
        ),
        (
            driver_messages.xid("0000:01:00", 94, "Contained: SM (0x1).", gi=11, ci=0, reset=True),
            "NVRM: Xid (PCI:0000:01:00 GPU-I:11 GPU-CI:00): 94, "
            "Contained: SM (0x1). RST: Yes, D-RST: No",
        ),
        (
            driver_messages.xid("0000:01:00.0", 95, pid=7062),
            "NVRM: Xid (PCI:0000:01:00): 95, pid=7062, "
            "Uncontained: LTC TAG (0x2, 0x1). RST: Yes, D-RST: No",
        ),
        (
            driver_messages.xid("0009:01:00.0", 43, "channel 0x0b00000a", pid=3, process="sh"),
            "NVRM: Xid (PCI:0009:01:00): 43, pid=3, name=sh, channel 0x0b00000a",
        ),
        (
            driver_messages.recovery_action("0008:01:00.0", 0, 1),
            "NVRM: Xid (PCI:0008:01:00): 154, GPU recovery action changed from 0x0 (None) to "
            "0x1 (GPU Reset Required)",
        ),
        (
            driver_messages.fallen_off_the_bus("0000:a1:00.0"),
            "NVRM: GPU 0000:a1:00.0: GPU has fallen off the bus.",
        ),
    ],
)
def test_the_driver_writes_its_lines_as_real_ones_look(line: str, expected: str) -> None:
    assert line == expected
