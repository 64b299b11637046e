"""When many faults look like one that is not the GPUs' own: no pod is evicted for it yet.

A new driver, agent or policy can make healthy GPUs look sick, all of them within minutes. So
evictions wait while the same cause is new on several nodes, and for a time after such a change. New
work is kept away all the same. Decided on purpose:

- Nodes are counted, each once and as one source, whatever it reports. A node with false reports can
  neither trip the hold alone nor make it last longer.
- An incident that only syslog(2) reports is no source: any program can write such lines, so a
  tenant could keep pods on a sick GPU.
- Faults that an NVLink fabric passes on (classes `fabric` and `lost`) count once for a whole NVLink
  domain: one switch makes all its nodes report the same. The domain's own cap limits what may be
  done in it.
- A GPU that is lost, or that only a recovery action reports, has no cause beyond its class: the
  class stands for it.
- An incident is dated by its cause, not by its opening: a GPU that has waited for weeks for a user
  is as new as any other when it gets a worse fault together with them. Its class only rises, and
  another cause of that class is new once: with the first XID or source that the incident has no
  record of. Causes that alternate would hold its evictions for ever otherwise.
- Open incidents count in every mode, and those that tainted also once they are closed: a bad driver
  fails as many GPUs, however soon each recovers. When the window has passed since the last further
  node joined, evictions go on by themselves.
- After a change of the policy everything waits that does not evict yet where more is permitted than
  before, also what stood for weeks in incident-only. This leaves time to look at what was switched
  on. The end of an exemption is such a change for the GPUs that it spared, however it ends: the
  file may have stated the date months ago, and a whole cluster may be spared. Elsewhere it permits
  nothing, so it explains no fault there, and nothing waits. A milder policy, or another text, can
  explain none anywhere.
- NoSchedule goes on in a wave, under its own cap: it ends no pod, and in a real wave the GPUs are
  sick. `correlation.taint` changes that.

Nothing is remembered here: all of it is read from incidents. Pure.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Literal

import msgspec

from remediator.model.incident import Incident
from remediator.model.incident_status import FaultStatus
from remediator.plan import clocks
from remediator.plan.board import Board
from remediator.plan.clocks import Change
from remediator.plan.history import SYSLOG_ONLY, is_syslog_only
from remediator.plan.view import Fleet
from remediator.plan.words import class_of, severity, xid_in
from remediator.policy.duration import spell
from remediator.policy.limits import Correlation
from remediator.policy.place import Place
from remediator.policy.table import Policy

CARRIED: frozenset[str] = frozenset({"fabric", "lost"})
"""Fault classes that one NVLink fabric passes on to all its GPUs."""
CLOCKS_APART = timedelta(minutes=1)
"""The API server dates incidents in whole seconds and by its own clock; a change has ours."""


Why = Literal["SameCause", "NodeChanged", "PolicyChanged"]


class Wave(msgspec.Struct, frozen=True):
    why: str
    until: datetime | None
    """When time alone ends it."""


class Waves:
    """Decides for one incident after another, at one moment, whether its eviction waits."""

    def __init__(self, fleet: Fleet, policy: Policy, now: datetime) -> None:
        self._fleet = fleet
        self._policy = policy
        self._limits = policy.limits.correlation
        self._now = now
        self._known: dict[str, list[Incident]] | None = None

    def wave_of(self, incident: Incident, place: Place) -> Wave | None:
        """Return why the eviction for an incident waits, None when nothing defers it.

        `place` is where the policy sees its GPU.
        """
        wave = self._after_change(incident, place) or self.same_cause(incident)
        return wave or self._just_risen(incident, place)

    def _just_risen(self, incident: Incident, place: Place) -> Wave | None:
        """Wait for others that may be about to report it, where an old incident rises.

        A new one is tainted first, and settles for as long. Here the taint may have stood for
        weeks, and the first nodes of a wave would go on before the others are seen.
        """
        fault, opened = incident.status.fault, first_decided_at(incident)
        risen = fault.cause_since
        if not self._limits.nodes or risen is None or opened is None or risen <= opened:
            return None
        until = risen + self._policy.row(class_of(fault.fault_class), place).settle
        why = f"{cause_of(incident)} is new here, and other nodes may be about to report it"
        return Wave(why, until) if self._now < until else None

    def _after_change(self, incident: Incident, place: Place) -> Wave | None:
        changed = self._fleet.changes.get(incident.node)
        began = _date_of(incident) or self._now
        policy_at, before = self._fleet.policy_changed_at, self._fleet.policies_before
        if before is not None and not any(
            self._policy.permits_more(policy, place) for policy in before
        ):
            policy_at = None
        known = (
            ("policy", policy_at, True),
            (f"driver of {incident.node}", changed.driver_at if changed else None, False),
            (f"agent of {incident.node}", changed.agent_at if changed else None, False),
        )
        for what, at, old_too in known:
            if at is not None and (old_too or began > at - CLOCKS_APART):
                until = at + self._limits.after_change
                why = f"the {what} changed less than {spell(self._limits.after_change)} ago"
                why += f" (until {until:%FT%TZ})"
                if self._now < until:
                    return Wave(why, until)
        return None

    def same_cause(self, incident: Incident) -> Wave | None:
        """Return why the cause looks like one that is not the GPUs' own, None when it does not."""
        cause, limits = cause_of(incident), self._limits
        if not limits.nodes:
            return None
        # This incident may be about to be opened. If it is stored, its node still counts once.
        alike = (*self._by_cause().get(cause, []), incident)
        # One that is dated later than now would end a wave, and can be of no later one.
        dates = [
            (min(_date_of(candidate) or self._now, self._now), candidate) for candidate in alike
        ]
        sources = _sources_by_time(dates, self._fleet)
        until = _end_of_wave(sources, limits)
        if until is None or self._now >= until:
            return None
        why = f"{cause} is new on {limits.nodes} nodes or more within {spell(limits.within)}"
        return Wave(f"{why}, as if it were no fault of the GPUs", until)

    def in_force(self) -> Mapping[Why, int]:
        """Return how many causes, nodes and changes of the policy defer evictions now."""

        def lately(*dates: datetime | None) -> bool:
            span = self._limits.after_change
            return any(at is not None and self._now < at + span for at in dates)

        waves = (self.same_cause(found[0]) for found in tuple(self._by_cause().values()))
        nodes = self._fleet.changes.values()
        return {
            "SameCause": sum(wave is not None for wave in waves),
            "NodeChanged": sum(lately(node.driver_at, node.agent_at) for node in nodes),
            "PolicyChanged": int(lately(self._fleet.policy_changed_at)),
        }

    def _by_cause(self) -> Mapping[str, list[Incident]]:
        if self._known is None:
            self._known = {}
            for incident in self._fleet.incidents:
                if not is_syslog_only(incident):
                    self._known.setdefault(cause_of(incident), []).append(incident)
        return self._known


