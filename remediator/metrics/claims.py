"""Claims by state, counted as they change, and the pending ones. Pure but for its memory.

A standalone claim without a pod is no problem: only a claim that a pod or pod group owns is
pending. Whether a pod refers to a claim that was made by hand is unknown here, because pods are not
watched.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from heapq import nsmallest
from typing import Literal, get_args

import msgspec

from exporter.model.device import GPU_DRIVER
from exporter.model.resource_slices import Kind
from remediator.metrics.families import PENDING
from remediator.model.claim import Claim, Request
from serving.families import Rows, labels

State = Literal["pending", "allocated", "in-use", "unowned"]
STATES: tuple[State, ...] = get_args(State)
Reason = Literal["Tainted", "NoneFree", "Other"]
_WAITING_OWNERS = frozenset({"Pod", "PodGroup"})
_KINDS: Mapping[str, Kind] = {
    "gpu.nvidia.com": "gpu",
    "mig.nvidia.com": "mig",
    "vfio.gpu.nvidia.com": "vfio",
}
"""What NVIDIA's own DeviceClasses select. Others select by CEL, which is not evaluated here."""

ClaimStates = tuple[Mapping[State, int], tuple[Claim, ...]]
Sort = tuple[str, str]
"""Driver, and type of device."""


class Room(msgspec.Struct, frozen=True):
    """The most devices of one sort that one node has for a new claim."""

    free: int = 0
    without_taints: int = 0
    """The same if there were no taints of ours: the idle devices under one count, too."""


def state(claim: Claim) -> State:
    if claim.allocated:
        return "in-use" if claim.consumers else "allocated"
    owners = claim.metadata.owner_references
    return "pending" if any(owner.kind in _WAITING_OWNERS for owner in owners) else "unowned"


class Claims:
    """An index; its caller holds a lock."""

    def __init__(self) -> None:
        self._states: Counter[State] = Counter()
        self._pending: dict[str, Claim] = {}

    def put(self, key: str, old: Claim | None, new: Claim | None) -> None:
        """Take in a change of a claim."""
        if old is not None:
            self._states[state(old)] -= 1
            self._pending.pop(key, None)
        if new is not None:
            now = state(new)
            self._states[now] += 1
            if now == "pending":
                self._pending[key] = new

    def counts(self) -> ClaimStates:
        """Return how many claims are in each state, and those that are pending."""
        return {status: self._states[status] for status in STATES}, tuple(self._pending.values())


def claim_rows(
    states: Mapping[State, int],
    pending: Iterable[Claim],
    rooms: Mapping[Sort, Room],
    most: int = PENDING,
) -> Rows:
    """Return the samples of all claims, and of each of the `most` that are pending for longest."""
    dated = [
        (since, claim.metadata.namespace, claim.metadata.name, claim)
        for claim in pending
        if (since := claim.metadata.creation_timestamp) is not None
    ]
    oldest = nsmallest(most, dated, key=lambda entry: entry[:3])
    return {
        "claims": {(word,): float(count) for word, count in states.items()},
        "claim_pending_since_timestamp_seconds": {
            labels(namespace, name, why_pending(claim, rooms)): since.timestamp()
            for since, namespace, name, claim in oldest
        },
    }


def why_pending(claim: Claim, rooms: Mapping[Sort, Room]) -> Reason:
    """Return why a claim is not allocated, as far as a count of free devices shows.

    The scheduler alone knows which node the pod may run on, selectors, quota and the order of the
    queue: where some node has enough, the reason is Other.
    """
    requests = [_choices_of(request) for request in claim.spec.devices.requests]
    if not requests or not all(requests):
        return "Other"
    together = _add_up(requests)
    # For each sort some node has enough free devices, so the reason is not known here.
    if all(_fits(choices, rooms, tainted=False) for choices in together):
        return "Other"
    return (
        "Tainted"
        if all(_fits(choices, rooms, tainted=True) for choices in together)
        else "NoneFree"
    )


def _choices_of(request: Request) -> list[tuple[Sort, int]]:
    """Return the alternatives that a request accepts; [] where they are unknown."""
    choices = (request.exactly,) if request.exactly else request.first_available
    found = [
        ((GPU_DRIVER, kind), choice.count)
        for choice in choices
        if (kind := _KINDS.get(choice.device_class_name)) and choice.count > 0
    ]
    return found if len(found) == len(choices) else []


def _add_up(requests: list[list[tuple[Sort, int]]]) -> list[list[tuple[Sort, int]]]:
    """Add up the requests without alternatives: one node must have the devices of all."""
    fixed = Counter[Sort]()
    for choices in requests:
        if len(choices) == 1:
            fixed[choices[0][0]] += choices[0][1]
    return [
        *([total] for total in fixed.items()),
        *(alternatives for alternatives in requests if len(alternatives) > 1),
    ]


def _fits(choices: list[tuple[Sort, int]], rooms: Mapping[Sort, Room], *, tainted: bool) -> bool:
    for sort, count in choices:
        room = rooms.get(sort, Room())
        if count <= (room.without_taints if tainted else room.free):
            return True
    return False
