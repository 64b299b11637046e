"""Waiting for what must come, for a bounded time."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
Say = Callable[[str], None]


class TooLate(Exception):  # noqa: N818 - what was waited for may still come
    """An expected state did not come in time; the message names it."""


def await_true(what: str, condition: Callable[[], T], timeout: float = 120.0) -> T:
    """Poll until a condition gives something true and return it. Raises TooLate."""
    deadline = time.monotonic() + timeout
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise TooLate(f"not within {timeout:.0f} s: {what}")
        time.sleep(0.02)
    return found
