"""Panels on what happens to incidents and pods over time, and on what limits it. Pure."""

from dashboards.controller import NO_DATA
from dashboards.happenings import taken
from dashboards.panel import BLUE, ORANGE, RED, Panel, Query, TimeSeries
from dashboards.promql import of_cluster, once

_OWN = "draguard_remediator"
_STANDING = 'budget="taint", ground="cluster"'


def incidents() -> tuple[Panel, ...]:
    """Return how many incidents begin and end, and how long they take."""
    return (
        taken(
            "Incidents opened",
            "Incidents opened, by the class that they had at that time.",
            f"{_OWN}_incidents_opened_total",
            "class",
            width=12,
        ),
        taken(
            "Incidents closed",
            "Recovered: healthy for the whole soak time. Duplicate: an older incident of the GPU "
            "continues. Closed: any other end, such as a replaced board.",
            f"{_OWN}_incidents_closed_total",
            "result",
            width=12,
            over="class",
        ),
        _times(
            "Time to taint",
            "taint",
            "From the first signal, by the node's clock, until every device in scope is tainted.",
        ),
        _times(
            "Time to drain",
            "drain",
            "From the start of the eviction until no pod holds a device in scope.",
        ),
        _times(
            "Time to repair",
            "repair",
            "From the opening of an incident until its recovery is verified, with the soak time.",
        ),
    )


def _times(title: str, what: str, says: str) -> TimeSeries:
    selector = of_cluster(f"{_OWN}_time_to_{what}_seconds_bucket")
    buckets = once("instance, class, le", f"rate({selector}[$__rate_interval])")
    return TimeSeries(
        title=title,
        says=f"{says} Median and 90th percentile. A gap: there was none.",
        queries=tuple(
            Query(
                # The quantile of no samples is NaN. `>= 0` drops it: comparing NaN gives false.
                expr=f"histogram_quantile({share}, sum by (le) ({buckets})) >= 0",
                legend=legend,
                empty=f"{NO_DATA}, or there was none recently",
            )
            for share, legend in ((0.5, "median"), (0.9, "90 %"))
        ),
        unit="s",
        none="None in this time, or no remediator data",
        width=8,
        height=7,
    )


def pods() -> tuple[Panel, ...]:
    """Return what became of the pods on sick GPUs."""
    return (
        taken(
            "Pods evicted",
            "Pods that used a device in scope during an eviction and no longer do. "
            "NoExecute: deleted by Kubernetes. EvictionAPI: evicted by Draguard.",
            f"{_OWN}_pods_evicted_total",
            "by",
            width=6,
            over="class",
        ),
        taken(
            "Pods spared",
            "Pods on a sick GPU that are not evicted when an eviction begins. NotInScope: they "
            "hold another slice. Tolerates: they tolerate NoExecute indefinitely. AdminAccess, "
            "DaemonSet, MirrorPod: no eviction is requested, but NoExecute reaches them.",
            f"{_OWN}_pods_spared_total",
            "reason",
            width=6,
            over="class",
        ),
        taken(
            "Pods deferred",
            "Pods whose eviction was newly deferred, by the reason.",
            f"{_OWN}_pods_deferred_total",
            "reason",
            width=6,
        ),
        taken(
            "Actions deferred",
            "Taints, evictions and node repair requests that were newly deferred, by step and "
            "reason.",
            f"{_OWN}_deferrals_total",
            "step, reason",
            width=6,
        ),
    )


def limits() -> tuple[Panel, ...]:
    """Return how full the budgets are, and what defers everything now."""
    return _taint_budget(), _budgets(), _brakes()


def _taint_budget() -> TimeSeries:
    return _steps(
        "Taint budget",
        "GPUs with a NoSchedule or NoExecute taint, and the limit `budget.taint.cluster`. At the "
        "limit the next sick GPU stays schedulable.",
        *(
            Query(
                expr=f"sum(max by (cluster) ({of_cluster(_gpus(what), _STANDING)}))",
                legend=legend,
                empty=f"{NO_DATA}, or the policy has no such limit",
            )
            for what, legend in (("used", "tainted"), ("limit", "limit"))
        ),
        colours={"tainted": ORANGE, "limit": RED},
    )


def _gpus(what: str) -> str:
    return f"draguard_budget_{what}_gpus"


def _budgets() -> TimeSeries:
    used, limit = (once("budget, ground", of_cluster(_gpus(what))) for what in ("used", "limit"))
    return _steps(
        "Budget usage",
        "Used share of each limit of the policy. evict: GPUs being evicted from. taint: tainted "
        "GPUs. rate: GPUs begun within its time. For node, pool, deviceClass and domain, the "
        "fullest one is shown. At 100 % the next GPU is deferred.",
        Query(
            expr=f"{used} / ({limit} > 0)",
            legend="{{budget}} {{ground}}",
            empty=f"{NO_DATA}, or the policy has no limit",
        ),
        unit="percentunit",
    )


def _brakes() -> TimeSeries:
    reasons = once("reason", of_cluster("draguard_correlation_in_force"))
    return _steps(
        "Emergency stop, windows and correlation",
        "What defers actions on many GPUs: the emergency stop, open maintenance windows of the "
        "policy, and correlation. SameCause: causes that are new on many nodes. NodeChanged: nodes "
        "with a recent driver or agent change. PolicyChanged: the policy was changed recently. "
        "Series that are 0 are not drawn.",
        Query(
            expr=f"max({of_cluster('draguard_emergency_stop')})",
            legend="emergency stop",
            empty=NO_DATA,
        ),
        Query(
            expr=f"sum(max by (cluster) ({of_cluster('draguard_maintenance_windows_open')}))",
            legend="maintenance windows",
            empty=NO_DATA,
        ),
        Query(expr=f"sum by (reason) ({reasons})", legend="{{reason}}", empty=NO_DATA),
        colours={"emergency stop": RED, "maintenance windows": BLUE, "SameCause": ORANGE},
        sparse=True,
        always="emergency stop",
    )


def _steps(
    title: str,
    says: str,
    *queries: Query,
    unit: str = "short",
    colours: dict[str, str] | None = None,
    sparse: bool = False,
    always: str = "",
) -> TimeSeries:
    return TimeSeries(
        title=title,
        says=says,
        queries=queries,
        unit=unit,
        decimals=0,
        stepped=True,
        colours=colours or {},
        sparse=sparse,
        always=always,
        none="No remediator data",
        width=8,
        height=7,
    )
