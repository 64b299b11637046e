"""What closed incidents are good for: counting repeats, finding a relapse, handing on intents.

An incident counts by its opening. Pure.
"""

from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta

from remediator.diagnose.fault import FaultClass, Sick, Verdict
from remediator.model.incident import Incident, of_gpu
from remediator.model.intent import LASTING, Intent, Kind, counts
from remediator.plan.caps import UNSERVED
from remediator.plan.finding import FRESH
from remediator.plan.words import MODES, class_of, days, ordinal, was_lost
from remediator.policy.table import Policy, Repeat, Row

KEPT_FOR = timedelta(days=30)
"""At least; a longer repeat window of the policy keeps them longer."""
KEPT_PER_GPU = 32
KEPT_PER_NODE = 1024
"""So many of 32 GPUs: a node that reports ever new GPUs fills no more than that."""
PRUNED_AT_ONCE = 20
"""So that an upgrade that finds thousands does not delete them in one breath."""
SYSLOG_ONLY = ("Syslog",)
"""Sources of an incident that any program may have made up."""
RELAPSE = "relapse: "
"""How the evidence of one begins."""


def opening_time(incident: Incident, now: datetime) -> datetime:
    """Return when an incident began; one that is about to be opened begins now."""
    return incident.metadata.creation_timestamp or now


def recurrence(
    incidents: tuple[Incident, ...],
    incident: Incident,
    row_of: Callable[[FaultClass], Row],
    now: datetime,
) -> int:
    """Return which incident of its GPU an incident is within the repeat window of its class.

    A relapse goes on counting from the incident that it belongs to. The count never falls, so
    pruning never resets it.
    """
    window = row_of(class_of(incident.status.fault.fault_class)).repeat.within
    since = opening_time(incident, now) - window
    earlier = _earlier(incidents, incident, now)
    recent = sum(
        opening_time(other, now) > since and counts_as_repeat(other, row_of) for other in earlier
    )
    before = relapse_of(incidents, incident, now)
    continued = before.status.history.recurrence if before else 0
    return max(incident.status.history.recurrence, recent + 1, continued + 1)


def counts_as_repeat(incident: Incident, row_of: Callable[[FaultClass], Row]) -> bool:
    """Whether a taint stood for an incident, or would have in enforce with rules served.

    So does a reboot that followed its call: no GPU stops one job after another, tainted or not. An
    incident that was over before either, such as an error of a peer, is no repeat, and has no
    probation. Nor has one of a class that restricts nothing, such as a remap that a planned reset
    carries out.
    """
    status = incident.status
    # No phase says so: an error that is over at once is tainted while its recovery is verified.
    tainted = bool(status.scope.hardware) or status.eviction.tainted_at is not None
    spared = status.policy.mode != MODES["enforce"]
    spared |= any(UNSERVED in entry.text for entry in status.timeline)
    # By its ceiling alone: the mode may have been another one then.
    spared &= row_of(class_of(status.fault.fault_class)).highest not in {"observe", "None"}
    repaired = status.repair.answered > 0
    return tainted or repaired or incident.blank or was_lost(incident) or spared


def is_lost(blank: Incident, now: datetime) -> bool:
    """Whether a status is missing for so long that it was not just about to be written."""
    opened = blank.metadata.creation_timestamp
    return opened is not None and now - opened > FRESH


def is_syslog_only(incident: Incident) -> bool:
    """Whether only the kernel log as syslog(2) reads it ever reported an incident."""
    return incident.status.fault.sources == SYSLOG_ONLY


def relapse_of(
    incidents: tuple[Incident, ...], incident: Incident, now: datetime
) -> Incident | None:
    """Return the incident in whose probation an incident began."""
    begun = opening_time(incident, now)
    ends = [
        (other.status.history.probation_until, other)
        for other in _earlier(incidents, incident, now)
    ]
    running = [(until, other) for until, other in ends if until is not None and begun < until]
    return max(running, key=lambda pair: pair[0])[1] if running else None


def _earlier(incidents: tuple[Incident, ...], incident: Incident, now: datetime) -> list[Incident]:
    """Return the incidents that count: none that a program may have made up.

    An incident that lost its status is closed beside this one in the same decision, so it counts
    now.
    """
    return [
        other
        for other in incidents
        if (not other.open or (other.blank and is_lost(other, now)))
        and other.name != incident.name
        and not other.status.history.duplicate_of
        and not is_syslog_only(other)
    ]


def relapse_in_words(before: Incident) -> str:
    until = before.status.history.probation_until
    return f"{RELAPSE}{before.name} was in probation until {until:%Y-%m-%dT%H:%M:%SZ}"


