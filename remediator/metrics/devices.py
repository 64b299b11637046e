"""What is published of one pool, counted by what keeps each device from a new claim. Pure."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Literal

import msgspec

from exporter.model.resource_slices import SliceDevice
from remediator.metrics.claims import Room, Sort
from remediator.metrics.rows import Labels, Rows, labels
from remediator.model.claim import Claim
from remediator.model.taint_rule import ForeignRule, Rule

State = Literal["tainted", "tainted_by_others", "allocated", "free"]
_KEEP_AWAY = frozenset({"NoSchedule", "NoExecute"})
SORTS = 512
"""Different devices (driver, type, product, profile) that are exported; beyond that, the rarest are
counted together: a driver may write what it likes into its slices."""
REST = "other"
FOREIGN = "foreign"
"""Stands for the type of a foreign device; whatever its driver is, it is no GPU here."""

Model = tuple[str, str, str, str]
"""Driver, type, product and profile, as published."""


class PoolCount(msgspec.Struct, frozen=True):
    """One pool's devices, in tuples: ten thousand of these are kept."""

    states: tuple[tuple[Model, State, int], ...] = ()
    idle: tuple[tuple[Sort, int, int], ...] = ()
    """Of each sort, how many are free, and how many would be without our taints."""


def pool_count(
    devices: Iterable[SliceDevice],
    rules: Iterable[Rule],
    foreign: Collection[ForeignRule],
    claims: Iterable[Claim],
) -> PoolCount:
    """Count the devices of a pool, each in the first state that is true of it.

    `foreign` are rules of others. Admin access allocates nothing.
    """
    ours = {rule.device for rule in rules if rule.taint_effect in _KEEP_AWAY}
    theirs = [rule for rule in foreign if rule.effect in _KEEP_AWAY]
    results = (result for claim in claims for result in claim.results)
    held = {result.name for result in results if result.allocates}
    states = Counter[tuple[Model, State]]()
    free, without = Counter[Sort](), Counter[Sort]()
    for device in devices:
        if not (device.kind or device.foreign):
            continue
        name, kind = device.device, device.kind or FOREIGN
        by_driver = any(taint.effect in _KEEP_AWAY for taint in device.taints)
        others = by_driver or any(rule.selects(name) for rule in theirs)
        usable = not others and name not in held
        if not device.foreign:
            without[name.driver, kind] += usable
            free[name.driver, kind] += usable and name not in ours
        state: State = "allocated" if name in held else "free"
        if name in ours:
            state = "tainted"
        elif others:
            state = "tainted_by_others"
        states[(name.driver, kind, device.product, device.profile), state] += 1
    return PoolCount(
        tuple((model, state, count) for (model, state), count in states.items()),
        tuple((sort, free[sort], count) for sort, count in without.items()),
    )


def rooms(counts: Iterable[PoolCount]) -> Mapping[Sort, Room]:
    """Return the most devices of each sort that one pool has for a new claim."""
    free, without = Counter[Sort](), Counter[Sort]()
    for count in counts:
        for sort, unused, untainted in count.idle:
            free[sort] = max(free[sort], unused)
            without[sort] = max(without[sort], untainted)
    return {sort: Room(free[sort], without[sort]) for sort in without}


def device_rows(totals: Mapping[tuple[Model, State], int], most: int = SORTS) -> Rows:
    """Return the samples of all published devices; foreign ones are folded first."""
    models = Counter[Model]()
    for (model, _), count in totals.items():
        models[model] += count
    by_number = sorted(
        models.items(), key=lambda entry: (entry[0][1] == FOREIGN, -entry[1], entry[0])
    )
    listed = {model for model, _ in by_number[:most]}
    found, foreign = Counter[Labels](), Counter[Labels]()
    for (model, state), count in totals.items():
        driver, kind, product, profile = model if model in listed else (REST, model[1], REST, REST)
        if kind == FOREIGN:
            foreign[labels(driver, product, state)] += count
        else:
            found[labels(driver, kind, product, profile, state)] += count
    return {
        "devices": {key: float(count) for key, count in found.items()},
        "foreign_devices": {key: float(count) for key, count in foreign.items()},
    }
