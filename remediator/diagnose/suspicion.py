"""XIDs that are no fault by themselves and follow a GPU and not a job: when they make it suspect.

13 and 31 are the program's own fault, nearly always, and move along with it. They make a GPU
suspect only when, within 24 h, bursts on it belong to at least two top owners in at least two
namespaces, none of which had such an error on any other GPU in that time. Errors without an owner,
or of several owners that share the device, accuse no GPU; the latter still clear the GPUs of those
that had them.

94 without MIG has killed the program that read the memory, and leaves nothing to watch: NVIDIA's
catalogue wants that program restarted. But no program causes it, so it accuses the GPU whoever held
it. One row fails, is taken out of use and is remapped by the next reset; a GPU that has such errors
again and again in a day has more than that.

The memory is bounded and ends with the process; the controller feeds it. Times are the node's, so
they are compared with those of one GPU at a time. Pure but for its memory.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterable
from datetime import datetime, timedelta

import msgspec

from kubeapi.types import EARLIEST
from remediator.diagnose.fault import Fault, Healthy, Sick, Unknown, Verdict

BY_OWNER = frozenset({13, 31})
"""Those whose investigation looks at history (NVIDIA's XID catalogue)."""
CONTAINED = 94
CODES = BY_OWNER | {CONTAINED}
WINDOW = timedelta(hours=24)
BURST_GAP = timedelta(minutes=3)
"""So much silence closes a burst."""
DIFFERENT = 2
"""Top owners, and namespaces, that it takes."""
TIMES = 3
"""Contained errors that it takes: as many as incidents of a GPU need a user, as shipped."""

MAX_PARTS = 64
"""Bursts, or parts of one by different owners, kept per GPU and code."""
MAX_GPUS = 8192
"""GPUs and codes kept; those without an error for longest go."""
MAX_OWNERS = 32768
"""Owners kept, likewise."""
MAX_GPUS_OF_OWNER = 16


class Owner(msgspec.Struct, frozen=True, order=True):
    """A top owner: `Job/train` in a namespace."""

    namespace: str
    name: str


UNKNOWN_OWNER = Owner("", "")
"""Stands for holders whose owner is unknown."""


class Sighting(msgspec.Struct, frozen=True):
    """Errors of a code on a GPU, and all owners that held the GPU or the slice then."""

    uuid: str
    code: int
    at: datetime
    owners: frozenset[Owner] = frozenset()


class _Part(msgspec.Struct):
    """Errors of the same owners without a longer pause between them."""

    first: datetime
    last: datetime
    owners: frozenset[Owner]


class Suspicions:
    """`gpus` and `owners` bound the memory."""

    def __init__(self, gpus: int = MAX_GPUS, owners: int = MAX_OWNERS) -> None:
        self._gpus, self._owners = gpus, owners
        self._parts: OrderedDict[tuple[int, str], list[_Part]] = OrderedDict()
        self._places: OrderedDict[Owner, OrderedDict[str, datetime]] = OrderedDict()

    def add(self, seen: Sighting) -> None:
        """Take in one sighting; of an unknown owner it proves nothing."""
        known = seen.owners - {UNKNOWN_OWNER}
        if seen.code == CONTAINED:
            seen = msgspec.structs.replace(seen, owners=frozenset())
        elif seen.code not in BY_OWNER or not known:
            return
        else:
            # Also where several share the device: such errors accuse no GPU, but an owner that has
            # them elsewhere as well clears this one.
            for owner in known:
                self._place(owner, seen)
        parts = self._parts.setdefault((seen.code, seen.uuid), [])
        self._parts.move_to_end((seen.code, seen.uuid))
        _extend(parts, seen)
        if len(self._parts) > self._gpus:
            self._parts.popitem(last=False)

    def of(self, uuid: str, now: datetime) -> Fault | None:
        """Return what makes a GPU suspect now, by its node's clock."""
        found = [fault for code in sorted(CODES) if (fault := self._fault(uuid, code, now))]
        return max(found, key=lambda fault: fault.last_seen, default=None)

    def set_back(self, uuids: Collection[str], by: timedelta) -> None:
        """Move what is known of the GPUs of a node whose clock was set back by so much."""
        owners: set[Owner] = set()
        for key in ((code, uuid) for code in CODES for uuid in uuids):
            for part in self._parts.get(key, ()):
                owners |= part.owners
                # Never before EARLIEST: an earlier date could not be reckoned with.
                part.first -= min(by, part.first - EARLIEST)
                part.last -= min(by, part.last - EARLIEST)
        for places in (self._places[owner] for owner in owners & self._places.keys()):
            for uuid in places.keys() & uuids:
                places[uuid] -= min(by, places[uuid] - EARLIEST)

    def size(self) -> int:
        """Return how many parts of bursts and places of owners are remembered."""
        parts = sum(len(bursts) for bursts in self._parts.values())
        return parts + sum(len(places) for places in self._places.values())

    def _fault(self, uuid: str, code: int, now: datetime) -> Fault | None:
        known = self._parts.get((code, uuid), [])
        latest = max([now, *(part.last for part in known)])
        parts = [part for part in known if latest - part.last <= WINDOW]
        return _contained(parts) if code == CONTAINED else self._by_owner(uuid, code, parts)

    def _by_owner(self, uuid: str, code: int, parts: list[_Part]) -> Fault | None:
        accusers = [
            (owner, at) for owner, at in _accusers(parts) if not self._elsewhere(owner, uuid, at)
        ]
        owners = {owner for owner, _ in accusers}
        namespaces = {owner.namespace for owner in owners}
        if len(owners) < DIFFERENT or len(namespaces) < DIFFERENT:
            return None
        return Fault(
            fault_class="suspect",
            cause=f"xid-{code}-repeated",
            xid=code,
            needs="diagnosis",
            last_seen=max(at for _, at in accusers),
            evidence=(
                f"XID {code} within a day under {len(owners)} owners in {len(namespaces)} "
                "namespaces, none of which had it on another GPU"
            ),
            doubt="an application may cause it",
            sources=("Kmsg",),
        )

    def _place(self, owner: Owner, seen: Sighting) -> None:
        places = self._places.setdefault(owner, OrderedDict())
        self._places.move_to_end(owner)
        # Nodes report in any order, so an older sighting may come later.
        places[seen.uuid] = max(seen.at, places.get(seen.uuid, seen.at))
        places.move_to_end(seen.uuid)
        if len(places) > MAX_GPUS_OF_OWNER:
            places.popitem(last=False)
        if len(self._places) > self._owners:
            self._places.popitem(last=False)

    def _elsewhere(self, owner: Owner, uuid: str, at: datetime) -> bool:
        """Whether an owner had an error of any of the codes on another GPU within a day."""
        places = self._places.get(owner, OrderedDict[str, datetime]())
        return any(other != uuid and abs(when - at) <= WINDOW for other, when in places.items())


def with_suspicion(verdict: Verdict, suspect: Fault | None) -> Verdict:
    """Return a verdict with a suspicion in it; what is unknown stays unknown."""
    if suspect is None:
        return verdict
    match verdict:
        case Unknown():
            return verdict
        case Sick(faults):
            return Sick((*faults, suspect))
        case Healthy():
            return Sick((*verdict.ended, suspect))


def _extend(parts: list[_Part], seen: Sighting) -> None:
    for part in parts:
        # Open at both ends, as in `_accusers`: BURST_GAP of silence already closes a burst.
        if part.owners == seen.owners and part.first - BURST_GAP < seen.at < part.last + BURST_GAP:
            part.first, part.last = min(part.first, seen.at), max(part.last, seen.at)
            return
    parts.append(_Part(seen.at, seen.at, seen.owners))
    if len(parts) > MAX_PARTS:
        parts.remove(_least_needed(parts))


def _least_needed(parts: list[_Part]) -> _Part:
    """Return the oldest part whose owners have a later one, else the oldest of all."""
    by_age = sorted(parts, key=lambda candidate: candidate.last)
    for index, part in enumerate(by_age):
        # A program that crashes in a loop must not push out the owners that accuse the GPU.
        if any(later.owners == part.owners for later in by_age[index + 1 :]):
            return part
    return by_age[0]


def _contained(parts: list[_Part]) -> Fault | None:
    # A program that is started again at once has one long burst: each gap's length of it counts.
    times = sum(1 + (part.last - part.first) // BURST_GAP for part in parts)
    if times < TIMES:
        return None
    return Fault(
        fault_class="suspect",
        cause=f"xid-{CONTAINED}-repeated",
        xid=CONTAINED,
        needs="diagnosis",
        last_seen=max(part.last for part in parts),
        evidence=f"XID {CONTAINED} came {times} times within a day, and no program causes it",
        doubt="each error ended with the program that it hit",
        sources=("Kmsg",),
    )


def _accusers(parts: Iterable[_Part]) -> list[tuple[Owner, datetime]]:
    """Return the owners of bursts that have one owner only, with the burst's end."""
    bursts: list[list[_Part]] = []
    end: datetime | None = None
    for part in sorted(parts, key=lambda item: item.first):
        if end is None or part.first - end >= BURST_GAP:
            bursts.append([])
        bursts[-1].append(part)
        end = part.last if end is None else max(end, part.last)
    found: list[tuple[Owner, datetime]] = []
    for burst in bursts:
        owners = frozenset[Owner]().union(*(part.owners for part in burst))
        if len(owners) == 1:
            found += [(owner, max(part.last for part in burst)) for owner in owners]
    return found
