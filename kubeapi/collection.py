"""One collection as an API server gives it: pages of a list, and the events of a watch.

Requests go out, decoded answers come back; nothing is remembered.
"""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager

import msgspec

from kubeapi.client import JSON, METADATA, METADATA_LIST, UNREADABLE, ApiError, Client, error_of

_LISTED = "k8s.io/initial-events-end"
"""Annotation of the bookmark that ends a list by watch (KEP-3157)."""


class _ListMeta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""
    more: str = msgspec.field(name="continue", default="")


class Page(msgspec.Struct, frozen=True):
    """A part of a list; `metadata.more` leads to the next one."""

    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


class _BookmarkMeta(msgspec.Struct, frozen=True):
    annotations: dict[str, str] = {}


class _Bookmark(msgspec.Struct, frozen=True):
    metadata: _BookmarkMeta = _BookmarkMeta()


class Event(msgspec.Struct, frozen=True):
    """One line of a watch; of type ADDED, MODIFIED, DELETED or BOOKMARK."""

    type: str
    object: msgspec.Raw

    @property
    def ends_list(self) -> bool:
        """Whether it is the bookmark after the first objects of a list by watch."""
        if self.type != "BOOKMARK":
            return False
        try:
            return _LISTED in _bookmarks.decode(self.object).metadata.annotations
        except UNREADABLE:
            return False


class _Failure(msgspec.Struct, frozen=True):
    code: int = 0


_bookmarks = msgspec.json.Decoder(_Bookmark)
_events = msgspec.json.Decoder(Event)
_pages = msgspec.json.Decoder(Page)
_failures = msgspec.json.Decoder(_Failure)


class Collection:
    """The collection at `path`, selected by `params`. Every failure is an ApiError."""

    def __init__(
        self, client: Client, path: str, params: Mapping[str, str], *, metadata_only: bool
    ) -> None:
        self._client = client
        self._path = path
        self._params = dict(params)
        self._accepts = (METADATA_LIST, METADATA) if metadata_only else (JSON, JSON)

    def page(self, size: int, more: str) -> Page:
        """Read the next page of a list; `more` is "" for the first one."""
        query = {**self._params, "limit": str(size)}
        query |= {"continue": more} if more else {}
        body = self._client.get(self._path, query, accept=self._accepts[0])
        try:
            page = _pages.decode(body)
        except UNREADABLE as error:
            raise ApiError(f"list {self._path}: the answer is not a list ({error})") from error
        if not page.metadata.resource_version:
            raise ApiError(f"list {self._path}: the answer is not a list (it has no version)")
        return page

    def watch(
        self, options: Mapping[str, str], silence: float
    ) -> AbstractContextManager[Iterator[bytes]]:
        """Open a watch of lines for `event`; it fails after so many seconds without one."""
        query = {**self._params, "watch": "true", "allowWatchBookmarks": "true", **options}
        return self._client.stream(self._path, query, idle_timeout=silence, accept=self._accepts[1])

    def event(self, line: bytes) -> Event:
        """Decode a line of a watch; raises the error that it reports."""
        try:
            event = _events.decode(line)
        except UNREADABLE as error:
            raise ApiError(f"watch {self._path}: not an event ({error})") from error
        if event.type != "ERROR":
            return event
        try:
            code = _failures.decode(event.object).code
        except UNREADABLE:
            code = 0
        raise error_of(f"watch {self._path}", code, bytes(event.object))
