"""Which form of the metrics page a scraper gets, by its Accept and Accept-Encoding headers.

Pure: header text in, a choice out. Whatever a header says, there is an answer: a scraper that
asks for something odd is better served with the plain text format than with an error.
"""

from enum import Enum
from typing import NamedTuple


class Exposition(Enum):
    """A text form of metrics; the value is its Content-Type."""

    TEXT = "text/plain; version=0.0.4; charset=utf-8"
    OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


class _Choice(NamedTuple):
    """One entry of an Accept header, as far as it goes."""

    name: str
    parameters: dict[str, str]
    quality: float


_TYPES = {
    "application/openmetrics-text": Exposition.OPENMETRICS,
    "application/*": Exposition.OPENMETRICS,
    "text/plain": Exposition.TEXT,
    "text/*": Exposition.TEXT,
    "*/*": Exposition.TEXT,
}
_VERSIONS = {Exposition.TEXT: ("", "0.0.4"), Exposition.OPENMETRICS: ("", "1.0.0")}


def exposition(accept: str) -> Exposition:
    """Choose the text format wherever it is named; else by quality, then by the header's order.

    In OpenMetrics a counter whose name does not end in `_total` has no type, as most of DCGM's: the
    OpenTelemetry collector then takes it for a gauge, and managed services name it otherwise. What
    we do not speak is passed over.
    """
    best, quality = Exposition.TEXT, 0.0
    for choice in _choices(accept):
        offered = _TYPES.get(choice.name)
        if offered is None or choice.parameters.get("version", "") not in _VERSIONS[offered]:
            continue
        if offered is Exposition.TEXT and choice.name != "*/*" and choice.quality > 0.0:
            return Exposition.TEXT
        if choice.quality > quality:
            best, quality = offered, choice.quality
    return best


def wants_gzip(accept_encoding: str) -> bool:
    """Whether gzip is welcome, and not less so than no encoding at all."""
    desired = {choice.name: choice.quality for choice in _choices(accept_encoding)}
    gzip = desired.get("gzip", desired.get("x-gzip", desired.get("*", 0.0)))
    return gzip > 0.0 and gzip >= desired.get("identity", 0.0)


def _choices(header: str) -> list[_Choice]:
    return [_choice(entry) for entry in header.split(",") if entry.strip()]


def _choice(entry: str) -> _Choice:
    name, *rest = entry.split(";")
    pairs = (part.partition("=") for part in rest)
    parameters = {key.strip().lower(): value.strip().strip('"') for key, _, value in pairs}
    try:
        quality = float(parameters.pop("q", "1"))
    except ValueError:
        quality = 0.0
    # A q-value that is none counts as unwanted.
    return _Choice(name.strip().lower(), parameters, quality if 0.0 <= quality <= 1.0 else 0.0)
