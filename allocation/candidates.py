"""Each device that a request may look at on a node, with every reason that keeps it away. Pure.

The scheduler stops at the first reason; people need all of them, because only a device with one
reason left is helped by one change.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

import msgspec

from allocation import capacity
from allocation.answers import Answers, Kept
from allocation.capacity import CapacityError
from allocation.model.claims import Choice, Constraint, DeviceClass
from allocation.model.nodes import Node
from allocation.model.slices import PublishedDevice
from allocation.pools import Countdown, Pool, Spot
from allocation.reasons import Candidate, Reason, Why
from allocation.usage import Usage
from exporter.model.device import Device

_Reasons = tuple[Reason, ...]


class Selection(msgspec.Struct, frozen=True):
    """One choice of a request."""

    request: str
    choice: Choice
    device_class: DeviceClass
    answers: Answers

    @property
    def name(self) -> str:
        """`request`, or `request/alternative`."""
        return f"{self.request}/{self.choice.name}" if self.choice.name else self.request

    def devices(self, pool: Pool) -> Iterator[tuple[Spot, Kept]]:
        """Return each device of a pool for the node with the selectors that keep it away."""
        sources = (self.device_class.spec.selectors, self.choice.selectors)
        kept = (self.answers.reasons(given, *sources) for given in pool.slices)
        return zip(pool.spots, chain.from_iterable(kept), strict=True)


class _Look(msgspec.Struct, frozen=True):
    """A request at a pool."""

    choice: Choice
    pool: Pool
    node: Node
    usage: Usage
    whole: Mapping[str, str]
    """By device: the claim that has it for itself."""
    measures: bool
    """Whether it requests capacity, or devices are shared."""
    counters: Countdown | None
    """None: of a pool that is not complete."""
    constraints: tuple[Constraint, ...]


def candidates(
    selection: Selection,
    pools: Sequence[Pool],
    node: Node,
    usage: Usage,
    constraints: Sequence[Constraint] = (),
) -> list[Candidate]:
    """Return each device of the node's pools with what keeps it from the request.

    Raises NodeSelectorError and CapacityError.
    """
    choice = selection.choice
    about = tuple(each for each in constraints if each.is_about(selection.request, choice.name))
    measures = bool(choice.capacity.requests or usage.shares)
    found: list[Candidate] = []
    for pool in pools:
        counters = Countdown.begin(pool, usage) if pool.state == "Complete" else None
        whole = {} if choice.admin_access else usage.whole.get((pool.driver, pool.name), {})
        look = _Look(choice, pool, node, usage, whole, measures, counters, about)
        found += [
            Candidate(spot.name, _reasons(look, spot, selectors))
            for spot, selectors in selection.devices(pool)
        ]
    return found


_POOLS: Mapping[str, Why] = {
    "Incomplete": "PoolIncomplete",
    "Replaced": "PoolIncomplete",
    "Invalid": "PoolInvalid",
}


def _reasons(look: _Look, spot: Spot, selectors: Kept) -> _Reasons:
    """Return what keeps a device away, in the order in which the scheduler looks."""
    device, found = spot.device, selectors
    if (holder := look.whole.get(device.name)) is not None:
        found = (Reason("Allocated", by=(holder,)), *found)
    if look.pool.state != "Complete":
        found = (Reason(_POOLS[look.pool.state], look.pool.why), *found)
    if not spot.given.has_for(device, look.node):
        found = (Reason("OtherNode"), *found)
    if look.measures or not spot.suffices:
        found += _capacity(look, spot)
    if device.consumes_counters:
        found += _counters(look, spot)
    taints = look.choice.untolerated(device.taints)
    found += tuple(
        Reason("Tainted", taint.key, (taint.rule,) if taint.rule else ())
        for taint in taints
        if not taint.doubt
    ) or tuple(
        Reason("NotEvaluated", f"DeviceTaintRule {taint.rule}", (f"it selects by {taint.doubt}",))
        for taint in taints
    )
    for each in look.constraints:
        name = each.match_attribute or each.distinct_attribute or ""
        if device.attribute(name, look.pool.driver) is None:
            found += (Reason("Constraint", name),)
    return found


def _capacity(look: _Look, spot: Spot) -> _Reasons:
    usage, requests = look.usage, look.choice.capacity.requests
    try:
        lacking = capacity.too_little(requests, spot.device, usage.consumption(spot.name))
    except CapacityError as error:
        return (Reason("Fails", "capacity", (str(error),)),)
    # Only what others have may be given back; a device that is too small stays so.
    return tuple(
        Reason("Capacity", each.name, usage.holders(spot.name) if each.left is not None else ())
        for each in lacking
    )


def _counters(look: _Look, spot: Spot) -> _Reasons:
    if look.counters is None or counts_already(spot.device, spot.name, look.usage):
        return ()
    short = look.counters.short(spot.device)
    if not short:
        return ()
    holders = look.pool.holders_of_counters(look.usage, short)
    names = ", ".join(sorted({name for _, name in short}))
    return (Reason("Counters", names, tuple(sorted(each.device for each in holders))),)


def counts_already(device: PublishedDevice, name: Device, usage: Usage) -> bool:
    """Whether a further share of a device takes no counters, because the first one has."""
    return device.allow_multiple_allocations and name in usage.shares
