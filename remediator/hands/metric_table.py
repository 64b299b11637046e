"""The remediator's metrics as a table: what the page shows, and what the documents say."""

from remediator.tell.families import CLUSTER_FAMILIES
from remediator.tell.family import Family

PREFIX = "draguard_remediator"


def _counter(name: str, text: str, *labels: str) -> Family:
    return Family(name=name, kind="counter", text=text, labels=labels, prefix=PREFIX)


def _gauge(name: str, text: str, *labels: str) -> Family:
    return Family(name=name, kind="gauge", text=text, labels=labels, prefix=PREFIX)


OWN_FAMILIES: tuple[Family, ...] = (
    _counter(
        "reconciles",
        "Decisions about a node by result: done, superseded (decided again), paced (waits for its "
        "turn to write), dropped (another replica leads), failed (API), bug (also about one GPU, "
        "which is unknown meanwhile, and the others go on; the log has the trace).",
        "result",
    ),
    _counter("steps", "Steps taken, by kind.", "step"),
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
        "Seconds since a collection was last heard of; bookmarks come each minute.",
        "collection",
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
    _gauge("held_gpus", "GPUs for which something is held back, by what holds it.", "reason"),
    _counter(
        "evictions",
        "Evictions asked for, by answer: granted, refused (by a PodDisruptionBudget).",
        "result",
    ),
    _gauge("rules_served", "1 when DeviceTaintRules are served; without them nothing is fenced."),
    _gauge(
        "rule_status_missing",
        "NoExecute rules of ours that the eviction controller has said nothing of for a minute: "
        "is the gate DRADeviceTaintRules on everywhere? NaN where rules have no status.",
    ),
    _gauge("policy_file_bad", "1 while the file is unusable and the last good policy is in force."),
    _gauge("policy_info", "1; `hash` names the policy in force.", "hash"),
    _gauge("policy_mode", "1 for the mode of each class in the policy in force.", "class", "mode"),
    _gauge("build_info", "1; the version that runs.", "version"),
)
"""What a replica says of itself."""

FAMILIES: tuple[Family, ...] = (*OWN_FAMILIES, *CLUSTER_FAMILIES)
"""Every family of the page, for whoever checks the names and labels of a query."""
