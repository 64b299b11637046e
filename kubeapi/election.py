"""Which of several replicas may write: the holder of one Lease.

No clock is compared with another one. A follower measures by its own monotonic clock for how long
it has seen the Lease unchanged; a leader counts its right to write from before it requested the
renewal. The right ends `renew_deadline` after that, the Lease `lease` after the last change that a
follower saw, so between the two no replica writes: clocks may run 40 % apart.

The `kubernetes` package has a leader election too. It compares wall clocks, sends requests without
time limits, so that a hung request is never noticed, ends on any error that is no ApiException,
cannot be stopped and never releases the Lease.
"""

import logging
import secrets
import socket
import threading
from collections.abc import Callable, Mapping
from datetime import datetime
from time import monotonic

import msgspec

from kubeapi import lease as leases
from kubeapi.client import ApiError, Client, Conflict
from kubeapi.lease import Lease, LeaseSpec

_log = logging.getLogger(__name__)


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """Waiting times in seconds; the defaults are for production: fail-over in 12 s at most."""

    lease: int = 10
    """A follower takes over after seeing no change for so long."""
    renew_deadline: float = 6.0
    """A leader stops writing so long after it began its last renewal that succeeded."""
    renew: float = 2.0
    retry: float = 1.0
    """Between two looks of a follower, or two attempts of a leader that could not renew."""
    request: float = 3.0
    """Time limit of one request: a leader has two attempts within its deadline, and a server that
    takes two seconds for each answer does not cost it the Lease."""


class Candidate:
    """What one replica knows of the Lease, and what follows from it. Pure but for its memory.

    Times are seconds of the caller's monotonic clock.
    """

    def __init__(self, identity: str, terms: Terms) -> None:
        self.identity = identity
        self._terms = terms
        self._seen = LeaseSpec()
        self._seen_at: float | None = None
        self._until = float("-inf")

    def leads(self, now: float) -> bool:
        """Whether a write that begins now is ours to do."""
        return now < self._until

    def saw(self, lease: Lease | None, now: float) -> None:
        """Take in the Lease as stored; its age starts when we see a change of it."""
        spec = lease.spec if lease is not None else LeaseSpec()
        if self._seen_at is None or spec != self._seen:
            self._seen, self._seen_at = spec, now
        if spec.holder_identity != self.identity:
            self._until = float("-inf")

    def may_take(self, now: float) -> bool:
        """Whether the Lease is ours, free, or was seen unchanged for longer than it lasts."""
        holder = self._seen.holder_identity
        if holder in (None, "", self.identity):
            return self._seen_at is not None
        lasts = max(self._seen.lease_duration_seconds or 0, self._terms.lease)
        return self._seen_at is not None and now - self._seen_at > lasts

    def took(self, lease: Lease, sent_at: float) -> None:
        """Take in that our write of the Lease was stored; `sent_at` is when it began."""
        self._seen, self._seen_at = lease.spec, sent_at
        self._until = sent_at + self._terms.renew_deadline

    def gave_up(self) -> None:
        self._until = float("-inf")

    @property
    def holder(self) -> str:
        """The holder of the Lease as last seen, "" when there is none or it was not seen."""
        return self._seen.holder_identity or ""


class Elector:
    """Runs for leader in a thread of its own until stopped; then releases the Lease.

    `found` gets the annotations of a Lease before it is taken from another replica; `notes` returns
    those that each of our writes of it carries.
    """

    def __init__(
        self,
        client: Client,
        namespace: str,
        name: str,
        *,
        identity: str,
        now: Callable[[], datetime],
        on_gain: Callable[[], None],
        terms: Terms = Terms(),  # noqa: B008 - frozen
        found: Callable[[Mapping[str, str]], None] = lambda _annotations: None,
        notes: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        self._client = client.sibling(terms.request)
        self._namespace, self._name = namespace, name
        self._now = now
        self._on_gain = on_gain
        self._on_found, self._notes = found, notes
        self._terms = terms
        self._candidate = Candidate(identity, terms)
        self._found: Lease | None = None
        self._role = (False, "")
        """Whether we led, and the holder of the Lease, when that was last logged."""
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="leader election", daemon=True)
        self.error = ""
        """Why the Lease cannot be read or written now, "" when it can."""

    @property
    def leading(self) -> bool:
        """Whether a write that begins now is ours to do. Check right before each."""
        return self._candidate.leads(monotonic())

    @property
    def dead(self) -> bool:
        """Whether the thread ended without a stop: a bug, and we never lead again."""
        begun = self._thread.ident is not None
        return begun and not self._thread.is_alive() and not self._stopped.is_set()

    def __str__(self) -> str:
        if self.leading:
            return f"leader ({self._candidate.identity})"
        return f"follower of {self._candidate.holder or 'no leader yet'}" + (
            f"; {self.error}" if self.error else ""
        )

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop and give the Lease back, so that another replica leads within a second.

        Call it when nothing is being written any more.
        """
        self._stopped.set()
        if self._thread.ident is not None:
            self._thread.join(2 * self._terms.request)
        if self.leading and not self._thread.is_alive():
            self._candidate.gave_up()
            try:
                self._write("")
            except ApiError as error:
                _log.info("the Lease could not be released and expires instead: %s", error)
        self._client.close()

    def _run(self) -> None:
        wait = 0.0
        while not self._stopped.wait(wait):
            self._report_change()
            began = monotonic()
            wait = max(self._turn() - (monotonic() - began), 0.1)
            self._report_change()

    def _report_change(self) -> None:
        """Log a change of the leader; our own right may also have run out by itself."""
        before, self._role = self._role, (self.leading, self._candidate.holder)
        if self._role != before:
            _log.info("%s: now %s", self._name, self)
        if self._role[0] and not before[0]:
            self._on_gain()

    def _turn(self) -> float:
        """Look, take or renew; return the seconds from the begin of this turn to the next."""
        try:
            self._campaign()
        except Conflict:
            self._found = None
            self.error = ""
        except ApiError as error:
            self._found = None
            if not self.error:
                _log.warning("%s: %s", self._name, error)
            self.error = error.message
        else:
            self.error = ""
        renewed = self.leading and not self.error and self._found is not None
        return self._terms.renew if renewed else self._terms.retry

    def _campaign(self) -> None:
        mine = self._candidate
        if self._found is None or not mine.leads(monotonic()):
            self._found = leases.read(self._client, self._namespace, self._name)
            mine.saw(self._found, monotonic())
        if mine.may_take(monotonic()):
            if not mine.leads(monotonic()):
                self._on_found(self._found.metadata.annotations if self._found else {})
            requested_at = monotonic()
            self._found = self._write(mine.identity)
            mine.took(self._found, requested_at)

    def _write(self, holder: str) -> Lease:
        lasts = self._terms.lease if holder else 1
        return leases.take(
            self._client,
            self._namespace,
            self._name,
            self._found,
            holder,
            lasts,
            self._now(),
            self._notes(),
        )


class Alone:
    """Takes the place of an `Elector` where there is no election: one replica, which leads."""

    leading = True
    dead = False
    error = ""

    def __init__(self, on_gain: Callable[[], None]) -> None:
        self._on_gain = on_gain

    def __str__(self) -> str:
        return "leader (without an election)"

    def start(self) -> None:
        self._on_gain()

    def stop(self) -> None:
        """There is nothing to release."""


def new_identity() -> str:
    """Return a name that no other process has, and that shows a user where this one runs."""
    return f"{socket.gethostname()}_{secrets.token_hex(4)}"
