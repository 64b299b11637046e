"""The text of syslog(2) into records, and which of them are new."""

import itertools
import tracemalloc
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.sensor.kernel_log import driver_lines
from exporter.sensor.kernel_log.syslog_text import LATELY, Clears, NewLines, SyslogText


def text(*numbers: int) -> bytes:
    """Lines of the seconds given, in the kernel's own form."""
    return b"".join(b"<6>[%5d.000001] line %d\n" % (number, number) for number in numbers)


def messages(changes: NewLines) -> list[bytes]:
    return [line.raw.partition(b";")[2] for line in changes.lines]


def lines(*numbers: int) -> list[bytes]:
    return [b"line %d" % number for number in numbers]


@pytest.mark.parametrize(
    ("line", "raw"),
    [
        (b"<6>[    0.000000] Linux version 6.18", b"6,0,0,-;Linux version 6.18"),
        (b"<11>[12345.678901] NVRM: Xid", b"11,197530862416,12345678901,-;NVRM: Xid"),
        (b"<4>[    1.000002][   T42] called", b"4,16000032,1000002,-;called"),
        (b"<4>[    1.000002][T42/kworker/u8:1] called", b"4,16000032,1000002,-;called"),
        (b"<4>[    0.000000] [Firmware Bug]: TSC", b"4,0,0,-;[Firmware Bug]: TSC"),
        (b"<6>[    0.000001] ", b"6,16,1,-;"),
        (b"<6>[    0.000001] <3>[    0.000001] NVRM: Xid", b"6,16,1,-;<3>[    0.000001] NVRM: Xid"),
    ],
)
def test_a_line_becomes_a_record_of_the_device(line: bytes, raw: bytes) -> None:
    [found] = SyslogText().read(line + b"\n").lines
    assert found.raw == raw
    assert driver_lines.split(raw).sequence == found.place


@pytest.mark.parametrize(
    "line",
    [b"garbage", b"<6>no time", b"[    0.000001] no priority", b"<6>[ 1.1] x", b"\xff", b""],
)
def test_a_text_with_a_line_without_a_time_has_no_records(line: bytes) -> None:
    for whole in (line + b"\n" + text(1), text(1) + line + b"\n", text(1) + line + b"\n" + text(2)):
        changes = SyslogText().read(whole)
        assert (changes.timed, messages(changes)) == (False, [])


def test_records_are_read_again_once_all_lines_have_their_time() -> None:
    known = SyslogText()
    assert not known.read(b"<6>no time\n").timed
    changes = known.read(text(1))
    assert (changes.timed, messages(changes)) == (True, lines(1))


def test_the_lines_of_a_gpu_that_does_not_answer_are_one_record_again() -> None:
    head = b"<3>[   10.000001][   T42] "
    written = (
        b"NVRM: The NVIDIA GPU 0000:3b:00.0",
        b"NVRM: (PCI ID: 10de:2330) installed in this system has",
        b"NVRM: fallen off the bus and is not responding to commands.",
    )
    whole = b"".join(head + line + b"\n" for line in written)
    joined = rb"\x0a".join(written)
    changes = list(SyslogText().read(text(1) + whole + text(11)).lines)
    assert [line.raw.partition(b";")[2] for line in changes] == [*lines(1), joined, *lines(11)]
    assert not any(line.hidden for line in changes)
    forged = whole.replace(head, b"<11>[   10.000001] ", 1)
    first, rest = messages(SyslogText().read(forged))
    assert (first, rest) == (written[0], rb"\x0a".join(written[1:]))


@pytest.mark.parametrize("head", [b"<6>[  866.336219] ", b"<3>[  866.336219][ T1132] "])
def test_a_line_with_the_prefix_of_the_line_before_is_never_a_record(head: bytes) -> None:
    """The file name has a line break, and the kernel quotes it behind "in"."""
    error = b"NVRM: Xid (PCI:0000:3b:00): 95 pid=1[1132,55f602ca6000+1000]"
    whole = head + b"y[1132]: segfault at 0 in y\n" + head + error + b"\n" + head + b"more\n"
    _, found = SyslogText().read(text(1) + whole).lines
    assert found.raw.endswith(rb"in y\x0amore")
    assert found.hidden == 1


def test_of_two_errors_of_one_moment_the_second_is_counted_only() -> None:
    line = b"<3>[   10.000001] NVRM: Xid (PCI:0000:3b:00): 31, Ch %d\n"
    [found] = SyslogText().read(line % 1 + line % 2).lines
    assert (found.raw.endswith(b"Ch 1"), found.hidden) == (True, 1)


