"""What the scheduler allocates for claims on a node: its own search, step by step. Pure.

It takes the first device that fits, in the order of the pools, and goes back where the rest does
not fit then. So the order decides also which failing selector is met. As
`allocator_incubating.go` of k8s.io/dynamic-resource-allocation v0.37.1, which Kubernetes 1.37 runs
with its default gates.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property

import msgspec

from allocation import capacity
from allocation.answers import Answers
from allocation.candidates import Selection, counts_already
from allocation.capacity import CapacityError, Consumed
from allocation.model.claims import Claim, Constraint, DeviceClass
from allocation.model.nodes import Node, NodeSelectorError
from allocation.model.slices import Attribute, PublishedDevice, Taint
from allocation.pools import Countdown, Pool, Published
from allocation.reasons import Outcome, Reason
from allocation.usage import Usage, add_up
from exporter.model.device import Device

_DOUBTS = frozenset({"SelectorFails", "NotEvaluated"})
MOST_DEVICES = 32
"""That one claim may have (`AllocationResultsMaxSize`)."""
MOST_STEPS = 20_000
"""Devices that are tried before we give up; the scheduler has 10 s for a node."""
MOST_SETS = 1 << 20
"""Sets of devices that are known not to do, without a try: the scheduler needs seconds for them."""
DEEPEST = 500
"""Calls within each other, one for each request and device; Python has 1,000."""


class _Failure(Exception):  # noqa: N818 - an outcome, which ends the search
    """The scheduler gives up on the node."""


class _SelectorFailure(_Failure):
    """It does so because a selector ends with an error."""


class _Unknown(Exception):  # noqa: N818 - likewise
    """What follows cannot be known here."""


class _TooMany(Exception):  # noqa: N818 - likewise, of one way
    """More devices than a claim may have, whichever they are."""


class _Spot(msgspec.Struct, frozen=True):
    """A device that a request does not pass over."""

    device: PublishedDevice
    name: Device
    pool: Pool
    doubt: Reason | None
    """Selector that says neither yes nor no to it."""
    consumed: Consumed
    """By claims that share it already."""


class _Choice(msgspec.Struct, frozen=True, dict=True):
    selection: Selection
    count: int
    spots: tuple[_Spot, ...]
    every: bool
    """Whether it asks for all of the spots."""

    @cached_property
    def is_plain(self) -> bool:
        """Whether each spot can be had, whichever others are, where no constraint compares them."""
        requested = self.selection.choice
        try:
            return not (self.every or requested.admin_access) and not any(
                spot.doubt
                or spot.device.allow_multiple_allocations
                or spot.device.consumes_counters
                or requested.untolerated(spot.device.taints)
                or capacity.too_little(requested.capacity.requests, spot.device, spot.consumed)
                for spot in self.spots
            )
        except CapacityError:
            return False


class Cluster(msgspec.Struct, frozen=True):
    """What there is to allocate."""

    published: Published
    usage: Usage
    classes: Mapping[str, DeviceClass]


def allocate(claims: Sequence[Claim], node: Node, cluster: Cluster, answers: Answers) -> Outcome:
    """Return what the scheduler does with a pod's waiting claims on a node."""
    try:
        search = _Search(claims, node, cluster, answers)
        found = search.run()
    except _SelectorFailure as error:
        return Outcome("SelectorFails", why=str(error))
    except (_Failure, NodeSelectorError, CapacityError) as error:
        return Outcome("Fails", why=str(error))
    except _Unknown as error:
        return Outcome("NotEvaluated", why=str(error))
    if found is not None:
        return Outcome("Allocated", found)
    invalid = [pool for pool in search.pools if pool.state == "Invalid"]
    return Outcome("None", why=f"pool {invalid[0].name}: {invalid[0].why}" if invalid else "")


