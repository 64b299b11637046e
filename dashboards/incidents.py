"""Panels and columns on incidents, which several dashboards show. Pure."""

from collections.abc import Mapping

from dashboards import links
from dashboards.panel import BLUE, ORANGE, PLAIN, RED, YELLOW, Column, Meaning, Query, Table
from dashboards.promql import Scope, numbered, once

NO_INCIDENT = "no incident is open"
NONE_OPEN = "No open incidents (unknown while no remediator leads)"
_NONE_KNOWN = "None (unknown while no remediator leads)"

PHASES: Mapping[str, tuple[int, str]] = {
    "Suspected": (1, PLAIN),
    "Tainted": (2, ORANGE),
    "Evicting": (3, YELLOW),
    "Drained": (4, "dark-orange"),
    "Repairing": (5, "dark-blue"),
    "Verifying": (6, BLUE),
    "NeedsHuman": (7, RED),
}
"""Number and colour of each phase of an open incident, in their order."""
PHASE_MEANINGS = tuple(Meaning(n, word, colour) for word, (n, colour) in PHASES.items())
_PHASE_WORDS = tuple(Meaning(word, word, colour) for word, (_, colour) in PHASES.items())
_NEED_WORDS = (
    Meaning("nothing", "nothing: verification runs", PLAIN),
    Meaning("diagnosis", "diagnosis", BLUE),
    Meaning("fabric-recovery", "fabric recovery", ORANGE),
    Meaning("gpu-reset", "GPU reset", ORANGE),
    Meaning("node-reboot", "node reboot", ORANGE),
    Meaning("replacement", "replacement", RED),
    Meaning("human", "manual check", RED),
)
_KEY = "incident, node, UUID"


def latest(label: str, selector: str, keep: str = "incident") -> str:
    """Take one value of labels per incident, where two replicas disagree for a moment."""
    return f"topk by (cluster, incident) (1, {once(f'{keep}, {label}', selector)})"


def phase_number(scope: Scope) -> str:
    """Return the phase of each incident as the number of `PHASES`; the later one of two."""
    arms: list[str] = []
    for word, (number, _) in reversed(tuple(PHASES.items())):
        in_phase = scope.done("draguard_incident_phase", f'phase="{word}"')
        arms.append(f"{number} * {once(_KEY, in_phase)}")
    return " or ".join(arms)


def _latest(label: str, family: str, scope: Scope) -> str:
    return latest(label, scope.done(family))


def _queries(scope: Scope) -> tuple[Query, ...]:
    opened = once(_KEY, f"time() - {scope.done('draguard_incident_opened_timestamp_seconds')}")
    info = _latest("class, cause, scope", "draguard_incident_info", scope)
    since = f"{opened} * on (cluster, incident) group_left (class, cause, scope) {info}"
    pods = once(f"incident, {_HIT}", scope.done("draguard_incident_consumer_info"))
    needs = _latest("needs", "draguard_incident_needs", scope)
    held = _latest("reason", "draguard_incident_deferred", scope)
    return (
        Query(expr=numbered(since, scope), value="age", empty=NO_INCIDENT),
        Query(
            expr=_latest("phase", "draguard_incident_phase", scope),
            value="in phase",
            empty=NO_INCIDENT,
        ),
        Query(
            expr=_latest("mode", "draguard_incident_mode", scope),
            value="in mode",
            empty=f"{NO_INCIDENT}, or it is too new to have a mode",
        ),
        Query(expr=needs, value="needed", empty=f"{NO_INCIDENT}, or none needs a repair"),
        Query(expr=held, value="is deferred", empty="nothing is deferred"),
        Query(
            expr=f"count by (cluster, incident) ({pods})",
            value="hit",
            empty="no pod holds a device of an open incident",
        ),
        Query(
            expr=once("incident", scope.done("draguard_incident_evicted_pods")),
            value="gone",
            empty=NO_INCIDENT,
        ),
    )


_HIT = "dra_claim_namespace, dra_claim_name, pod_name"

_COLUMNS = (
    Column(source="cluster", title="Cluster", none="-"),
    Column(source="node", title="Node", links=(links.NODE_OF_INCIDENT,)),
    *links.GPU_OF_INCIDENT,
    Column(source="class", title="Class"),
    Column(source="cause", title="Cause"),
    Column(source="scope", title="Scope"),
    Column(source="phase", title="Phase", meanings=_PHASE_WORDS),
    Column(source="mode", title="Mode"),
    Column(source="hit", title="Affected", unit="short", none="none", decimals=0, width=70),
    Column(source="gone", title="Evicted", unit="short", none="-", decimals=0, width=70),
    Column(source="reason", title="Deferred by", none="-", width=105),
    Column(source="needs", title="Next", none="-", meanings=_NEED_WORDS, width=165),
    Column(source="age", title="Open for", unit="s", width=90),
    Column(source="incident", title="Incident", links=(links.TO_INCIDENT,)),
)
"""As wide as a dashboard together, with the names of incidents whole."""


def table(scope: Scope, *, height: int = 5) -> Table:
    """Return open incidents: what, where, affected pods, what is done, what is next."""
    return Table(
        title="Open incidents",
        says="One line per open incident. Mode: the policy mode. Affected: pods and claims that "
        "hold its devices now. Evicted: pods that no longer do. Deferred by: what defers the next "
        "step. Next: what would repair it. `kubectl describe di NAME` shows all details. Empty "
        "when no incident is open or without remediator data: check Leader.",
        queries=_queries(scope),
        width=24,
        height=height,
        none=NONE_OPEN,
        columns=_COLUMNS,
        sort="Open for",
    )


def hit_table(scope: Scope, *, matchers: str = "") -> Table:
    """Return the holders of the devices of open incidents; `matchers` name claims."""
    chosen = ", ".join(part for part in ('via!="admin"', matchers) if part)
    pods = scope.done("draguard_incident_consumer_info", chosen)
    return Table(
        title="Affected pods",
        says="Pods and claims that hold a device of an open incident, as the remediator reports "
        "them. Via: a claim, nvidia.com/gpu (extended), or a gang peer, which is listed and not "
        "evicted. evicted: the pod was evicted. Claims with admin access are left out.",
        queries=(
            Query(
                expr=numbered(once(f"{_KEY}, {_HIT}, via", pods), scope),
                value="one",
                empty="no pod holds a device of an open incident",
            ),
        ),
        width=24,
        height=4,
        none=_NONE_KNOWN,
        columns=(
            Column(source="cluster", title="Cluster", none="-"),
            Column(source="dra_claim_namespace", title="Namespace"),
            Column(source="pod_name", title="Pod", none="-"),
            Column(source="dra_claim_name", title="Claim", none="-", links=(links.TO_CLAIM,)),
            Column(source="via", title="Via", width=100),
            Column(source="node", title="Node", links=(links.NODE_OF_INCIDENT,)),
            *links.GPU_OF_INCIDENT,
            Column(source="incident", title="Incident", links=(links.TO_INCIDENT,)),
        ),
    )
