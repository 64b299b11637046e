"""Collections of the API server, page by page, into small structs."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

import msgspec

from kubeapi.client import JSON, UNREADABLE, ApiError, Client, Gone
from kubeapi.decoding import Decoder

T = TypeVar("T")
PAGE = 500
"""Objects in one answer: a cluster with 80,000 claims does not answer them all at once."""


OnPage = Callable[[str, int, int], None]
"""Called with a collection, the objects read so far, and their number; first with 0 and 0."""


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    more: str = msgspec.field(name="continue", default="")
    remaining_item_count: int | None = 0
    """Missing with a selector."""


class _Page(msgspec.Struct, frozen=True):
    items: tuple[msgspec.Raw, ...] | None = ()
    metadata: _Meta = _Meta()


_pages = msgspec.json.Decoder(_Page)


def ignored(_collection: str, _here: int, _of: int) -> None:
    """Ignore a page."""


def raw_items(
    client: Client,
    path: str,
    params: Mapping[str, str] | None = None,
    *,
    accept: str = JSON,
    on_page: OnPage = ignored,
) -> Iterator[msgspec.Raw]:
    """Give every object of a collection. Raises ApiError."""
    collection, more, here = path.rpartition("/")[2], "", 0
    on_page(collection, 0, 0)
    while True:
        query = {"limit": str(PAGE), **(params or {}), **({"continue": more} if more else {})}
        try:
            page = _pages.decode(client.get(path, query, accept=accept))
        except UNREADABLE as error:
            raise ApiError(f"GET {path}: the response is not a list ({error})") from error
        here += len(page.items or ())
        on_page(collection, here, here + (page.metadata.remaining_item_count or 0))
        yield from page.items or ()
        more = page.metadata.more
        if not more:
            return


class _Named(msgspec.Struct, frozen=True):
    name: str = "an unnamed object"


class _Anything(msgspec.Struct, frozen=True):
    metadata: _Named = _Named()


_names = msgspec.json.Decoder(_Anything)


def listed(
    client: Client,
    path: str,
    kind: type[T],
    params: Mapping[str, str] | None = None,
    *,
    accept: str = JSON,
    on_page: OnPage = ignored,
) -> tuple[list[T], tuple[str, ...]]:
    """Return the objects of a collection that can be read, and the names of those that cannot.

    A continue token expires after some minutes (410 Gone); the collection is then
    read once more from the start. Raises ApiError.
    """
    try:
        return _read(raw_items(client, path, params, accept=accept, on_page=on_page), kind)
    except Gone:
        return _read(raw_items(client, path, params, accept=accept, on_page=on_page), kind)


def _read(items: Iterable[msgspec.Raw], kind: type[T]) -> tuple[list[T], tuple[str, ...]]:
    found: list[T] = []
    decoder = Decoder(kind)
    unreadable: list[str] = []
    for raw in items:
        try:
            found.append(decoder.decode(raw))
        except UNREADABLE:
            try:
                unreadable.append(_names.decode(raw).metadata.name)
            except UNREADABLE:
                unreadable.append(_Named().name)
    return found, tuple(unreadable)
