"""Quantities of Kubernetes (`40Gi`, `1500m`, `2e3`), exact.

As `ParseQuantity` of k8s.io/apimachinery v0.37.1 reads them: more digits than nano are rounded away
from zero, and a binary quantity beyond int64 is cut to its maximum. Pure.
"""

import re
from fractions import Fraction
from math import ceil

_FORM = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*)([+-]?[0-9]*)")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_NANO = 10**9
LONGEST = 64
"""Characters of a quantity: the longest that is meant has a third of it."""
MOST_DIGITS = 100
"""Decimal places that an exponent may shift by."""
INT64 = 2**63 - 1


class QuantityError(ValueError):
    """A text that is no quantity."""


class OddQuantityError(Exception):
    """A quantity that Kubernetes may read, and that no driver writes for a device."""


def parse(text: str) -> Fraction:
    """Return the value of a quantity, a multiple of 1n. Raises both errors."""
    if len(text) > LONGEST:
        raise OddQuantityError(f"{text[:LONGEST]}... has more than {LONGEST} characters")
    found = _FORM.fullmatch(text) if text else None
    if found is None:
        raise QuantityError(f"{text!r} is no quantity such as 40Gi, 1500m or 2e3")
    sign, whole, part, letters, digits = found.groups(default="")
    if not (whole or part):  # Go reads some of these as 0, and others not
        raise OddQuantityError(f"{text!r} has no digit")
    value = Fraction(int(f"{whole or '0'}{part}"), 10 ** len(part))
    value *= _factor(letters, digits, text)
    value = Fraction(ceil(value * _NANO), _NANO)
    if letters in _BINARY:
        value = min(value, Fraction(INT64))
    return -value if sign == "-" else value


def canonical(value: Fraction) -> str:
    """Return one text for each value."""
    return f"{value.numerator * (_NANO // value.denominator)}n"


def from_canonical(text: str) -> Fraction:
    return Fraction(int(text.removesuffix("n")), _NANO)


def integer(value: Fraction) -> int | None:
    """Return a value that is whole and fits int64, None for any other."""
    fits = value.denominator == 1 and -INT64 - 1 <= value.numerator <= INT64
    return value.numerator if fits else None


def _factor(letters: str, digits: str, text: str) -> Fraction:
    if letters in {"e", "E"} and digits not in {"", "+", "-"}:
        if abs(int(digits)) > MOST_DIGITS:
            raise OddQuantityError(f"the exponent of {text} is beyond {MOST_DIGITS}")
        return Fraction(10) ** int(digits)
    if letters in _BINARY and not digits:
        return Fraction(2 ** _BINARY[letters])
    if letters in _DECIMAL and not digits:
        return Fraction(10) ** _DECIMAL[letters]
    raise QuantityError(f"{text} has a suffix that is none: {letters}{digits}")
