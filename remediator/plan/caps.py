"""How far one fault may go now: the least of its caps.

An effect rises in this order: no rule, None, NoSchedule, Evict, NoExecute. Every fault starts at
NoExecute, and each cap that applies limits it. So a fault evicts pods only if no cap applies: its
class allows it, its evidence is complete, and every device of it has had a stored NoSchedule for
the settle time. The scheduler and the eviction controller watch apart, so the order of two writes
is not the order of their effects.

A *ceiling* says how far a fault can ever go. A *deferral* ends by itself: its `goal` is higher than
its limit. A new cap is a row of `CAPS`, with its test. What a user, the pods of the GPU or the
fleet defer is a brake (`brakes`).
"""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from functools import cached_property
from typing import Literal

import msgspec

from exporter.model.device import Device
from remediator.diagnose.fault import NEAR, Fault, Healthy
from remediator.diagnose.scope import scope
from remediator.model.claim import ADMIN
from remediator.model.incident import Incident
from remediator.model.incident_status import (
    HARDWARE_LIMIT,
    RULES_NOT_SERVED,
    DeviceEvictions,
    IncidentStatus,
    Target,
)
from remediator.model.taint_rule import EFFECTS, EVICTING, Effect, Rule
from remediator.plan.board import Board
from remediator.plan.clocks import start_of_within, true_since
from remediator.plan.pods import why_pods_incomplete
from remediator.plan.signals import is_new
from remediator.plan.stages import DeferredBy
from remediator.plan.view import RefusedRule
from remediator.plan.words import WAITS_FOR, knows_little, some
from remediator.policy.duration import spell
from remediator.policy.table import Policy, Row
from remediator.policy.windows import moment

Limit = Effect | None
"""How far an effect may go; None: no rule at all."""
LEVELS: tuple[Limit, ...] = (None, *EFFECTS)
"""From the mildest to the strongest."""
CapName = Literal[
    "unreported",
    "observed",
    "forgeable",
    "unpublished",
    "out of reach",
    "better evidence",
    "unserved",
    "refused",
    "evidence",
    "unproven",
    "later pods",
    "ceiling",
    "two nodes",
    "siblings",
    "settle",
    "requests",
    "nothing",
]
FRESH = timedelta(minutes=5)
"""A contained error has killed its process when it is written. A pod that took the slice later than
this came afterwards and is not evicted for it."""
ACTED = frozenset({"Tainted", "Evicting", "Drained"})
"""Phases in which the scope had been found."""
AWAITING = "AwaitingEvidence"
"""Condition of an incident: since when a doubtful fault of a patient class waits."""
FORGEABLE = (
    "any program of the node can forge what syslog(2) reads, and no second source bears it out"
)
UNPUBLISHED = "the failed MIG instance is not published"
LATER = "its process is dead, and every pod on its devices came after it"
FOUND_LATE = "it was found long after it came, and every pod on its devices came after it"
TAINTING = "every device in scope is tainted first"
UNSERVED = "DeviceTaintRules are not served by this cluster"
UNSERVED_WHY = f"{UNSERVED} (Kubernetes before 1.37, or switched off)"


class Cap(msgspec.Struct, frozen=True):
    """One reason why a fault goes no further now."""

    name: CapName
    limit: Limit
    goal: Effect
    """How far it lets the fault go in the end."""
    reason: str
    until: datetime | None = None
    """When time alone ends it."""
    by: DeferredBy | None = None
    """Reason of the condition `Deferred`, where users are to know what waits."""


SIBLINGS = Cap("siblings", "NoSchedule", "NoExecute", TAINTING)
"""A pod that is evicted from one slice must not land on a sibling that is about to be tainted."""


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


def _unreported(finding: Finding) -> Cap | None:
    """Make no rule while the GPU is not in a report that is believed."""
    if finding.board.gpu is None:
        return Cap("unreported", None, "NoSchedule", "the GPU is not reported")
    return None


def _observed(finding: Finding) -> Cap | None:
    """Make no rule where the policy only observes the class."""
    if finding.row.highest == "observe":
        return Cap("observed", None, "None", "observed only: no rule is made for it")
    return None


def _forgeable(finding: Finding) -> Cap | None:
    """Make no rule for what any program of the node may have written, by syslog(2) alone."""
    if finding.fault.forgeable:
        return Cap("forgeable", None, "None", f"suspected only: {FORGEABLE}")
    return None


def _unpublished(finding: Finding) -> Cap | None:
    """Make no rule while no published device is of the failed instance."""
    # With dynamic MIG the failed instance is often destroyed before the report is made: its process
    # dies and its pod ends. The whole GPU in its place would taint healthy siblings.
    if not (finding.targets or finding.exact):
        return Cap("unpublished", None, "NoSchedule", f"suspected only: {UNPUBLISHED}")
    return None


