"""One record of the kernel log into a signal."""

import contextlib
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.model.signals import Signal
from exporter.sensor.kernel_log import driver_lines
from exporter.sensor.kernel_log.driver_lines import Rejected

BOOT = datetime(2026, 1, 5, 8, tzinfo=UTC)


def read(message: str, *, priority: int = 3, sequence: int = 7, usec: int = 1_500_000) -> Signal:
    signal = parse(f"{priority},{sequence},{usec},-;{message}".encode())
    assert signal is not None
    return signal


def parse(raw: bytes) -> Signal | None:
    return driver_lines.understand(driver_lines.split(raw), BOOT)


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
        {"code": 13, "pid": None, "message": "Graphics SM Warp", "unfinished": False},
    ),
    (
        "NVRM: Xid (PCI:0000:b5:00): 13, pid=7, name=a, Graphics SM Warp Exception on (GPC 1)",
        {"code": 13, "pid": None, "process": "", "unfinished": True},
    ),
    ("NVRM: Xid (0000:03:00): 13, 0003 00000000 000050c0 00000368", {"unfinished": False}),
    (
        "NVRM: Xid (PCI:0000:b5:00): 13, pid=7, name=a, Graphics Exception: ESR 0x519730=0x500000f",
        {"code": 13, "pid": None, "process": "", "unfinished": True},
    ),
    (
        "NVRM: Xid (PCI:0000:b5:00): 13, pid=7, name=a, Graphics Exception: channel 0x0000000a, "
        "Class 0000cbc0, Offset 00000510, Data 0017e2ac",
        {"code": 13, "pid": 7, "process": "a", "unfinished": False},
    ),
    (
        "NVRM: Xid (PCI:0000:b5:00): 13, pid=7, Graphics Exception: ChID 0010, Class 0000c1c0",
        {"code": 13, "pid": 7, "unfinished": False},
    ),
    ("NVRM: Xid (PCI:0000:b5:00): 31, pid=7, Graphics SM Warp", {"unfinished": False}),
    ("NVRM: Xid (PCI:0000:10:1c.0): 63, pid=1896, Row Remapper", {"bus_id": "0000:10:1c.0"}),
    ("NVRM: Xid (PCI:0009:01:00): 43, pid=3188489, name=x, y", {"bus_id": "0009:01:00.0"}),
    (
        "NVRM: Xid (PCI:0000:17:00): 119, pid=15822502, name=nvc:[driver], Timeout after 6s",
        {"pid": 15822502, "process": "nvc:[driver]", "message": "Timeout after 6s"},
    ),
    (
        "NVRM: Xid (PCI:0008:01:00): 154, GPU recovery action changed from 0x0 (None) to "
        "0x1 (GPU Reset Required)",
        {"code": 154, "kind": "xid", "recovery_to": 1},
    ),
    (
        "NVRM: Xid (PCI:0000:01:00): 154, pid=7, name=a, GPU recovery action changed from 0x1 "
        "(PF FLR) to 0x1f (A Later Name)",
        {"code": 154, "recovery_to": 31, "pid": 7},
    ),
    (
        "NVRM: Xid (PCI:0000:01:00): 45, pid=77, name=train, Ch 00000010 caused by previous Xid 95",
        {"code": 45, "caused_by": 95, "message": "Ch 00000010 caused by previous Xid 95"},
    ),
    ("NVRM: Xid (PCI:0000:01:00): 45,  caused by previous Xid 79", {"caused_by": 79}),
    (
        "NVRM: Xid (PCI:0000:0f:00): 64, pid=57530, Row Remapper Error",
        {"code": 64, "pid": 57530, "process": "", "message": "Row Remapper Error"},
    ),
    ("NVRM: Xid (PCI:0000:0f:00): 62, pid=, name=x, Halt", {"pid": None, "message": "Halt"}),
    (
        "NVRM: Xid (PCI:0000:01:00 GPU-I:05 VF:03): 94, Contained: SM (0x1). RST: Yes, D-RST: Yes",
        {"gi": 5, "ci": None, "code": 94, "reset": True, "drain_reset": True},
    ),
    (
        "NVRM: Xid (PCI:0000:01:00): 95, Uncontained: FBHUB. RST: Yes, D-RST: No (and a new word)",
        {
            "code": 95,
            "reset": None,
            "message": "Uncontained: FBHUB. RST: Yes, D-RST: No (and a new word)",
        },
    ),
    ("NVRM: Xid (PCI:0000:2a:00): 79 GPU has fallen off the bus", {"code": 79}),
    ("NVRM: Xid (PCI:0000:2a:00): 79", {"code": 79, "message": ""}),
    ("NVRM: Xid (PCI:10000:2a:00.0): 31, x", {"bus_id": "10000:2a:00.0"}),
    (
        "NVRM: Xid (PCI:0019:01:00): 149, NETIR Fatal XC0 i0 Link -1 (0x000fe406 0x00000000)",
        {"code": 149, "message": "NETIR Fatal XC0 i0 Link -1 (0x000fe406 0x00000000)"},
    ),
    (
        "NVRM: The NVIDIA GPU 0000:41:00.0\\x0aNVRM: (PCI ID: 10de:2330) installed in this system "
        "has\\x0aNVRM: fallen off the bus and is not responding to commands.",
        {
            "kind": "fell-off",
            "code": 79,
            "bus_id": "0000:41:00.0",
            "message": "The NVIDIA GPU 0000:41:00.0 (PCI ID: 10de:2330) installed in this system "
            "has fallen off the bus and is not responding to commands.",
        },
    ),
    (
        "NVRM: The NVIDIA GPU 0000:41:00.0 (PCI ID: 10de:2330) has fallen off the bus",
        {"kind": "fell-off", "code": 79, "bus_id": "0000:41:00.0"},
    ),
    (
        "NVRM: Rate limiting GSP RPC error prints for GPU at PCI:0000:17:00 (printing 1 of every "
        "30).  The GPU likely needs to be reset.",
        {"kind": "rate-limit", "code": 119, "bus_id": "0000:17:00.0"},
    ),
    (
        "nvidia-nvswitch0: SXid (PCI:0000:c2:00.0): 20034, Fatal, Link 28 LTSSM Fault Up",
        {
            "kind": "sxid",
            "code": 20034,
            "fatal": True,
            "link": 28,
            "bus_id": "0000:c2:00.0",
            "message": "Link 28 LTSSM Fault Up",
        },
    ),
    (
        "nvidia-nvswitch4: SXid (PCI:0000:c6:00.0): 19084, Non-fatal, Link 29 AN1 Heartbeat "
        "Timeout Error (First)",
        {"kind": "sxid", "code": 19084, "fatal": False, "link": 29},
    ),
    (
        "nvidia-nvswitch1: SXid (PCI:0000:c6:00.0): 10003, Host IO failure",
        {"kind": "sxid", "code": 10003, "fatal": True, "link": None, "message": "Host IO failure"},
    ),
    (
        "nvidia-nvswitch1: SXid (PCI:0000:c6:00.0): 10004, NVSWITCH Temperature 99C",
        {"kind": "sxid", "code": 10004, "fatal": None},
    ),
    (
        "NVRM: GPU 0000:a1:00.0: GPU has fallen off the bus.",
        {"kind": "fell-off", "code": 79, "bus_id": "0000:a1:00.0"},
    ),
    (
        "NVRM: GPU at 0000:06:00.0 has fallen off the bus.",
        {"kind": "fell-off", "code": 79, "bus_id": "0000:06:00.0"},
    ),
    (
        "NVRM: GPU at 0000:01:00: GPU-2fa81118-5a5f-aa66-7660-471eed407181",
        {"kind": "identity", "bus_id": "0000:01:00.0"},
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


@pytest.mark.parametrize(
    "name", ["a RST: Yes, D-RST: Yes, b", "RST: Yes, D-RST: Yes", "x caused by previous Xid 79"]
)
def test_a_process_name_cannot_pretend_what_the_driver_says(name: str) -> None:
    signal = read(f"NVRM: Xid (PCI:0000:01:00): 94, pid=7, name={name}, Contained")
    assert (signal.reset, signal.caused_by, signal.pid) == (None, None, 7)
    bare = read(f"NVRM: Xid (PCI:0000:01:00): 45, pid=7, name={name}")
    assert (bare.reset, bare.caused_by) == (None, None)


@pytest.mark.parametrize("name", ["a, ChID 1", "Graphics SM War", ", Graphics SM ("])
def test_a_process_name_makes_no_line_look_as_if_others_followed_or_none(name: str) -> None:
    line = f"NVRM: Xid (PCI:0000:01:00): 13, pid=7, name={name}, Graphics Exception: "
    assert read(f"{line}ESR 0x505730=0x506000f").unfinished
    assert not read(f"{line}channel 0x0000000a, Class 0000cbc0").unfinished


@pytest.mark.parametrize("rest", ["Severity 1 Engine instance 28", "Data {0x50610002, 0x10100030}"])
def test_the_lines_that_follow_an_sxid_are_no_further_errors(rest: str) -> None:
    assert (
        parse(f"3,7,15,-;nvidia-nvswitch0: SXid (PCI:0000:c2:00.0): 20034, {rest}".encode()) is None
    )


def test_a_number_that_is_no_xid_is_no_cause() -> None:
    assert read("NVRM: Xid (PCI:0000:01:00): 45, x caused by previous Xid 9999").caused_by is None


def test_only_a_154_tells_of_the_recovery_action() -> None:
    text = "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"
    assert read(f"NVRM: Xid (PCI:0000:01:00): 31, {text}").recovery_to is None
    cut = read("NVRM: Xid (PCI:0000:01:00): 154, GPU recovery action changed from 0x0 (None) to 0x")
    assert cut.recovery_to is None


@pytest.mark.parametrize(
    "line",
    [
        "NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus",
        "nvidia-nvswitch0: SXid (PCI:0000:c2:00.0): 20034, Fatal, Link 28 LTSSM Fault Up",
    ],
)
def test_a_line_that_user_space_wrote_is_rejected(line: str) -> None:
    with pytest.raises(Rejected, match="user_space"):
        parse(f"11,7,1500000,-;{line}".encode())


@pytest.mark.parametrize(
    "line",
    [
        "usb 1-1: new device",
        "NVRM: Xid_like",
        "",
        "nvidia: NVRM: Xid",
        "nvidia-nvswitch0: using MSI",
        "NVRM: GPU 0000:01:00.0: GPU serial number is 1.",
        "NVRM: Rate limiting something else at PCI:0000:17:00",
        "NVRM: The NVIDIA GPU 0000:41:00.0 (PCI ID: 10de:2330) is not supported",
    ],
)
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
        b"3,7,236000000000000000,-;NVRM: Xid (PCI:0000:01:00): 79, in the year 9505",
        b"3,7,1500000,-;NVRM: Xid (PCI:0000:01:00 GPU-I",
        b"3,7,1500000,-;NVRM: Xid (PCI:0000:01:00): ",
        b"3,7,1500000,-;NVRM: Xid (PCI:0000:01:00): seventy-nine, x",
        b"3,7,1500000,-;NVRM: GPU ::::::::: GPU has fallen off the bus.",
        b"3,7,1500000,-;nvidia-nvswitch0: SXid (PCI:0000:c2",
        b"3,7,1500000,-;nvidia-nvswitch0: SXid (PCI:::::::): 20034, Fatal",
        b"\xff\xfe\x00" * 50,
    ],
)
def test_garbage_is_rejected_with_a_word_for_the_counter(raw: bytes) -> None:
    with pytest.raises(Rejected, match="malformed"):
        parse(raw)


