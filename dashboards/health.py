"""The health of a GPU as one number, the worse the higher, so that the worst wins a roll-up. Pure.

Not knowing stands between well and sick: a node with seven healthy GPUs and a silent one is not
green, and a sick GPU is not hidden by a silent neighbour.
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
from dashboards.promql import Scope, age, label_node, of_cluster, once


class State(NamedTuple):
    number: int
    word: str
    colour: str
    says: str


HEALTHY = State(0, "Healthy", GREEN, "answers, the driver wants nothing done, nothing is open")
WATCHED = State(
    1,
    "Watched",
    BLUE,
    "answers, and an incident is open that is mild (suspect, pending) or waits out the soak",
)
UNCERTAIN = State(
    2,
    "Unknown",
    UNKNOWN,
    "seen, but nobody can tell: let go, unbound, in a virtual machine, NVML away",
)
OLD = State(
    3, "Stale", STALE, "the last look is older than three minutes, or the agent's Lease has run out"
)
GONE_SILENT = State(4, "Silent", SILENT, "shown within the last hour and by no exporter now")
SICK = State(
    5,
    "Sick",
    RED,
    "the driver wants a reset or more, a row could not be remapped, or an incident is open "
    "that is neither mild nor in its soak, whatever the policy does about it",
)
LOST = State(6, "Lost", DARK_RED, "fell off the bus, or hangs every call")

STATES = (HEALTHY, WATCHED, UNCERTAIN, OLD, GONE_SILENT, SICK, LOST)
MEANINGS: tuple[Meaning, ...] = tuple(Meaning(one.number, one.word, one.colour) for one in STATES)
LEGEND = " ".join(f"**{one.word}**: {one.says}." for one in reversed(STATES))
"""For descriptions."""

REMEMBERED = "1h"
"""For how long a GPU that no exporter shows any more is missed by name."""
STALE_SECONDS = 180
"""Six samples at the exporter's default of 30 s."""

_GPU = "Hostname, UUID"
_STANDS = 'phase!="Verifying"'
_GRAVE = 'class!~"suspect|pending"'


def state(scope: Scope) -> str:
    """Return the state of each GPU by cluster, Hostname and UUID; of `or`, the first arm wins."""
    seen = once(_GPU, scope.seen("draguard_gpu_info"))
    known = once(_GPU, f"present_over_time({scope.seen('draguard_gpu_info')}[{REMEMBERED}])")
    arms = (
        _as(once(_GPU, _lost(scope)), LOST),
        _as(once(_GPU, _sick(scope)), SICK),
        _as(f"{known} and on (cluster, UUID) ({_grave()})", SICK),
        _as(f"{known} unless on (cluster, Hostname, UUID) {seen}", GONE_SILENT),
        _as(_old(scope), OLD),
        _as(f"{seen} unless on (cluster, Hostname, UUID) {_answers(scope)}", UNCERTAIN),
        _as(f"{seen} and on (cluster, UUID) {of_cluster('draguard_incident_info')}", WATCHED),
        _as(_answers(scope), HEALTHY),
    )
    return " or ".join(arms)


def _as(expr: str, what: State) -> str:
    return f"(0 * ({expr}) + {what.number})" if what.number else f"0 * ({expr})"


def _lost(scope: Scope) -> str:
    return f"{scope.seen('draguard_gpu_up')} == 0 or {scope.seen('draguard_gpu_info', _IS_LOST)}"


_IS_LOST = 'presence="Lost"'


def _sick(scope: Scope) -> str:
    signs = ("recovery_action", "row_remap_failure", "sram_threshold_exceeded")
    return " or ".join(f"{scope.seen(f'draguard_gpu_{sign}')} > 0" for sign in signs)


def _grave() -> str:
    """Open incidents whose fault stands; one that nothing is done about is no better for it."""
    stands = of_cluster("draguard_incident_phase", _STANDS)
    return f"{stands} and on (cluster, incident) {of_cluster('draguard_incident_info', _GRAVE)}"


def _answers(scope: Scope) -> str:
    return once(_GPU, f"{scope.seen('draguard_gpu_up')} == 1")


def _old(scope: Scope) -> str:
    """Those of a page that is old, and those of a node whose agent is stale."""
    shown = scope.seen("draguard_gpu_info")
    page = f"{age('draguard_snapshot_timestamp_seconds')} > {STALE_SECONDS}"
    stale = of_cluster("draguard_agent_stale")
    node = label_node(f"{stale} == 1")
    of_page = f"({shown} and on (cluster, instance) ({page}))"
    return once(_GPU, f"{of_page} or ({shown} and on (cluster, Hostname) {node})")


def worst_of_nodes(scope: Scope) -> str:
    """Return the worst state among the GPUs of each node."""
    return f"max by (cluster, Hostname) ({state(scope)})"


def with_index(scope: Scope) -> str:
    """Return `state` with NVML's index as `gpu`, the last one that was seen; some never had one."""
    one = state(scope)
    shown = scope.seen("draguard_gpu_info", 'gpu!=""')
    index = once("UUID, gpu", f"last_over_time({shown}[{REMEMBERED}])")
    latest = f"topk by (cluster, UUID) (1, {index})"
    return f"(({one}) * on (cluster, UUID) group_left (gpu) {latest}) or on (cluster, UUID) ({one})"
