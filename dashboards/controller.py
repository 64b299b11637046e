"""Panels on the remediator as a program: leader, freshness, load, refusals. Pure."""

from functools import partial

from dashboards import stats
from dashboards.panel import (
    GREEN,
    ORANGE,
    RED,
    UNKNOWN,
    Meaning,
    Panel,
    Query,
    Stat,
    Step,
    TimeSeries,
)
from dashboards.promql import of_cluster, once

NO_DATA = "no remediator data"
_SILENT_WATCH = 150
"""Seconds after which a collection is stale for the remediator (`--stale-after`)."""


_state = partial(stats.state, empty=NO_DATA, none="no data")
_number = partial(stats.number, empty=NO_DATA)


def leader() -> Stat:
    """Return whether a replica leads."""
    return _state(
        "Leader",
        "Whether a replica leads. Without a leader nothing is tainted or untainted, and the "
        "incidents shown are those that were open before.",
        f"max({_own('leader')})",
        (Meaning(1, "leads", GREEN), Meaning(0, "no leader", RED)),
    )


def _own(family: str, matchers: str = "") -> str:
    return of_cluster(f"draguard_remediator_{family}", matchers)


def now() -> tuple[Panel, ...]:
    """Return panels on what the remediator needs before it can act."""
    return (
        leader(),
        _state(
            "DeviceTaintRules",
            "Whether the cluster serves DeviceTaintRules. Without them Draguard only records "
            "incidents.",
            f"min({_own('rules_served')})",
            (Meaning(1, "served", GREEN), Meaning(0, "not served", ORANGE)),
        ),
        _state(
            "Policy file",
            "Whether the policy file on disk is in force. Refused: it has an error, and the last "
            "valid policy stays in force. The log names the line.",
            f"max({_own('policy_file_bad')})",
            (Meaning(0, "in force", GREEN), Meaning(1, "refused", RED)),
        ),
        _number(
            "Oldest watch",
            "Seconds since the last event of the stalest watch. Bookmarks arrive every minute. "
            "Above 150 the remediator does not rely on it.",
            f"max({_own('watch_age_seconds')})",
            (Step(-1, GREEN), Step(_SILENT_WATCH, UNKNOWN)),
            unit="s",
        ),
        _number(
            "Unprocessed rules",
            "NoExecute rules without a status from the eviction controller for a minute. Check the "
            "feature gate DRADeviceTaintRules. Unknown before Kubernetes 1.35, where rules have no "
            "status.",
            f"max({_own('rule_status_missing')})",
            stats.BAD,
        ),
        _number(
            "Incidents not shown",
            "Open incidents without series of their own, because more than 1000 are open.",
            f"max({of_cluster('draguard_incidents_omitted')})",
            stats.NOTABLE,
        ),
    )


def verdicts(*, width: int = 8) -> TimeSeries:
    """Return a graph of the leader's verdicts on all GPUs."""
    leads = f"on (cluster, instance) ({_own('leader')} == 1)"
    believed = once("verdict", f"{_own('gpus')} and {leads}")
    return TimeSeries(
        title="GPUs by remediator verdict",
        says="The leader's verdict on each GPU. Unknown neither adds nor removes a taint. Series "
        "that are 0 are not drawn. A gap: no replica led.",
        queries=(
            Query(
                expr=f"sum by (verdict) ({believed})",
                legend="{{verdict}}",
                empty="no remediator leads",
            ),
        ),
        unit="short",
        decimals=0,
        stacked=True,
        sparse=True,
        colours={"healthy": GREEN, "sick": RED, "unknown": UNKNOWN},
        none="No remediator leads",
        width=width,
        height=7,
    )


def itself() -> tuple[Panel, ...]:
    """Return how busy and how healthy the program is."""
    return (
        _rate("Reconciles by result", _DECISIONS, "reconciles_total", "result"),
        _duration(),
        _queue(),
        _rate("API server requests", _REQUESTS, "api_requests_total", "verb, code"),
        _ages(),
        _mishaps(),
    )


_DECISIONS = (
    "Reconciles of nodes by result. superseded: write conflict, retried. paced: delayed by the "
    "write rate limit. dropped: another replica leads. failed: the API server returned an error. "
    "bug: please report it."
)
_REQUESTS = "By verb and status. none: no response. 409 and 429 are expected and retried."


def _rate(title: str, says: str, family: str, by: str) -> TimeSeries:
    legend = " ".join(f"{{{{{label}}}}}" for label in by.split(", "))
    rate = once(f"instance, {by}", f"rate({_own(family)}[$__rate_interval])")
    return _graph(
        title, says, "reqps", Query(expr=f"sum by ({by}) ({rate})", legend=legend, empty=NO_DATA)
    )


def _graph(title: str, says: str, unit: str, *queries: Query, none: str = "Unknown") -> TimeSeries:
    return TimeSeries(
        title=title, says=says, unit=unit, queries=queries, none=none, width=8, height=7
    )


def _duration() -> TimeSeries:
    bucket = _own("reconcile_duration_seconds_bucket")
    buckets = once("instance, le", f"rate({bucket}[$__rate_interval])")
    return _graph(
        "Reconcile duration",
        "Duration of successful reconciles, writes included: the median and the 99th percentile. "
        "A gap: there was nothing to reconcile.",
        "s",
        # The quantile of no samples is NaN. `>= 0` drops it: comparing NaN gives false.
        *(
            Query(
                expr=f"histogram_quantile({share}, sum by (le) ({buckets})) >= 0",
                legend=legend,
                empty=f"{NO_DATA}, or no successful reconcile recently",
            )
            for share, legend in ((0.5, "median"), (0.99, "99 %"))
        ),
        none="No reconciles in this time, or no remediator data",
    )


def _queue() -> TimeSeries:
    return _graph(
        "Workqueue age",
        "How long the oldest node in the workqueue has waited to be reconciled.",
        "s",
        Query(
            expr=once("instance", _own("queue_age_seconds")),
            legend="{{instance}}",
            empty=NO_DATA,
        ),
    )


def _ages() -> TimeSeries:
    return _graph(
        "Watch age by collection",
        "Seconds since the last event of each watched collection, from the fresher replica.",
        "s",
        Query(
            expr=f"min by (cluster, collection) ({_own('watch_age_seconds')})",
            legend="{{collection}}",
            empty=NO_DATA,
        ),
    )


def _mishaps() -> TimeSeries:
    timers = once("instance", f"increase({_own('timer_failures_total')}[$__rate_interval])")
    return _graph(
        "Internal errors",
        "Objects that could not be decoded since the start, and timer jobs that failed or were "
        "missed. Both are 0 in a healthy cluster.",
        "short",
        Query(
            expr=f"max({_own('undecodable_objects')})",
            legend="objects not decoded",
            empty=NO_DATA,
        ),
        Query(expr=f"sum({timers})", legend="timer jobs failed or missed", empty=NO_DATA),
    )
