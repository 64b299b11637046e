"""In which phase a story is: it is entered when it is true, never when it is only wanted. Pure."""

from datetime import datetime

import msgspec

from remediator.decide.case import Case, Desired
from remediator.decide.emptiness import seen_twice
from remediator.judge.fault import Healthy, Unknown
from remediator.objects.incident import IncidentStatus


class Progress(msgspec.Struct, frozen=True):
    """How far the world has followed what is desired."""

    fenced: bool
    """Every wanted fence is stored."""
    evicting: bool
    """NoExecute is wanted, and stored wherever it is."""
    empty: bool
    """Nobody uses the devices: seen twice."""

    @property
    def drained(self) -> bool:
        return self.evicting and self.empty


def progress(case: Case, desired: Desired, old: IncidentStatus, now: datetime) -> Progress:
    stored = {rule.device: rule.effect for rule in case.rules}
    fences = {rule.device for rule in desired.rules if rule.effect != "None"}
    moves = {rule.device for rule in desired.rules if rule.effect == "NoExecute"}
    return Progress(
        fenced=bool(fences) and all(stored.get(device, "None") != "None" for device in fences),
        evicting=bool(moves) and all(stored.get(device) == "NoExecute" for device in moves),
        empty=seen_twice(old, now),
    )


def phase(case: Case, desired: Desired, old: IncidentStatus, done: Progress) -> str:
    """Return the phase that is true now; what is not known keeps the one before."""
    healthy = isinstance(case.verdict, Healthy)
    if desired.ending or desired.closing:
        return _end(case, desired, old)
    if desired.repair and not healthy and _emptied(desired, old):
        return "Repairing"
    if isinstance(case.verdict, Unknown):
        return old.phase
    waits = desired.verified or (not healthy and done.fenced and done.empty)
    if desired.person and waits:
        return "NeedsHuman"
    if healthy and not desired.pending and (done.drained or not _moving(desired)):
        return "Verifying"
    return _harm(done)


def _end(case: Case, desired: Desired, old: IncidentStatus) -> str:
    """An end is reached when the rules are gone."""
    if desired.ending:
        return old.phase if case.rules else "Closed"
    return "Verifying" if case.rules else "Recovered"


def _emptied(desired: Desired, old: IncidentStatus) -> bool:
    """Whether nobody is in the way of a repair: drained, or there was nobody to move."""
    return old.drained_at is not None or not (_moving(desired) or desired.pending)


def _moving(desired: Desired) -> bool:
    return any(rule.effect == "NoExecute" for rule in desired.rules)


def _harm(done: Progress) -> str:
    if done.evicting:
        return "Drained" if done.drained else "Evicting"
    return "Fenced" if done.fenced else "Suspected"
