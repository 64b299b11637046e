"""The health of a GPU as one number, the worse the higher, so that the worst wins a roll-up. Pure.

Unknown ranks between healthy and sick: a node with seven healthy GPUs and one unknown is not green,
and a sick GPU is not hidden by an unknown neighbour.
"""

from typing import NamedTuple

from dashboards.panel import (
    BLUE,
    DARK_RED,
    GREEN,
    RED,
    SILENT,
    STALE,
    UNKNOWN,
    Meaning,
)
from dashboards.promql import (
    NUMBER,
    Scope,
    age,
    known_long_ago,
    known_recently,
    label_node,
    number,
    of_cluster,
    once,
)


class State(NamedTuple):
    number: int
    word: str
    colour: str
    says: str


HEALTHY = State(
    0,
    "Healthy",
    GREEN,
    "the GPU answers, the driver requests no recovery action, and no incident is open",
)
WATCHED = State(
    1,
    "Watched",
    BLUE,
    "the GPU answers; its open incident is mild (suspect, pending) or in its soak time",
)
UNCERTAIN = State(
    2,
    "Unknown",
    UNKNOWN,
    "its health cannot be read: released, unbound, in a virtual machine, NVML down",
)
OLD = State(
    3, "Stale", STALE, "the data is older than three minutes, or the agent's Lease has expired"
)
GONE_SILENT = State(
    4,
    "No data",
    SILENT,
    "an exporter showed it within the last hour and none does now; kept for a day while "
    "Prometheus still scrapes that exporter",
)
SICK = State(
    5,
    "Sick",
    RED,
    "the driver requests a recovery action, a row remap failed, or SRAM errors exceed the "
    "threshold. Also, in any mode, an open incident that is neither mild nor in its soak time",
)
LOST = State(6, "Lost", DARK_RED, "the GPU fell off the bus, or NVML hangs on it")

STATES = (HEALTHY, WATCHED, UNCERTAIN, OLD, GONE_SILENT, SICK, LOST)
MEANINGS: tuple[Meaning, ...] = tuple(Meaning(row.number, row.word, row.colour) for row in STATES)
LEGEND = " ".join(f"**{row.word}**: {row.says}." for row in reversed(STATES))
"""For descriptions."""

STALE_SECONDS = 180
"""Six samples at the exporter's default of 30 s."""

_GPU = "Hostname, UUID"
_NAMED = 'UUID!=""'
_STANDS = f'phase!="Verifying", {_NAMED}'
_GRAVE = 'class!~"suspect|pending"'
_IS_LOST = 'presence="Lost"'


def state(scope: Scope) -> str:
    """Return the state of each GPU by cluster, Hostname and UUID; of `or`, the first arm wins."""
    seen = scope.seen("draguard_gpu_info")
    answers = f"{scope.seen('draguard_gpu_up')} == 1"
    incidents = scope.done("draguard_incident_info")
    lost = f"{scope.seen('draguard_gpu_up')} == 0 or {scope.seen('draguard_gpu_info', _IS_LOST)}"
    # Neither mild nor in its soak time, whatever the mode. The GPU's name comes from the incident:
    # the GPU may not have been reported for days.
    stands = scope.done("draguard_incident_phase", _STANDS)
    grave = f"{stands} and on (cluster, incident) {scope.done('draguard_incident_info', _GRAVE)}"
    signs = ("recovery_action", "row_remap_failure", "sram_threshold_exceeded")
    sick = " or ".join(f"{scope.seen(f'draguard_gpu_{sign}')} > 0" for sign in signs)
    # Of a metrics page that is old, and of a node whose agent is stale.
    page = f"{age('draguard_snapshot_timestamp_seconds')} > {STALE_SECONDS}"
    stale = label_node(f"{of_cluster('draguard_agent_stale')} == 1")
    of_page = f"({seen} and on (cluster, instance) ({page}))"
    old = f"{of_page} or ({seen} and on (cluster, Hostname) {stale})"
    arms = (
        _as(once(_GPU, lost), LOST),
        _as(once(_GPU, sick), SICK),
        _as(once(_GPU, label_node(grave)), SICK),
        _as(once(_GPU, _missed(scope)), GONE_SILENT),
        _as(once(_GPU, old), OLD),
        _as(once(_GPU, f"{answers} and on (cluster, UUID) {incidents}"), WATCHED),
        _as(once(_GPU, answers), HEALTHY),
        _as(once(_GPU, seen), UNCERTAIN),
    )
    return " or ".join(arms)


def known(scope: Scope) -> str:
    """Return every GPU that is exported now or was exported recently, whatever its state.

    A GPU whose exporter's target is gone with its node is dropped after an hour: it was removed.
    """
    return once(_GPU, f"{scope.seen('draguard_gpu_info')} or {_missed(scope)}")


def _missed(scope: Scope) -> str:
    """Return GPUs that were shown, also in another node or under its former name."""
    shown = scope.seen("draguard_gpu_info")
    dead = f"{of_cluster('up')} == 0"
    long_ago = f"(({known_long_ago(shown)}) and on (cluster, job, instance) ({dead}))"
    arms = (known_recently(shown), long_ago)
    return " or ".join(f"({arm} unless on (cluster, UUID) {shown})" for arm in arms)


def _as(expr: str, what: State) -> str:
    return f"(0 * ({expr}) + {what.number})" if what.number else f"0 * ({expr})"


def counted(scope: Scope) -> str:
    """Return the number of GPUs by the label `state`, the rarest first, without empty states."""
    counts = f'count_values("state", {state(scope)})'
    for row in STATES:
        counts = f'label_replace({counts}, "state", "{row.word}", "state", "{row.number}")'
    return f"sort({counts})"


def not_well(scope: Scope) -> str:
    """Return the state of each GPU that is not healthy, with its number where it ever had one."""
    known_gpus = f"{known(scope)} or {scope.done('draguard_incident_info', _NAMED)}"
    anyhow = f"group by (cluster, UUID) ({known_gpus})"
    names = f"({number(scope)} or on (cluster, UUID) {anyhow})"
    worse = f"({state(scope)}) > {HEALTHY.number}"
    return f"({worse}) * on (cluster, UUID) group_left ({NUMBER}) {names}"


def worst_of_nodes(scope: Scope) -> str:
    """Return the worst state among the GPUs of each node."""
    return f"max by (cluster, Hostname) ({state(scope)})"
