"""Panels on the remediator as a program: who leads, how fresh, how busy, how refused. Pure."""

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

NOT_HEARD = "no remediator is heard of"
_SILENT_WATCH = 150
"""Seconds after which it believes a collection no more (`--stale-after`)."""


_state = partial(stats.state, empty=NOT_HEARD, none="not heard of")
_number = partial(stats.number, empty=NOT_HEARD)


def leader() -> Stat:
    """Return whether a replica leads."""
    return _state(
        "Leader",
        "Whether a replica leads. Without a leader nothing is tainted or untainted, "
        "and incidents are those that were open before.",
        f"max({_own('leader')})",
        (Meaning(1, "leads", GREEN), Meaning(0, "no leader", RED)),
    )


def _own(family: str, matchers: str = "") -> str:
    return of_cluster(f"draguard_remediator_{family}", matchers)


def now() -> tuple[Panel, ...]:
    """Return what it needs to act at all."""
    return (
        leader(),
        _state(
            "Rules",
            "Whether the cluster serves DeviceTaintRules; without them incidents are all there is.",
            f"min({_own('rules_served')})",
            (Meaning(1, "served", GREEN), Meaning(0, "not served", ORANGE)),
        ),
        _state(
            "Policy file",
            "Whether the file on disk is the policy in force. Refused: the last good one holds; "
            "the log says which line is wrong.",
            f"max({_own('policy_file_bad')})",
            (Meaning(0, "in force", GREEN), Meaning(1, "refused", RED)),
        ),
        _number(
            "Oldest watch",
            "Seconds since the quietest collection was heard of; bookmarks come each minute. Above "
            "150 it believes nothing any more.",
            f"max({_own('watch_age_seconds')})",
            (Step(-1, GREEN), Step(_SILENT_WATCH, UNKNOWN)),
            unit="s",
        ),
        _number(
            "Rules nobody acts on",
            "NoExecute rules that the eviction controller has said nothing of for a minute: is the "
            "gate DRADeviceTaintRules on? Unknown before Kubernetes 1.35, where rules have no "
            "status.",
            f"max({_own('rule_status_missing')})",
            stats.BAD,
        ),
        _number(
            "Incidents not shown",
            "Open incidents beyond the 1000 that have series of their own.",
            f"max({of_cluster('draguard_incidents_untold')})",
            stats.NOTABLE,
        ),
    )


def verdicts(*, width: int = 8) -> TimeSeries:
    """Return what the leader believes of all GPUs."""
    leads = f"on (cluster, instance) ({_own('leader')} == 1)"
    believed = once("verdict", f"{_own('gpus')} and {leads}")
    return TimeSeries(
        title="GPUs by the remediator's verdict",
        says="What the leading replica believes of each GPU. Unknown never adds a taint and never "
        "takes one away. What is 0 is not drawn. A gap: nobody led.",
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
        none="no remediator leads",
        width=width,
        height=7,
    )


def itself() -> tuple[Panel, ...]:
    """Return how busy and how healthy the program is."""
    return (
        _rate("Decisions", _DECISIONS, "reconciles_total", "result"),
        _duration(),
        _queue(),
        _rate("Requests to the API server", _REQUESTS, "api_requests_total", "verb, code"),
        _ages(),
        _mishaps(),
    )


_DECISIONS = (
    "Decisions about nodes by result. superseded: decided again; paced: waits for its turn to "
    "write; dropped: another replica leads; failed: the API server refused; bug: please report it."
)
_REQUESTS = "By verb and status; none: no answer came. 409 and 429 are taken in stride."


def _rate(title: str, says: str, family: str, by: str) -> TimeSeries:
    legend = " ".join(f"{{{{{label}}}}}" for label in by.split(", "))
    rate = once(f"instance, {by}", f"rate({_own(family)}[$__rate_interval])")
    return _graph(
        title, says, "reqps", Query(expr=f"sum by ({by}) ({rate})", legend=legend, empty=NOT_HEARD)
    )


def _graph(title: str, says: str, unit: str, *queries: Query, none: str = "Unknown") -> TimeSeries:
    return TimeSeries(
        title=title, says=says, unit=unit, queries=queries, none=none, width=8, height=7
    )


def _duration() -> TimeSeries:
    bucket = _own("reconcile_duration_seconds_bucket")
    buckets = once("instance, le", f"rate({bucket}[$__rate_interval])")
    return _graph(
        "Time of a decision",
        "Of decisions that went well, their writes included: the median, and what 99 of 100 stay "
        "below. A gap: there was nothing to decide.",
        "s",
        # Of nothing a quantile is no number, which is below 0 as little as above.
        *(
            Query(
                expr=f"histogram_quantile({share}, sum by (le) ({buckets})) >= 0",
                legend=legend,
                empty=f"{NOT_HEARD}, or it decided nothing of late",
            )
            for share, legend in ((0.5, "median"), (0.99, "99 %"))
        ),
        none="nothing was decided in this time, or no remediator is heard of",
    )


def _queue() -> TimeSeries:
    return _graph(
        "Queue",
        "For how long the oldest of the nodes that wait for a decision has waited.",
        "s",
        Query(
            expr=once("instance", _own("queue_age_seconds")),
            legend="{{instance}}",
            empty=NOT_HEARD,
        ),
    )


def _ages() -> TimeSeries:
    return _graph(
        "Silence of the watches",
        "Seconds since each collection was last heard of, by the better of two replicas.",
        "s",
        Query(
            expr=f"min by (cluster, collection) ({_own('watch_age_seconds')})",
            legend="{{collection}}",
            empty=NOT_HEARD,
        ),
    )


def _mishaps() -> TimeSeries:
    timers = once("instance", f"increase({_own('timer_failures_total')}[$__rate_interval])")
    return _graph(
        "Mishaps",
        "Objects that could not be read since the start, and timer jobs that failed or were "
        "missed. Both are 0 in a healthy cluster.",
        "short",
        Query(
            expr=f"max({_own('undecodable_objects')})",
            legend="objects not readable",
            empty=NOT_HEARD,
        ),
        Query(expr=f"sum({timers})", legend="timer jobs missed", empty=NOT_HEARD),
    )
