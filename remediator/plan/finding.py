"""One fault of an incident, as its caps look at it (`caps`): what it is about, and how sure it is.

The policy holds for a device by its own pool, so a fault is looked at once for each pool. Pure.
"""

from datetime import datetime, timedelta
from functools import cached_property

import msgspec

from remediator.diagnose.fault import Fault
from remediator.diagnose.scope import scope
from remediator.model.claim import ADMIN
from remediator.model.incident import Incident
from remediator.model.incident_status import RULES_NOT_SERVED, DeviceEvictions, Target
from remediator.model.taint_rule import Effect, Rule
from remediator.plan.board import Board
from remediator.plan.pods import why_pods_incomplete
from remediator.plan.signals import is_new
from remediator.policy.table import Policy, Row

FRESH = timedelta(minutes=5)
"""A contained error has killed its process when it is written. A pod that took the slice later than
this came afterwards and is not evicted for it."""
ACTED = frozenset({"Tainted", "Evicting", "Drained"})
"""Phases in which the scope had been found."""
UNPUBLISHED = "the failed MIG instance is not published"


class Finding(msgspec.Struct, frozen=True, dict=True):
    """One fault of an incident, as its caps look at it."""

    board: Board
    incident: Incident
    fault: Fault
    row: Row
    targets: tuple[Target, ...]
    """Devices in its scope."""
    exact: bool
    """The instance that it names, if any, is published."""
    doubt: str
    """What its evidence lacks to evict pods, "" when it suffices."""
    now: datetime
    out_of_reach: str = ""
    """Why its devices in this pool cannot be tainted, "" when they can."""

    @cached_property
    def highest(self) -> Effect:
        """How far its class allows a rule to go."""
        return "None" if self.row.highest == "observe" else self.row.highest

    @cached_property
    def tainted_since(self) -> datetime | None:
        since = tainted_since(self.board.rules.stored, self.incident, self.targets)
        return since and min(since, self.now)

    @cached_property
    def users(self) -> tuple[str, ...]:
        """UIDs of the pods that use its devices now. Admin access uses nothing."""
        names = {str(target.name) for target in self.targets}
        # A claim stays reserved for a failed pod of a PodGroup as long as that pod exists.
        ended = {pod.uid for pod in self.board.pods or () if not pod.running}
        return tuple(
            held.uid
            for held in self.board.users.holders
            if held.device in names and held.via != ADMIN and held.uid not in ended
        )

    @cached_property
    def why_more_users(self) -> str:
        """Why others may use them as well, "" where none does."""
        return self.board.trust.refusal("name pods") or why_pods_incomplete(self.board)

    @property
    def evictions(self) -> DeviceEvictions | None:
        """Those from its devices: the time of their pods began together (`findings_of`)."""
        return self.incident.status.eviction.of(self.targets[0].name) if self.targets else None

    @cached_property
    def awaits(self) -> str:
        """What is missing of evidence that often arrives in two parts, before a taint."""
        tainted = {rule.device for rule in self.board.rules.stored if rule.effect != "None"}
        whole = all(target.name in tainted for target in self.targets)
        return self.doubt if self.row.patient and not whole else ""


