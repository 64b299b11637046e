"""The kernel's messages that quote texts of users, with hostile ones in them, by every way to read.

`quoted_texts.csv` has the messages: the format with a hole, how many bytes the text has at most,
marks that it cannot have, the kernel's file that prints it, and who chooses the text. They are made
into records as the kernel and journald do it; none of them may be a signal.
"""

import csv
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from random import Random

import msgspec

from exporter.model.signals import Signal
from exporter.sensor.kernel_log import driver_lines
from exporter.sensor.kernel_log.driver_lines import Rejected
from exporter.sensor.kernel_log.journal import as_line
from exporter.sensor.kernel_log.journal_file import KernelRecord
from exporter.sensor.kernel_log.record_order import RecordOrder
from exporter.sensor.kernel_log.syslog_text import SyslogText
from tests.fuzz import hostile
from tests.fuzz.kernel_lines import REAL_LINES
from tests.fuzz.target import Target, demand

MODES = ("kmsg", "journal", "syslog")
BOOT = datetime(2026, 1, 5, 8, tzinfo=UTC)

_MICROSECONDS = 762_913_561
_PLAIN = frozenset(map(chr, range(32, 127))) - {"\\"}
"""Marks that /dev/kmsg gives as they are."""
_CUTS = (973, 989, 1021)
"""Bytes after which kernels cut a message (kernel/printk/printk.c: LOG_LINE_MAX,
PRINTKRB_RECORD_MAX)."""
_SYSLOG_SIZE = 2048
"""Bytes of a record with its prefixes that syslog(2) gives: 2029 and 2031 measured on 6.18.44."""
_WRAPPED = (
    "{}",
    "\n{}",
    "x\n{}",
    "x\n\n{}\n",
    "{}\n",
    "{}\n\n",
    "{}\nx",
    "{}\nNVRM: x",
    "{}\nNVRM: x\nNVRM: y\n",
    "{}, pid=1, name=",
    "{}\nNVRM: Xid (PCI:0000:3b:00): 95, x",
    "\\x0a{}",
    "{}\\x0a",
    "'\n{} '",
    "x\r{}",
    "x\r\n{}\r\n",
    "{}\0x",
    "<3>[    1.000001] {}",
    "x\n<3>[  762.913562] {}",
    "x\n3,7,762913562,-;{}",
    "x\n SUBSYSTEM=pci\n{}",
    "{} \U0001f4a5\u2028\x1b[2J",
)
_LONG = (
    "A" * 4000,
    "\n" * 4000,
    "\nNVRM: x" * 500,
    "\nx" * 500,
    "\U0001f4a5" * 1000,
    "\\x0a" * 1000,
    " " * 4000,
)
_RAW = tuple(line.encode() for line in REAL_LINES)


class Quoted(msgspec.Struct, frozen=True):
    """A message of the kernel's with a hole."""

    format: str
    size: int
    without: str
    subsystem: str
    source: str
    """File of Linux, or of NVIDIA's open kernel modules."""
    who: str

    def message(self, text: str) -> bytes:
        """Return the message as the kernel prints it, before it is cut."""
        kept = "".join(mark for mark in text.partition("\0")[0] if mark not in self.without)
        return self.format.encode().replace(b"{text}", kept.encode()[: self.size])


@cache
def quoted() -> tuple[Quoted, ...]:
    path = Path(__file__).with_name("quoted_texts.csv")
    with path.open(encoding="utf-8", newline="") as file:
        return tuple(
            Quoted(
                _unescaped(row["format"]),
                int(row["bytes"]),
                _unescaped(row["without"]),
                row["subsystem"],
                row["source"],
                row["who"],
            )
            for row in csv.DictReader(file)
        )


def _unescaped(text: str) -> str:
    return text.encode().decode("unicode_escape")


@cache
def texts() -> tuple[str, ...]:
    """Return each real line of the drivers as users would bend it, and long ones."""
    lines = [line for line in REAL_LINES if line.startswith(("NVRM", "nvidia-nvswitch"))]
    bent = [form.replace("{}", line) for line in lines for form in _WRAPPED]
    return tuple(bent + [line + rest for line in lines for rest in _LONG])


def signals(mode: str, message: bytes, cut: int) -> list[Signal]:
    """Return what is read of a message by one way to read the log."""
    received: list[Signal] = []
    for raw in records(mode, message[:cut].removesuffix(b"\n")):
        try:
            signal = driver_lines.understand(driver_lines.split(raw), BOOT)
        except Rejected:
            continue
        received += [signal] if signal else []
    return received


def records(mode: str, message: bytes) -> Iterator[bytes]:
    """Give the records that one way to read the log makes of a message."""
    if mode == "kmsg":
        marks = (
            b"%c" % byte if 32 <= byte < 127 and byte != 92 else b"\\x%02x" % byte
            for byte in message
        )
        yield b"3,7,%d,-;%b\n" % (_MICROSECONDS, b"".join(marks))
    elif mode == "journal":
        record = KernelRecord(bytes(16), 3, 0, _MICROSECONDS, message)
        yield as_line(record, RecordOrder()).raw
    else:
        for line in SyslogText().read(_of_syslog(message)).lines:
            yield line.raw


def _of_syslog(message: bytes) -> bytes:
    """Write it as syslog(2) does, which leaves out the lines that do not fit."""
    head = b"<3>[%5d.%06d] " % divmod(_MICROSECONDS, 1_000_000)
    stated = b""
    for line in message.split(b"\n"):
        if len(stated) + len(head) + len(line) + 2 > _SYSLOG_SIZE:
            break
        stated += head + line + b"\n"
    return stated


Made = tuple[int, str, str, int]
"""Number of the message, the text, the way to read, and where the kernel cuts."""


def make_quoted(random: Random) -> Made:
    text = random.choice(texts())
    if random.randrange(3) == 0:
        raw = hostile.mutated(random, text.encode()[:1500], 3, _RAW)
        text = raw.decode("utf-8", "replace")
    elif random.randrange(4) == 0:
        text += hostile.text(random) + random.choice(texts())
    number = random.randrange(len(quoted()))
    return number, text, random.choice(MODES), random.choice(_CUTS)


def check_quoted(made: Made) -> None:
    number, text, mode, cut = made
    received = signals(mode, quoted()[number].message(text), cut)
    demand(not received, "a user's line is read", received)


TARGETS = (Target("quoted-text", 60, make_quoted, check_quoted),)
