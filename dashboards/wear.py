"""Panels on wear and limits: memory errors, remapped rows, clock events, links. Pure."""

import msgspec

from dashboards import stats
from dashboards.panel import GREEN, ORANGE, RED, Meaning, Panel, Query, Stat, TimeSeries
from dashboards.promql import Scope, once

_OLD_BOARD = "the board or its driver does not tell it, or the GPU has slices"
_GPU = "Hostname, UUID"
_NO = Meaning(0, "no", GREEN)


def signs(scope: Scope) -> tuple[Panel, ...]:
    """Return the driver's own words on one GPU, as states."""
    return (
        _sign(
            "What the driver wants",
            "The driver's recovery action, read after any XID. none is the driver's word that the "
            "GPU may go on.",
            "draguard_gpu_recovery_action",
            scope,
            _ACTIONS,
        ),
        _sign(
            "Row remap pending",
            "A memory row is taken out of use with the next reset; until then it may fail again.",
            "draguard_gpu_row_remap_pending",
            scope,
            (_NO, Meaning(1, "at the next reset", ORANGE)),
        ),
        _sign(
            "Row remap failed",
            "A row could not be remapped: the GPU has to be replaced.",
            "draguard_gpu_row_remap_failure",
            scope,
            (_NO, Meaning(1, "replace it", RED)),
        ),
        _sign(
            "SRAM errors",
            "More uncorrectable SRAM errors than NVIDIA allows: run its field diagnostics. Read "
            "by root only.",
            "draguard_gpu_sram_threshold_exceeded",
            scope,
            (_NO, Meaning(1, "above the threshold", RED)),
        ),
    )


_ACTIONS = (
    Meaning(0, "none", GREEN),
    Meaning(1, "GPU reset", RED),
    Meaning(2, "node reboot", RED),
    Meaning(3, "drain P2P", ORANGE),
    Meaning(4, "drain and reset", RED),
    Meaning(5, "recover IMEX domain", ORANGE),
    Meaning(6, "bus reset", RED),
    Meaning(7, "system reboot", RED),
)


def _sign(title: str, says: str, family: str, scope: Scope, words: tuple[Meaning, ...]) -> Stat:
    return stats.state(
        title,
        f"{says} Unknown: the board or its driver does not tell, or nobody can read it now.",
        once(_GPU, scope.seen(family)),
        words,
        empty=_OLD_BOARD,
        filled=True,
    )


def memory(scope: Scope) -> tuple[Panel, ...]:
    return (
        _rate(
            "Memory errors",
            "ECC errors since the driver was loaded. Corrected ones cost nothing by themselves; an "
            "uncorrected one costs the program that it hits.",
            f"sum by (cluster, {_GPU}, severity) "
            f"({_increase('draguard_gpu_ecc_volatile_errors_total', scope)})",
            "{{UUID}} {{severity}}",
        ),
        _rate(
            "Rows remapped",
            "Memory rows that were replaced, by what made it necessary. Many in a short time are a "
            "sign that a bank gives out. A GPU with slices does not tell.",
            f"sum by (cluster, {_GPU}, cause) "
            f"({_increase('draguard_gpu_remapped_rows_total', scope)})",
            "{{UUID}} {{cause}}",
        ),
    )


def _increase(family: str, scope: Scope) -> str:
    return f"increase({scope.seen(family)}[$__rate_interval])"


def _rate(title: str, says: str, expr: str, legend: str, unit: str = "short") -> TimeSeries:
    return TimeSeries(
        title=title,
        says=says,
        queries=(Query(expr=expr, legend=legend, empty=_OLD_BOARD),),
        unit=unit,
        width=8,
    )


def clock_events(scope: Scope) -> TimeSeries:
    held = f"rate({scope.seen('draguard_gpu_clocks_event_seconds_total')}[$__rate_interval])"
    drawn = _rate(
        "Clocks held down",
        "Share of time in which something held the clocks down: a power cap, heat, the power "
        "brake of the board. A limit that does its work, and no fault of the GPU; hw_* for long is "
        "a matter of cooling or power supply.",
        f"sum by (cluster, {_GPU}, reason) ({held})",
        "{{UUID}} {{reason}}",
        "percentunit",
    )
    return msgspec.structs.replace(drawn, maximum=1)


def links_of(scope: Scope) -> tuple[Panel, ...]:
    """Return how the NVLinks are."""
    errors = f"increase({scope.seen('draguard_nvlink_errors_total')}[$__rate_interval])"
    up = once(f"{_GPU}, link", scope.seen("draguard_nvlink_up"))
    return (
        TimeSeries(
            title="NVLinks down",
            says="Links of each GPU that are down. A GPU without NVLinks has no line; a lost GPU "
            "has none either.",
            queries=(
                Query(
                    expr=f"sum by (cluster, {_GPU}) ({up} == bool 0)",
                    legend="{{UUID}}",
                    empty="the GPUs have no NVLinks",
                ),
            ),
            unit="short",
            decimals=0,
            stepped=True,
            width=8,
        ),
        TimeSeries(
            title="NVLink errors",
            says="Errors on the links of each GPU by kind. Recoveries and replays that go on mean "
            "a bad cable, board or neighbour.",
            queries=(
                Query(
                    expr=f"sum by (cluster, {_GPU}, kind) ({errors})",
                    legend="{{UUID}} {{kind}}",
                    empty="the GPUs have no NVLinks, or do not tell errors by link",
                ),
            ),
            unit="short",
            width=8,
        ),
    )