def findings_of(
    board: Board, incident: Incident, fault: Fault, policy: Policy, now: datetime
) -> list[Finding]:
    """Return one fault as its caps look at it: for each pool, and each time that its pods get.

    The policy holds for a device by its own pool: another driver that publishes the GPU as well
    must not lower what is done in the first.
    """
    targets: tuple[Target, ...]
    targets, exact = (), True
    beyond = {out.device.device: out for out in board.machine.out_of_reach}
    if board.gpu is not None:
        found = scope(fault, board.gpu, board.inventory)
        targets, exact = _slices_meant(board, incident, fault, found.targets), found.exact
    doubt = fault.doubt or ("" if exact else UNPUBLISHED)
    # Nor is an error from the future fresh: a node whose clock is ahead dates an old one so.
    if not doubt and fault.is_past and abs(now - fault.last_seen) > FRESH:
        doubt = "its process died long ago, or the clocks differ"
    if beyond and board.gpu is not None:
        devices = tuple(out.device for out in beyond.values())
        targets += scope(fault, board.gpu, devices).targets
    pools: dict[tuple[str, str, bool], list[Target]] = {}
    for target in targets:
        # The others must not wait for a device whose rule cannot be written.
        refused = board.rules.refusal(target.name) is not None
        pools.setdefault((target.driver, target.pool, refused), []).append(target)
    places = [(board.place.within(*pool), here) for (*pool, _), here in pools.items()]
    return [
        Finding(
            board=board,
            incident=incident,
            fault=fault,
            row=row,
            targets=together,
            exact=exact,
            doubt=doubt,
            now=now,
            out_of_reach=next((beyond[one.name].why for one in together if one.name in beyond), ""),
        )
        for place, here in places or [(board.place, [])]
        for row in (policy.row(fault.fault_class, place),)
        for together in _by_time_to_leave(incident, row, here)
    ]


def _by_time_to_leave(
    incident: Incident, row: Row, targets: list[Target]
) -> list[tuple[Target, ...]]:
    """Return the devices whose pods have one time to leave; the latest come first.

    Pods on one device must not be deleted because the time of those on another one is over.
    """
    if not (row.evicts_first and targets):
        return [tuple(targets)]
    found: dict[tuple[datetime, ...], list[Target]] = {}
    for target in targets:
        of = incident.status.eviction.of(target.name)
        times = (of.start_time, of.attempt_time) if of else ()
        found.setdefault(tuple(time for time in times if time), []).append(target)
    return [tuple(found[times]) for times in sorted(found, reverse=True)]


def _slices_meant(
    board: Board, incident: Incident, fault: Fault, targets: tuple[Target, ...]
) -> tuple[Target, ...]:
    """Return the slices that an instance fault meant when it was new.

    Instance ids are used again: after a change of the layout an old error must not be read as one
    of the slice that got its number. A recorded placement names the memory by itself.
    """
    if fault.instance is None or fault.placement is not None:
        return targets
    if not is_new(board, incident, fault):
        if incident.status.fault.slices is not None:
            return tuple(target for target in targets if target in incident.status.fault.slices)
        # A status of an older version does not record them: its scope stands for them.
        acted = any(entry.phase in ACTED for entry in incident.status.timeline)
        known = set(incident.status.scope.devices)
        return tuple(target for target in targets if target in known) if known or acted else targets
    # New to this incident is not new to the GPU: a closed one may have dealt with the error, and
    # recorded which slices it meant.
    earlier = [known for known in board.incidents if not is_new(board, known, fault)]
    before = [
        known.status.fault.slices for known in earlier if known.status.fault.slices is not None
    ]
    meant = {target.uuid for part in before for target in part}
    return tuple(target for target in targets if target.uuid in meant) if before else targets


def tainted_since(
    rules: tuple[Rule, ...], incident: Incident, targets: tuple[Target, ...]
) -> datetime | None:
    """Return since when the targets' stored rules taint, as the incident has recorded them.

    It counts for the very rules that are recorded by their UIDs. A rule of the same GPU that is not
    recorded yet is new, also one that was deleted and made again: pods must not move to what it
    taints. The scheduler and the eviction controller may have lost the rules while they were not
    served, so that time starts over.
    """
    unserved = next(
        (
            condition
            for condition in incident.status.conditions
            if condition.type == RULES_NOT_SERVED
        ),
        None,
    )
    if unserved is not None and unserved.status == "True":
        return None
    recorded = {rule.uid for rule in incident.status.scope.rules if rule.effect != "None"}
    tainting = [rule for rule in rules if rule.effect != "None"]
    if any(rule.uid not in recorded for rule in tainting):
        return None
    known = {rule.device for rule in tainting}
    whole = bool(targets) and all(target.name in known for target in targets)
    since = incident.status.eviction.tainted_at if whole else None
    return max(since, unserved.last_transition_time) if since and unserved else since
