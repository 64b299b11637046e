"""Kubernetes quantities such as `80Gi`, `81559Mi`, `1e3` or `500m` as whole numbers.

The grammar is that of apimachinery's resource.Quantity: a decimal number and a
binary suffix, a decimal suffix or an exponent. Pure.
"""

import re
from fractions import Fraction
from functools import lru_cache
from math import ceil

_LARGEST = 2**63 - 1
"""apimachinery cuts quantities to 64 bits."""

_NUMBER = re.compile(
    r"\+?(?P<number>[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})"
    r"(?:(?P<suffix>[KMGTPE]i|[numkMGTPE]|)|[eE](?P<exponent>[+-]?[0-9]{1,2}))"
)
_SCALES = {
    "": Fraction(1),
    **{f"{letter}i": Fraction(1024**power) for power, letter in enumerate("KMGTPE", start=1)},
    **{letter: Fraction(1000**power) for power, letter in enumerate("kMGTPE", start=1)},
    **{letter: Fraction(1, 1000**power) for power, letter in enumerate("mun", start=1)},
}


@lru_cache
def whole(text: str | float | None) -> int | None:
    """Return the value rounded up, as Kubernetes does; None when it is no amount."""
    found = _NUMBER.fullmatch(str(text)) if text is not None else None
    if found is None:
        return None
    exponent = found["exponent"]
    scale = _SCALES[found["suffix"]] if exponent is None else Fraction(10) ** int(exponent)
    value = ceil(Fraction(found["number"]) * scale)
    return value if value <= _LARGEST else None