class _Search:
    def __init__(
        self,
        claims: Sequence[Claim],
        node: Node,
        cluster: Cluster,
        answers: Answers,
    ) -> None:
        self.pools = cluster.published.pools_of(node)
        self._node, self._usage = node, cluster.usage
        self._claims, self._steps, self._sets = claims, 0, 0
        self._counters: dict[tuple[str, str], Countdown] = {}
        self._own: dict[Device, set[int]] = {}
        """Which of the claims have a device for themselves in this attempt."""
        self._shares: dict[Device, list[Mapping[str, int]]] = {}
        self._found: list[list[tuple[str, Device]]] = [[] for _ in claims]
        self._constraints = [
            [_Compared(each) for each in claim.spec.devices.constraints] for claim in claims
        ]
        self._choices = [self._choices_of(claim, cluster.classes, answers) for claim in claims]

    def run(self) -> tuple[tuple[str, str, Device], ...] | None:
        depth = 0
        for requests in self._choices:
            devices = sum(max(choice.count for choice in choices) for choices in requests)
            depth += 2 + 2 * len(requests) + min(devices, MOST_DEVICES)
        if depth > DEEPEST:
            raise _Unknown(
                f"its {len(self._claims)} claims have too many requests to be tried here"
            )
        try:
            done = self._claim(0)
        except _TooMany:
            done = False
        if not done:
            return None
        return tuple(
            (claim.key, request, device)
            for claim, found in zip(self._claims, self._found, strict=True)
            for request, device in found
        )

    def _choices_of(
        self, claim: Claim, classes: Mapping[str, DeviceClass], answers: Answers
    ) -> list[list[_Choice]]:
        """Return for each request its choices, after the checks that come before any device."""
        choices: list[list[_Choice]] = []
        least = 0
        for request in claim.spec.devices.requests:
            if not request.choices:
                raise _Unknown(f"request {request.name} is of a kind that is not known here")
            found: list[_Choice] = []
            for choice in request.choices:
                if choice.derived_attributes:
                    raise _Unknown(f"request {request.name} has derived attributes")
                device_class = classes.get(choice.device_class_name)
                if device_class is None:
                    raise _Failure(f"DeviceClass {choice.device_class_name} does not exist")
                found.append(self._choice(Selection(request.name, choice, device_class, answers)))
            least += min(each.count for each in found)
            if least > MOST_DEVICES:
                raise _Failure(f"it requests {least} devices; a claim has {MOST_DEVICES} at most")
            choices.append(found)
        for number, each in enumerate(claim.spec.devices.constraints):
            if each.match_attribute is None and each.distinct_attribute is None:
                raise _Unknown(f"constraint {number} is of a kind that is not known here")
        return choices

    def _choice(self, selection: Selection) -> _Choice:
        spots = self._spots(selection)
        match selection.choice.allocation_mode:
            case "ExactCount" | "":
                return _Choice(selection, selection.choice.count, tuple(spots), every=False)
            case "All":
                return self._all(selection, spots)
            case other:
                raise _Unknown(f"request {selection.name}: mode {other} is not known here")

    def _spots(self, selection: Selection) -> list[_Spot]:
        """Return the devices that the scheduler does not pass over, whatever else is allocated."""
        choice, found = selection.choice, list[_Spot]()
        # One that is allocated is passed over, but where all are requested.
        shared = choice.admin_access or choice.allocation_mode == "All"
        for pool in self.pools:
            allocated = {} if shared else self._usage.whole.get((pool.driver, pool.name), {})
            for spot, selectors in selection.devices(pool) if pool.state == "Complete" else ():
                # Also of one that is allocated: a selector that cannot be read is an error.
                here = spot.given.has_for(spot.device, self._node)
                if spot.device.name in allocated:
                    continue
                doubt = selectors[0] if selectors and selectors[0].why in _DOUBTS else None
                if doubt or (here and not selectors):
                    consumed = self._usage.consumption(spot.name)
                    found.append(_Spot(spot.device, spot.name, pool, doubt, consumed))
        return found

    def _all(self, selection: Selection, spots: Sequence[_Spot]) -> _Choice:
        for pool in self.pools:
            if pool.state in {"Incomplete", "Invalid"}:
                raise _Failure(f"request {selection.name} is for all devices: {pool.why}")
        requests = selection.choice.capacity.requests
        found: list[_Spot] = []
        for spot in spots:
            _require_answer(spot)
            if not capacity.too_little(requests, spot.device, {}):
                found.append(spot)
        return _Choice(selection, len(found), tuple(found), every=True)

    def _claim(self, claim: int) -> bool:
        """Whether this claim and all after it can be served."""
        return claim >= len(self._claims) or self._request(claim, 0)

    def _request(self, claim: int, request: int) -> bool:
        """Whether this request and all after it can be served."""
        if request >= len(self._choices[claim]):
            try:
                return self._claim(claim + 1)
            except _TooMany:
                return False
        choices, too_many = self._choices[claim][request], 0
        alternatives = bool(self._claims[claim].spec.devices.requests[request].first_available)
        for choice in choices:
            try:
                if self._device(claim, request, choice, 0, 0):
                    return True
            except _TooMany:
                if not alternatives:
                    raise
                too_many += 1
        if alternatives and too_many == len(choices):
            raise _TooMany
        return False

    def _device(self, claim: int, request: int, choice: _Choice, number: int, start: int) -> bool:
        """Whether device `number` of a request, all after it, and the rest can be served."""
        if choice.every and not choice.spots:
            return False
        if number >= choice.count:
            return self._request(claim, request + 1)
        if choice.count - number > MOST_DEVICES - len(self._found[claim]):
            raise _TooMany
        if self._is_vain(claim, choice, choice.count - number, start):
            return False
        # Of all devices, each is needed; else the next of a request comes after the last.
        places = (number,) if choice.every else range(start, len(choice.spots))
        for place in places:
            spot = choice.spots[place]
            with ExitStack() as undo:
                if self._take(claim, choice, spot, undo) and self._device(
                    claim, request, choice, number + 1, place + 1
                ):
                    undo.pop_all()
                    return True
        return False

    def _is_vain(self, claim: int, choice: _Choice, needed: int, start: int) -> bool:
        """Whether too few devices are left, where nothing but their number matters.

        The scheduler tries each set of them, which takes as long as it does.
        """
        at_most = len(choice.spots) - start
        if not at_most or at_most - sum(map(len, self._found)) >= needed:
            return False
        if self._constraints[claim] or not choice.is_plain:
            return False
        left = sum(not self._own.get(spot.name) for spot in choice.spots[start:])
        if left >= needed:
            return False
        self._sets += 2**left
        if self._sets > MOST_SETS:
            raise _Unknown(f"there are more than {MOST_SETS} sets of devices to try")
        return True

    def _take(self, claim: int, choice: _Choice, spot: _Spot, undo: ExitStack) -> bool:
        """Take a device if it can be had. Raises _Failure, _Unknown and CapacityError."""
        requested, own = choice.selection.choice, self._own.get(spot.name, ())
        in_use = claim in own if requested.admin_access else own or self._usage.holder(spot.name)
        if in_use:
            return False
        _require_answer(spot)
        self._steps += 1
        if self._steps > MOST_STEPS:
            raise _Unknown(f"there are more than {MOST_STEPS} devices to try")
        requests = requested.capacity.requests
        consumed = add_up((spot.consumed, *self._shares.get(spot.name, ())))
        # Of all devices, one that breaks a constraint is an error before one that is too small.
        return (
            (choice.every or not capacity.too_little(requests, spot.device, consumed))
            and self._counts(spot, undo)
            and not _is_tainted(requested.untolerated(spot.device.taints), spot.name)
            and self._compares(claim, choice, spot, undo)
            and not (choice.every and capacity.too_little(requests, spot.device, consumed))
            and self._books(claim, choice.selection, spot, undo)
        )

    def _counts(self, spot: _Spot, undo: ExitStack) -> bool:
        """Take the counters that a partition consumes, where they suffice."""
        pool, device = spot.pool, spot.device
        if (
            not device.consumes_counters
            or self._shares.get(spot.name)
            or counts_already(device, spot.name, self._usage)
        ):
            return True
        key = (pool.driver, pool.name)
        if key not in self._counters:
            self._counters[key] = Countdown.begin(pool, self._usage)
        counters = self._counters[key]
        if counters.short(device):
            return False
        counters.take(device)
        undo.callback(counters.take, device, -1)
        return True

    def _compares(self, claim: int, choice: _Choice, spot: _Spot, undo: ExitStack) -> bool:
        """Add a device to the constraints of its request, where it meets them."""
        selection = choice.selection
        for compared in self._constraints[claim]:
            if not compared.constraint.is_about(selection.request, selection.choice.name):
                continue
            if not compared.add(spot.device, spot.pool.driver):
                if choice.every:
                    raise _Failure(f"request {selection.name}: {spot.name} breaks a constraint")
                return False
            undo.callback(compared.values.pop)
        return True

    def _books(self, claim: int, selection: Selection, spot: _Spot, undo: ExitStack) -> bool:
        if spot.device.allow_multiple_allocations:
            shares = self._shares.setdefault(spot.name, [])
            shares.append(capacity.consumption_of(selection.choice.capacity.requests, spot.device))
            undo.callback(shares.pop)
        else:
            own = self._own.setdefault(spot.name, set())
            # With admin access a claim may have a device that another one has.
            own.add(claim)
            undo.callback(own.discard, claim)
        self._found[claim].append((selection.name, spot.name))
        undo.callback(self._found[claim].pop)
        return True


