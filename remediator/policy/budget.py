"""The `budget` of a policy file into `Limits`: its keys, and what each may contain."""

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from pydantic import AfterValidator, BeforeValidator, PlainValidator, StrictInt

from remediator.policy.duration import duration
from remediator.policy.limits import LONGEST_RATE, Cap, Caps, Limits, Rate
from remediator.policy.section import Section, key, refusal, show_value
from remediator.policy.values import DURATION, WrittenDuration, text

_SHARE = re.compile(r"(\d{1,6}(?:\.\d{1,20})?)%")
_NUMBER = re.compile(r"\d{1,9}")
_WHOLE = "a whole number from 0 on"
_SHIPPED = Limits()


def _count(number: int) -> int:
    if number < 0:
        raise refusal(f"{show_value(number)} is not a count; write {_WHOLE}")
    return number


def _nodes(count: int) -> int:
    if count == 1:
        raise refusal("1 would let any node defer all others; write 2 or more, or 0 for never")
    return count


def _time_of_a_rate(stated: str) -> timedelta:
    found = duration(stated)
    if not found:
        raise ValueError(f"{stated} is no time at all; write 10m, or none for the rate")
    if found > LONGEST_RATE:
        raise ValueError(f"{stated} is longer than 24h")
    return found


def _share(stated: str) -> float:
    found = _SHARE.fullmatch(stated.strip())
    if found is None or float(found[1]) > 100:
        raise ValueError(
            f"{show_value(stated)} is not a percentage; write {{share: 25%, atLeast: 2}}"
        )
    return float(found[1])


def _cap(stated: object) -> Cap | None:
    if stated is None or stated == "none":
        return None
    if isinstance(stated, dict):
        return PartText.model_validate(stated).cap()
    # `True` is an int in Python, and not a number of GPUs.
    written = "" if isinstance(stated, bool) else str(stated).strip()
    if _NUMBER.fullmatch(written):
        return Cap(float(written))
    try:
        return Cap(_share(written), percent=True)
    except ValueError as error:
        raise refusal(
            f"{show_value(stated)} is not a number of GPUs; write 2, 25% (of those there are), "
            "{share: 25%, atLeast: 2, atMost: 16}, 0 (nothing may be done) or none (no cap)"
        ) from error


def _rate(stated: object) -> object:
    return None if stated == "none" else stated


_Cap = Annotated[Cap | None, PlainValidator(_cap)]
_Count = Annotated[StrictInt, AfterValidator(_count)]
_TimeOfARate = Annotated[timedelta, text(_time_of_a_rate, empty=False)]


class PartText(Section):
    """A share with bounds. A bound that it leaves out is none, whatever is shipped."""

    share: Annotated[float, text(_share)] = key("a percentage such as 25%", default=...)
    least: _Count = key(_WHOLE, written="atLeast", default=1)
    most: _Count | None = key(_WHOLE, written="atMost")

    def cap(self) -> Cap:
        if self.most is not None and self.most < self.least:
            raise refusal(f"atMost ({self.most}) is less than atLeast ({self.least})")
        return Cap(self.share, percent=True, least=self.least, most=self.most)


WRITTEN_AS: Mapping[type, type] = {Cap: PartText}
"""By type of a value, the section that may be written for it."""


class RateText(Section):
    """A key that it leaves out is as shipped."""

    count: _Count = key(_WHOLE, default=0)
    within: _TimeOfARate = key(DURATION, default=timedelta(minutes=10))


class NewRateText(Section):
    """A rate where none is shipped, so `count` is required."""

    count: _Count = key(_WHOLE, default=...)
    within: _TimeOfARate = key(DURATION, default=timedelta(minutes=10))


class CapsText(Section):
    node: _Cap = None
    pool: _Cap = None
    device_class: _Cap = key("a cap", written="deviceClass")
    domain: _Cap = None
    cluster: _Cap = None


class EvictCapsText(CapsText):
    rate: Annotated[RateText | None, BeforeValidator(_rate)] = key("a mapping")


class TaintCapsText(CapsText):
    rate: Annotated[NewRateText | None, BeforeValidator(_rate)] = key("a mapping")


class CorrelationText(Section):
    nodes: Annotated[_Count, AfterValidator(_nodes)] = key(_WHOLE, default=0)
    within: WrittenDuration = key(DURATION, default=timedelta())
    after_change: WrittenDuration = key(DURATION, default=timedelta())
    taint: _Cap = None


class BudgetText(Section):
    """Keys that are left out stay as shipped, whatever their default here."""

    evict: EvictCapsText | None = key("a mapping")
    taint: TaintCapsText | None = key("a mapping")
    correlation: CorrelationText | None = key("a mapping")
    evict_gpus_per_node: _Cap = None
    evict_gpus_per_cluster: _Cap = None
    taint_gpus_per_cluster: _Cap = None


FLAT: Mapping[str, tuple[Literal["evict", "taint"], Literal["node", "cluster"]]] = {
    "evict_gpus_per_node": ("evict", "node"),
    "evict_gpus_per_cluster": ("evict", "cluster"),
    "taint_gpus_per_cluster": ("taint", "cluster"),
}
"""Keys of the first release, by what they are called now."""


S = TypeVar("S", bound=msgspec.Struct)


def limits_of(stated: BudgetText) -> Limits:
    limits = Limits(
        evict=_caps(_SHIPPED.evict, stated.evict),
        taint=_caps(_SHIPPED.taint, stated.taint),
        correlation=_replace_written(_SHIPPED.correlation, stated.correlation),
    )
    # After the caps: a key of the first release replaces the cap of its present name.
    for name in stated.model_fields_set & FLAT.keys():
        action, ground = FLAT[name]
        caps = msgspec.structs.replace(getattr(limits, action), **{ground: getattr(stated, name)})
        limits = msgspec.structs.replace(limits, **{action: caps})
    return limits


def _caps(shipped: Caps, stated: EvictCapsText | TaintCapsText | None) -> Caps:
    caps = _replace_written(shipped, stated)
    if stated and stated.rate:
        rate = _replace_written(
            shipped.rate or Rate(stated.rate.count, stated.rate.within), stated.rate
        )
        return msgspec.structs.replace(caps, rate=rate)
    return caps


def _replace_written(shipped: S, stated: Section | None) -> S:
    """Return the shipped values, replaced by those that are written."""
    written: dict[str, Any] = {}
    if stated is not None:
        written = {name: getattr(stated, name) for name in stated.model_fields_set}
    return msgspec.structs.replace(shipped, **written)
