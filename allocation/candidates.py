"""Each device that a request may look at on a node, with every reason that keeps it away. Pure.

The scheduler stops at the first reason; people need all of them, because only a device with one
reason left is helped by one change. `FINDERS` has a row for each kind of reason.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import repeat

import msgspec

from allocation import capacity
from allocation.answers import Answers, Kept
from allocation.capacity import CapacityError
from allocation.model.claims import Choice, Constraint, DeviceClass
from allocation.model.nodes import Node
from allocation.model.slices import PublishedDevice, ResourceSlice
from allocation.pools import Countdown, Pool
from allocation.reasons import Candidate, Reason, Why
from allocation.usage import Usage


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

    def devices(self, pool: Pool) -> Iterator[tuple[ResourceSlice, PublishedDevice, Kept]]:
        """Yield each device of a pool for the node with the selectors that keep it away."""
        sources = (self.device_class.spec.selectors, self.choice.selectors)
        for given in pool.slices:
            kept = self.answers.reasons(given, *sources)
            yield from zip(repeat(given), given.spec.devices, kept, strict=False)


class _Look(msgspec.Struct, frozen=True):
    """A request at a device."""

    choice: Choice
    pool: Pool
    given: ResourceSlice
    device: PublishedDevice
    node: Node
    usage: Usage
    selectors: Kept
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
    found: list[Candidate] = []
    for pool in pools:
        counters = Countdown.begin(pool, usage) if pool.state == "Complete" else None
        for given, device, selectors in selection.devices(pool):
            look = _Look(choice, pool, given, device, node, usage, selectors, counters, about)
            reasons = tuple(reason for find in FINDERS for reason in find(look))
            found.append(Candidate(given.device(device), reasons))
    return found


_POOLS: Mapping[str, Why] = {
    "Incomplete": "PoolIncomplete",
    "Replaced": "PoolIncomplete",
    "Invalid": "PoolInvalid",
}


def _place(look: _Look) -> Iterator[Reason]:
    if not look.given.has_for(look.device, look.node):
        yield Reason("OtherNode")
    if look.pool.state in _POOLS:
        yield Reason(_POOLS[look.pool.state], look.pool.why)


def _holder(look: _Look) -> Iterator[Reason]:
    """Yield who has all of it; admin access takes part in what others have."""
    holder = look.usage.whole.get(look.given.device(look.device))
    if holder is not None and not look.choice.admin_access:
        yield Reason("Allocated", by=(holder,))


def _selectors(look: _Look) -> Iterator[Reason]:
    yield from look.selectors


def _capacity(look: _Look) -> Iterator[Reason]:
    name, requests = look.given.device(look.device), look.choice.capacity.requests
    try:
        lacking = capacity.too_little(requests, look.device, look.usage.consumption(name))
    except CapacityError as error:
        yield Reason("SelectorFails", "capacity", (str(error),))
        return
    for each in lacking:
        # Only what others have may be given back; a device that is too small stays so.
        holders = look.usage.holders(name) if each.left is not None else ()
        yield Reason("Capacity", each.name, holders)


def _counters(look: _Look) -> Iterator[Reason]:
    device = look.device
    if look.counters is None or not device.consumes_counters:
        return
    if counts_already(look.given, device, look.usage):
        return
    if short := look.counters.short(device):
        holders = look.pool.holders_of_counters(look.usage, short)
        names = ", ".join(sorted({name for _, name in short}))
        yield Reason("Counters", names, tuple(sorted(each.device for each in holders)))


def counts_already(given: ResourceSlice, device: PublishedDevice, usage: Usage) -> bool:
    """Whether a further share of a device takes no counters, because the first one has."""
    return device.allow_multiple_allocations and given.device(device) in usage.shares


def _taints(look: _Look) -> Iterator[Reason]:
    for taint in look.choice.untolerated(look.device.taints):
        yield Reason("Tainted", taint.key, (taint.rule,) if taint.rule else ())


def _constraints(look: _Look) -> Iterator[Reason]:
    """Yield the attributes that a constraint compares and the device does not have."""
    for each in look.constraints:
        name = each.match_attribute or each.distinct_attribute or ""
        if look.device.attribute(name, look.pool.driver) is None:
            yield Reason("Constraint", name)


FINDERS: tuple[Callable[[_Look], Iterator[Reason]], ...] = (
    _place,
    _holder,
    _selectors,
    _capacity,
    _counters,
    _taints,
    _constraints,
)
"""In the order in which the scheduler looks."""
