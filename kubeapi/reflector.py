"""A local copy of one collection, kept up to date by list and watch.

Level triggered: a lost watch, a restarted server or a skipped object only delays the next correct
state. Nothing that a server sends ends the thread; `error` has what is wrong.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from random import Random
from time import monotonic
from typing import Any, Generic, TypeVar

import msgspec

from kubeapi.client import ApiError, Client, Gone, NotFound
from kubeapi.collection import Collection, Event
from kubeapi.store import Change, Store, key_of, meta_of

T = TypeVar("T")
_log = logging.getLogger(__name__)
_STEADY = 5.0
"""Seconds after which an open watch counts as a recovery from earlier failures."""
_REFUSED = frozenset({400, 403, 405, 406, 415, 422})
"""Statuses that mean of a list by watch that this server has none, or not for us."""
_DENIED = frozenset({401, 403, 404, 405})
"""Statuses that mean of any request: not for this identity, or not served."""
_DENIALS = 3
"""After so many of them in a row the collection counts as refused. API servers that start answer
403 for a moment, before they have read the roles."""
_BUSY, _BUSY_TIMES = 429, 6
"""A server that begins to serve a CRD answers so at each first installation: it is a warning only
after so many failures in a row."""


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """Waiting times in seconds; the defaults are for production."""

    first_retry: float = 0.25
    longest_retry: float = 30.0
    missing_retry: float = 15.0
    """While the collection is not served (404)."""
    idle: float = 90.0
    """Silence after which the collection is listed anew, which decides whether the watch lives.
    Servers send a bookmark each minute, but not in a cluster where nothing happens."""
    watch: float = 300.0
    """A watch is renewed after one to two times this."""
    page: int = 500
    """Objects per list request."""
    initial: float = 10.0
    """Silence after which a list by watch is replaced by a list by pages."""

    def retry_after(self, failures: int) -> float:
        """Return the longest wait after so many failures in a row, at least one."""
        # Bounded before it is raised: after hours 2 ** n is no float any more.
        return min(self.first_retry * 2 ** min(failures - 1, 16), self.longest_retry)


def ignore(change: Change[Any]) -> None:
    """Do nothing about a change."""


class Reflector(Generic[T]):
    """Keeps `items()` equal to the collection at `path`, each object decoded as `kind`.

    `on_change` runs on the reflector's thread after `items()` shows the change; it must be short.
    With `by_watch` the first objects are requested as a watch too (WatchList), which costs the
    server less than a list; where it is not served, lists are. `metadata_only` requests nothing but
    `metadata`. `known` is an earlier content of the collection: what of it is no longer there is
    reported as deleted. `decode` makes a `kind` of an object's JSON, where only part of it is kept.
    """

    def __init__(
        self,
        client: Client,
        path: str,
        kind: type[T],
        *,
        params: Mapping[str, str] = {},
        on_change: Callable[[Change[T]], None] = ignore,
        pace: Pace = Pace(),  # noqa: B008 - frozen
        by_watch: bool = False,
        metadata_only: bool = False,
        known: Mapping[str, T] = {},
        decode: Callable[[msgspec.Raw], T] | None = None,
    ) -> None:
        self._client = client.sibling()
        self._path = path
        self._collection = Collection(self._client, path, params, metadata_only=metadata_only)
        self._on_change = on_change
        self._pace = pace
        self._by_watch = by_watch
        self._store: Store[T] = Store(kind, known, decode)
        self._version: str | None = None
        self._failures = 0
        self._warned = False
        self._denials = 0
        # Its own: drawn from on a thread, where others expect the shared one to stand still.
        self._random = Random()  # noqa: S311 - waits are spread with it
        self._synced = threading.Event()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"reflector {path}", daemon=True)
        self.last_contact = 0.0
        """Monotonic seconds of the last good answer, event or bookmark; 0 before the first."""
        self.error = ""
        """A sentence about what is wrong now; empty when nothing is."""
        self.status: int | None = None
        """HTTP status that came with `error`; None: there was no answer, or one without."""
        self.missing = False
        """The server answers 404: the resource or this version of it is not served."""

    @property
    def synced(self) -> bool:
        """Whether the collection was ever listed to its end; how fresh: `last_contact`."""
        return self._synced.is_set()

    @property
    def dead(self) -> bool:
        """Whether the thread ended without a stop: a bug, and the copy is frozen."""
        begun = self._thread.ident is not None
        return begun and not self._thread.is_alive() and not self._stopped.is_set()

    @property
    def refused(self) -> bool:
        """Whether the server goes on refusing the collection (401, 403, 404, 405)."""
        return self._denials >= _DENIALS

    def __str__(self) -> str:
        return f"watch of {self._path}"

    @property
    def resource(self) -> str:
        """The plural name of what is watched."""
        return self._path.rpartition("/")[2]

    @property
    def undecodable(self) -> int:
        """How often an object could not be decoded and was left at its last good value."""
        return self._store.undecodable

    @property
    def unreadable(self) -> frozenset[str]:
        """Keys of objects whose newest version could not be decoded: `items()` has an older one."""
        return self._store.unreadable

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the thread; returns within two seconds whatever the server does."""
        self._stopped.set()
        self._client.abort()
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=2.0)
        self._client.close()

    def items(self) -> Mapping[str, T]:
        """Return the objects by `name` or `namespace/name`, as they are now."""
        return self._store.items()

    def get(self, key: str) -> T | None:
        """Return one object; None where there is none, or its newest version is unreadable."""
        return self._store.get(key)

    def wait_synced(self, timeout: float) -> bool:
        return self._synced.wait(timeout)

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                if self._version is None or monotonic() - self.last_contact > self._pace.idle:
                    # What a watch replays after a long silence would pass for a change.
                    self._version = None
                    self._fill()
                self._watch()
            except ApiError as error:
                if not self._stopped.is_set():
                    self._stopped.wait(self._setback(error))

    def _setback(self, error: ApiError) -> float:
        """Take note of a failure and return how many seconds to wait."""
        self._failures += 1
        self._warned = self._warned and self._failures > 1
        if isinstance(error, Gone):
            self._version = None
            _log.info("%s; listing again", error.message)
        else:
            # The message last: a reader that sees one reads the status that belongs to it.
            self.status, self.error = error.status, error.message
            _log.log(self._level(error), "%s", self.error)
        self._denials = self._denials + 1 if error.status in _DENIED else 0
        self.missing = isinstance(error, NotFound)
        if self.missing:
            self._version = None
            return self._pace.missing_retry * self._random.uniform(0.5, 1.0)
        longest = self._pace.retry_after(self._failures)
        return error.retry_after + longest * self._random.uniform(0.5, 1.0)

    def _level(self, error: ApiError) -> int:
        """Return at which level a failure is logged: one warning for all in a row."""
        busy = error.status == _BUSY and self._failures < _BUSY_TIMES
        refused = error.status in _DENIED and self._denials == _DENIALS - 1
        if not refused and (busy or self._warned):
            return logging.DEBUG
        self._warned = True
        return logging.WARNING

    def _contact(self) -> None:
        self.last_contact = monotonic()
        self.error = ""
        self.missing = False

    def _fill(self) -> None:
        """Bring the copy up to the collection as a whole."""
        if not self._by_watch:
            self._list()
            return
        try:
            self._list_by_watch()
        except (NotFound, Gone):
            raise
        except ApiError as error:
            if error.status == _BUSY or (error.status or 0) >= 500:
                raise
            # Refused, or a cache that does not catch up: lists are always there.
            self._by_watch = self._by_watch and error.status not in _REFUSED
            _log.info("%s; listing by pages", error.message)
            self._list()

    def _list_by_watch(self) -> None:
        options = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        seen: set[str] = set()
        with self._collection.watch(options, self._pace.initial) as lines:
            for line in lines:
                event = self._collection.event(line)
                self._contact()
                if event.ends_list:
                    self._complete(seen, meta_of(event.object).resource_version)
                    return
                if event.type != "BOOKMARK":
                    seen.add(key_of(meta_of(event.object)))
                    self._apply(event, listed=True)
        raise ApiError(f"list {self._path} by watch: the stream ended before the list was complete")

    def _complete(self, seen: set[str], version: str) -> None:
        self._notify(self._store.keep_only(seen))
        self._version = version
        self._synced.set()

    def _list(self) -> None:
        seen: set[str] = set()
        more = ""
        while True:
            page = self._collection.page(self._pace.page, more)
            self._contact()
            for raw in page.items or ():
                seen.add(key_of(meta_of(raw)))
                self._notify(self._store.put(raw, listed=True))
            more = page.metadata.more
            if not more:
                break
        self._complete(seen, page.metadata.resource_version)

    def _watch(self) -> None:
        seconds = self._pace.watch * self._random.uniform(1.0, 2.0)
        options = {
            "resourceVersion": self._version or "",
            "timeoutSeconds": str(max(1, round(seconds))),
        }
        opened = monotonic()
        received = False
        try:
            with self._collection.watch(options, self._pace.idle) as lines:
                self.error, self._denials = "", 0
                for line in lines:
                    # After what is no event the version is not known: only a new list helps then.
                    before, self._version = self._version, None
                    event = self._collection.event(line)
                    meta = meta_of(event.object)
                    self._apply(event)
                    self._version = meta.resource_version or before
                    self._contact()
                    received = True
                    if monotonic() - opened > _STEADY:
                        self._failures = 0
        except ApiError as error:
            # Quiet: the watch ended only by its idle timeout; a list shows if the server answers.
            silent_since = max(opened, self.last_contact)
            quiet = error.status is None and monotonic() - silent_since >= self._pace.idle
            if self._version is None or not quiet:
                raise
            _log.debug("%s; listing again", error.message)
            return
        if not received and monotonic() - opened < 1.0:
            raise ApiError(f"watch {self._path}: ended as soon as it was open")
        self._failures = 0

    def _apply(self, event: Event, *, listed: bool = False) -> None:
        if event.type in ("ADDED", "MODIFIED"):
            self._notify(self._store.put(event.object, listed=listed))
        elif event.type == "DELETED":
            self._notify(self._store.remove(event.object))

    def _notify(self, changes: Iterable[Change[T]]) -> None:
        for change in changes:
            try:
                self._on_change(change)
            except Exception:  # noqa: BLE001 - logged with its trace
                # The copy must go on; the listener has its own way of reading it again.
                _log.exception("%s: the listener failed on %s", self._path, change.key)
