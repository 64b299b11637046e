"""The states of claims as rows of metrics, and how long claims took. Pure but for its memory.

No row is more than its limit allows: what is beyond it is added up without its namespace, so that
sums stay right, and counted.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from heapq import nlargest, nsmallest

import msgspec

from allocation.explainer.claim_states import WAITING, ClaimState, State
from allocation.explainer.families import AGES, CLAIMS, CLASSES, OTHER, ROWS
from allocation.model.claims import Claim
from serving.families import Labels, Rows, labels


class ClaimRows(msgspec.Struct, frozen=True):
    rows: Rows
    dropped: Mapping[str, int]
    """By family."""


def claim_rows(
    states: Iterable[ClaimState], since: Mapping[str, datetime], now: datetime
) -> ClaimRows:
    """Return the samples; `since` has when each claim came into its state, by its key."""
    counts, older = Counter[Labels](), Counter[Labels]()
    dated: list[tuple[datetime, ClaimState]] = []
    for claim in states:
        named = labels(claim.namespace, claim.device_class, claim.driver)
        counts[*named, claim.state, claim.reason] += 1
        begun = since.get(claim.key)
        if begun is None or claim.state == "Running":
            continue
        seconds = (now - begun).total_seconds()
        for age, least in AGES.items():
            if seconds < least:
                break
            older[named[0], claim.state, claim.reason, age] += 1
        if claim.state in WAITING:
            dated.append((begun, claim))
    oldest = nsmallest(CLAIMS, dated, key=lambda entry: (entry[0], entry[1].key))
    bounded = {"claims": _bounded(counts, 3), "claims_older": _bounded(older, 1)}
    return ClaimRows(
        rows={
            **{family: rows for family, (rows, _) in bounded.items()},
            "claim_since_timestamp_seconds": {
                labels(
                    claim.namespace,
                    claim.name,
                    claim.pod,
                    claim.pod_claim,
                    claim.device_class,
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


def _bounded(counts: Counter[Labels], named: int) -> tuple[dict[Labels, float], int]:
    """Return the largest rows, the others without their first labels, and how many those were."""
    kept = dict(nlargest(ROWS, counts.items(), key=lambda entry: (entry[1], entry[0])))
    rest = Counter[Labels]()
    for key, count in counts.items():
        if key not in kept:
            rest[*[""] * named, *key[named:]] += count
    for key, count in rest.items():
        kept[key] = kept.get(key, 0) + count
    return {key: float(count) for key, count in kept.items()}, len(counts) - min(len(counts), ROWS)


class Progress:
    """When each claim came into its state, and what of its way was seen.

    Only steps that were seen are counted: a process that has just begun counts none of what was
    there already, and so none twice.
    """

    def __init__(self) -> None:
        self._seen: dict[str, tuple[ClaimState, datetime]] | None = None
        self._classes: set[str] = set()

    def since(self) -> dict[str, datetime]:
        """Return when each claim came into its state, by its key."""
        return {key: begun for key, (_, begun) in (self._seen or {}).items()}

    def look(
        self, states: Iterable[ClaimState], claims: Mapping[str, Claim], now: datetime
    ) -> Iterator[tuple[str, str, float]]:
        """Take in the states of now; yield family, DeviceClass and seconds of each step."""
        seen: dict[str, tuple[ClaimState, datetime]] = {}
        for state in states:
            known = (self._seen or {}).get(state.key)
            same = known is not None and known[0].state == state.state
            begun = known[1] if known and same else now
            seen[state.key] = state, state.since or begun
            if self._seen is not None and not same and (claim := claims.get(state.key)):
                # One that was not there at the last look was pending since.
                before = known[0] if known and known[0].uid == state.uid else None
                yield from self._steps(before.state if before else "Pending", state, claim, now)
        self._seen = seen

    def _steps(
        self, before: State, state: ClaimState, claim: Claim, now: datetime
    ) -> Iterator[tuple[str, str, float]]:
        allocation, created = claim.status.allocation, claim.metadata.creation_timestamp
        if allocation is None:
            return
        allocated = allocation.allocation_timestamp or now
        name = state.device_class
        if len(self._classes) < CLASSES:
            self._classes.add(name)
        name = name if name in self._classes else OTHER
        if before == "Pending" and created is not None:
            yield "claim_allocation_seconds", name, max((allocated - created).total_seconds(), 0)
        if before in WAITING and state.state == "Running":
            yield "claim_start_seconds", name, max((now - allocated).total_seconds(), 0)
