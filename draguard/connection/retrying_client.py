"""A client that waits when the API server asks for it: a busy one says for how long.

Only what was surely not done is asked again: a read, or a write that was turned
away at the door (429). Whoever waits can be cut short by `abort`.
"""

from threading import Event
from typing import Any

from kubeapi.client import ApiError, Client

TRIES = 5
LONGEST_WAIT = 10.0
"""Seconds; who is asked to wait longer is told so, and may decide."""
BUSY, UNWELL = 429, 503


class Patient(Client):
    """As `Client`, for a person's commands."""

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
