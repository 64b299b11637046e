"""The metrics of the explainer as tables: of claims, and of the process. Pure."""

from serving.families import Family

PREFIX = "draguard"
OWN_PREFIX = "draguard_explainer"
CLAIMS = 500
"""Claims that are exported one by one."""
ROWS = 5000
"""Rows of one family by namespace."""
AGES = {"1m": 60, "5m": 300, "15m": 900, "1h": 3600, "4h": 14_400, "1d": 86_400}
"""Ages that claims are counted beyond, in seconds."""
CLASSES = 100
"""DeviceClasses that durations are counted by; further ones are `other`."""
OTHER = "other"
_SECONDS = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0, 86_400.0)


def _gauge(name: str, text: str, *labels: str) -> Family:
    return Family(name=name, kind="gauge", text=text, labels=labels, prefix=PREFIX)


def _own(name: str, text: str, *labels: str) -> Family:
    return Family(name=name, kind="gauge", text=text, labels=labels, prefix=OWN_PREFIX)


def _counted(name: str, text: str, *labels: str) -> Family:
    return Family(name=name, kind="counter", text=text, labels=labels, prefix=OWN_PREFIX)


CLAIM_FAMILIES: tuple[Family, ...] = (
    _gauge(
        "claims",
        "ResourceClaims by state and reason (docs/claims.md). The reason is that of `draguard why` "
        "for the pod that has come farthest with the claim. Class or driver: `mixed` if a claim "
        f"has several, `{OTHER}` if the class does not exist. Beyond {ROWS} rows the rest is added "
        "up without these labels and the namespace; each namespace has its share of the rows.",
        "dra_claim_namespace",
        "dra_device_class",
        "dra_driver_name",
        "state",
        "reason",
    ),
    _gauge(
        "claims_older",
        "Claims that do not run and have been in their state for longer than `age`: "
        f"{', '.join(AGES)}. A claim of 20 minutes counts in 1m, 5m and 15m. Beyond {ROWS} rows "
        "the rest is added up without namespace.",
        "dra_claim_namespace",
        "state",
        "reason",
        "age",
    ),
    _gauge(
        "claim_since_timestamp_seconds",
        f"When a waiting claim came into its state: of the {CLAIMS} that have waited for longest, "
        "each namespace in turn, without those of NoPod and SchedulingGated. `pod_claim` is the "
        "claim's name within the pod: it stays when the claim is made anew, and is there before "
        "the claim.",
        "dra_claim_namespace",
        "dra_claim_name",
        "pod_name",
        "pod_claim",
        "dra_device_class",
        "state",
        "reason",
    ),
)
"""Gathered anew at each look, by the replica that leads."""

DURATION_FAMILIES: tuple[Family, ...] = (
    Family(
        name="claim_allocation_seconds",
        kind="histogram",
        prefix=PREFIX,
        text="From the creation of a claim, or of its pod if that is later, to its allocation.",
        labels=("dra_device_class",),
        buckets=_SECONDS,
    ),
    Family(
        name="claim_start_seconds",
        kind="histogram",
        prefix=PREFIX,
        text="From the allocation of a claim until its first pod runs. What was allocated before "
        "this process began to look is not counted.",
        labels=("dra_device_class",),
        buckets=_SECONDS,
    ),
)

OWN_FAMILIES: tuple[Family, ...] = (
    _own("leader", "1 while this replica explains claims; the others stand by."),
    _own(
        "watch_age_seconds",
        "Seconds since the last event of a collection; bookmarks come each minute.",
        "collection",
    ),
    _own(
        "collection_untrusted",
        "1 while the copy of a collection cannot be trusted: refused, not served, or no event for "
        "150 s. Then no metrics of claims are exported and no Events posted.",
        "collection",
    ),
    _own("undecodable_objects", "Objects left out since start because they were unreadable."),
    _own("look_seconds", "How long the last look at all claims took."),
    _own(
        "look_age_seconds",
        "Seconds since the last look at all claims was finished; NaN where another replica looks.",
    ),
    _own(
        "unexplained_pods",
        "Pods that wait and whose reason is not known yet: for want of time, or because a "
        "template cannot be read.",
    ),
    _own(
        "reason_age_seconds",
        "Age of the oldest exported reason that may be out of date; 0 if all are up to date.",
    ),
    _own("rows_dropped", "Rows that were added up or left out because of a limit.", "family"),
    _counted(
        "events",
        "Events on pods and claims: posted, failed (refused, or no answer), dropped (no room at "
        "this look). Each is tried again while its pod waits.",
        "result",
    ),
    _counted("evaluator_starts", "Starts of the process that evaluates tenants' CEL expressions."),
    _counted("look_failures", "Looks that could not explain a pod, or any; the log has the error."),
    _counted(
        "api_requests",
        "Requests to the API server by verb and HTTP status; `none`: no answer came.",
        "verb",
        "code",
    ),
    _own("build_info", "1; the version that runs.", "version"),
)

FAMILIES = (*OWN_FAMILIES, *DURATION_FAMILIES, *CLAIM_FAMILIES)
