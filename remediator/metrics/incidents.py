"""Open incidents as samples, each from its stored object. Pure."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from heapq import nsmallest

from remediator.diagnose.fault import SEVERITY
from remediator.metrics.families import ALL_CONSUMERS, CONSUMERS, INCIDENTS
from remediator.model.claim import ADMIN, EXTENDED_RESOURCE, GANG
from remediator.model.incident import Incident
from remediator.model.incident_status import EVICTION_BLOCKED, IncidentStatus
from remediator.model.taint_rule import MAINTENANCE, TAINT_EFFECTS, Rule
from remediator.plan.status import UNCONFIRMED
from remediator.plan.words import ours
from serving.families import Labels, Rows, labels, ones

_RANK = {word: -rank for rank, word in enumerate(SEVERITY)}
_UNKNOWN_CLASS = -len(SEVERITY)
_BY = {"": "claim", EXTENDED_RESOURCE: "extended", ADMIN: "admin", GANG: "gang"}
"""Label value for each `AffectedPod.via`; "" would be no label to Prometheus."""
EVICTED = "evicted"
"""Label value for an evicted pod: an operator still needs to know whose job it was."""

_BY_HAND = tuple(f": {MAINTENANCE}:{effect}" for effect in ("NoSchedule", "NoExecute"))
"""How an entry of `IncidentStatus.foreign` ends for a cordon that keeps work away."""

_Part = Callable[[Incident], Iterable[Labels]]


def incident_rows(
    incidents: Iterable[Incident],
    rules: Iterable[Rule],
    most: int = INCIDENTS,
) -> Rows:
    """Return the samples of every open incident; of more than `most`, the number left out."""
    standing = [candidate for candidate in incidents if candidate.open]
    listed = nsmallest(most, standing, key=_urgency) if len(standing) > most else standing
    each = min(CONSUMERS, ALL_CONSUMERS // max(len(listed), 1))
    stored = Counter((rule.incident, rule.taint_effect) for rule in rules)
    rows: defaultdict[str, dict[Labels, float]] = defaultdict(dict)
    for incident in listed:
        identity = labels(incident.name, incident.node, incident.spec.uuid)
        for family, part in _WORDS.items():
            rows[family] |= ones((*identity, *rest) for rest in part(incident))
        for family, figure in _FIGURES.items():
            known = figure(incident)
            rows[family] |= {identity: known} if known is not None else {}
        rows["incident_rules"] |= {
            (*identity, word): stored[incident.name, word] for word in TAINT_EFFECTS
        }
        consumers = {
            labels(pod.namespace, pod.claim, pod.pod, _BY.get(pod.via, pod.via))
            for pod in incident.status.scope.affected
        }
        consumers |= {
            labels(pod.namespace, pod.claim, pod.pod, EVICTED)
            for pod in incident.status.eviction.evicted
        }
        named = sorted(consumers)[:each]
        rows["incident_consumer_info"] |= ones((*identity, *rest) for rest in named)
    return {**rows, "incidents_omitted": {(): float(len(standing) - len(listed))}}


def _urgency(incident: Incident) -> tuple[int, str, str]:
    """Order the worst class first, then the oldest; a class of another version before all."""
    opened = incident.metadata.creation_timestamp
    rank = _RANK.get(incident.status.fault.fault_class, _UNKNOWN_CLASS)
    return rank, opened.isoformat() if opened else "", incident.name


def _word(word: str) -> Iterable[Labels]:
    """Return no row for a word that is not written yet."""
    return [labels(word)] if word else []


def _deferral_reasons(incident: Incident) -> Iterable[Labels]:
    """Return the reasons why an incident makes no progress: an operator who is paged needs them.

    Besides what defers a step these are: a user ignores the incident; a user has cordoned the GPU;
    the node is gone, and so the incident ends after a week.
    """
    held = {
        condition.reason
        for condition in incident.status.conditions
        if condition.type == "Deferred" and condition.status == "True"
    }
    if any(
        intent.kind == "Ignore" and intent.state == "InForce"
        for intent in incident.status.policy.intents
    ):
        held.add("Human")
    if any(
        text.startswith("rule ") and text.endswith(_BY_HAND)
        for text in incident.status.scope.foreign
    ):
        held.add("Maintenance")
    if incident.status.stay.node_gone_since:
        held.add("NodeGone")
    return [labels(reason) for reason in sorted(held)]


def _reason_of(kind: str) -> _Part:
    """Return the reason of a condition while it is true, no row while it is not."""
    return lambda incident: [
        labels(condition.reason)
        for condition in incident.status.conditions
        if condition.type == kind and condition.status == "True"
    ]


def _seconds(moment: datetime | None) -> float | None:
    return moment.timestamp() if moment else None


def _count_evicted(status: IncidentStatus) -> float:
    """Count each pod once, however many devices it held; those beyond the limit by entry."""
    return len(
        {(eviction.namespace, eviction.pod, eviction.uid) for eviction in status.eviction.evicted}
    ) + float(status.eviction.evicted_left_out)


_WORDS: Mapping[str, _Part] = {
    "incident_info": lambda incident: [
        labels(
            incident.status.fault.fault_class,
            incident.status.fault.cause,
            incident.status.scope.summary,
        )
    ],
    "incident_phase": lambda incident: _word(incident.status.phase),
    "incident_mode": lambda incident: _word(ours(incident.status.policy.mode)),
    "incident_deferred": _deferral_reasons,
    "incident_unconfirmed": _reason_of(UNCONFIRMED),
    "incident_eviction_blocked": _reason_of(EVICTION_BLOCKED),
    "incident_needs": lambda incident: _word(ours(incident.status.repair.needs)),
}
_FIGURES: Mapping[str, Callable[[Incident], float | None]] = {
    "incident_opened_timestamp_seconds": lambda incident: _seconds(
        incident.metadata.creation_timestamp
    ),
    "incident_phase_since_timestamp_seconds": lambda incident: _seconds(
        incident.status.phase_since
    ),
    "incident_recurrence": lambda incident: float(incident.status.history.recurrence) or None,
    "incident_evicted_pods": lambda incident: _count_evicted(incident.status),
}
