"""One file of systemd's journal into the kernel's records in it.

journald reads /dev/kmsg and keeps each record whole, with fields that no client can set: those that
begin with "_". Its files need no library: fixed headers, little endian, offsets from the file's
start (https://systemd.io/JOURNAL_FILE_FORMAT/). The entries of the kernel are found by the data
object `_TRANSPORT=kernel`, which lists them in their order; each list only grows while it is read.
Where journald missed records of the kernel's it writes an entry of its own with a known MESSAGE_ID
(systemd's sd-messages.h: SD_MESSAGE_JOURNAL_MISSED).
Text that journald has compressed is left out: by default from 512 bytes on, and no line of the
driver is that long. A file that makes no sense raises JournalError and nothing else. Pure: bytes
come in.
"""

import struct
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

Read = Callable[[int, int], bytes]
"""Gives bytes by offset and size; fewer at the end of the file."""

_SIGNATURE = b"LPKSHHRH"
_HEADER = struct.Struct("<8s4xI8x16s16x16s48xQQ")
_UNDERSTOOD = 0b11111
"""XZ, LZ4, keyed hashes, ZSTD, compact: what files may have so far."""
_COMPACT = 1 << 4
_OBJECT = struct.Struct("<BB6xQ")
_DATA, _FIELD, _ENTRY, _ENTRY_ARRAY = 1, 2, 3, 6
_COMPRESSED, _LZ4, _ZSTD = 0b111, 1 << 1, 1 << 2
_FIELD_BODY = struct.Struct("<8xQQ")
_DATA_BODY = struct.Struct("<16xQQQQ")
_ENTRY_BODY = struct.Struct("<QQQ16s8x")
_BUCKET = struct.Struct("<QQ")
_LONGEST_ENTRY, _LONGEST_DATA = 1 << 16, 1 << 13
"""Bytes of an entry and of a field that are read at most; the kernel's have some dozen fields."""
_LARGEST_TABLE = 1 << 20
_LONG = 512
"""Bytes, and more than any line of the driver has."""

_KERNEL = b"_TRANSPORT=kernel"
_MISSED = b"MESSAGE_ID=e9bf28e6e834481bb6f48f548ad13606"
_NEEDED = (b"PRIORITY", b"SYSLOG_FACILITY", b"_SOURCE_MONOTONIC_TIMESTAMP", b"MESSAGE")

_LONG_TEXT = b"long"
"""Stands for the name of a field of which only the length is known. No field has small letters, and
of the kernel's fields only the message is long."""

_MOST_KNOWN = 4096
"""Such values that are kept; a sound file has some dozens."""
_REPEATED = (b"PRIORITY=", b"SYSLOG_FACILITY=", b"_TRANSPORT=", b"_BOOT_ID=", b"_HOSTNAME=")
"""Beginnings of what many entries share; there are few different ones in a file."""


class JournalError(Exception):
    """The file cannot be read as a journal; the message says why."""


class Header(msgspec.Struct, frozen=True):
    """What a file says of itself now. Only `name` and `compact` stay as they are."""

    name: bytes
    """16 bytes, of this file and its copies."""
    newest_boot: bytes
    """Of the last entry. Before the first one: of journald, or zeros."""
    compact: bool
    fields_at: int
    fields_size: int
    """Bytes of the table of fields; 0 until journald has made it in a file that it begins."""


class KernelRecord(msgspec.Struct, frozen=True):
    """A record of the kernel log."""

    boot: bytes
    """16 bytes."""
    priority: int = 0
    facility: int = 0
    microseconds: int = 0
    """Since boot, by the kernel's clock, as /dev/kmsg has it."""
    message: bytes | None = None
    """None where it is compressed and may be the driver's, or a field is missing; empty where it is
    compressed and too long for the driver's."""


class _Object(msgspec.Struct, frozen=True):
    at: int
    flags: int
    body: bytes
    """What follows the header, as far as it was read."""


