"""One answer of DCGM, and whether there is a value in it. Pure.

A blank can come with status 0, and a status other than 0 can come with what
looks like a value: both are checked, and neither becomes a 0.
"""

import math

import msgspec

from exporter.sensor.dcgm.abi import (
    DOUBLE,
    FP64_BLANK,
    INT32_BLANK,
    INT64,
    INT64_BLANK,
    STRING,
    TIMESTAMP,
    Status,
)

Entity = tuple[int, int]
"""DCGM's kind of entity and its id there; never NVML's."""

_INT32_END = 0x7FFFFFFF
"""A 32-bit blank in a 64-bit value: some fields are filled from an int32 and keep its blank."""


class Answer(msgspec.Struct, frozen=True):
    """One value of one entity, as DCGM gave it."""

    entity: Entity
    field: int
    status: int
    type: str
    """DCGM_FT_*, a letter."""
    at: int
    """Microseconds since 1970; 0 when never read."""
    raw: int | float | bytes | None
    """None for a type that is not known, and for a binary."""


def value_of(answer: Answer) -> int | float | str | None:
    """Return what an answer tells, None when it tells nothing."""
    if answer.status != Status.OK:
        return None
    raw = answer.raw
    if answer.type in (INT64, TIMESTAMP) and isinstance(raw, int):
        return None if raw >= INT64_BLANK or INT32_BLANK <= raw <= _INT32_END else raw
    if answer.type == DOUBLE and isinstance(raw, float):
        return None if not math.isfinite(raw) or raw >= FP64_BLANK else raw
    if answer.type == STRING and isinstance(raw, bytes):
        text = text_of(raw)
        return None if not text or (text.startswith("<<<") and ">>>" in text) else text
    return None


def is_gone(answer: Answer) -> bool:
    """Say whether nobody reads this field of this entity (any more)."""
    return answer.status == Status.NOT_WATCHED


def text_of(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
