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
from datetime import datetime
from typing import Literal

import msgspec

from exporter.model.device import Device
from remediator.diagnose.fault import NEAR, Healthy
from remediator.model.incident_status import (
    HARDWARE_LIMIT,
    IncidentStatus,
)
from remediator.model.taint_rule import EFFECTS, EVICTING, Effect, milder
from remediator.plan.clocks import start_of_within, true_since
from remediator.plan.finding import FRESH, UNPUBLISHED, Finding
from remediator.plan.stages import DeferredBy
from remediator.plan.view import RefusedRule
from remediator.plan.words import WAITS_FOR, knows_little, some
from remediator.policy.duration import spell
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
AWAITING = "AwaitingEvidence"
"""Condition of an incident: since when a doubtful fault of a patient class waits."""
FORGEABLE = (
    "any program of the node can forge what syslog(2) reads, and no second source bears it out"
)
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
    """Evict no pod while a node publishes the GPU as well that does not report it, or is silent."""
    others = ", ".join(finding.board.presence.also_at)
    why = f"{others} publishes it as well without a fresh report of it, so no pod is evicted"
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
