"""The states of claims as rows of metrics, and how long claims took. Pure but for its memory.

No row is more than its limit allows: what is beyond it is added up without its namespace, so that
sums stay right, and counted.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from operator import itemgetter

import msgspec

from allocation.explainer.claim_states import MIXED, WAITING, ClaimState, State
from allocation.explainer.families import AGES, CLAIMS, OTHER, ROWS
from allocation.explainer.turns import in_turn
from serving.families import Labels, Rows, labels

_FOR_NOTHING = frozenset({"NoPod", "SchedulingGated"})
"""Reasons of claims that wait for no device: there may be many, and they are old."""


_Allocation = tuple[str, datetime | None]
"""UID of the claim, and when it was allocated."""


class ClaimRows(msgspec.Struct, frozen=True):
    rows: Rows
    dropped: Mapping[str, int]
    """By family."""


def claim_rows(
    states: Iterable[ClaimState],
    since: Mapping[str, datetime],
    now: datetime,
    classes: Iterable[str],
) -> ClaimRows:
    """Return the samples; `since` has when each claim came into its state, by its key.

    `classes` are the DeviceClasses that exist: any other name is a tenant's invention.
    """
    counts, older = Counter[Labels](), Counter[Labels]()
    classes = {*classes, "", MIXED}
    dated: list[tuple[datetime, ClaimState]] = []
    for claim in states:
        known = claim.device_class if claim.device_class in classes else OTHER
        named = labels(claim.namespace, known, claim.driver)
        counts[*named, claim.state, claim.reason] += 1
        begun = since.get(claim.key)
        if begun is None or claim.state == "Running":
            continue
        seconds = (now - begun).total_seconds()
        for age, least in AGES.items():
            if seconds < least:
                break
            older[named[0], claim.state, claim.reason, age] += 1
        if claim.state in WAITING and claim.reason not in _FOR_NOTHING:
            dated.append((begun, claim))
    dated.sort(key=lambda entry: (entry[0], entry[1].key))
    oldest = in_turn(dated, lambda entry: entry[1].namespace)[:CLAIMS]
    bounded = {"claims": _limit_rows(counts, 3), "claims_older": _limit_rows(older, 1)}
    return ClaimRows(
        rows={
            **{family: rows for family, (rows, _) in bounded.items()},
            "claim_since_timestamp_seconds": {
                labels(
                    claim.namespace,
                    claim.name,
                    claim.pod,
                    claim.pod_claim,
                    claim.device_class if claim.device_class in classes else OTHER,
                    claim.state,
                    claim.reason,
                ): begun.timestamp()
                for begun, claim in oldest
            },
        },
        dropped={
            **{family: dropped for family, (_, dropped) in bounded.items()},
            "claim_since_timestamp_seconds": len(dated) - len(oldest),
        },
    )


def _limit_rows(counts: Counter[Labels], named: int) -> tuple[dict[Labels, float], int]:
    """Return the rows, those beyond the limit without their first labels, and how many those were.

    The namespaces take turns, each with its largest row next.
    """
    largest = sorted(counts, key=lambda key: (-counts[key], key))
    kept = {key: counts[key] for key in in_turn(largest, itemgetter(0))[:ROWS]}
    rest = Counter[Labels]()
    for key, count in counts.items():
        if key not in kept:
            rest[*[""] * named, *key[named:]] += count
    for key, count in rest.items():
        kept[key] = kept.get(key, 0) + count
    return {key: float(count) for key, count in kept.items()}, len(counts) - min(len(counts), ROWS)


class Progress:
    """When each claim came into its state, and what of its way was seen.

    Each allocation is counted once, and only if it was not there at the first look: a process that
    has just begun, or that could not look for a while, begins anew.
    """

    def __init__(self) -> None:
        self._since: dict[str, tuple[State, datetime]] = {}
        self._allocated: set[_Allocation] | None = None
        """Those that were counted, or were there at the first look."""
        self._ran: set[_Allocation] = set()

    def since(self) -> dict[str, datetime]:
        """Return when each claim came into its state, by its key."""
        return {key: begun for key, (_, begun) in self._since.items()}

    def look(self, states: Iterable[ClaimState], now: datetime) -> Iterator[tuple[str, str, float]]:
        """Take in the states of now; yield family, DeviceClass and seconds of each step."""
        since: dict[str, tuple[State, datetime]] = {}
        allocated, ran = set[_Allocation](), set[_Allocation]()
        known = self._allocated
        for claim in states:
            before = self._since.get(claim.key)
            begun = before[1] if before and before[0] == claim.state else now
            since[claim.key] = claim.state, claim.since or begun
            if not claim.driver:
                continue
            each = (claim.uid, claim.allocated)
            allocated.add(each)
            if claim.state == "Running" or each in self._ran:
                ran.add(each)
            if known is None:
                # Whether it ran before is not known: its start is none that was seen.
                ran.add(each)
                continue
            at = claim.allocated or now
            if each not in known and claim.demanded is not None:
                seconds = max((at - claim.demanded).total_seconds(), 0)
                yield "claim_allocation_seconds", claim.device_class, seconds
            if each in ran and each not in self._ran:
                seconds = max((now - at).total_seconds(), 0)
                yield "claim_start_seconds", claim.device_class, seconds
        self._since, self._allocated, self._ran = since, allocated, ran
