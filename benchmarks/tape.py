"""A watch that writes down when each change came, for measuring from one change to another."""

import threading
import time
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

import msgspec

from benchmarks.waiting import TooLate
from kubeapi.client import Client
from kubeapi.reflector import Reflector
from kubeapi.store import Change

T = TypeVar("T")


class Seen(msgspec.Struct, Generic[T], frozen=True):
    """A change and when it came; `at` in monotonic seconds, `wall` in seconds of wall time."""

    at: float
    wall: float
    change: Change[T]


class Tape(Generic[T]):
    """All changes of one collection from `start` on."""

    def __init__(self, client: Client, path: str, kind: type[T]) -> None:
        self._changed = threading.Condition()
        self._seen: list[Seen[T]] = []
        self._reflector = Reflector(client, path, kind, on_change=self._note)

    def start(self) -> None:
        self._reflector.start()

    def stop(self) -> None:
        self._reflector.stop()

    def wait_synced(self, timeout: float) -> bool:
        return self._reflector.wait_synced(timeout)

    def items(self) -> Mapping[str, T]:
        return self._reflector.items()

    def since(self, moment: float) -> list[Seen[T]]:
        """Return what came after a moment (monotonic)."""
        with self._changed:
            return [entry for entry in self._seen if entry.at >= moment]

    def first(
        self,
        what: str,
        matches: Callable[[Change[T]], bool],
        *,
        since: float,
        timeout: float = 20.0,
    ) -> Seen[T]:
        """Wait for the first change after `since` (monotonic) that matches. Raises TooLate."""
        deadline = time.monotonic() + timeout
        with self._changed:
            while True:
                for entry in self._seen:
                    if entry.at >= since and matches(entry.change):
                        return entry
                left = deadline - time.monotonic()
                if left <= 0:
                    raise TooLate(f"not within {timeout:.0f} s: {what}")
                self._changed.wait(left)

    def forget(self) -> None:
        """Drop what was noted, so that waiting stays quick."""
        with self._changed:
            self._seen.clear()

    def _note(self, change: Change[T]) -> None:
        seen = Seen(time.monotonic(), time.time(), change)
        with self._changed:
            self._seen.append(seen)
            self._changed.notify_all()
