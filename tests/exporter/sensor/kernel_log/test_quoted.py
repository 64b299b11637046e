"""A line that begins as a driver's, and is another part of the kernel's that quotes a user."""

from datetime import UTC, datetime

import pytest

from exporter.model.signals import Signal
from exporter.sensor.kernel_log import driver_lines
from exporter.sensor.kernel_log.driver_lines import Rejected
from exporter.sensor.kernel_log.syslog_text import SyslogText
from tests.exporter.sensor.kernel_log.test_driver_lines import FORMS

BOOT = datetime(2026, 1, 5, tzinfo=UTC)
XID_79 = (
    "NVRM: Xid (PCI:0000:7e:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus"
)
NO_DEVICE = ": Can't lookup blockdev"
PACKET = (
    "MAC=00:16:3e:5f:00:01:00:16:3e:5f:00:02:08:00 SRC=10.0.0.1 DST=10.0.0.2 LEN=60 TOS=0x00 "
    "PREC=0x00 TTL=64 ID=1 DF PROTO=TCP SPT=1 DPT=2 WINDOW=1 RES=0x00 SYN URGP=0 "
)
FRAME = " IN=eth0 OUT= MAC source = 00:16:3e:5f:00:01 MAC dest = 00:16:3e:5f:00:02 proto = 0x0800"
MOUNTED = (
    "<3>[  762.703258] " + XID_79 + NO_DEVICE + "\n",
    "<3>[  762.913146] NVRM: Xid (PCI:0000:7e:00): 79, lost " + "A" * 984 + "\n",
    "<3>[  762.913561] NVRM: Xid (PCI:0000:7e:00): 79, lost\n" + "<3>[  762.913561] \n" * 52,
    "<3>[  762.966050] NVRM: Xid (PCI:0000:7e:00): 79, lost\n"
    "<3>[  762.966050] : Can't lookup blockdev\n",
    "<3>[  762.966050] NVRM: Xid (PCI:0000:7e:00): 79, lost\n"
    "<3>[  762.966050] NVRM: Xid (PCI:0000:7e:00): 95, x: Can't lookup blockdev\n",
    "<3>[  762.913561] NVRM: Xid (PCI:0000:7e:00): 79, lost\n" * 40,
    "<3>[  762.913561] NVRM: Xid (PCI:0000:7e:00): 79, lost\n"
    "<3>[  762.913561] NVRM: Xid (PCI:0000:7e:00): 95, " + " " * 870 + "\n",
    "<3>[  762.913146] NVRM: Xid (PCI:0000:7e:00): 79, lost " + " " * 984 + "\n",
)
"""What syslog(2) said of four mounts of ext4 from a source of such a name, on Linux 6.18.44: as it
is, followed by 2000 letters, by 200 line breaks, and by one. Of the second and of the third the
kernel leaves out the end. The others are made up in the same form."""


def received(message: str) -> Signal | None:
    return driver_lines.understand(driver_lines.split(f"3,7,15,-;{message}".encode()), BOOT)


def is_refused(message: str, *reasons: str) -> bool:
    try:
        received(message)
    except Rejected as refused:
        return refused.reason in ("quoted", *reasons)
    return False


@pytest.mark.parametrize(
    "text", MOUNTED, ids=["whole", "letters", "lines", "line", "hidden", "errors", "two", "blanks"]
)
def test_the_source_of_a_mount_is_no_error_as_this_kernel_printed_it(text: str) -> None:
    [line] = SyslogText().read(text.encode()).lines
    with pytest.raises(Rejected, match="quoted"):
        driver_lines.understand(driver_lines.split(line.raw), BOOT)


@pytest.mark.parametrize("form", [form for form, _ in FORMS], ids=[form[6:40] for form, _ in FORMS])
def test_no_form_of_the_driver_is_read_with_the_end_of_another_subsystem(form: str) -> None:
    for prefix in (form, f"{form}\\x0a", f"{form}, pid=1, name="):
        for end in (
            NO_DEVICE,
            ": Can't open blockdev",
            f"IN=eth0 OUT= {PACKET}",
            f" IN= OUT=eth0 {PACKET}",
            "IN= OUT=eth0",
            "IN=a OUT=b ARP HTYPE=1 PTYPE=0x0800 OPCODE=1",
            "IN=x, OUT=y MACSRC=00:16:3e:5f:00:01 MACDST=00:16:3e:5f:00:02 MACPROTO=0806",
            FRAME,
        ):
            assert is_refused(prefix + end, "malformed"), prefix + end


