"""Which policy is in force, as the leader's Lease records it for the next leader.

A new leader reads there when the policy changed, which it may not have seen itself. It also sees
whether its own file differs. Kubelets update the volume of a ConfigMap a minute or two apart, so
its file may be an older one. A milder one would remove taints that the next look at the file makes
again, and one without the emergency stop would evict. Until the two agree, or for `DISAGREEING`
seconds at most, the policy removes nothing, begins no disruption, and obeys the stop of either.
"""

import logging
import threading
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from time import monotonic

import msgspec

from kubeapi import clock
from remediator.model.taint_rule import DOMAIN
from remediator.policy import fingerprint
from remediator.policy.table import Policy

_log = logging.getLogger(__name__)
DISAGREEING = 300.0
"""Seconds; a kubelet brings a changed ConfigMap to a pod within two minutes."""
_APART = timedelta(seconds=DISAGREEING)
HASH = f"{DOMAIN}/policy-hash"
MODES = f"{DOMAIN}/policy-modes"
CHANGED = f"{DOMAIN}/policy-changed-time"
BRAKES = f"{DOMAIN}/policy-brakes-hash"
STOPPED = f"{DOMAIN}/policy-stop"
DIFFERS = f"{DOMAIN}/policy-differs-since-time"


Policies = tuple[Policy, ...] | None


class PolicyRecord(msgspec.Struct, frozen=True):
    """What the annotations of the Lease record."""

    hash: str = ""
    """Of what the policy permits (`fingerprint.of_permissions`); "" where none is recorded."""
    modes: str = ""
    changed_at: datetime | None = None
    """By the clock of the leader at that time; None: not since a leader records it."""
    brakes: str = ""
    """Of stop, windows and budgets (`fingerprint.of_brakes`); "" where none is recorded."""
    stopped: str = ""
    differs_since: datetime | None = None
    """Since when leaders have had another policy than this one; None: its own leader wrote it."""


def read_record(annotations: Mapping[str, str]) -> PolicyRecord:
    """Read the annotations of a Lease; a date that cannot be read is none."""
    try:
        changed_at = msgspec.convert(annotations.get(CHANGED), datetime, strict=False)
    # For a number of seconds beyond all dates, msgspec raises the plain errors.
    except (msgspec.ValidationError, ValueError, OverflowError):
        changed_at = None
    if changed_at is not None and changed_at.tzinfo is None:
        changed_at = None
    return PolicyRecord(
        hash=annotations.get(HASH, ""),
        modes=annotations.get(MODES, ""),
        changed_at=_date(annotations.get(CHANGED)),
        brakes=annotations.get(BRAKES, ""),
        stopped=annotations.get(STOPPED, ""),
        differs_since=_date(annotations.get(DIFFERS)),
    )


def _date(text: str | None) -> datetime | None:
    try:
        read = msgspec.convert(text, datetime, strict=False)
    # Of a number of seconds beyond all dates, msgspec lets the plain errors out.
    except (msgspec.ValidationError, ValueError, OverflowError):
        return None
    return read if read.tzinfo is not None else None


def annotations(record: PolicyRecord) -> dict[str, str]:
    """Return the annotations that record it."""
    changed, differs = (
        f"{at:%Y-%m-%dT%H:%M:%SZ}" if at else "" for at in (record.changed_at, record.differs_since)
    )
    return {
        HASH: record.hash,
        MODES: record.modes,
        CHANGED: changed,
        BRAKES: record.brakes,
        STOPPED: record.stopped,
        DIFFERS: differs,
    }


