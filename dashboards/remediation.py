"""What the remediator did, would do and defers, and how it is itself. Pure."""

from dashboards import annotations, controller, incidents, lifecycle, links, variables
from dashboards.catalogue import REMEDIATION as BOARD
from dashboards.happenings import taken
from dashboards.panel import (
    BLUE,
    ORANGE,
    PLAIN,
    RED,
    Column,
    Dashboard,
    Meaning,
    Query,
    Row,
    States,
    Table,
    TimeSeries,
)
from dashboards.promql import INCIDENTS, LEADING, numbered, of_cluster, once
from remediator.plan.stages import DEFERRAL_REASONS, deferral_reasons_in_words

_KEY = "incident, node, UUID"
_COLOURS = {"None": BLUE, "NoSchedule": ORANGE, "NoExecute": RED}
_WHO = (
    Column(source="cluster", title="Cluster", none="-"),
    Column(source="node", title="Node", links=(links.NODE_OF_INCIDENT,)),
    *links.GPU_OF_INCIDENT,
    Column(source="incident", title="Incident"),
)


def _waiting(
    family: str, *, title: str, says: str, none: str, by: str, meanings: tuple[Meaning, ...]
) -> Table:
    """Return incidents with the reason of a family, and for how long they are in their phase."""
    reasons = once(f"{_KEY}, reason", INCIDENTS.done(family))
    since = once("incident", INCIDENTS.done("draguard_incident_phase_since_timestamp_seconds"))
    waited = f"time() - ({reasons} * on (cluster, incident) group_left () {since})"
    return Table(
        title=title,
        says=says,
        queries=(Query(expr=numbered(waited, INCIDENTS), value="age", empty=none),),
        none=f"{none.capitalize()} (unknown while no remediator leads)",
        columns=(
            *_WHO,
            Column(source="reason", title=by, meanings=meanings, width=130),
            Column(source="age", title="In phase for", unit="s"),
        ),
        sort="In phase for",
        height=5,
    )


def _held() -> Table:
    return _waiting(
        "draguard_incident_deferred",
        title="Deferred actions and reasons",
        says="Incidents with a deferred action. It follows when the reason is gone; existing "
        f"taints stay and recovery continues. Reasons: {deferral_reasons_in_words()}, NodeGone "
        "(the node was removed).",
        none="nothing is deferred",
        by="Deferred by",
        meanings=_HELD_BY,
    )


_COLOUR_OF_REASON = {
    "EmergencyStop": RED,
    "Blindness": RED,
    "Maintenance": BLUE,
    "Human": BLUE,
    "NodeGone": BLUE,
}
_HELD_BY = tuple(
    Meaning(word, word, _COLOUR_OF_REASON.get(word, ORANGE))
    for word in (*DEFERRAL_REASONS, "NodeGone")
)


def _blocked() -> Table:
    return _waiting(
        "draguard_incident_eviction_blocked",
        title="Blocked evictions and reasons",
        says="Incidents with pods that stay on a tainted device. DisruptionBudget: the time for "
        "evictions is over and they are still refused; requests continue. PodsJoin: new pods keep "
        "joining a shared claim; no eviction is requested. PodsStay: NoExecute removes none of the "
        "pods that are left. The condition EvictionBlocked of the incident names the pods.",
        none="no eviction is blocked",
        by="Blocked by",
        meanings=_BLOCKED_BY,
    )


_BLOCKED_BY = (
    Meaning("DisruptionBudget", "DisruptionBudget", ORANGE),
    Meaning("PodsJoin", "PodsJoin", RED),
    Meaning("PodsStay", "PodsStay", RED),
)


def _would_be() -> Table:
    watched = INCIDENTS.done("draguard_incident_mode", 'mode!="enforce"')
    pods = once(
        "incident, dra_claim_namespace, dra_claim_name, pod_name",
        INCIDENTS.done("draguard_incident_consumer_info", 'via!="admin"'),
    )
    counted = f"count by (cluster, incident) ({pods})"
    modes = once(f"{_KEY}, mode", watched)
    of_one = "on (cluster, incident) group_left ()"
    return Table(
        title="Incidents not enforced",
        says="Open incidents in a mode other than enforce: incident-only stores no rules, dry-run "
        "stores rules without effect. Affected: pods and claims that enforcement would affect. "
        "`kubectl get di NAME -o yaml` lists the devices in status.scope.plannedTaints.",
        queries=(
            Query(
                expr=numbered(f"({modes} * {of_one} {counted}) or 0 * {modes}", INCIDENTS),
                value="hit",
                empty="every open incident is enforced",
            ),
        ),
        none="Every open incident is enforced (unknown while no remediator leads)",
        columns=(
            *_WHO,
            Column(source="mode", title="Mode"),
            Column(source="hit", title="Affected", unit="short", decimals=0),
        ),
        sort="Affected",
        width=24,
        height=5,
    )


def _policy() -> Table:
    modes = of_cluster("draguard_remediator_policy_mode")
    return Table(
        title="Policy in force",
        says="The mode of each fault class before overrides: off, incident-only (the default), "
        "dry-run, enforce. Two lines for one class: the replicas read different files.",
        queries=(Query(expr=once("class, mode", modes), value="one", empty=controller.NO_DATA),),
        columns=(
            Column(source="cluster", title="Cluster", none="-"),
            Column(source="class", title="Class"),
            Column(source="mode", title="Mode", meanings=_MODES),
        ),
        width=8,
        height=7,
    )


