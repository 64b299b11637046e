"""JSON of the API server as structs. A field that is null is absent, as Kubernetes reads it.

Go writes an empty list as null where the field has no `omitempty`: `requests` of a claim, `devices`
of a slice.
"""

from typing import Any, Generic, TypeVar, cast

import msgspec

T = TypeVar("T")


class Decoder(Generic[T]):
    def __init__(self, kind: type[T]) -> None:
        self._kind = kind
        self._decoder = msgspec.json.Decoder(kind)

    def decode(self, raw: bytes | msgspec.Raw) -> T:
        """Raises msgspec.DecodeError, ValueError, RecursionError."""
        try:
            return self._decoder.decode(raw)
        except msgspec.ValidationError:
            # Slow, and hardly any object has such a field.
            if b"null" not in bytes(raw):
                raise
            return msgspec.convert(_without_nulls(msgspec.json.decode(raw)), self._kind)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return {key: _without_nulls(each) for key, each in fields.items() if each is not None}
    if isinstance(value, list):
        return [_without_nulls(each) for each in cast("list[Any]", value)]
    return value
