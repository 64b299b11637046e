"""The table of what happens to incidents: counters and histograms, counted by the leader.

Each transition is counted once, when the API server has stored it (`transitions`). The sum over all
replicas is the total: a new leader does not count again what is stored already.
"""

from typing import Literal, get_args

from remediator.diagnose.fault import SEVERITY
from remediator.plan.spared import REASONS as SPARED
from remediator.plan.stages import DeferredBy, deferral_reasons_in_words
from serving.families import Family

PREFIX = "draguard_remediator"
OTHER = "other"
"""A class of fault that this version does not know."""
CLASSES: tuple[str, ...] = (*SEVERITY, OTHER)

Result = Literal["Recovered", "Closed", "Duplicate"]
RESULTS: tuple[Result, ...] = get_args(Result)
By = Literal["NoExecute", "EvictionAPI"]
BY: tuple[By, ...] = get_args(By)
Step = Literal["Taint", "Eviction", "Repair"]
STEPS: tuple[Step, ...] = get_args(Step)
EVICTION_REFUSED = "EvictionRefused"
"""A reason beside those of a condition `Deferred`: the Eviction API refuses an eviction."""
DEFERRED_BY: tuple[str, ...] = (*get_args(DeferredBy), EVICTION_REFUSED)

_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86400.0
_TAINT = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, _MINUTE, 300, 600)
_DRAIN = (1, 5, 15, 30, _MINUTE, 120, 300, 600, 1800, _HOUR, 7200, 14400, 43200, _DAY)
_REPAIR = tuple(
    float(seconds)
    for seconds in (
        *(minutes * _MINUTE for minutes in (1, 5, 15, 30)),
        *(hours * _HOUR for hours in (1, 2, 4, 8)),
        *(days * _DAY for days in (1, 2, 4, 7, 14, 30)),
    )
)


def _counter(name: str, text: str, **known: tuple[str, ...]) -> Family:
    return Family(
        name=name,
        kind="counter",
        text=text,
        labels=tuple(_LABELS.get(label, label) for label in known),
        known=tuple(known.values()),
        prefix=PREFIX,
    )


def _histogram(name: str, text: str, buckets: tuple[float, ...]) -> Family:
    return Family(
        name=name,
        kind="histogram",
        text=text,
        labels=("class",),
        known=(CLASSES,),
        buckets=buckets,
        prefix=PREFIX,
    )


_LABELS = {"fault": "class"}
"""The label for a keyword argument: `class` is reserved in Python."""

LIFECYCLE_FAMILIES: tuple[Family, ...] = (
    _counter("incidents_opened", "Incidents opened, by the class that they had.", fault=CLASSES),
    _counter(
        "incidents_closed",
        "Incidents closed, by class and by how: Recovered (healthy for the whole soak time), "
        "Duplicate (an older incident of the GPU leads), Closed (all other ends: another board is "
        "in its place, the node is gone, a user has confirmed).",
        fault=CLASSES,
        result=RESULTS,
    ),
    _histogram(
        "time_to_taint_seconds",
        "From the first signal, by the node's clock, until every device in scope is tainted, once "
        "for each incident. Nothing where a policy was changed in between, or no signal is dated.",
        _TAINT,
    ),
    _histogram(
        "time_to_drain_seconds",
        "From the start of the first eviction of an incident, or its taint where nothing had to be "
        "evicted, until its devices were seen to be empty.",
        _DRAIN,
    ),
    _histogram(
        "time_to_repair_seconds",
        "From the opening of an incident until its recovery is verified, the soak time included. "
        "Incidents that end otherwise are not in it.",
        _REPAIR,
    ),
    _counter(
        "pods_evicted",
        "Pods that used a device in scope during an eviction and no longer do, once for each "
        "incident: deleted under NoExecute, or evicted by the Eviction API. Some ended by "
        "themselves: these cannot be distinguished.",
        fault=CLASSES,
        by=BY,
    ),
    _counter(
        "pods_spared",
        "Pods on a sick GPU that are left alone when an eviction begins: NotInScope (they hold "
        "another slice), Tolerates (they tolerate NoExecute without an end), and "
        "AdminAccess, DaemonSet and MirrorPod (no eviction is requested of them; NoExecute "
        "reaches them), NodeSet (Slurm drains them: no eviction is requested, and NoExecute waits "
        "for them; they are not counted under one that stood before).",
        fault=CLASSES,
        reason=SPARED,
    ),
    _counter(
        "pods_deferred",
        "Pods whose eviction was deferred, counted when it begins to be deferred.",
        reason=DEFERRED_BY,
    ),
    _counter(
        "deferrals",
        "Decisions that were deferred, counted when that begins, by what was deferred (Taint, "
        f"Eviction, Repair: a request to repair the node) and why: {deferral_reasons_in_words()}, "
        "EvictionRefused (by the Eviction API, mostly for a PodDisruptionBudget).",
        step=STEPS,
        reason=DEFERRED_BY,
    ),
)