_MODES = (
    Meaning("off", "off", PLAIN),
    Meaning("incident-only", "incident-only", BLUE),
    Meaning("dry-run", "dry-run", BLUE),
    Meaning("enforce", "enforce", ORANGE),
)


def _rules() -> TimeSeries:
    stored = once(f"{_KEY}, effect", INCIDENTS.done("draguard_incident_rules"))
    return TimeSeries(
        title="Taint rules by effect",
        says="Draguard's DeviceTaintRules in the cluster. None: no effect on pods. NoSchedule: "
        "keeps new pods away. NoExecute: Kubernetes deletes the pods. A gap: no incident was open, "
        "or there was no remediator data.",
        queries=(
            Query(
                expr=f"sum by (effect) ({stored})",
                legend="{{effect}}",
                empty=incidents.NO_INCIDENT,
            ),
        ),
        unit="short",
        decimals=0,
        stepped=True,
        stacked=True,
        colours=_COLOURS,
        none=incidents.NONE_OPEN,
        width=8,
        height=7,
    )


def _evictions() -> TimeSeries:
    return taken(
        "Evictions requested",
        "Requests to the Eviction API by result. refused: a PodDisruptionBudget does not allow it "
        "now. failed: any other error. Both are retried. Pods that Kubernetes deletes under "
        "NoExecute are not counted here.",
        "draguard_remediator_evictions_total",
        "result",
    )


def _gone() -> Table:
    evicted = once(_KEY, INCIDENTS.done("draguard_incident_evicted_pods"))
    again = once(_KEY, INCIDENTS.done("draguard_incident_recurrence"))
    return Table(
        title="Actions by incident",
        says="Per open incident: taint rules by effect, and pods that held a device and no longer "
        "do. Recurrence: which incident of this GPU it is in the repeat window.",
        queries=(
            Query(
                expr=numbered(_stored("NoSchedule"), INCIDENTS),
                value="closed",
                empty=incidents.NO_INCIDENT,
            ),
            Query(expr=_stored("NoExecute"), value="emptied", empty=incidents.NO_INCIDENT),
            Query(expr=_stored("None"), value="marked", empty=incidents.NO_INCIDENT),
            Query(expr=evicted, value="evicted", empty=incidents.NO_INCIDENT),
            Query(expr=again, value="episode", empty=incidents.NO_INCIDENT),
        ),
        none="No actions (unknown while no remediator leads)",
        columns=(
            *_WHO,
            Column(source="marked", title="None", unit="short", width=110),
            Column(source="closed", title="NoSchedule", unit="short", width=110),
            Column(source="emptied", title="NoExecute", unit="short", width=110),
            Column(source="evicted", title="Pods gone", unit="short", width=110),
            Column(source="episode", title="Recurrence", unit="short", none="-", width=110),
        ),
        width=24,
        height=5,
    )


def _stored(effect: str) -> str:
    return once(_KEY, INCIDENTS.done("draguard_incident_rules", f'effect="{effect}"'))


def _phases() -> States:
    return States(
        title="Incident phases over time",
        says="The phase of each incident. It ends when the recovery is verified, or by your "
        "decision. A gap in all lines: there was no remediator data.",
        queries=(
            Query(
                expr=numbered(incidents.phase_number(INCIDENTS), INCIDENTS),
                legend="{{node}} GPU {{GPU}}",
                empty=incidents.NO_INCIDENT,
            ),
        ),
        meanings=incidents.PHASE_MEANINGS,
        links=(links.DEVICE_OF_INCIDENT,),
        none=incidents.NONE_OPEN,
        width=24,
        height=6,
    )


def _steps() -> TimeSeries:
    return taken(
        "Steps taken",
        "Writes of the leader by kind: incidents opened and updated, rules created, changed and "
        "deleted, pods evicted, events.",
        "draguard_remediator_steps_total",
        "step",
    )


def _held_gpus() -> TimeSeries:
    leads = f"on (cluster) ({LEADING})"
    reasons = incidents.latest("reason", of_cluster("draguard_incident_deferred"))
    return TimeSeries(
        title="Deferred incidents over time",
        says="Open incidents with a deferred action, by the reason. A gap: nothing was deferred, "
        "or no replica led.",
        queries=(
            Query(
                expr=f"count by (cluster, reason) ({reasons}) and {leads}",
                legend="{{reason}}",
                empty="nothing is deferred",
            ),
        ),
        unit="short",
        decimals=0,
        stepped=True,
        stacked=True,
        none="Nothing is deferred (unknown while no remediator leads)",
        width=8,
        height=7,
    )


DASHBOARD = Dashboard(
    board=BOARD,
    variables=variables.of(BOARD),
    annotations=annotations.of(INCIDENTS),
    rows=(
        Row(title="Remediator status", panels=controller.now()),
        Row(title="Incidents", panels=(incidents.table(INCIDENTS), _phases())),
        Row(
            title="Actions taken",
            panels=(_gone(), incidents.hit_table(INCIDENTS), _rules(), _evictions(), _steps()),
        ),
        Row(title="Deferred, blocked and not enforced", panels=(_held(), _blocked(), _would_be())),
        Row(title="Incidents opened, tainted, drained, repaired", panels=lifecycle.incidents()),
        Row(title="Pods evicted, spared and deferred", panels=lifecycle.pods()),
        Row(title="Budgets and deferrals", panels=lifecycle.limits()),
        Row(
            title="Policy, deferrals and verdicts",
            panels=(_policy(), _held_gpus(), controller.verdicts()),
        ),
        Row(title="Remediator internals", panels=controller.itself()),
    ),
)
