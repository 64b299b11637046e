"""Published devices, counted: the definition that metrics, boards and `status` share. Pure.

`state` says whether a claim holds a device, or it is free. Admin access holds nothing. `taint` says
who keeps new pods from it; an allocated device may be tainted, too. Only NoSchedule and NoExecute
keep pods away; `None` and an unknown effect do not. Every published device counts: a GPU, its twin
for passthrough (`vfio`), and each MIG slice that may be made of it.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Literal, get_args

from exporter.model.resource_slices import SliceDevice
from remediator.model.claim import Claim
from remediator.model.taint_rule import ForeignRule, Rule
from serving.families import Labels, Rows, labels

State = Literal["allocated", "free", "unknown"]
STATES: tuple[State, ...] = get_args(State)
TaintedBy = Literal["draguard", "driver", "other", "none", "unknown"]
"""By precedence: the first that is true. Draguard's taint has an incident, and goes when the GPU
has recovered. The driver's is in its ResourceSlice, so no deletion of a rule removes it. The rest
are rules of others. `draguard cordon` makes one of these, which Draguard never removes."""
TAINTED_BY: tuple[TaintedBy, ...] = get_args(TaintedBy)
_KEEP_AWAY = frozenset({"NoSchedule", "NoExecute"})
SORTS = 512
"""Models (driver, type, product, profile) that are exported; the rarest beyond these are counted
together, because a driver may write anything into its slices."""
REST = "other"
FOREIGN = "foreign"
"""The type of every foreign device, which is no GPU here whatever its driver is."""

Model = tuple[str, str, str, str]
"""Driver, type, product and profile, as published."""
Group = tuple[Model, State, TaintedBy]
Totals = Mapping[Group, int]
PoolCount = tuple[tuple[Group, int], ...]
"""The devices of one pool, counted. In tuples, as ten thousand of these are kept."""


def pool_count(
    devices: Iterable[SliceDevice],
    rules: Iterable[Rule],
    foreign: Collection[ForeignRule],
    claims: Iterable[Claim],
) -> PoolCount:
    """Count the devices of a pool; `foreign` are rules of others."""
    ours = {rule.device for rule in rules if rule.taint_effect in _KEEP_AWAY}
    theirs = [rule for rule in foreign if rule.effect in _KEEP_AWAY]
    results = (result for claim in claims for result in claim.results)
    held = {result.name for result in results if result.allocates}
    groups = Counter[Group]()
    for device in devices:
        if not (device.kind or device.foreign):
            continue
        name, kind = device.device, device.kind or FOREIGN
        by: TaintedBy = "none"
        if any(taint.effect in _KEEP_AWAY for taint in device.taints):
            by = "driver"
        elif selected := {rule.narrowed for rule in theirs if rule.selects(name)}:
            # A narrowed rule also selects by DeviceClass or CEL, which are not evaluated here.
            by = "unknown" if all(selected) else "other"
        state: State = "allocated" if name in held else "free"
        model = (name.driver, kind, device.product, device.profile)
        groups[model, state, "draguard" if name in ours else by] += 1
    return tuple(groups.items())


def admit_unknown(totals: Totals, unread: Collection[str]) -> Totals:
    """Return the totals with `unknown` for what rests on `claims` or `rules` that were not read.

    One claim shows that a device is allocated; only all of them show that it is free. One rule of
    ours shows our taint, which has precedence; only all rules show whose another taint is.
    """
    found = Counter[Group]()
    for (model, state, by), count in totals.items():
        state_known = state != "free" or "claims" not in unread
        taint_known = by == "draguard" or "rules" not in unread
        found[model, state if state_known else "unknown", by if taint_known else "unknown"] += count
    return found


def device_rows(totals: Totals, most: int = SORTS) -> Rows:
    """Return the samples of all published devices; foreign ones are folded first."""
    models = Counter[Model]()
    for (model, _, _), count in totals.items():
        models[model] += count
    # Foreign models come last, so that they never push GPUs out of the list.
    by_number = sorted(
        models.items(), key=lambda entry: (entry[0][1] == FOREIGN, -entry[1], entry[0])
    )
    listed = {model for model, _ in by_number[:most]}
    found, foreign = Counter[Labels](), Counter[Labels]()
    for (model, *states), count in totals.items():
        driver, kind, product, profile = model if model in listed else (REST, model[1], REST, REST)
        if kind == FOREIGN:
            foreign[labels(driver, product, *states)] += count
        else:
            found[labels(driver, kind, product, profile, *states)] += count
    return {
        "devices": {key: float(count) for key, count in found.items()},
        "foreign_devices": {key: float(count) for key, count in foreign.items()},
    }
