"""Renews the token of a login that ends, in a thread of its own: no request waits for a login."""

import logging
import math
from collections.abc import Callable
from datetime import datetime
from threading import Lock, Thread
from time import monotonic
from typing import NamedTuple

from kubeapi import clock
from kubeapi.endpoint import EndpointError

_log = logging.getLogger(__name__)
PAUSE = 10.0
"""Seconds between two logins at least. They double after each failure, up to `_LONGEST` of them."""
_LONGEST = 30
_SHARE = 0.8
"""Of a token's life, after which it is renewed."""


class Token(NamedTuple):
    text: str
    ends: datetime | None
    """None: it is renewed when the server refuses it."""


class Renewal:
    """The last token that a login gave; it serves until there is another one."""

    def __init__(self, first: Token, log_in: Callable[[], Token], pause: float = PAUSE) -> None:
        """`log_in` ends in a bounded time, and raises EndpointError."""
        self._log_in, self._pause, self._longest = log_in, pause, pause * _LONGEST
        self._under_way, self._refused = Lock(), False
        self._wait = pause
        self._take(first)

    def token(self) -> str:
        if monotonic() >= self._due and self._under_way.acquire(blocking=False):
            Thread(target=self._renew, name="login", daemon=True).start()
        return self._token.text

    def on_refused(self, token: str) -> None:
        """Log in again if it is the present one: the server may know that it was revoked."""
        if token == self._token.text:
            self._refused, self._due = True, min(self._due, self._next)

    def _take(self, token: Token) -> None:
        self._last = monotonic()
        self._next, self._due = self._last + self._wait, math.inf
        if token.ends is not None:
            left = (token.ends - clock.now()).total_seconds()
            self._due = max(self._next, self._last + _SHARE * left)
        self._token, self._refused = token, False

    def _renew(self) -> None:
        # A server that refuses each new token must not cause one login after the other.
        soon = self._refused and monotonic() - self._last < self._longest
        longer = min(2 * self._wait, self._longest)
        try:
            token = self._log_in()
            self._wait = longer if soon else self._pause
            self._take(token)
        except EndpointError as error:
            _log.warning("%s", error)
            self._wait = longer
            self._next = self._due = monotonic() + longer
        finally:
            self._under_way.release()