class _List(msgspec.Struct):
    """A data object that lists entries, and how many of them were taken."""

    value: bytes
    """`NAME=value`."""
    field: int = 0
    """Object of the field, once there is one."""
    newest: int = 0
    """Of the field's data objects the newest that was looked at; later ones have higher offsets."""
    data: int = 0
    """The data object, once there is one."""
    taken: int = 0
    array: int = 0
    index: int = 0
    """Where in the list the next entry is; the first one has a place of its own."""


class JournalFile:
    """Reads a file from its start, and later what was added to it."""

    def __init__(self, read: Read) -> None:
        """Raises JournalError."""
        self._read = read
        self.header = header(read)
        self._kernel = _List(_KERNEL)
        self._missed = _List(_MISSED)
        self._known: dict[int, bytes] = {}

    def records(self) -> Iterator[KernelRecord]:
        """Give the kernel's records that were not given before.

        Raises JournalError.
        """
        return map(self._record, self._entries(self._kernel))

    def missed(self) -> Iterator[bytes]:
        """Give the boot of each time that journald missed records, which were not given before.

        Raises JournalError.
        """
        for at in self._entries(self._missed):
            boot, fields = self._fields(at)
            if fields.get(b"_TRANSPORT") == b"driver":  # else a client wrote it
                yield boot

    def _entries(self, desired: _List) -> Iterator[int]:
        if not desired.data:
            self._find(desired)
        if not desired.data:
            return
        _, first, array, count = _unpack(_DATA_BODY, self._object(desired.data, _DATA).body)
        while desired.taken < count:
            at = first if desired.taken == 0 else self._next(desired, array)
            desired.taken += 1
            yield at

    def _next(self, desired: _List, array: int) -> int:
        """Return where the next entry of the list is."""
        if not desired.array:
            desired.array, desired.index = array, 0
        width, number = (4, "<I") if self.header.compact else (8, "<Q")
        while True:
            kind, _, size = self._head(desired.array)
            if kind != _ENTRY_ARRAY:
                raise JournalError(f"no list of entries at {desired.array}")
            if desired.index < (size - _OBJECT.size - 8) // width:
                break
            (following,) = _unpack(struct.Struct("<Q"), self._read(desired.array + _OBJECT.size, 8))
            if following <= desired.array:
                raise JournalError(f"the list of entries at {desired.array} does not go on")
            desired.array, desired.index = following, 0
        place = desired.array + _OBJECT.size + 8 + desired.index * width
        desired.index += 1
        return int(_unpack(struct.Struct(number), self._read(place, width))[0])

    def _find(self, desired: _List) -> None:
        """Find a list, which may not be there yet."""
        if not desired.field:
            desired.field = self._find_field(desired.value.partition(b"=")[0])
        if not desired.field:
            return
        _, newest = _unpack(_FIELD_BODY, self._object(desired.field, _FIELD).body)
        at = newest
        while at > desired.newest:
            following, *_ = _unpack(_DATA_BODY, self._object(at, _DATA).body)
            if self._payload(at) == desired.value:
                desired.data = at
                return
            if following >= at:  # the newest comes first
                raise JournalError(f"the values of a field at {at} do not go on")
            at = following
        # Clients may write any number of values: none is looked at twice.
        desired.newest = newest

    def _find_field(self, name: bytes) -> int:
        """Return where a field's object is, 0 while there is none."""
        now = header(self._read)
        size = min(now.fields_size, _LARGEST_TABLE)
        size -= size % _BUCKET.size
        table = self._read(now.fields_at, size)
        if len(table) < size:
            raise JournalError("the file ends too early")
        for head, _ in _BUCKET.iter_unpack(table):
            at = head
            while at:
                found = self._object(at, _FIELD)
                following, _ = _unpack(_FIELD_BODY, found.body)
                if found.body[_FIELD_BODY.size :] == name:
                    return int(at)
                if following and following <= at:
                    raise JournalError(f"a chain at {at} does not go on")
                at = following
        return 0

    def _record(self, at: int) -> KernelRecord:
        boot, fields = self._fields(at)
        priority, facility, since_boot = (fields.get(name, b"") for name in _NEEDED[:3])
        numbers = (priority, facility, since_boot)
        # 14 digits: a hundred million seconds, in microseconds.
        sound = all(number.isdigit() and len(number) <= 14 for number in numbers)
        if not sound:
            return KernelRecord(boot)
        message = fields.get(b"MESSAGE", fields.get(_LONG_TEXT))
        return KernelRecord(boot, int(priority), int(facility), int(since_boot), message)

    def _fields(self, at: int) -> tuple[bytes, dict[bytes, bytes]]:
        """Return the boot and the fields of an entry."""
        entry = self._object(at, _ENTRY, _LONGEST_ENTRY)
        *_, boot = _unpack(_ENTRY_BODY, entry.body)
        width, number = (4, "<I") if self.header.compact else (16, "<Q8x")
        items = entry.body[_ENTRY_BODY.size :]
        places = struct.iter_unpack(number, items[: len(items) - len(items) % width])
        fields: dict[bytes, bytes] = {}
        for (place,) in places:
            name, _, value = self._payload(place).partition(b"=")
            fields[name] = value
        return boot, fields

    def _payload(self, at: int) -> bytes:
        """Return `NAME=value` of a data object; of one that is compressed at most `_LONG_TEXT`."""
        if (known := self._known.get(at)) is not None:
            return known
        found = self._object(at, _DATA)
        begin = _DATA_BODY.size + (8 if self.header.compact else 0)
        text = found.body[begin:]
        if found.flags & _COMPRESSED:
            text = _LONG_TEXT if size_unpacked(found.flags, text) >= _LONG else b""
        if text.startswith(_REPEATED) and len(self._known) < _MOST_KNOWN:
            self._known[at] = text
        return text

    def _object(self, at: int, kind: int, longest: int = _LONGEST_DATA) -> _Object:
        found, flags, size = self._head(at)
        if found != kind:
            raise JournalError(f"an object of kind {found} at {at} where one of {kind} should be")
        desired = min(size, longest) - _OBJECT.size
        body = self._read(at + _OBJECT.size, desired)
        if len(body) < desired:
            raise JournalError(f"the file ends within the object at {at}")
        return _Object(at, flags, body)

    def _head(self, at: int) -> tuple[int, int, int]:
        """Return kind, flags and size of an object."""
        kind, flags, size = _unpack(_OBJECT, self._read(at, _OBJECT.size))
        if size < _OBJECT.size:
            raise JournalError(f"an object of {size} bytes at {at}")
        return kind, flags, size


