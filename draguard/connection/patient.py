"""A client that waits when the API server asks for it: a busy one says for how long.

Only what was surely not done is asked again: a read, or a write that was turned
away at the door (429). Whoever waits can be cut short by `abort`.
"""

from collections.abc import Callable, Mapping
from threading import Event
from typing import Any, TypeVar

from kubeapi.client import JSON, ApiError, Client

T = TypeVar("T")
TRIES = 5
LONGEST_WAIT = 10.0
"""Seconds; who is asked to wait longer is told so, and may decide."""
BUSY, UNWELL = 429, 503


class Patient(Client):
    """As `Client`, for a person's commands."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._aborted = Event()

    def get(
        self, path: str, params: Mapping[str, str] | None = None, *, accept: str = JSON
    ) -> bytes:
        once = super().get
        return self._patiently(lambda: once(path, params, accept=accept), UNWELL)

    def create(self, path: str, body: object, params: Mapping[str, str] | None = None) -> bytes:
        once = super().create
        return self._patiently(lambda: once(path, body, params))

    def merge_patch(
        self,
        path: str,
        body: object,
        params: Mapping[str, str] | None = None,
        *,
        on_warning: Callable[[str], None] | None = None,
    ) -> bytes:
        once = super().merge_patch
        return self._patiently(lambda: once(path, body, params, on_warning=on_warning))

    def delete(
        self, path: str, body: object = None, params: Mapping[str, str] | None = None
    ) -> bytes:
        once = super().delete
        return self._patiently(lambda: once(path, body, params))

    def abort(self) -> None:
        self._aborted.set()
        super().abort()

    def _patiently(self, ask: Callable[[], T], *more: int) -> T:
        for _ in range(TRIES - 1):
            try:
                return ask()
            except ApiError as error:
                wait = error.retry_after
                if error.status not in {BUSY, *more} or not 0 < wait <= LONGEST_WAIT:
                    raise
                self._aborted.wait(wait)
        return ask()
