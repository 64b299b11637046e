"""Which taint rules the API server does not let us write or delete, and when each is tried again.

An admission policy may refuse one rule, or an object that is not ours have its name. Decisions then
go on without that step, and incidents name the reason. An answer that another try may change at
once, such as a conflict, is no refusal; an error of the API server is one once it has been the only
answer for a while, such as of a webhook that is down. What may not be lowered or removed may still
be raised, and the other way round.
"""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from time import monotonic

import msgspec

from kubeapi.client import ApiError
from remediator.plan.steps import ChangeRule, CreateRule, DeleteEdited, DeleteRule, Step, frees
from remediator.plan.view import RefusedRule

NAME_TAKEN = "NameTaken"
"""Reason of our own error for an object that has the name of a rule and is not ours."""
REFUSING = frozenset({400, 403, 413, 422})
"""HTTP statuses with which an API server, or its admission, refuses an object as it is."""
FAILING = 500
"""Status of an API server of which a part fails, such as a webhook that it must ask."""
FAILS_FOR = 20.0
"""Seconds of nothing but that answer after which it counts as a refusal."""
FIRST_WAIT, LONGEST_WAIT = 2.0, 60.0
"""Seconds until a rule is tried again; twice as long each time, up to the second."""
FORGOTTEN_AFTER = 600.0
"""Seconds after that time after which a rule is forgotten: no decision has wanted it since."""
WHY_LIMIT = 256
"""Characters of a refusal that are kept."""


class _Refusal(msgspec.Struct, frozen=True):
    again_at: float
    """Monotonic seconds."""
    times: int
    why: str


class RefusedRules:
    """The worker and the senders write, and the worker reads, so an entry is replaced whole."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._refusals: dict[tuple[str, bool], _Refusal] = {}
        """By name of the rule, and whether the step was to lower or remove it."""
        self._fails_since: dict[tuple[str, bool], float] = {}
        """The same, of those that the API server fails to answer."""

    def on_failed(self, step: Step, error: ApiError) -> None:
        """Note the rule of a step that was refused."""
        refuses = error.reason == NAME_TAKEN or error.status in REFUSING
        if not refuses and error.status != FAILING:
            return
        now = self._clock()
        why = error.message
        if error.reason != NAME_TAKEN:
            why = "; ".join((why.partition(": ")[2] or why, *error.causes))
        for name in _names(step):
            key = (name, frees(step))
            if not refuses and now - self._fails_since.setdefault(key, now) < FAILS_FOR:
                continue
            before = self._refusals.get(key)
            times = before.times if before else 0
            wait = min(FIRST_WAIT * 2 ** min(times, 16), LONGEST_WAIT)
            # The first words stay: those of a webhook may have the number of its request.
            words = before.why if before else why[:WHY_LIMIT]
            self._refusals[key] = _Refusal(now + wait, times + 1, words)

    def on_done(self, step: Step) -> None:
        for name in _names(step):
            self._refusals.pop((name, frees(step)), None)
            self._fails_since.pop((name, frees(step)), None)

    def refusals(self, at: datetime, *, freeing: bool = False) -> Mapping[str, RefusedRule]:
        """Return by name the rules that are not tried again yet; `at` is the time by our clock.

        `freeing`: those that are to be lowered or removed; else those to create or raise.
        """
        now = self._clock()
        for key, refusal in list(self._refusals.items()):
            if now >= refusal.again_at + FORGOTTEN_AFTER:
                self._refusals.pop(key, None)
        for key, since in list(self._fails_since.items()):
            if key not in self._refusals and now >= since + FORGOTTEN_AFTER:
                self._fails_since.pop(key, None)
        return {
            name: RefusedRule(refusal.why, at + timedelta(seconds=refusal.again_at - now))
            for (name, lowers), refusal in list(self._refusals.items())
            if lowers == freeing and now < refusal.again_at
        }


def _names(step: Step) -> frozenset[str]:
    """Return the names of the rules that a step writes.

    A rule that replaces that of another device's hardware may have two.
    """
    match step:
        case CreateRule(rule):
            return frozenset({rule.name})
        case ChangeRule(stored, rule):
            return frozenset({stored.name, rule.name})
        case DeleteRule(stored) | DeleteEdited(stored):
            return frozenset({stored.name})
        case _:
            return frozenset()