class PolicyOnLease:
    """Compares the policy of this replica with the Lease's. Thread-safe.

    `on_change` gets the time when more was permitted last, and the policies that were in force
    within `after_change` before that; None where that is not known.
    """

    def __init__(
        self,
        on_change: Callable[[datetime, Policies], None],
        now: Callable[[], datetime] = clock.now,
        steady: Callable[[], float] = monotonic,
    ) -> None:
        self._on_change = on_change
        self._now, self._steady = now, steady
        self._guard = threading.Lock()
        self._own = PolicyRecord()
        self._policy: Policy | None = None
        self._past: tuple[tuple[datetime, Policy], ...] = ()
        """Policies that this replica obeyed and when each ended, as far back as `after_change`."""
        self._known_from = now()
        """Since when this replica knows of every change."""
        self._before: Policies = None
        """As `on_change` gets it."""
        self._other: PolicyRecord | None = None
        """What the Lease recorded when this replica gained the lead, while it differs from ours."""
        self._ends_at = 0.0
        """Until when, by the steady clock."""
        self._written = PolicyRecord()
        """What the Lease last recorded of our policy."""

    def on_policy_loaded(self, policy: Policy) -> None:
        """Take in the policy that this replica is about to obey."""
        with self._guard:
            now, last = self._now(), self._policy
            if policy == last:
                return
            changed = last is not None and policy.may_permit_more(last)
            if last is None:
                self._known_from = now
            else:
                # Once each: a file may go back and forth.
                others = (past for past in self._past if past[1] != last)
                self._past = (*others, (now, last))
            # Each of several changes within that time may explain what comes after it, even one
            # that made the policy milder and was undone.
            since = now - policy.limits.correlation.after_change
            ends = [end for end, _ in self._past if end <= since]
            self._known_from = max((self._known_from, *ends))
            self._past = tuple(past for past in self._past if past[0] > since)
            if changed:
                known = tuple(obeyed for _, obeyed in self._past)
                self._before = known if self._known_from <= since else None
            self._policy, before = policy, self._before
            self._own = PolicyRecord(
                hash=fingerprint.of_permissions(policy),
                modes=fingerprint.modes(policy),
                changed_at=now if changed else self._own.changed_at,
                brakes=fingerprint.of_brakes(policy),
                stopped=policy.stopped,
            )
        if changed:
            self._on_change(now, before)

    def on_lease_found(self, found: Mapping[str, str]) -> None:
        """Take in the annotations of the Lease that this replica is about to take."""
        with self._guard:
            record, now = read_record(found), self._now()
            # If this replica wrote the record, any difference is its own later change.
            same = record.hash in {"", self._own.hash, self._written.hash}
            braked = record.brakes in {"", self._own.brakes, self._written.brakes}
            # A date after now is of a leader whose clock was ahead.
            since = min(record.differs_since or now, now)
            other = msgspec.structs.replace(record, differs_since=since)
            self._other = None if same and braked else other
            self._ends_at = self._steady() + DISAGREEING - (now - since).total_seconds()
            if self._other is not None:
                _log.warning(
                    "policy differs from the previous leader's, no rule is removed because of it "
                    "and no disruption begins until they agree: own=%s/%s lease=%s/%s "
                    "longest_seconds=%.0f",
                    self._own.hash,
                    self._own.brakes,
                    record.hash,
                    record.brakes,
                    self._ends_at - self._steady(),
                )
            # Where the date of the change is unknown, it may be as late as now.
            changed_at = min(record.changed_at or now, now) if same else now
            known = self._own.changed_at
            if (same and record.changed_at is None) or (known is not None and known > changed_at):
                return
            # Replicas see one change of the file up to two minutes apart. For another change that
            # the Lease dates, it is unknown what was permitted until then.
            seen = same and known is not None and changed_at - known <= _APART
            self._before = before = self._before if seen else None
            self._known_from = self._known_from if seen else changed_at
            self._own = msgspec.structs.replace(self._own, changed_at=changed_at)
        self._on_change(changed_at, before)

    def annotations(self) -> dict[str, str]:
        """Return what the Lease is to record from now on."""
        with self._guard:
            other = self._awaited_record()
            if other is None:
                self._written = self._own
            return annotations(other or self._own)

    def why_disagrees(self, policy: Policy) -> str:
        """Return why the policy removes nothing now and begins no disruption, "" when it may.

        Once the two have agreed, this replica itself has seen every later change.
        """
        with self._guard:
            other = self._awaited_record()
            if other is None:
                return ""
            # Of the argument, not of `_own`: a new file is recorded there before it is in force.
            permits = fingerprint.of_permissions(policy)
            if permits == other.hash and other.brakes in {"", fingerprint.of_brakes(policy)}:
                self._other = None
                _log.info("the policy in force is the one of the leader before: hash=%s", permits)
                return ""
        # Without the time that is left: it would make each status another one.
        what = f"{permits}, there {other.hash}"
        what = "its stop, windows or budgets" if permits == other.hash else what
        return f"the policy here is not the one of the leader before ({what}), 5 minutes at most"

    def policy_in_force(self, policy: Policy) -> Policy:
        """Return the policy that counts now; while two disagree, either's emergency stop does."""
        why = self.why_disagrees(policy)
        with self._guard:
            other = self._awaited_record()
        if not why or other is None:
            return policy
        return msgspec.structs.replace(
            policy, disagrees=why, stopped=policy.stopped or other.stopped
        )

    def _awaited_record(self) -> PolicyRecord | None:
        """Return the previous leader's policy, None once both agree or the time is over."""
        if self._other is not None and self._steady() >= self._ends_at:
            self._other = None
        return self._other
