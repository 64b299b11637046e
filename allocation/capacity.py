"""What a request consumes of a device's capacity, and whether that is left.

Several claims may share a device (`allowMultipleAllocations`): each consumes what it asks for,
rounded up as the device's policy says, or the policy's default. Also a device that is not shared
must have what a request asks for. This follows `consumable_capacity.go` of
k8s.io/dynamic-resource-allocation v0.37.1 with fractional ranges, which 1.37 has. Pure.
"""

from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from math import ceil

import msgspec

from allocation.model.slices import Capacity, PublishedDevice, RequestPolicy, ValidRange
from allocation.selectors import quantity

Consumed = Mapping[str, Fraction]
"""By the name of a capacity."""
_LARGEST = quantity.INT64


class CapacityError(ValueError):
    """A request for which the scheduler gives up on the node instead of trying the next device."""


class TooLittle(msgspec.Struct, frozen=True):
    """Why a device cannot serve a request."""

    name: str
    """Of the capacity."""
    requested: Fraction
    left: Fraction | None
    """None: it has no such capacity, or its policy forbids the amount."""


@lru_cache(maxsize=100_000)
def amount(text: str) -> Fraction:
    """Return the value of a quantity. Raises CapacityError."""
    try:
        return quantity.parse(text)
    except (quantity.QuantityError, quantity.OddQuantityError) as error:
        raise CapacityError(str(error)) from None


def consumed_by(requests: Mapping[str, str], device: PublishedDevice) -> dict[str, Fraction]:
    """Return what a request takes of each capacity of a device. Raises CapacityError."""
    found: dict[str, Fraction] = {}
    for name, capacity in device.capacity.items():
        found[name] = _consumption(requests.get(name), capacity)
        if found[name] < 0:
            raise CapacityError(f"capacity {name}: {_text(found[name])} is negative")
    return found


def too_little(
    requests: Mapping[str, str], device: PublishedDevice, taken: Consumed
) -> tuple[TooLittle, ...]:
    """Return what a device lacks for a request beside what is taken. Raises CapacityError."""
    missing = sorted(requests.keys() - device.capacity.keys())
    if missing:
        return tuple(TooLittle(name, amount(requests[name]), None) for name in missing)
    lacking: list[TooLittle] = []
    for name, requested in consumed_by(requests, device).items():
        capacity = device.capacity[name]
        left = amount(capacity.value) - taken.get(name, Fraction())
        if _is_forbidden(requested, capacity.request_policy):
            lacking.append(TooLittle(name, requested, None))
        elif requested > left:
            lacking.append(TooLittle(name, requested, left))
    return tuple(lacking)


def _consumption(request: str | None, capacity: Capacity) -> Fraction:
    policy = capacity.request_policy
    if request is None:
        default = policy.default if policy else None
        return amount(capacity.value if default is None else default)
    if policy is None:
        return amount(request)
    if policy.valid_range is not None and policy.valid_range.min is not None:
        return _in_range(amount(request), policy.valid_range, amount(policy.valid_range.min))
    values = [amount(value) for value in policy.valid_values or ()]
    return next((value for value in values if amount(request) <= value), amount(request))


def _in_range(requested: Fraction, valid: ValidRange, least: Fraction) -> Fraction:
    if requested < least:
        return least
    if valid.step is None:
        return requested
    if unit := _unit(valid):
        if (requested / unit).denominator != 1 or requested / unit > _LARGEST:
            raise CapacityError(f"{_text(requested)} is not a whole number of thousandths")
        value = least + amount(valid.step) * ceil((requested - least) / amount(valid.step))
        if value / unit > _LARGEST:
            raise CapacityError(f"{_text(requested)}, rounded up to the next step, is too large")
        return value
    # Quantities that do not fit in thousandths: Kubernetes counts in whole numbers, rounded up.
    if requested > _LARGEST:
        raise CapacityError(f"{_text(requested)} is too large")
    start, step = ceil(least), ceil(amount(valid.step))
    value = start + step * ceil(Fraction(ceil(requested) - start, step))
    if start >= 0 and value > _LARGEST:
        raise CapacityError(f"{_text(requested)}, rounded up to the next step, is too large")
    return Fraction(value)


def _unit(valid: ValidRange) -> Fraction | None:
    """Return a thousandth, if all limits are whole numbers of it; None: 1."""
    unit = Fraction(1, 1000)
    limits = [amount(text) for text in (valid.min, valid.max, valid.step) if text is not None]
    fit = all((limit / unit).denominator == 1 and limit / unit <= _LARGEST for limit in limits)
    return unit if fit and (valid.step is None or amount(valid.step) >= unit) else None


def _is_forbidden(requested: Fraction, policy: RequestPolicy | None) -> bool:
    if policy is None or (policy.default is not None and requested == amount(policy.default)):
        return False
    valid = policy.valid_range
    if valid is None:
        values = policy.valid_values
        return bool(values) and requested not in {amount(value) for value in values}
    if valid.max is not None and requested > amount(valid.max):
        return True
    if valid.step is None or valid.min is None:
        return False
    if _unit(valid):
        return (requested - amount(valid.min)) % amount(valid.step) != 0
    return (ceil(requested) - ceil(amount(valid.min))) % ceil(amount(valid.step)) != 0


def _text(value: Fraction) -> str:
    return str(value.numerator) if value.denominator == 1 else f"{float(value):g}"