def size_unpacked(flags: int, packed: bytes) -> int:
    """Return the bytes of a compressed text, 0 where it does not say (XZ).

    journald writes eight bytes in front of LZ4's; ZSTD's frame says it (RFC 8878, 3.1.1.1).
    """
    if flags & _LZ4:
        return int.from_bytes(packed[:8], "little")
    if not flags & _ZSTD or len(packed) < 16:
        return 0
    descriptor = packed[4]
    single = descriptor >> 5 & 1
    begin = 5 + (1 - single) + (0, 1, 2, 4)[descriptor & 3]
    width = (single, 2, 4, 8)[descriptor >> 6]
    return int.from_bytes(packed[begin : begin + width], "little") + (256 if width == 2 else 0)


def header(read: Read) -> Header:
    """Return the head of a file; raises JournalError."""
    signature, flags, name, boot, fields_at, fields_size = _unpack(_HEADER, read(0, _HEADER.size))
    if signature != _SIGNATURE:
        raise JournalError("no journal of systemd")
    if flags & ~_UNDERSTOOD:
        raise JournalError(f"a format that is newer than this reader (flags {flags:#x})")
    return Header(name, boot, bool(flags & _COMPACT), fields_at, fields_size)


def _unpack(form: struct.Struct, data: bytes) -> tuple[Any, ...]:
    if len(data) < form.size:
        raise JournalError("the file ends too early")
    return form.unpack_from(data)
