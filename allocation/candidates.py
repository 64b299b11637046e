"""Each device that a request may look at on a node, with every reason that keeps it away. Pure.

The scheduler stops at the first reason; people need all of them, because only a device with one
reason left is helped by one change. `FINDERS` has a row for each kind of reason.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from allocation import capacity
from allocation.answers import Answers
from allocation.capacity import CapacityError
from allocation.model.claims import Choice, Constraint, DeviceClass, Selector
from allocation.model.nodes import Node
from allocation.model.slices import PublishedDevice, ResourceSlice
from allocation.pools import Countdown, Pool
from allocation.reasons import Candidate, Reason, Why
from allocation.selectors.answers import not_evaluated
from allocation.usage import Usage


class Selection:
    """One choice of a request, and what its selectors and those of its class say of devices."""

    def __init__(
        self, request: str, choice: Choice, device_class: DeviceClass, answers: Answers
    ) -> None:
        self.request, self.choice = request, choice
        self._device_class, self._answers = device_class, answers

    @property
    def name(self) -> str:
        """`request`, or `request/alternative`."""
        return f"{self.request}/{self.choice.name}" if self.choice.name else self.request

    def reasons(self, driver: str, devices: Sequence[PublishedDevice]) -> list[tuple[Reason, ...]]:
        """Return for each device which selectors keep it away, those of the class first."""
        found: list[list[Reason]] = [[] for _ in devices]
        sources: tuple[tuple[Why, tuple[Selector, ...]], ...] = (
            ("ClassSelector", self._device_class.spec.selectors),
            ("RequestSelector", self.choice.selectors),
        )
        for why, selectors in sources:
            for selector in selectors:
                text = selector.cel.expression if selector.cel else ""
                answers = self._answers.of(text, driver, devices) if text else [_OTHER] * len(found)
                for answer, reasons in zip(answers, found, strict=True):
                    if answer.says == "NoMatch":
                        reasons.append(Reason(why, text))
                    elif answer.says != "Matches":
                        reasons.append(Reason(_DOUBTS[answer.says], text, (answer.why,)))
        return [tuple(reasons) for reasons in found]


_OTHER = not_evaluated("the selector is no CEL expression")
_DOUBTS: Mapping[str, Why] = {"Fails": "SelectorFails", "NotEvaluated": "NotEvaluated"}
"""By what an expression says of a device."""


class _Look(msgspec.Struct, frozen=True):
    """A request at a device."""

    choice: Choice
    pool: Pool
    given: ResourceSlice
    device: PublishedDevice
    node: Node
    usage: Usage
    selectors: tuple[Reason, ...]
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
        devices = pool.devices()
        by_selectors = selection.reasons(pool.driver, [device for _, device in devices])
        counters = Countdown.begin(pool, usage) if pool.state == "Complete" else None
        for (given, device), selectors in zip(devices, by_selectors, strict=True):
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
    """Yield who has all of it; admin access looks at devices whoever has them."""
    holder = look.usage.whole.get(look.given.device(look.device))
    if holder is not None and not look.choice.admin_access:
        yield Reason("Allocated", by=(holder,))


def _selectors(look: _Look) -> Iterator[Reason]:
    yield from look.selectors


def _capacity(look: _Look) -> Iterator[Reason]:
    name, requests = look.given.device(look.device), look.choice.capacity.requests
    try:
        lacking = capacity.too_little(requests, look.device, look.usage.consumed(name))
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