@pytest.mark.parametrize("end", ["A" * 700, r"\x0a" * 60, "\U0001f4a5" * 200, ", RST: Yes" * 90])
def test_a_text_as_long_as_one_that_the_kernel_cuts_is_none_of_the_drivers(end: str) -> None:
    assert received(XID_79) is not None
    assert is_refused(f"{XID_79}, Ch 00000001 {end} " + "." * 100)


@pytest.mark.parametrize(
    "name",
    [
        "IN=a OUT=b MAC=",
        r"a\x0ab",
        r"\x0a\x0aNVRM: Xid (",
        "a, OUT=b x",
        "'t open blockde",
        r"\xf0\x9f\x92\xa5" * 3,
        "x" * 15,
    ],
)
def test_nobody_hides_an_error_by_the_name_of_a_process(name: str) -> None:
    signal = received(f"NVRM: Xid (PCI:0000:01:00): 94, pid=7, name={name}, Contained: SM (0x1)")
    assert signal is not None
    assert (signal.code, signal.pid) == (94, 7)


def of_syslog(*lines: str) -> tuple[Signal | None, int]:
    """Read lines of one microsecond and priority; returns what they say and how many they hide."""
    text = "".join(f"<3>[  762.913561][ T1132] {line}\n" for line in lines)
    [line] = SyslogText().read(text.encode()).lines
    return driver_lines.understand(driver_lines.split(line.raw), BOOT), line.hidden


LOST = "NVRM: GPU 0000:a1:00.0: GPU has fallen off the bus."
SERIAL = "NVRM: GPU 0000:a1:00.0: GPU serial number is 1."
USB = "usb 1-1: new high-speed USB device number 2 using xhci_hcd"


@pytest.mark.parametrize("first", [LOST, XID_79])
@pytest.mark.parametrize(
    "more",
    [[SERIAL], [SERIAL] * 3, [USB], [USB, "", SERIAL], [SERIAL, USB, SERIAL]],
    ids=["own", "three own", "foreign", "foreign and own", "own and foreign"],
)
def test_records_behind_a_driver_line_in_its_microsecond_do_not_hide_it(
    first: str, more: list[str]
) -> None:
    """syslog(2) gives all with the same prefix, so that they are joined."""
    signal, hidden = of_syslog(first, *more)
    assert signal is not None
    assert (signal.code, hidden) == (79, 0)
    assert SERIAL not in signal.message


def test_of_four_errors_in_one_microsecond_the_first_is_read() -> None:
    signal, hidden = of_syslog(XID_79, *[XID_79.replace("79,", "31,")] * 3)
    assert signal is not None
    assert (signal.code, hidden) == (79, 3)


def test_a_driver_line_of_the_same_microsecond_changes_no_word_of_an_error() -> None:
    error = (
        "NVRM: Xid (PCI:0000:01:00): 94, pid=7, name=a, Contained: SM (0x1). RST: Yes, D-RST: No"
    )
    signal, _ = of_syslog(error, SERIAL)
    assert signal is not None
    assert (signal.reset, signal.drain_reset) == (True, False)


@pytest.mark.parametrize("line", [SERIAL, USB, "", "x"])
def test_a_text_whose_lines_syslog_leaves_out_is_none_of_the_drivers(line: str) -> None:
    """The kernel counts what it writes in front of each line for what it cuts."""
    for head, kept in (("<3>[  762.913561] ", 2000), ("<3>[  762.913561][ T1132] ", 990)):
        count = kept // (len(head) + len(line) + 1)
        text = (f"{head}{XID_79}\n" + f"{head}{line}\n" * count).encode()
        [record] = SyslogText().read(text).lines
        with pytest.raises(Rejected, match="quoted"):
            driver_lines.understand(driver_lines.split(record.raw), BOOT)


@pytest.mark.parametrize("first", [LOST, XID_79])
def test_a_record_that_comes_whole_has_no_line_of_anothers(first: str) -> None:
    assert is_refused(rf"{first}\x0a{USB}")
    assert is_refused(rf"{first}\x0a\x0a{USB}")
    assert is_refused(rf"{first}\x0a{SERIAL}\x0a{USB}")


def test_the_length_of_the_drivers_own_lines_is_far_below() -> None:
    assert max(len(form) for form, _ in FORMS) < 300