def inheritance(
    incidents: tuple[Incident, ...], uuid: str, now: datetime
) -> tuple[str, dict[Kind, Intent]]:
    """Return the last incident of a GPU, and the intents of users there that last beyond it.

    That incident carried over what was in force before it, so no older one counts: what a user
    removed stays removed, and what was overtaken has ended. Its duplicates count for kinds that it
    does not have.
    """
    formers = [
        former for former in of_gpu(incidents, uuid) if not former.status.history.duplicate_of
    ]
    if not formers:
        return "", {}
    last = formers[-1]
    doubles = [former for former in incidents if former.status.history.duplicate_of == last.name]
    found: dict[Kind, Intent] = {}
    for incident in (*doubles, last):
        found |= _lasting(incident, last, now)
    return last.name, found


def _lasting(incident: Incident, leading: Incident, now: datetime) -> dict[Kind, Intent]:
    """Return the intents of an incident that last beyond it; the leading one has read them."""
    ended = [record for record in leading.status.policy.intents if record.state == "Overtaken"]
    given = incident.spec.intents
    return {
        kind: given[kind]
        for kind in LASTING
        if kind in given
        and counts(given[kind], now)
        and not any(record.kind == kind and record.concerns(given[kind]) for record in ended)
    }


def failures_after_repair(incident: Incident, verdict: Verdict) -> int:
    """Return how often a GPU was sick again in one incident, after a requested repair.

    The last repair counts once it has proven vain: what is Unknown or healthy has not failed.
    """
    answered = incident.status.repair.answered
    return answered if isinstance(verdict, Sick) else max(answered - 1, 0)


def repeats(rows: tuple[Row, ...], count: int, again: int) -> tuple[Repeat, ...]:
    """Return which rules a GPU has reached, by its incidents and its failures after a repair."""
    return tuple(row.repeat for row in rows if 0 < row.repeat.count <= count + again)


def stickiness(incident: Incident, rows: tuple[Row, ...], count: int, again: int) -> str:
    """Return why recovery alone does not untaint a GPU, "" when it does.

    `rows` are those of its classes that are not off: without any left, no user has to confirm.
    """
    if not rows:
        return ""
    if by_repeat := repeats(rows, count, again):
        within = max(row.within for row in by_repeat)
        more = f", failed again after {again} repairs" if again else ""
        return f"{ordinal(count)} incident in {days(within)}{more}"
    classes = [row.fault_class for row in rows if row.sticky]
    if classes:
        return f"class {classes[0]} is untainted only after a user confirms the repair"
    # In the policy of another leader the class may be off or not sticky: a GPU that waits for a
    # user goes on to wait.
    return (
        "a user had to confirm its repair before"
        if incident.status.recovery.untaint == "OnConfirmation"
        else ""
    )


def _ends_signals(incident: Incident, boot_id: str | None) -> bool:
    """Whether its confirmation may be all that says of reported signals that they are over."""
    # A report keeps its XIDs until the next boot. Under a driver before R565 nothing else may end
    # them: without this record they would taint the GPU again.
    stated = {(record.kind, record.state) for record in incident.status.policy.intents}
    this_boot = boot_id in (None, incident.status.stay.boot_id)
    return ("RepairConfirmed", "InForce") in stated and this_boot


def incidents_to_prune(
    incidents: tuple[Incident, ...], policy: Policy, now: datetime, boot_id: str | None
) -> tuple[Incident, ...]:
    """Return closed incidents that are too old to matter, oldest first, a few at a time.

    Those of one GPU, or of one node, beyond a number go too. An open one never does, nor for
    its age one with an intent that its GPU's next incident would inherit, nor one of this boot
    whose repair a user confirmed. `boot_id` is that of the node, None while it is unknown.
    """
    closed = [
        (candidate.status.history.closed_at, candidate)
        for candidate in incidents
        if candidate.status.history.closed_at is not None
    ]
    newest = sorted(closed, key=lambda pair: (pair[0], pair[1].name), reverse=True)
    if not closed:
        return ()
    # Incidents of all classes count together, and what holds for each place is not known here.
    counts_for = max(policy.longest_repeat, KEPT_FOR)
    kept: Counter[str] = Counter()
    found: list[Incident] = []
    for closed_at, incident in newest:
        kept.update((incident.spec.uuid, incident.node))
        many = kept[incident.spec.uuid] > KEPT_PER_GPU or kept[incident.node] > KEPT_PER_NODE
        row = policy.row(class_of(incident.status.fault.fault_class))
        old = now - closed_at > counts_for + row.probation
        needed = _lasting(incident, incident, now) or _ends_signals(incident, boot_id)
        # A node that reports ever new GPUs must not fill the API server, whatever its incidents
        # carry.
        if many or (old and not needed):
            found.append(incident)
    return tuple(reversed(found))[:PRUNED_AT_ONCE]