def cause_of(incident: Incident) -> str:
    """Return what is counted as one cause."""
    return _cause_in(incident.status.fault)


def _cause_in(fault: FaultStatus) -> str:
    vague = fault.fault_class == "lost" or fault.cause.startswith("recovery-action")
    return f"class {fault.fault_class}" if vague else fault.cause


def cause_since(
    board: Board, stored: Incident, found: FaultStatus, now: datetime
) -> datetime | None:
    """Return since when what is found now leads an incident, to be stored with it."""
    known = stored.status.fault
    changed = frozenset[Change](("cause",) if _is_new(found, known) else ())
    since = known.cause_since or first_decided_at(stored)
    # What is new is dated by a wrong clock, too: without a date it would count as old.
    fact = clocks.unless_dated(board, None if changed else since, fact=True)
    return clocks.run("cause", since, now, fact=fact, changed=changed)


def _is_new(found: FaultStatus, known: FaultStatus) -> bool:
    """Whether a cause that leads now is new to an incident, which has known `known` so far.

    Class, XIDs and sources of an incident are never taken back, so it is a bounded number of times.
    """
    worse = severity(found.fault_class) > severity(known.fault_class)
    # Until now any program may have made it up, and it was no source of a wave.
    proven = known.sources == SYSLOG_ONLY != found.sources
    if worse or proven or _cause_in(found) == _cause_in(known):
        return worse or proven
    return bool({*found.sources} - {*known.sources} or _xids_in(found) - _xids_in(known))


def _xids_in(fault: FaultStatus) -> set[str]:
    return {xid_in(line) for line in fault.evidence}


def _date_of(incident: Incident) -> datetime | None:
    """Return from when an incident counts, None while it is about to be opened."""
    # What is found now brings its own date (`incidents`): the first decision after a rise waits.
    return incident.status.fault.cause_since or first_decided_at(incident)


def first_decided_at(incident: Incident) -> datetime | None:
    """Return when an incident was opened, None while it is about to be."""
    timeline = incident.status.timeline
    return timeline[0].time if timeline else incident.metadata.creation_timestamp


def _sources_by_time(
    dates: Iterable[tuple[datetime, Incident]], fleet: Fleet
) -> list[tuple[datetime, str]]:
    """Return (time, source) of every incident, the first one first; each node is one source."""
    pairs = tuple(dates)
    sources: dict[str, set[str]] = {}
    for _, incident in pairs:
        sources.setdefault(incident.node, set()).add(_source_of(incident, fleet))
    # A node that claims GPUs of many NVLink domains must not make a wave by itself.
    return sorted((at, min(sources[incident.node])) for at, incident in pairs)


def _source_of(incident: Incident, fleet: Fleet) -> str:
    """Return the source that is counted for an incident: its NVLink domain, or its node."""
    place = fleet.places.get(incident.spec.uuid)
    if incident.status.fault.fault_class in CARRIED and place is not None and place.domain:
        return f"domain {place.domain}"
    return f"node {incident.node}"


def _end_of_wave(sources: Iterable[tuple[datetime, str]], limits: Correlation) -> datetime | None:
    """Return the end of the last wave's hold, None when there was none.

    A wave begins when enough sources reported within the window. It lasts while further ones join;
    a source that is part of it does not prolong it.
    """
    until: datetime | None = None
    recent: deque[tuple[datetime, str]] = deque()
    latest: dict[str, datetime] = {}
    for at, reporter in sources:
        if until is not None and at >= until:
            until = None
        if until is not None and reporter in latest:
            continue
        recent.append((at, reporter))
        latest[reporter] = at
        # During a wave no source is dropped: a node that is part of it could join once more after
        # the window, and prolong it.
        while until is None and at - recent[0][0] >= limits.within:
            old, source = recent.popleft()
            if latest.get(source) == old:
                del latest[source]
        if until is not None or 0 < limits.nodes <= len(latest):
            until = at + limits.within
    return until
