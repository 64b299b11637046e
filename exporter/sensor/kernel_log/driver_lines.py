"""One record of the kernel log into a signal.

A record is `priority,sequence,microseconds,flags;message`, as /dev/kmsg gives
it. Lines of NVIDIA's drivers (GPU and NVSwitch) are understood in every form
that they have printed errors in. Only facility 0 counts: user space can write
/dev/kmsg, the kernel then marks the record as not its own. Nor counts a record of
another subsystem that begins with a text of a user's. Nothing that comes
in here can raise anything but Rejected. Pure: the boot time comes in.
"""

import re
from collections.abc import Callable
from datetime import datetime, timedelta

import msgspec

from exporter.model.device import normal_bus_id
from exporter.model.signals import Signal
from exporter.model.xid import sxid_fatal
from exporter.sensor.kernel_log.quoted import LINE_END, NAME, ends_at, is_quoted, lines_of
from kubeapi.types import LATEST

MESSAGE_LIMIT = 160
"""Characters of a message that are kept."""
RATE_LIMITED_CODE = 119
"""The XID whose lines the driver leaves out after it printed that it does (GSP RPC timeouts)."""

_CODE_LIMIT = 1023
"""Above the highest code known (176) by far; more is no XID."""
_SEQUENCE_LIMIT = 2**63
_PROCESS_LIMIT = 32

_BUS = r"(?P<bus>[0-9a-fA-F:.]{5,20})"
_HEAD = re.compile(rb"(\d{1,10}),(\d{1,20}),(\d{1,20}),[^;]{0,200};")
_XID = re.compile(
    rf"NVRM: Xid \((?:PCI:)?{_BUS}"
    r"(?: GPU-I:(?P<gi>\d{1,4}))?(?: GPU-CI:(?P<ci>\d{1,4}))?(?: [^()]{1,60})?\): "
    r"(?P<code>\d{1,9})(?:[,: ] *(?P<rest>.*))?"
)
"""After the ids that are known a driver may name others; they must not cost the line."""
_PROCESS = re.compile(
    r"pid='?(?:(?P<pid>\d{1,10})|[^,]{0,20})'?"
    rf"(?:, name=(?P<name>{NAME}|.*))?(?:, (?P<message>.*))?"
)
"""The message is the driver's own words only: none where a name is not followed by any."""
_RESET = re.compile(r"RST: (Yes|No), D-RST: (Yes|No)$")
_CAUSE = re.compile(r"caused by previous Xid (\d{1,4})$")
_RECOVERY = re.compile(
    r"GPU recovery action changed from 0x[0-9a-fA-F]{1,8} .{0,60}to 0x(?P<to>[0-9a-fA-F]{1,2})\b.*"
)
_DETAIL = {13: re.compile(r"Graphics (?:SM (?:Warp|Global) Exception on \(|Exception: ESR )")}
"""What the lines of an error have that others follow: an XID 13 reports each multiprocessor, then
of the channel. Longer than a process name may be (15 characters): no name can pretend it."""
_SXID = re.compile(
    rf"nvidia-nvswitch\d{{1,4}}: SXid \(PCI:{_BUS}\): (?P<code>\d{{1,6}})(?:, ?(?P<rest>.*))?"
)
_SEVERITY = re.compile(r"(?P<severity>Non-fatal|Fatal)(?:, *(?P<message>.*))?", re.IGNORECASE)
_LINK = re.compile(r"\bLink (\d{1,3})\b")
_SXID_DETAILS = ("Severity ", "Data {", "Data{")
"""Beginnings of the lines that follow an SXid under its code and tell of no further error."""


