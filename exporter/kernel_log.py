"""One record of the kernel log into a signal.

A record is `priority,sequence,microseconds,flags;message`, as /dev/kmsg gives
it. Lines of NVIDIA's driver are understood in every form that it has printed
XIDs in. Only facility 0 counts: user space can write /dev/kmsg, the kernel then
marks the record as not its own. Nothing that comes in here can raise anything
but Rejected. Pure: the boot time comes in.
"""

import re
from datetime import datetime, timedelta

import msgspec

from exporter.device import normal_bus_id
from exporter.signals import Signal

MESSAGE_LIMIT = 160
"""Characters of a message that are kept."""

_CODE_LIMIT = 1023
"""Above the highest code known (176) by far; more is no XID."""
_SEQUENCE_LIMIT = 2**63

_HEAD = re.compile(rb"(\d{1,10}),(\d{1,20}),(\d{1,20}),[^;]{0,200};")
_XID = re.compile(
    r"NVRM: Xid \((?:PCI:)?(?P<bus>[0-9a-fA-F:.]{5,20})"
    r"(?: GPU-I:(?P<gi>\d{1,4}))?(?: GPU-CI:(?P<ci>\d{1,4}))?\): "
    r"(?P<code>\d{1,9})(?:, ?(?P<rest>.*))?"
)
_PROCESS = re.compile(
    r"pid='?(?P<pid>\d{1,10}|<unknown>)'?, name=(?P<name>.{0,40}?)(?:, (?P<message>.*))?"
)
_RESET = re.compile(r"RST: (Yes|No), D-RST: (Yes|No)\s*$")
_FELL_OFF = re.compile(
    r"NVRM: GPU (?:at PCI:)?(?P<bus>[0-9a-fA-F:.]{5,20}): GPU has fallen off the bus\.?.*"
)
_IDENTITY = re.compile(
    r"NVRM: GPU at PCI:(?P<bus>[0-9a-fA-F:.]{5,20}): (?P<uuid>GPU-[0-9a-fA-F-]{36})"
)
_DRIVER_LOAD = re.compile(r"NVRM: loading NVIDIA UNIX .{0,60}?Kernel Module.*")


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
    itself, and Rejected("malformed") for an XID line that makes no sense.
    """
    if not record.message.startswith("NVRM: "):
        return None
    if record.facility != 0:
        raise Rejected("user_space")
    try:
        at = boot_time + record.since_boot
    except OverflowError:
        raise Rejected("malformed") from None
    return _signal(record, at)


def _signal(record: Record, at: datetime) -> Signal | None:
    text = record.message
    if text.startswith("NVRM: Xid "):
        return _xid(record, at)
    blank = Signal(kind="xid", source="kmsg", at=at, kernel_sequence=record.sequence)
    if found := _FELL_OFF.fullmatch(text):
        return msgspec.structs.replace(
            blank, kind="fell-off", code=79, bus_id=_bus(found["bus"]), message=plain(text[6:])
        )
    if found := _IDENTITY.fullmatch(text.rstrip()):
        return msgspec.structs.replace(
            blank, kind="identity", bus_id=_bus(found["bus"]), uuid=found["uuid"]
        )
    if _DRIVER_LOAD.fullmatch(text):
        return msgspec.structs.replace(blank, kind="driver-load", message=plain(text[6:]))
    return None


def _xid(record: Record, at: datetime) -> Signal:
    found = _XID.fullmatch(record.message)
    if found is None or int(found["code"]) > _CODE_LIMIT:
        raise Rejected("malformed")
    rest = found["rest"] or ""
    process = _PROCESS.fullmatch(rest)
    reset = _RESET.search(rest)
    known_pid = process is not None and process["pid"].isdigit()
    return Signal(
        kind="xid",
        source="kmsg",
        at=at,
        kernel_sequence=record.sequence,
        bus_id=_bus(found["bus"]),
        code=int(found["code"]),
        gi=int(found["gi"]) if found["gi"] else None,
        ci=int(found["ci"]) if found["ci"] else None,
        reset=reset[1] == "Yes" if reset else None,
        drain_reset=reset[2] == "Yes" if reset else None,
        pid=int(process["pid"]) if process and known_pid else None,
        process=plain(process["name"], 32) if process and known_pid else "",
        message=plain((process["message"] or "") if process else rest),
    )


def _bus(text: str) -> str:
    bus = normal_bus_id(text)
    if bus is None:
        raise Rejected("malformed")
    return bus


def plain(text: str, limit: int = MESSAGE_LIMIT) -> str:
    """Cut a text short and leave nothing in it that could steer a terminal."""
    return "".join(mark if mark.isprintable() else " " for mark in text[:limit]).strip()