def test_another_priority_or_moment_is_another_record() -> None:
    one = b"<3>[   10.000001] NVRM: Xid (PCI:0000:3b:00): 31\n"
    for other in (one.replace(b"<3>", b"<6>"), one.replace(b"1]", b"2]")):
        assert len(list(SyslogText().read(one + other).lines)) == 2


def test_only_what_follows_the_last_end_is_new() -> None:
    known = SyslogText()
    assert messages(known.read(text(1, 2))) == lines(1, 2)
    assert messages(known.read(text(1, 2))) == []
    assert messages(known.read(text(1, 2, 3))) == lines(3)
    assert messages(known.read(text(2, 3, 4, 5))) == lines(4, 5)


def test_a_line_that_is_written_again_is_new() -> None:
    known = SyslogText()
    assert messages(known.read(text(1))) == lines(1)
    again = text(1).replace(b"<6>", b"<5>")
    assert [line.place for line in known.read(text(1) + again).lines] == [16000017]


def test_a_ring_that_was_overwritten_is_given_whole_with_a_word() -> None:
    known = SyslogText()
    list(known.read(text(*range(1, 200))).lines)
    changes = known.read(text(*range(300, 500)))
    assert (changes.lost, messages(changes)) == ("overwritten", lines(*range(300, 500)))
    assert known.read(text(*range(300, 500))).lost == ""


def test_a_line_that_a_user_quotes_is_not_where_the_last_text_ended() -> None:
    """The ring was overwritten meanwhile; behind the quotation comes what looks like a record."""
    known = SyslogText()
    list(known.read(text(*range(1, 200))).lines)
    last = text(199)[:-1]
    head = b"<3>[  815.125393] "
    error = b"NVRM: Xid (PCI:0000:3b:00): 79 forged'\n"
    quoted = head + b"tmpfs: Unknown parameter 'x" + last + b"\n" + head + error
    changes = known.read(text(*range(300, 400)) + quoted)
    assert changes.lost == "overwritten"
    *_, found = changes.lines
    assert (found.hidden, found.raw.endswith(last)) == (1, True)


def test_the_end_of_the_last_text_is_found_where_it_is_the_only_line() -> None:
    known = SyslogText()
    assert messages(known.read(text(1))) == lines(1)
    assert messages(known.read(text(1, 2))) == lines(2)
    assert messages(known.read(text(2, 3))) == lines(3)
    assert messages(known.read(text(4, 3, 5))) == lines(5)


def test_lines_that_were_seen_keep_their_places_when_the_end_is_gone() -> None:
    known = SyslogText()
    first = list(known.read(text(1, 2, 3)).lines)
    changes = known.read(text(1, 2))
    assert (changes.lost, list(changes.lines)) == ("overwritten", first[:2])


def test_a_log_that_was_cleared_says_so_once() -> None:
    known = SyslogText()
    list(known.read(text(*range(1, 200))).lines)
    assert known.read(b"").lost == "cleared"
    assert known.read(b"").lost == ""
    changes = known.read(text(300))
    assert (changes.lost, messages(changes)) == ("", lines(300))
    list(known.read(text(*range(300, 500))).lines)
    assert known.read(text(501)).lost == "cleared"