def _out_of_reach(finding: Finding) -> Cap | None:
    """Make no rule on a name that may also be a device of another node."""
    if finding.out_of_reach:
        return Cap("out of reach", None, "None", finding.out_of_reach)
    return None


def _better_evidence(finding: Finding) -> Cap | None:
    """Wait for a second source until the settle time is over.

    It counts from when the incident began to wait (`status`), which neither a repeated signal nor
    one that comes and goes moves.
    """
    if not finding.awaits:
        return None
    incident, now = finding.incident, finding.now
    opened = incident.metadata.creation_timestamp
    # Where the status cannot be written, the wait still ends: it counts from the opening.
    not_noted = opened if opened and not incident.status.conditions else now
    until = (waits_since(incident.status, now) or not_noted) + finding.row.settle
    why = f"waiting for better evidence: {finding.doubt}"
    return Cap("better evidence", None, "NoExecute", why, until) if now < until else None


def _unserved(finding: Finding) -> Cap | None:
    """Make no rule while the API server serves none."""
    if finding.board.rules.served:
        return None
    return Cap("unserved", None, "NoExecute", UNSERVED_WHY, by="RulesNotServed")


def _refused(finding: Finding) -> Cap | None:
    """Make no rule, and no stronger one, that the API server has just refused to store."""
    rules, names = finding.board.rules, [target.name for target in finding.targets]
    found = [why for name in names if (why := rules.refusal(name))]
    if not found:
        return None
    stored: dict[Device, Limit] = {rule.device: rule.effect for rule in rules.stored}
    stands = LEVELS[min(LEVELS.index(stored.get(name)) for name in names)]
    why = refusal_in_words(names, found[0])
    until = min(each.until for each in found)
    return Cap("refused", stands, "NoExecute", why, until, by="RuleRefused")


def refusal_in_words(names: Iterable[Device], refusal: RefusedRule) -> str:
    devices = some(name.device for name in names)
    return f"the rule of {devices} cannot be written: {refusal.why}"


def _evidence(finding: Finding) -> Cap | None:
    """Evict no pod while the evidence is incomplete."""
    return _no_further("evidence", finding, finding.doubt) if finding.doubt else None


def _unproven(finding: Finding) -> Cap | None:
    """Evict no pod for a fault that no report shows now and no proof has ended."""
    fault = finding.fault
    held = isinstance(finding.board.verdict, Healthy) and fault.ended is None
    return _no_further("unproven", finding, fault.evidence) if held else None


def _later_pods(finding: Finding) -> Cap | None:
    """Evict no pod for an error that was over before all pods on its devices came.

    So also after a loss of every incident and rule, when no record says that it was handled. Where
    the driver has no recovery action, one that is found long after it came may be over, too.
    """
    fault, board = finding.fault, finding.board
    if not fault.is_past and not _is_found_late(finding):
        return None
    pods = {pod.uid: pod for pod in board.pods or ()}
    # A pod that is not listed may have been there when the error came. One that has not started was
    # not, however long it has been waiting for a device. A start of the time to come is later, too:
    # a clock that is ahead dates each new pod so.
    all_later = bool(finding.users) and all(
        uid in pods and ((start := pods[uid].started) is None or start > fault.last_seen)
        for uid in finding.users
    )
    why = LATER if fault.is_past else FOUND_LATE
    return _no_further("later pods", finding, why) if all_later else None


def _is_found_late(finding: Finding) -> bool:
    """Whether an error was old when its incident was opened, and no reading says if it stands.

    An incident without its status may have dealt with it.
    """
    fault, gpu, incident = finding.fault, finding.board.gpu, finding.incident
    opened = None if knows_little(incident) else incident.metadata.creation_timestamp
    unread = gpu is not None and gpu.presence == "Present" and not gpu.recovery_action.supported
    return unread and fault.record is not None and (opened or finding.now) - fault.last_seen > FRESH


def _ceiling(finding: Finding) -> Cap | None:
    """Evict no pod where the policy, or the nature of its evidence, keeps a class from it."""
    if finding.row.highest in EVICTING:
        return None
    why = f"class {finding.row.fault_class} goes no further"
    return _no_further("ceiling", finding, why)


def _no_further(name: CapName, finding: Finding, why: str) -> Cap:
    """Return a ceiling of NoSchedule, or of what the class allows at most."""
    least = milder("NoSchedule", finding.highest)
    return Cap(name, least, least, f"{least} only: {why}")


def _two_nodes(finding: Finding) -> Cap | None:
    """Evict no pod while a silent node publishes the GPU as well: it may not be in this one."""
    others = ", ".join(finding.board.presence.also_at)
    why = f"{others} publishes it as well and is silent, so no pod is evicted"
    return Cap("two nodes", "NoSchedule", "NoExecute", why) if others else None