def _require_answer(spot: _Spot) -> None:
    """Raise _Failure or _Unknown where a selector says neither yes nor no."""
    doubt = spot.doubt
    if doubt is not None and doubt.why == "SelectorFails":
        raise _SelectorFailure(f"{doubt.what} fails on {spot.name}: {doubt.by[0]}")
    if doubt is not None:
        raise _Unknown(f"{doubt.what} is not evaluated on {spot.name}: {doubt.by[0]}")


def _is_tainted(taints: Sequence[Taint], name: Device) -> bool:
    """Whether one of the taints that a request does not tolerate keeps a device away.

    Raises _Unknown where only those of rules may that are not known here.
    """
    in_doubt = [taint for taint in taints if taint.doubt]
    if in_doubt and len(in_doubt) == len(taints):
        rule, by = in_doubt[0].rule, in_doubt[0].doubt
        raise _Unknown(f"DeviceTaintRule {rule} is not evaluated on {name}: it selects by {by}")
    return bool(taints)


class _Compared:
    """A constraint with the attributes of the devices that were taken under it."""

    def __init__(self, constraint: Constraint) -> None:
        self.constraint = constraint
        self.values: list[tuple[str, str | int] | None] = []

    def add(self, device: PublishedDevice, driver: str) -> bool:
        """Whether a device goes with those before it; if so, it is one of them now."""
        match, distinct = self.constraint.match_attribute, self.constraint.distinct_attribute
        attribute = device.attribute(match or distinct or "", driver)
        if attribute is None:
            return False
        value = _value(attribute)
        if self.values:
            fits = value == self.values[0] if match is not None else value not in self.values
            if value is None or not fits:
                return False
        self.values.append(value)
        return True


def _value(attribute: Attribute) -> tuple[str, str | int] | None:
    """Return type and value; None for a list, which the default gates do not compare."""
    for kind, value in (
        ("string", attribute.text),
        ("int", attribute.number),
        ("bool", attribute.flag),
        ("version", attribute.version),
    ):
        if value is not None:
            return kind, value
    return None
