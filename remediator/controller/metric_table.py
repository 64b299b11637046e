"""The remediator's metrics as a table: what the page shows, and what the documents list."""

from typing import get_args

from remediator.metrics.families import CLUSTER_FAMILIES
from remediator.metrics.lifecycle import LIFECYCLE_FAMILIES, PREFIX
from remediator.plan.steps import Step
from serving.families import Family


def _counter(name: str, text: str, *labels: str, known: tuple[str, ...] = ()) -> Family:
    """Return a counter; `known` are all values of its only label."""
    values = (known,) if known else ()
    return Family(name=name, kind="counter", text=text, labels=labels, known=values, prefix=PREFIX)


def _gauge(name: str, text: str, *labels: str) -> Family:
    return Family(name=name, kind="gauge", text=text, labels=labels, prefix=PREFIX)


OWN_FAMILIES: tuple[Family, ...] = (
    _counter(
        "reconciles",
        "Decisions about a node by result: done, superseded (decided again), paced (waits for its "
        "turn to write), dropped (another replica leads), failed (API), bug (also about one GPU, "
        "which is unknown meanwhile, and the others go on; the log has the trace).",
        "result",
        known=("done", "superseded", "paced", "dropped", "failed", "bug"),
    ),
    _counter(
        "steps",
        "Steps taken, by kind.",
        "step",
        known=tuple(kind.__name__ for kind in get_args(Step)),
    ),
    Family(
        name="reconcile_duration_seconds",
        kind="histogram",
        prefix=PREFIX,
        text="Time of one decision that went well, its writes included.",
    ),
    _gauge("leader", "1 while this replica may write."),
    _gauge("queue_nodes", "Nodes that are due for a decision and wait."),
    _gauge("queue_age_seconds", "For how long the oldest of them has waited."),
    _gauge(
        "watch_age_seconds",
        "Seconds since the last event of a collection; bookmarks come each minute.",
        "collection",
    ),
    _gauge(
        "collection_untrusted",
        "1 while the copy of a collection cannot be trusted: refused, not served, or no event for "
        "150 s. Then no taint, eviction or untaint is based on it.",
        "collection",
    ),
    _gauge(
        "gpus_not_taintable",
        "Reported GPUs that are published in a way for which no taint rule can be made: by a node "
        "selector, or in a pool that is not one node's own.",
    ),
    _gauge(
        "taint_ignored_claims",
        "Claims that were allocated a device well after it was tainted: a scheduler ignores "
        "DeviceTaintRules.",
    ),
    _counter(
        "incident_statuses_refused",
        "Statuses of incidents that the API server refused for what is in them (its CRD is of "
        "another release); each was followed by a write of less. Taints are made all the same.",
    ),
    _gauge("undecodable_objects", "Objects left out since start because they were unreadable."),
    _counter(
        "api_requests",
        "Requests to the API server by verb and HTTP status; `none`: no answer came.",
        "verb",
        "code",
    ),
    _counter("timer_failures", "Timer jobs that failed or were missed."),
    _gauge("gpus", "GPUs by verdict: healthy, sick, unknown.", "verdict"),
    _gauge("incidents", "Open incidents by phase and class of fault.", "phase", "class"),
    _gauge("rules", "DeviceTaintRules of ours, by effect.", "effect"),
    _gauge("deferred_gpus", "GPUs for which something is deferred, by what defers it.", "reason"),
    _counter(
        "evictions",
        "Evictions requested, by answer: granted, refused (by a PodDisruptionBudget), failed (any "
        "other error, such as two PodDisruptionBudgets for one pod). Refused and failed ones are "
        "requested again with a backoff for each pod.",
        "result",
        known=("granted", "refused", "failed"),
    ),
    _gauge("rules_served", "1 when DeviceTaintRules are served; without them nothing is tainted."),
    _gauge(
        "rule_status_missing",
        "NoExecute rules of Draguard without a status of the eviction controller for a minute: "
        "check the feature gate DRADeviceTaintRules. NaN where rules have no status.",
    ),
    _gauge(
        "clock_ahead_seconds",
        "By how much this machine's clock is ahead of the API server's, negative when behind. "
        "Beyond 30 s on either side nothing is untainted, no eviction begins and no soak time "
        "counts. NaN while no answer carried a date.",
    ),
    _gauge("policy_file_bad", "1 while the file is unusable and the last good policy is in force."),
    _gauge(
        "policy_disagrees",
        "1 while the policy of this leader differs from the previous leader's: for at most 5 "
        "minutes no rule is removed because of the policy, and no eviction begins.",
    ),
    _gauge("policy_info", "1; `hash` names the policy in force.", "hash"),
    _gauge("policy_mode", "1 for the mode of each class in the policy in force.", "class", "mode"),
    _gauge("build_info", "1; the version that runs.", "version"),
)
"""Metrics of a replica about itself."""

FAMILIES: tuple[Family, ...] = (*OWN_FAMILIES, *LIFECYCLE_FAMILIES, *CLUSTER_FAMILIES)
"""Every family of the page, to check the names and labels of a query."""
