"""The objects of one collection as last received, and what changed about them.

Turns listed and watched JSON into decoded objects and `Change`s. No network, no threads of its own;
one thread writes, any thread reads.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Generic, NamedTuple, TypeVar

import msgspec

from kubeapi.client import UNREADABLE, ApiError
from kubeapi.decoding import Decoder

T = TypeVar("T")
_log = logging.getLogger(__name__)


class Change(NamedTuple, Generic[T]):
    """One object before and after. `new` None: deleted. Both there with other UIDs: re-created."""

    key: str
    old: T | None
    new: T | None
    listed: bool = False
    """It came in a list: it is as the server has it, and may have changed long ago."""


class Meta(msgspec.Struct, frozen=True, rename="camel"):
    """What every object has of its own; bookmarks have the version alone."""

    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class _Header(msgspec.Struct, frozen=True):
    metadata: Meta


_headers = msgspec.json.Decoder(_Header)


def meta_of(raw: msgspec.Raw) -> Meta:
    """Read name, namespace and version of any object. Raises ApiError when it is none."""
    try:
        return _headers.decode(raw).metadata
    except UNREADABLE as error:
        raise ApiError(f"the server sent something that is not an object: {error}") from error


def key_of(meta: Meta) -> str:
    """Return the key under which an object is kept: `name` or `namespace/name`."""
    if not meta.name:
        raise ApiError("the server sent an object without a name")
    return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name


class Store(Generic[T]):
    """What is known of one collection.

    An object that does not decode is counted and keeps its last good value, because a field that
    this release cannot read proves nothing about the device behind it. A caller that must not use
    an older value looks at `unreadable`. `decode` stands in where an object is not kept as it came.
    """

    def __init__(
        self,
        kind: type[T],
        known: Mapping[str, T] = {},
        decode: Callable[[msgspec.Raw], T] | None = None,
    ) -> None:
        self._decode = decode or Decoder(kind).decode
        self._guard = threading.Lock()
        self._objects: dict[str, T] = dict(known)
        self._versions: dict[str, str] = dict.fromkeys(known, "")
        self._view: Mapping[str, T] | None = None
        self.unreadable: frozenset[str] = frozenset()
        """Keys of objects whose newest version could not be decoded."""
        self.undecodable = 0
        """How often an object (one version of it) could not be decoded."""

    def get(self, key: str) -> T | None:
        """Return one object; None where there is none, or its newest version is unreadable."""
        with self._guard:
            return None if key in self.unreadable else self._objects.get(key)

    def items(self) -> Mapping[str, T]:
        """Return all objects as of now; the mapping does not change any more."""
        with self._guard:
            if self._view is None:
                self._view = MappingProxyType(dict(self._objects))
            return self._view

    def put(self, raw: msgspec.Raw, *, listed: bool = False) -> list[Change[T]]:
        """Take in a new or changed object; no change when this version is known already."""
        meta = meta_of(raw)
        key = key_of(meta)
        if meta.resource_version and self._versions.get(key) == meta.resource_version:
            return []
        self._versions[key] = meta.resource_version
        try:
            new = self._decode(raw)
        except UNREADABLE as error:
            self.undecodable += 1
            _log.warning("%s is not as expected and is left out: %s", key, error)
            self.unreadable |= {key}
            return []
        old = self._objects.get(key)
        with self._guard:
            self._objects[key], self._view = new, None
        self.unreadable -= {key}
        return [Change(key, old, new, listed)]

    def remove(self, raw: msgspec.Raw) -> list[Change[T]]:
        return self._forget([key_of(meta_of(raw))], listed=False)

    def keep_only(self, keys: Iterable[str]) -> list[Change[T]]:
        """Drop what a complete list did not name: deletions that no watch reported."""
        return self._forget(self._versions.keys() - set(keys), listed=True)

    def _forget(self, keys: Iterable[str], *, listed: bool) -> list[Change[T]]:
        gone: list[Change[T]] = []
        with self._guard:
            for key in keys:
                self._versions.pop(key, None)
                self.unreadable -= {key}
                old = self._objects.pop(key, None)
                if old is not None:
                    gone.append(Change(key, old, None, listed))
            self._view = None
        return gone
