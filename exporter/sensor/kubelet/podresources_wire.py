"""The kubelet's PodResources v1 List reply, from its bytes to `readings`.

Reads the few fields that matter straight from the protobuf encoding
(protobuf.dev, "Encoding"; numbers are those of
k8s.io/kubelet/pkg/apis/podresources/v1) and steps over all others. So the
sensor needs no protobuf library (6 MB), pods without devices cost next to
nothing, and a hostile reply is bounded before anything is built of it. Pure.
"""

from collections.abc import Callable, Iterator
from typing import TypeVar

import msgspec

from exporter.model.readings import ClaimDevice, ContainerDevices, PluginDevice

SERVICE = "v1.PodResourcesLister"
LIST_METHOD = f"/{SERVICE}/List"
EMPTY_REQUEST = b""
"""ListPodResourcesRequest has no fields."""
MAX_RECEIVE_BYTES = 16 * 1024 * 1024
"""gRPC's default of 4 MiB is too small for a node with many pods."""

MAX_TEXT = 512
"""Bytes of one name; Kubernetes' longest is a pool's 253."""
MAX_KEPT = 2 << 20
"""Bytes of all names kept: a thousand containers with eight devices each stay below."""
MAX_FIELDS = 1_000_000
"""Fields looked at in one reply."""

T = TypeVar("T")
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class Malformed(Exception):  # noqa: N818 - what the reply is
    """The reply is no ListPodResourcesResponse."""


class TooLarge(Exception):  # noqa: N818 - what the reply is
    """The reply says more than any node could."""


class Reply(msgspec.Struct, frozen=True):
    """What one reply says."""

    containers: tuple[ContainerDevices, ...]
    """Sorted; those without devices are left out."""
    refused: int
    """Containers left out because a name in them is too long or no text."""


def read(reply: bytes) -> Reply:
    """Take a reply apart; raises Malformed or TooLarge."""
    reader = _Reader(reply)
    found = sorted(
        container for pod in reader.parts(1, (0, len(reply))) for container in _pod(reader, pod)
    )
    return Reply(tuple(found), reader.refused)


_Span = tuple[int, int]
"""Start and end of a message inside of the reply."""


class _Refused(Exception):  # noqa: N818 - never leaves this file
    """A text that no name can be."""


class _Reader:
    """Walks over encoded fields; counts what it looked at and what it kept."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._fields = 0
        self._kept = 0
        self.refused = 0

    def parts(self, number: int, span: _Span) -> Iterator[_Span]:
        """Yield where each field with this number, a message or a text, lies in a message."""
        return (inner for found, inner in self.fields(span) if found == number)

    def fields(self, span: _Span) -> Iterator[tuple[int, _Span]]:
        at, end = span
        while at < end:
            self._fields += 1
            if self._fields > MAX_FIELDS:
                raise TooLarge(f"it has more than {MAX_FIELDS} fields")
            key, at = self._varint(at, end)
            kind = key & 7
            if kind == _BYTES:
                size, start = self._varint(at, end)
                at = start + size
            elif kind == _VARINT:
                start, at = at, self._varint(at, end)[1]
            elif kind in (_FIXED64, _FIXED32):
                start, at = at, at + (8 if kind == _FIXED64 else 4)
            else:
                raise Malformed(f"it has a field of wire type {kind}")
            if at > end or not key >> 3:
                raise Malformed("a field in it ends after the message that it is in")
            if kind == _BYTES:
                yield key >> 3, (start, at)

    def text(self, number: int, span: _Span) -> str:
        """Return the text in a field, "" when it is not there; the last one counts."""
        found = (0, 0)
        for found in self.parts(number, span):  # noqa: B007 - only the last one matters
            pass
        return self.decoded(found)

    def decoded(self, span: _Span) -> str:
        size = span[1] - span[0]
        if size > MAX_TEXT:
            raise _Refused
        self._kept += size
        if self._kept > MAX_KEPT:
            raise TooLarge(f"its names are longer than {MAX_KEPT >> 20} MiB")
        try:
            return self._data[span[0] : span[1]].decode()
        except UnicodeDecodeError as error:
            raise _Refused from error

    def _varint(self, at: int, end: int) -> tuple[int, int]:
        value = shift = 0
        while at < end and shift < 64:
            byte = self._data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value, at
            shift += 7
        raise Malformed("a number in it has no end")


def _pod(reader: _Reader, pod: _Span) -> Iterator[ContainerDevices]:
    for container in reader.parts(3, pod):
        try:
            plugin = tuple(sorted(_each(reader, container, 2, _plugin)))
            claims = tuple(sorted(_each(reader, container, 5, _claims)))
            if not (plugin or claims):
                continue
            name = reader.text(1, container)
            held = ContainerDevices(reader.text(2, pod), reader.text(1, pod), name, claims, plugin)
        except _Refused:
            reader.refused += 1
        else:
            yield held


def _each(
    reader: _Reader, span: _Span, number: int, read_one: Callable[[_Reader, _Span], Iterator[T]]
) -> Iterator[T]:
    for inner in reader.parts(number, span):
        yield from read_one(reader, inner)


def _plugin(reader: _Reader, devices: _Span) -> Iterator[PluginDevice]:
    resource = reader.text(1, devices)
    for device in reader.parts(2, devices):
        yield PluginDevice(resource, reader.decoded(device))


def _claims(reader: _Reader, resource: _Span) -> Iterator[ClaimDevice]:
    claim, namespace = reader.text(2, resource), reader.text(3, resource)
    for device in reader.parts(4, resource):
        yield ClaimDevice(
            claim,
            namespace,
            reader.text(2, device),
            reader.text(3, device),
            reader.text(4, device),
            reader.text(5, device),
            tuple(reader.text(1, cdi) for cdi in reader.parts(1, device)),
        )
