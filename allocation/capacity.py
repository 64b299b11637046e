"""What a request consumes of a device's capacity, and whether that is left.

Several claims may share a device (`allowMultipleAllocations`): each consumes what it asks for,
rounded up as the device's policy says, or the policy's default. Also a device that is not shared
must have what a request asks for. This follows `consumable_capacity.go` of
k8s.io/dynamic-resource-allocation v0.37.1 with fractional ranges, which 1.37 has. Pure.
"""

from collections.abc import Mapping
from functools import lru_cache

import msgspec

from allocation.model.slices import Capacity, PublishedDevice, RequestPolicy, ValidRange
from allocation.selectors import quantity

NANO, MILLI = 10**9, 10**6
"""One, and a thousandth, in billionths: quantities have nothing less."""
Consumed = Mapping[str, int]
"""In billionths, by the name of a capacity."""
_LARGEST = quantity.INT64


class CapacityError(ValueError):
    """A request for which the scheduler gives up on the node instead of trying the next device."""


class TooLittle(msgspec.Struct, frozen=True):
    """Why a device cannot serve a request."""

    name: str
    """Of the capacity."""
    requested: int
    left: int | None
    """None: it has no such capacity, or its policy forbids the amount."""


@lru_cache(maxsize=100_000)
def amount(text: str) -> int:
    """Return the value of a quantity in billionths. Raises CapacityError."""
    try:
        return int(quantity.parse(text) * NANO)
    except (quantity.QuantityError, quantity.OddQuantityError) as error:
        raise CapacityError(str(error)) from None


def consumption_of(requests: Mapping[str, str], device: PublishedDevice) -> dict[str, int]:
    """Return what a request takes of each capacity of a device. Raises CapacityError."""
    found: dict[str, int] = {}
    for name, capacity in device.capacity.items():
        found[name] = _consumption(requests.get(name), capacity)
        if found[name] < 0:
            raise CapacityError(f"capacity {name}: {found[name] / NANO:g} is negative")
    return found


def too_little(
    requests: Mapping[str, str], device: PublishedDevice, taken: Consumed
) -> tuple[TooLittle, ...]:
    """Return what a device lacks for a request beside what is taken. Raises CapacityError."""
    missing = sorted(requests.keys() - device.capacity.keys())
    if missing:
        return tuple(TooLittle(name, amount(requests[name]), None) for name in missing)
    lacking: list[TooLittle] = []
    for name, requested in consumption_of(requests, device).items():
        capacity = device.capacity[name]
        left = amount(capacity.value) - taken.get(name, 0)
        if _is_forbidden(requested, capacity.request_policy):
            lacking.append(TooLittle(name, requested, None))
        elif requested > left:
            lacking.append(TooLittle(name, requested, left))
    return tuple(lacking)


def suffices(device: PublishedDevice) -> bool:
    """Whether a request that names no capacity finds enough on a device that is not shared."""
    try:
        return all(map(_is_whole, device.capacity.values()))
    except CapacityError:
        return False


@lru_cache(maxsize=100_000)
def _is_whole(capacity: Capacity) -> bool:
    """Whether a request that does not name it takes all that there is."""
    return capacity.request_policy is None and amount(capacity.value) >= 0


def _consumption(request: str | None, capacity: Capacity) -> int:
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


def _in_range(requested: int, valid: ValidRange, least: int) -> int:
    """Return the next step from the least on. Kubernetes counts them in a unit of its own."""
    if requested < least or valid.step is None:
        return max(requested, least)
    unit, step = _unit(valid), amount(valid.step)
    if unit == NANO:
        requested, least, step = (_up(each, NANO) for each in (requested, least, step))
    elif requested % unit:
        raise CapacityError(f"{requested / NANO:g} is not a whole number of thousandths")
    value = least + _up(requested - least, step)
    if max(requested, value) > _LARGEST * unit:
        raise CapacityError(f"{requested / NANO:g}, rounded up to the next step, is too large")
    return value


def _up(value: int, step: int) -> int:
    """Return the next multiple of a step."""
    return -(-value // step) * step


def _unit(valid: ValidRange) -> int:
    """Return a thousandth, if all limits are whole numbers of it, else 1."""
    limits = [amount(text) for text in (valid.min, valid.max, valid.step) if text is not None]
    fit = all(limit % MILLI == 0 and limit <= _LARGEST * MILLI for limit in limits)
    return MILLI if fit and (valid.step is None or amount(valid.step) >= MILLI) else NANO


def _is_forbidden(requested: int, policy: RequestPolicy | None) -> bool:
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
    least, step = amount(valid.min), amount(valid.step)
    if _unit(valid) == NANO:
        requested, least, step = (_up(each, NANO) for each in (requested, least, step))
    return (requested - least) % step != 0