class Rejected(Exception):  # noqa: N818 - a counted outcome, not a fault
    """A record that cannot be taken; `reason` is a stable word for the counter."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Record(msgspec.Struct, frozen=True):
    """A kernel-log record, split but not understood."""

    facility: int
    sequence: int
    since_boot: timedelta
    message: str


def split(raw: bytes) -> Record:
    """Split a record; raises Rejected("malformed") on anything that is none.

    Lines after the first carry `KEY=value` pairs and are dropped.
    """
    head = _HEAD.match(raw)
    if head is None or int(head[2]) >= _SEQUENCE_LIMIT:
        raise Rejected("malformed")
    try:
        since_boot = timedelta(microseconds=int(head[3]))
    except OverflowError:
        raise Rejected("malformed") from None
    line = raw[head.end() :].split(b"\n", 1)[0]
    return Record(int(head[1]) >> 3, int(head[2]), since_boot, line.decode("utf-8", "replace"))


def understand(record: Record, boot_time: datetime) -> Signal | None:
    """Return what the driver says in a record, None when it says nothing that counts.

    Raises Rejected("user_space") for such a line that the kernel did not print
    itself, Rejected("quoted") for one that another part of the kernel printed, and
    Rejected("malformed") for an XID or SXid line that makes no sense.
    """
    if not record.message.startswith(("NVRM: ", "nvidia-nvswitch")):
        return None
    if record.facility != 0:
        raise Rejected("user_space")
    try:
        at = boot_time + record.since_boot
    except OverflowError:
        raise Rejected("malformed") from None
    if at > LATEST:
        raise Rejected("malformed")
    blank = Signal(kind="xid", source="kmsg", at=at, kernel_sequence=record.sequence)
    for beginning, read in _ERRORS:
        if record.message.startswith(beginning):
            signal = read(lines_of(record.message)[0], blank)
            if signal is not None and is_quoted(record.message):
                raise Rejected("quoted")
            return signal
    return _notice_of(record.message, blank)


def _notice_of(message: str, blank: Signal) -> Signal | None:
    for beginning, whole, fields in _NOTICES:
        if beginning.match(message):
            found = whole.match(message)
            if found is None or not ends_at(message, found.end()):
                raise Rejected("quoted")
            return msgspec.structs.replace(blank, **fields(found))
    return None


def _xid(text: str, blank: Signal) -> Signal:
    found = _XID.fullmatch(text)
    if found is None or int(found["code"]) > _CODE_LIMIT:
        raise Rejected("malformed")
    code = int(found["code"])
    rest = found["rest"] or ""
    process = _PROCESS.fullmatch(rest)
    # With its blanks until now: those behind a name end it where the driver says nothing more.
    message = ((process["message"] or "") if process else rest).rstrip()
    reset = _RESET.search(message)
    unfinished = code in _DETAIL and _DETAIL[code].search(message) is not None
    # Behind its first comma may be the driver's first words.
    name = (process["name"] or "").partition(", ")[0] if process else ""
    # Before the last line the driver may name who happened to run then: an H100 named the sensor.
    named = process is not None and process["pid"] is not None and not unfinished
    cause = _CAUSE.search(message)
    recovery = _RECOVERY.fullmatch(message) if code == 154 else None
    return msgspec.structs.replace(
        blank,
        bus_id=_bus(found["bus"]),
        code=code,
        gi=int(found["gi"]) if found["gi"] else None,
        ci=int(found["ci"]) if found["ci"] else None,
        reset=reset[1] == "Yes" if reset else None,
        drain_reset=reset[2] == "Yes" if reset else None,
        pid=int(process["pid"]) if process and named else None,
        process=plain(name, _PROCESS_LIMIT) if named else "",
        message=plain(message),
        caused_by=int(cause[1]) if cause and int(cause[1]) <= _CODE_LIMIT else None,
        # By its number: the names behind it have changed between drivers.
        recovery_to=int(recovery["to"], 16) if recovery else None,
        unfinished=unfinished,
    )


def _sxid(text: str, blank: Signal) -> Signal | None:
    if "SXid" not in text[:40]:
        return None  # other words of the same driver
    found = _SXID.fullmatch(text.rstrip())
    if found is None:
        raise Rejected("malformed")
    rest = found["rest"] or ""
    if rest.startswith(_SXID_DETAILS):
        return None
    code = int(found["code"])
    severity = _SEVERITY.fullmatch(rest)
    link = _LINK.search(rest)
    return msgspec.structs.replace(
        blank,
        kind="sxid",
        bus_id=_bus(found["bus"]),
        code=code,
        fatal=severity["severity"].lower() == "fatal" if severity else sxid_fatal(code),
        link=int(link[1]) if link else None,
        message=plain((severity["message"] or "") if severity else rest),
    )


def _lost(found: re.Match[str]) -> dict[str, object]:
    message = plain(found[0].replace(LINE_END + "NVRM:", "").removeprefix("NVRM: "))
    return {"kind": "fell-off", "code": 79, "bus_id": _bus(found["bus"]), "message": message}


_ERRORS: tuple[tuple[str, Callable[[str, Signal], Signal | None]], ...] = (
    ("NVRM: Xid ", _xid),
    ("nvidia-nvswitch", _sxid),
)
"""Lines that are refused when they cannot be understood, by their beginning."""

_Fields = Callable[[re.Match[str]], dict[str, object]]
_BREAK = rf"(?: |{re.escape(LINE_END)}NVRM: ?)"


def _notice(
    beginning: str, rest: str, fields: _Fields
) -> tuple[re.Pattern[str], re.Pattern[str], _Fields]:
    return re.compile(beginning), re.compile(beginning + rest), fields


_NOTICES = (
    # Drivers up to R390 leave out `PCI:` and `: GPU`.
    _notice(rf"NVRM: GPU (?:at )?(?:PCI:)?{_BUS}(?:: GPU)? has fallen off the bus", r"\.?", _lost),
    # A GPU that did not answer when the driver took it up: one record of three lines, of which the
    # first ends behind the bus id (NVIDIA's open kernel module, osinit.c).
    _notice(
        rf"NVRM: The NVIDIA GPU {_BUS}{_BREAK}(?=.{{0,200}}fallen off the bus)",
        r"(?:\(PCI ID: [0-9a-fA-F]{4}:[0-9a-fA-F]{4}\) )?(?:installed in this system )?"
        rf"has{_BREAK}fallen off the bus(?: and is not responding to commands)?\.?",
        _lost,
    ),
    _notice(
        rf"NVRM: GPU at (?:PCI:)?{_BUS}: (?=GPU-)",
        r"(?P<uuid>GPU-[0-9a-fA-F-]{36})",
        lambda found: {"kind": "identity", "bus_id": _bus(found["bus"]), "uuid": found["uuid"]},
    ),
    _notice(
        rf"NVRM: Rate limiting GSP RPC error prints for GPU at PCI:{_BUS}",
        r"(?: \(printing 1 of every \d{1,9}\)\.  ?The GPU likely needs to be reset\.)?",
        lambda found: {
            "kind": "rate-limit",
            "code": RATE_LIMITED_CODE,
            "bus_id": _bus(found["bus"]),
            "message": plain(found[0].removeprefix("NVRM: ")),
        },
    ),
    # Behind it the version, the build, who built it and when: no quotation mark and no `=`.
    _notice(
        r"NVRM: loading NVIDIA UNIX .{0,60}?Kernel Module",
        r"(?: for [\w.-]{1,20})?(?: {1,2}[\w(][\w()@.:+ -]{0,150})?",
        lambda found: {"kind": "driver-load", "message": plain(found[0].removeprefix("NVRM: "))},
    ),
)
"""Lines by their beginning, and how the driver ends them: a line that ends otherwise is refused."""


def _bus(text: str) -> str:
    bus = normal_bus_id(text)
    if bus is None:
        raise Rejected("malformed")
    return bus


def plain(text: str, limit: int = MESSAGE_LIMIT) -> str:
    """Cut a text short and leave nothing in it that could steer a terminal."""
    kept = text[:limit]
    if not kept.isprintable():
        kept = "".join(mark if mark.isprintable() else " " for mark in kept)
    return kept.strip()
