"""What NVML says is shown in DCGM's unit, or not at all."""

import math
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from exporter.sensor.nvml import units as unit
from exporter.sensor.nvml.picks import used_share
from exporter.sensor.nvml.units import Unit, text_of

UNITS = [value for value in vars(unit).values() if isinstance(value, Unit)]
ANYTHING = st.one_of(
    st.integers(),
    st.floats(allow_nan=True, allow_infinity=True),
    st.booleans(),
    st.text(),
    st.binary(),
    st.none(),
)


@pytest.mark.parametrize(("reserved", "share"), [({}, 0.5), ({"reserved": 2}, 0.625)])
def test_the_used_share_is_of_what_is_not_reserved(reserved: dict[str, int], share: float) -> None:
    """Older drivers report no reserved memory."""
    assert used_share(SimpleNamespace(used=5, total=10, **reserved)) == share


@pytest.mark.parametrize(
    ("kind", "raw", "shown"),
    [
        (unit.WATTS, 72_123, 72.123),
        (unit.MEBIBYTES, 80 << 30, 81_920),
        (unit.MEBIBYTES, (1 << 20) - 1, 0),
        (unit.PERCENT, 100, 100),
        (unit.PERCENT_TO_RATIO, 25.0, 0.25),
        (unit.PERCENT_TO_RATIO, 104.0, 1.04),
        (unit.MEBIBYTES_TO_BYTES, 3.0, 3 << 20),
        (unit.MEBIBYTES_TO_BYTES, 0.35, 367_001),
        (unit.MEBIBYTES_TO_BYTES, 1.7, 1_782_579),
        (unit.CELSIUS, -5, -5),
        (unit.NUMBER, 7.0, 7),
    ],
)
def test_a_number_is_reported_in_dcgms_unit(kind: Unit, raw: float, shown: float) -> None:
    taken = kind.take(raw)
    assert taken == shown
    assert type(taken) is type(shown)


@pytest.mark.parametrize(
    ("kind", "raw"),
    [
        (unit.PERCENT, 101),
        (unit.CELSIUS, 255),
        (unit.NUMBER, -1),
        (unit.NUMBER, 0x7FFF_FFFF_FFFF_FFF0),
        (unit.NUMBER, 2**64 - 1),
        (unit.PERCENT_TO_RATIO, math.nan),
        (unit.MEBIBYTES_TO_BYTES, math.inf),
        (unit.PSTATE, 32),
        (unit.SWITCH, True),
        (unit.NUMBER, "7"),
    ],
)
def test_a_number_that_cannot_be_is_refused(kind: Unit, raw: Any) -> None:
    assert kind.take(raw) is None


@settings(deadline=None)
@given(st.sampled_from(UNITS), ANYTHING)
def test_whatever_comes_is_within_bounds_or_refused(kind: Unit, raw: Any) -> None:
    taken = kind.take(raw)
    if taken is not None:
        assert math.isfinite(taken)
        assert isinstance(taken, float) == kind.real
        assert kind.lowest * kind.times // kind.divide <= taken
        assert taken <= kind.highest * kind.times / kind.divide


@settings(deadline=None)
@given(ANYTHING)
@example(b"\xff\xfe")
@example("GPU-1\n")
@example("x" * 300)
def test_text_is_one_readable_line_or_refused(raw: Any) -> None:
    taken = text_of(raw)
    assert taken is None or (taken.isprintable() and len(taken) <= 256)


def test_bytes_are_text_when_they_are_utf_8() -> None:
    assert text_of(b"NVIDIA H100") == "NVIDIA H100"
    assert text_of(b"NVIDIA \xff") is None
