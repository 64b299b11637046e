"""What a fuzz target is: a way to make one input, and a check that every input must pass."""

from collections.abc import Callable
from random import Random
from typing import Any

import msgspec


class Target(msgspec.Struct, frozen=True):
    """One reader of foreign data, and what must be true of it whatever comes in."""

    name: str
    share: int
    """Of all inputs, in thousandths."""
    make: Callable[[Random], Any]
    """Makes an input of plain values, whose repr can be pasted into a test."""
    check: Callable[[Any], None]
    """Raises on an input that the code does not handle as it should."""


def demand(true: object, stated: str, *about: object) -> None:
    """Raise when something that must be true is not; asserts may be switched off."""
    if not true:
        raise AssertionError(f"{stated}: {', '.join(map(repr, about))}" if about else stated)
