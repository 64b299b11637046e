"""The kubelet's PodResources v1 List reply, from its bytes to `readings`.

Reads the few fields that matter straight from the protobuf encoding
(protobuf.dev, "Encoding"; numbers are those of
k8s.io/kubelet/pkg/apis/podresources/v1) and steps over all others. So the
sensor needs no protobuf library (6 MB), pods without devices cost next to
nothing, and a hostile reply is bounded before anything is built of it. Pure.
"""

from collections.abc import Iterable, Iterator, Mapping

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
"""Bytes of all different names: of a thousand containers with eight devices each, whose claims and
shares have names of their own, half of it."""
MAX_FIELDS = 500_000
"""Fields of one reply; those thousand containers have 120,000."""

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
        container
        for number, pod in reader.fields((0, len(reply)))
        if number == 1
        for container in _pod(reader, pod)
    )
    return Reply(tuple(found), reader.refused)


_Span = tuple[int, int]
"""Start and end of a message inside of the reply."""


class _Refused(Exception):  # noqa: N818 - never leaves this file
    """A text that no name can be."""


_Message = Mapping[int, list[_Span]]
"""Where the texts and messages of a message lie, by the number of their field."""


class _Reader:
    """Walks over encoded fields, each once; counts fields and the bytes of different names."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._fields = 0
        # A node, a driver and a namespace are named thousands of times.
        self._names: dict[bytes, str] = {}
        self._kept = 0
        self.refused = 0

    def message(self, span: _Span) -> _Message:
        found: dict[int, list[_Span]] = {}
        for number, inner in self.fields(span):
            found.setdefault(number, []).append(inner)
        return found

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

    def text(self, number: int, message: _Message) -> str:
        """Return the text in a field, "" when it is not there; the last one counts."""
        return self.name(message[number][-1]) if number in message else ""

    def name(self, span: _Span) -> str:
        raw = self._data[span[0] : span[1]]
        if (known := self._names.get(raw)) is not None:
            return known
        if len(raw) > MAX_TEXT:
            raise _Refused
        self._kept += len(raw)
        if self._kept > MAX_KEPT:
            raise TooLarge(f"its names are longer than {MAX_KEPT >> 20} MiB")
        try:
            return self._names.setdefault(raw, raw.decode())
        except UnicodeDecodeError as error:
            raise _Refused from error

    def ends_with(self, span: _Span, end: bytes) -> bool:
        return self._data.endswith(end, *span)

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


def _pod(reader: _Reader, span: _Span) -> Iterator[ContainerDevices]:
    pod = reader.message(span)
    for inner in pod.get(3, ()):
        container = reader.message(inner)
        try:
            plugin = tuple(
                sorted(
                    PluginDevice(reader.text(1, devices), reader.name(device))
                    for devices in map(reader.message, container.get(2, ()))
                    for device in devices.get(2, ())
                )
            )
            claims = tuple(sorted(_claims(reader, container.get(5, ()))))
            if not (plugin or claims):
                continue
            name = reader.text(1, container)
            held = ContainerDevices(reader.text(2, pod), reader.text(1, pod), name, claims, plugin)
        except _Refused:
            reader.refused += 1
        else:
            yield held


def _claims(reader: _Reader, spans: Iterable[_Span]) -> Iterator[ClaimDevice]:
    for span in spans:
        resource = reader.message(span)
        claim, namespace = reader.text(2, resource), reader.text(3, resource)
        for inner in resource.get(4, ()):
            device = reader.message(inner)
            name = reader.text(4, device)
            # A kubelet lists the ids of the devices before it beside a device's own: of a claim of
            # eight 36 instead of eight.
            end = f"-{name}".encode()
            ids = [reader.message(cdi).get(1, [(0, 0)])[-1] for cdi in device.get(1, ())]
            own = [found for found in ids if reader.ends_with(found, end)]
            yield ClaimDevice(
                claim,
                namespace,
                reader.text(2, device),
                reader.text(3, device),
                name,
                reader.text(5, device),
                tuple(map(reader.name, own)),
            )
