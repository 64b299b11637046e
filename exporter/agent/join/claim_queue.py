"""Which claims to read next, and when: each once, unless the answer was not whole.

A claim is read again, ever more rarely, while a device that is held of it is not in
its allocation, while the server has another of that name, while a pod that holds it
is not in its reservation, and after a failure. Pure: monotonic seconds come in.
"""

from collections.abc import Mapping

import msgspec

from exporter.model.claim_objects import ClaimDetail, ClaimKey

MOST = 2048
"""Claims kept; a node has a few hundred pods."""
_FIRST, _LONGEST = 1.0, 300.0
"""Seconds until a claim is requested again: the first time, and at most."""


class Failure(msgspec.Struct, frozen=True):
    """Why a claim could not be read, as a word and a sentence."""

    reason: str
    message: str


class Held(msgspec.Struct, frozen=True):
    """What the kubelet says of a claim: names of pods, and (driver, pool, device) of each device.

    A share's id is left out, as not every kubelet tells it.
    """

    pods: frozenset[str]
    devices: frozenset[tuple[str, str, str]] = frozenset()


class _Entry(msgspec.Struct):
    held: Held
    due: float | None
    """When to ask; None when all is known."""
    pause: float = _FIRST
    detail: ClaimDetail | None = None
    failure: Failure | None = None


class ClaimQueue:
    """The claims of this node's pods, and what was read of each."""

    def __init__(self) -> None:
        self._entries: dict[ClaimKey, _Entry] = {}
        self._details: dict[ClaimKey, ClaimDetail] = {}
        self.overflow = 0
        """Claims that are held now and not kept, as there are too many."""

    def want(self, held: Mapping[ClaimKey, Held], now: float) -> None:
        """Take note of who holds what of which claim; all others are forgotten."""
        kept = dict(list(held.items())[:MOST])
        self.overflow = len(held) - len(kept)
        entries: dict[ClaimKey, _Entry] = {}
        for key, what in kept.items():
            entry = self._entries.get(key) or _Entry(what, now)
            if what != entry.held:
                entry.held, entry.pause = what, _FIRST
                if entry.due is None and not _whole(entry.detail, key, what):
                    entry.due = now
            entries[key] = entry
        self._entries = entries
        self._renew()

    def next(self, now: float) -> tuple[ClaimKey | None, float | None]:
        """Return the claim to read now; else None and the seconds to wait, None for no end."""
        waiting = [
            (claim.due, key) for key, claim in self._entries.items() if claim.due is not None
        ]
        if not waiting:
            return None, None
        due, key = min(waiting)
        return (key, 0.0) if due <= now else (None, due - now)

    def got(self, key: ClaimKey, detail: ClaimDetail, now: float) -> None:
        """Keep what a claim says; nothing when nobody holds it any more."""
        entry = self._entries.get(key)
        if entry is None:
            return
        entry.failure = None
        # Another claim of that name says nothing about this one.
        entry.detail = detail if key.uid in ("", detail.uid) else entry.detail
        if _whole(detail, key, entry.held):
            entry.due = None
        else:
            self._later(entry, now)
        self._renew()

    def failed(self, key: ClaimKey, failure: Failure, now: float, after: float = 0.0) -> None:
        """Ask again later, not before `after` seconds; what was known before stays."""
        entry = self._entries.get(key)
        if entry is not None:
            entry.failure = failure
            self._later(entry, now)
            entry.due = max(entry.due or now, now + after)

    def details(self) -> Mapping[ClaimKey, ClaimDetail]:
        """Return what is known; the same mapping until something changes."""
        return self._details

    def failures(self) -> tuple[tuple[ClaimKey, Failure], ...]:
        """Return the claims that could not be read the last time, sorted."""
        found = ((key, claim.failure) for key, claim in self._entries.items())
        return tuple(
            sorted(((k, failure) for k, failure in found if failure), key=lambda pair: pair[0])
        )

    def _later(self, entry: _Entry, now: float) -> None:
        entry.due, entry.pause = now + entry.pause, min(2 * entry.pause, _LONGEST)

    def _renew(self) -> None:
        details = {key: claim.detail for key, claim in self._entries.items() if claim.detail}
        if details != self._details:
            self._details = details


def _whole(detail: ClaimDetail | None, key: ClaimKey, held: Held) -> bool:
    """Return whether there is nothing left to ask."""
    if detail is None or not detail.results or key.uid not in ("", detail.uid):
        return False
    if not held.devices <= {
        (result.driver, result.pool, result.device) for result in detail.results
    }:
        return False
    return bool(detail.pod_groups) or held.pods <= {name for name, _ in detail.pods}
