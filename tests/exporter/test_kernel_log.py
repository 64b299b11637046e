"""One record of the kernel log into a signal."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter import kernel_log
from exporter.kernel_log import Rejected
from exporter.signals import Signal

BOOT = datetime(2026, 11, 21, 8, tzinfo=UTC)


def read(message: str, *, priority: int = 3, sequence: int = 7, usec: int = 1_500_000) -> Signal:
    signal = parse(f"{priority},{sequence},{usec},-;{message}".encode())
    assert signal is not None
    return signal


def parse(raw: bytes) -> Signal | None:
    return kernel_log.understand(kernel_log.split(raw), BOOT)


FORMS = [
    (
        "NVRM: Xid (PCI:0000:01:00 GPU-I:05): 94, pid=7194, Contained: CE User Channel (0x9). "
        "RST: No, D-RST: No",
        {"bus_id": "0000:01:00.0", "code": 94, "gi": 5, "ci": None, "reset": False},
    ),
    (
        "NVRM: Xid (PCI:0000:01:00 GPU-I:13 GPU-CI:02): 43, pid=9, name=a, channel 0x0b00000a",
        {"gi": 13, "ci": 2, "pid": 9, "process": "a", "message": "channel 0x0b00000a"},
    ),
    (
        "NVRM: Xid (PCI:0000:01:00): 95, pid=7062, Uncontained: LTC TAG (0x2, 0x1). "
        "RST: Yes, D-RST: No",
        {"code": 95, "reset": True, "drain_reset": False, "gi": None},
    ),
    ("NVRM: Xid (0000:03:00): 14, Channel 00000001", {"bus_id": "0000:03:00.0", "code": 14}),
    (
        "NVRM: Xid (PCI:0000:b5:00): 13, pid='<unknown>', name=<unknown>, Graphics SM Warp",
        {"code": 13, "pid": None, "process": "", "message": "Graphics SM Warp"},
    ),
    ("NVRM: Xid (PCI:0000:10:1c.0): 63, pid=1896, Row Remapper", {"bus_id": "0000:10:1c.0"}),
    ("NVRM: Xid (PCI:0009:01:00): 43, pid=3188489, name=x, y", {"bus_id": "0009:01:00.0"}),
    (
        "NVRM: Xid (PCI:0000:17:00): 119, pid=15822502, name=nvc:[driver], Timeout after 6s",
        {"pid": 15822502, "process": "nvc:[driver]", "message": "Timeout after 6s"},
    ),
    (
        "NVRM: Xid (PCI:0008:01:00): 154, GPU recovery action changed from 0x0 (None) to "
        "0x1 (GPU Reset Required)",
        {"code": 154, "kind": "xid"},
    ),
    (
        "NVRM: GPU 0000:a1:00.0: GPU has fallen off the bus.",
        {"kind": "fell-off", "code": 79, "bus_id": "0000:a1:00.0"},
    ),
    (
        "NVRM: GPU at PCI:0000:18:00: GPU-2fa81118-5a5f-aa66-7660-471eed407181",
        {"kind": "identity", "uuid": "GPU-2fa81118-5a5f-aa66-7660-471eed407181"},
    ),
    (
        "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  595.45.04  Release Build",
        {"kind": "driver-load"},
    ),
]


@pytest.mark.parametrize(("line", "expected"), FORMS, ids=[line[6:40] for line, _ in FORMS])
def test_every_form_that_the_driver_prints_is_understood(
    line: str, expected: dict[str, object]
) -> None:
    signal = read(line)
    assert {name: getattr(signal, name) for name in expected} == expected
    assert signal.kernel_sequence == 7
    assert signal.at == BOOT + timedelta(seconds=1.5)


def test_a_process_name_cannot_pretend_a_reset_flag() -> None:
    signal = read("NVRM: Xid (PCI:0000:01:00): 94, pid=7, name=a RST: Yes, D-RST: Yes, b")
    assert signal.reset is None


def test_a_line_that_user_space_wrote_is_rejected() -> None:
    with pytest.raises(Rejected, match="user_space"):
        parse(b"11,7,1500000,-;NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus")


@pytest.mark.parametrize("line", ["usb 1-1: new device", "NVRM: Xid_like", "", "nvidia: NVRM: Xid"])
def test_other_lines_are_nothing(line: str) -> None:
    assert parse(f"6,7,1500000,-;{line}".encode()) is None


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"garbage",
        b"3,7,15",
        b"3,7,99999999999999999999,-;NVRM: Xid (PCI:0000:01:00): 79, x",
        b"3,99999999999999999999,1,-;NVRM: Xid (PCI:0000:01:00): 79, x",
        b"3,7,1500000,-;NVRM: Xid (PCI:0000:01:00): 99999, x",
        b"3,7,1500000,-;NVRM: Xid (PCI:0000:01",
        b"3,7,1500000,-;NVRM: Xid (PCI:::::::): 79, x",
        b"3,7,999999999999999999,-;NVRM: Xid (PCI:0000:01:00): 79, x",
        b"\xff\xfe\x00" * 50,
    ],
)
def test_garbage_is_rejected_with_a_word_for_the_counter(raw: bytes) -> None:
    with pytest.raises(Rejected, match="malformed"):
        parse(raw)


@given(st.binary(max_size=300))
def test_no_bytes_at_all_raise_anything_else(raw: bytes) -> None:
    for record in (raw, b"3,7,1500000,-;" + raw, b"3,7,1500000,-;NVRM: Xid (PCI:0000:01:00" + raw):
        try:
            parse(record)
        except Rejected:
            continue


@given(st.text(max_size=400))
def test_messages_are_cut_short_and_cannot_steer_a_terminal(text: str) -> None:
    kept = kernel_log.plain(text)
    assert len(kept) <= kernel_log.MESSAGE_LIMIT
    assert all(mark.isprintable() for mark in kept)