BEGINNINGS = (
    b"",
    b"3,7,1500000,-;",
    b"3,7,1500000,-;NVRM: Xid (PCI:0000:01:00",
    b"3,7,1500000,-;NVRM: Xid (PCI:0000:01:00): 154, GPU recovery action changed from 0x",
    b"3,7,1500000,-;NVRM: GPU ",
    b"3,7,1500000,-;nvidia-nvswitch0: SXid (PCI:0000:c2:00.0): 2",
)


@given(st.binary(max_size=300))
def test_no_bytes_at_all_raise_anything_else(raw: bytes) -> None:
    for beginning in BEGINNINGS:
        with contextlib.suppress(Rejected):
            parse(beginning + raw)


@given(st.sampled_from(FORMS), st.integers(0, 200), st.text(max_size=40))
def test_a_line_cut_or_lengthened_anywhere_is_understood_or_rejected(
    form: tuple[str, dict[str, object]], end: int, tail: str
) -> None:
    with contextlib.suppress(Rejected):
        signal = parse(b"3,7,1500000,-;" + (form[0][:end] + tail).encode())
        assert signal is None or len(signal.message) <= driver_lines.MESSAGE_LIMIT


@given(st.text(max_size=400))
def test_messages_are_cut_short_and_cannot_steer_a_terminal(text: str) -> None:
    kept = driver_lines.plain(text)
    assert len(kept) <= driver_lines.MESSAGE_LIMIT
    assert all(mark.isprintable() for mark in kept)
