"""A client that waits as long as a busy API server requests, and tries again.

It repeats only what was certainly not done: a read, or a write that was refused with 429. `abort`
ends a wait.
"""

from threading import Event
from typing import Any

from kubeapi.client import ApiError, Client

TRIES = 5
LONGEST_WAIT = 10.0
"""Seconds; a longer wait is an error, so that the user can decide."""
BUSY, UNWELL = 429, 503


class RetryingClient(Client):
    """As `Client`, for commands of a user."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._aborted = Event()

    def abort(self) -> None:
        self._aborted.set()
        super().abort()

    def _ask(self, method: str, *of: Any, **how: Any) -> bytes:
        not_done = {BUSY, UNWELL} if method == "GET" else {BUSY}
        for _ in range(TRIES - 1):
            try:
                return super()._ask(method, *of, **how)
            except ApiError as error:
                wait = error.retry_after
                if error.status not in not_done or not 0 < wait <= LONGEST_WAIT:
                    raise
                self._aborted.wait(wait)
        return super()._ask(method, *of, **how)
