"""What the previous leader has written: read once, before the first disruption.

A leader's own writes go into its cache, so each decision sees the one before it. What another
leader wrote comes by the watches. One that lags unnoticed would hide from the budgets what is
being evicted already.
"""

from collections.abc import Callable, Iterator
from datetime import datetime
from time import monotonic
from typing import Any, TypeVar

import msgspec

from kubeapi.client import UNREADABLE, ApiError
from kubeapi.reflector import Reflector
from kubeapi.resources import INCIDENTS
from kubeapi.versions import Versioned
from remediator.controller.final_check import Reader
from remediator.model.incident import Incident
from remediator.model.taint_rule import EVICTING, RawRule, parse

_T = TypeVar("_T")
_LATE = "of the leader before is not reported by the watch"
_FIRST_REST, _LAST_REST = 0.5, 10.0
"""Seconds until all is read again, for whichever node: at first, and at last."""
_OPEN = {"fieldSelector": "status.phase!=Closed,status.phase!=Recovered"}


class _List(msgspec.Struct, frozen=True):
    items: tuple[msgspec.Raw, ...] = ()


class Takeover:
    """Any thread may call `on_started_leading`; only the worker calls `find_unseen`."""

    def __init__(
        self,
        reader: Reader,
        rules: Versioned[Any],
        incidents: Reflector[Incident],
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._reader, self._rules, self._incidents = reader, rules, incidents
        self._clock = clock
        self._gained, self._seen = 1, 0
        """How often the lead was gained, and the last of these for which all was seen."""
        self._unseen, self._read_at, self._rest = "", 0.0, _FIRST_REST
        """What was missing last, when all is read again, and the seconds until the next time."""

    def on_started_leading(self) -> None:
        """Note that another leader may have written until now."""
        self._gained += 1
        self._unseen, self._rest = "", _FIRST_REST

    def find_unseen(self) -> str:
        """Return what is stored and not reported yet, for which a disruption must wait; or "".

        Many nodes may ask while one object is missing: all is read for all of them, and less often
        each time.
        """
        gained = self._gained
        if self._seen == gained:
            return ""
        # `on_started_leading` may clear this at any moment.
        why = self._unseen
        if why and self._clock() < self._read_at:
            return why
        why, retry_after = self._look()
        if not why:
            self._seen = gained
        self._read_at = self._clock() + max(self._rest, retry_after)
        self._unseen, self._rest = why, min(2 * self._rest, _LAST_REST)
        return why

    def _look(self) -> tuple[str, float]:
        """Return what is missing, and the seconds after which the server may be read again."""
        try:
            return self._find_late(), 0.0
        except ApiError as error:
            why = f"what the leader before wrote could not be read ({error.status or 'no answer'})"
            return why, error.retry_after
        except UNREADABLE:
            return "what the leader before wrote could not be decoded", 0.0
        except LookupError as error:
            # Its version has just stopped being served: `probe` runs in another thread.
            return str(error), 0.0

    def _find_late(self) -> str:
        watch = self._rules.reflector if self._rules.version is not None else None
        if watch is not None:
            rules = watch.items()
            for raw in self._read_stored(self._rules.path, {}, RawRule):
                rule, name = parse(raw), raw.metadata.name
                if rule is None or rule.effect not in EVICTING:
                    continue
                seen = parse(rules[name]) if name in rules else None
                if seen is None or (seen.uid, seen.effect) != (rule.uid, rule.effect):
                    return f"DeviceTaintRule {name} {_LATE}"
        known = self._incidents.items()
        for incident in self._read_stored(INCIDENTS, _OPEN, Incident):
            reported, counts = known.get(incident.name), _budget_times(incident)
            if any(counts) and (reported is None or _budget_times(reported) != counts):
                return f"incident {incident.name} {_LATE}"
        return ""

    def _read_stored(self, path: str, params: dict[str, str], kind: type[_T]) -> Iterator[_T]:
        """Yield what is stored now; an object that cannot be read defers its own node only."""
        for raw in msgspec.json.decode(self._reader.get(path, params), type=_List).items:
            try:
                yield msgspec.json.decode(raw, type=kind)
            except UNREADABLE:
                continue


def _budget_times(incident: Incident) -> tuple[datetime | None, datetime | None]:
    """Return what budgets count of an incident beside its rules."""
    return incident.status.eviction.evicting_at, incident.status.repair.requested_at