def _siblings(finding: Finding) -> Cap | None:
    """Evict no pod before all devices in scope have a stored, recorded taint."""
    return SIBLINGS if finding.tainted_since is None else None


def _settle(finding: Finding) -> Cap | None:
    """Evict no pod before that taint has stood for the settle time."""
    since = finding.tainted_since
    if since is not None and finding.fault.fault_class == "contained":
        since = _own_since(finding, since)
        if since is None:
            return SIBLINGS
    if since is None or finding.now >= (settled := since + finding.row.settle):
        return None
    why = f"settling for {finding.row.settle.total_seconds():g} s"
    return Cap("settle", "NoSchedule", "NoExecute", why, settled)


def _requests(finding: Finding) -> Cap | None:
    """Evict by the Eviction API first, where the policy says so."""
    plan = finding.row.evict
    if not finding.row.evicts_first:
        return None
    goal: Effect = "NoExecute" if plan.then == "NoExecute" else "Evict"
    since = start_of_within(finding.evictions, plan, finding.now)
    until = since + plan.within if plan.then == "NoExecute" and since else None
    if until is not None and finding.now >= until:
        return None
    how = "pods are evicted by the Eviction API"
    how += f" until {moment(until)}, then deleted" if until else ""
    return Cap("requests", "Evict", goal, _ready(finding, how), until)


def _nothing(finding: Finding) -> Cap:
    """Cap nothing: this row is always there."""
    how = "pods are evicted"
    if finding.row.evicts_first:
        within = spell(finding.row.evict.within)
        how = f"pods that are left {within} after the first eviction are deleted"
    return Cap("nothing", "NoExecute", "NoExecute", _ready(finding, how))


def _ready(finding: Finding, how: str) -> str:
    """Return how its pods are evicted; once none is left, what it waits for."""
    if not (finding.users or finding.why_more_users):
        how = f"no pod is left, and it waits for {WAITS_FOR[finding.fault.needs]}"
    return f"evidence complete, settle time over: {how}"


CAPS: tuple[Callable[[Finding], Cap | None], ...] = (
    _unreported,
    _observed,
    _forgeable,
    _unpublished,
    _out_of_reach,
    _better_evidence,
    _unserved,
    _refused,
    _evidence,
    _unproven,
    _later_pods,
    _ceiling,
    _two_nodes,
    _siblings,
    _settle,
    _requests,
    _nothing,
)
"""Every cap of one fault. Of equal limits the first decides and gives the reason."""
NO_RULE: frozenset[CapName] = frozenset(
    {"unreported", "observed", "forgeable", "unpublished", "out of reach", "refused"}
)
"""What lets no rule be made, however long it is waited."""
LEAVES_OUT: frozenset[CapName] = frozenset({"out of reach", "refused"})
"""What keeps its devices alone from a rule: the others of the GPU do not wait for them."""
NO_EVIDENCE: frozenset[CapName] = frozenset({"unreported", "forgeable", "better evidence"})
"""What is over if the fault passes before there is evidence for it."""


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


def _own_since(finding: Finding, since: datetime) -> datetime | None:
    """Return since when slices are tainted themselves, and not only others under their names.

    A slice that was made anew is other hardware to a contained error, and has pods of its own.
    """
    parts = finding.incident.status.scope.hardware
    # A part without a time is of an older version: the time of the whole taint stands for it.
    known = {part.uuid: part.tainted_time for part in parts if part.uuid}
    # Partitions of dynamic MIG have no UUID, and carry that of their GPU.
    own = {target.uuid for target in finding.targets} - {finding.board.uuid}
    # Beyond the limit of the CRD a slice is never recorded, and would wait for ever.
    if own - known.keys() and len(parts) < HARDWARE_LIMIT:
        return None
    return max([since, *(min(at, finding.now) for uuid in own if (at := known.get(uuid)))])


def waits_since(status: IncidentStatus, now: datetime) -> datetime | None:
    """Return since when a doubtful fault waits, as noted; None: not, or it was over in between.

    It was over if the GPU had been healthy for more than a minute: what comes then is another.
    """
    since = true_since(status, AWAITING, now)
    healthy = status.recovery.healthy_since
    # Else an XID 74 of a peer that has passed would use up the wait, and the next one would taint a
    # healthy GPU at once.
    over = since is not None and healthy is not None and since <= healthy < now - NEAR
    return None if over else since


def milder(effect: Effect, other: Effect) -> Effect:
    return EFFECTS[min(EFFECTS.index(effect), EFFECTS.index(other))]


def stronger(effect: Effect, other: Effect) -> Effect:
    return EFFECTS[max(EFFECTS.index(effect), EFFECTS.index(other))]