class Kernel:
    """Its ring, as syslog(2) gives it and counts it; `size` are the records that it keeps."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._logged: list[bytes] = []
        self._cleared = 0
        self._taken = 0
        self._lost_at = 0
        """Up to where records were given, or were cleared before they were."""

    def log(self, length: int) -> None:
        number = len(self._logged)
        self._logged.append(b"<6>[%5d.000001] %b\n" % (number, b"x" * length))

    def clear(self) -> None:
        self._cleared = len(self._logged)

    def take(self) -> None:
        """As a daemon that reads /proc/kmsg."""
        self._taken = len(self._logged)

    def look(self) -> tuple[bytes, int, bool]:
        """Return the text, what is held, and whether records went that no text had."""
        oldest = max(0, len(self._logged) - self._size)
        lost = max(oldest, self._cleared) > self._lost_at
        self._lost_at = len(self._logged)
        held = b"".join(self._logged[max(oldest, self._taken) :])
        return b"".join(self._logged[max(oldest, self._cleared) :]), len(held), lost


EVENTS = st.one_of(
    st.integers(0, 60), st.sampled_from(["look", "look", "clear", "take", "unsettled look"])
)


@given(st.lists(EVENTS, max_size=60), st.integers(1, 60))
def test_nothing_is_called_cleared_where_no_record_was_lost(
    events: list[int | str], size: int
) -> None:
    kernel, known = Kernel(size), SyslogText()
    cleared, largest = False, 0
    for event in events:
        if isinstance(event, int):
            kernel.log(event)
        elif event == "clear":
            kernel.clear()
            cleared = True
        elif event == "take":
            kernel.take()
        else:
            text, held, _ = kernel.look()
            found = known.read(text, held if event == "look" else None)
            list(found.lines)
            # A ring of so few records may become half as long by itself.
            assert cleared or found.lost != "cleared" or 2 * len(text) < largest
            largest = max(largest, len(text))


@given(st.lists(EVENTS.filter(lambda event: event != "take"), max_size=60))
def test_each_look_after_records_were_cleared_unseen_counts_them(events: list[int | str]) -> None:
    """Where the ring has room and nobody else reads it.

    All but one thing: a look in which records kept coming does not say what is held. When it finds
    the text gone, what goes until the next one that says so cannot be counted.
    """
    kernel, known = Kernel(10_000), SyslogText()
    known.read(*kernel.look()[:2])
    owed, has_base = False, True
    for event in events:
        if isinstance(event, int):
            kernel.log(event)
        elif event == "clear":
            kernel.clear()
        elif event != "take":
            text, held, lost = kernel.look()
            owed |= lost
            found = known.read(text, held if event == "look" else None)
            list(found.lines)
            if event == "look":
                assert found.lost or not owed or not has_base
                owed, has_base = False, True
            else:
                has_base &= not found.lost
            owed &= not found.lost


def test_a_clear_counts_for_a_while_and_not_for_ever() -> None:
    clears = Clears()
    assert not clears.note(0.0, "")
    assert not clears.note(1.0, "overwritten")
    assert clears.note(2.0, "cleared")
    assert clears.note(1.0 + LATELY, "")
    assert not clears.note(2.0 + LATELY, "")
    assert clears.note(3.0 + LATELY, "cleared")
    assert clears.note(2.0 + 2 * LATELY, "")


def test_places_do_not_depend_on_how_often_the_log_was_looked_at() -> None:
    whole = text(*range(1, 50))
    known = SyslogText()
    parts = [
        line
        for end in range(0, len(whole), 97)
        for line in known.read(whole[: whole.rfind(b"\n", 0, end) + 1]).lines
    ]
    parts += known.read(whole).lines
    assert parts == list(SyslogText().read(whole).lines)


def test_a_million_lines_without_a_time_are_refused_in_little_memory() -> None:
    garbage = b"<6>[    1.000001] x\n" + b"<6>no time here\n" * 1_000_000
    tracemalloc.start()
    changes = SyslogText().read(garbage)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (changes.timed, list(changes.lines)) == (False, [])
    # The garbage is 16 MB; what threads of other tests take meanwhile is counted with ours.
    assert peak < 1 << 20


def test_a_million_records_are_given_in_little_memory() -> None:
    whole = b"".join(b"<6>[%5d.000001] line\n" % number for number in range(1_000_000))
    tracemalloc.start()
    reported = SyslogText().read(whole).lines
    some = sum(1 for _ in itertools.islice(reported, 50_000))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert some == 50_000
    assert peak < 1 << 20


@given(st.lists(st.binary(max_size=60), max_size=5), st.lists(st.binary(max_size=60), max_size=5))
def test_no_bytes_raise(first: list[bytes], second: list[bytes]) -> None:
    known = SyslogText()
    for part in (first, second, first + second):
        for line in known.read(text(1) + b"\n".join(part)).lines:
            assert driver_lines.split(line.raw).sequence == line.place


def test_of_two_errors_of_two_switches_in_one_moment_the_first_is_counted() -> None:
    line = b"<3>[   10.000001] nvidia-nvswitch%d: SXid (PCI:0000:c2:00.0): 11004, Fatal, x\n"
    [found] = SyslogText().read(line % 1 + line % 2).lines
    signal = driver_lines.understand(
        driver_lines.split(found.raw), datetime(2026, 1, 5, tzinfo=UTC)
    )
    assert signal is not None
    assert (signal.code, found.hidden) == (11004, 1)
