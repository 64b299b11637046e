"""Panels on wear and limits: memory errors, remapped rows, clock events, links. Pure."""

from dashboards import stats
from dashboards.happenings import happenings, quiet_says
from dashboards.panel import GREEN, ORANGE, PLAIN, RED, Meaning, Panel, Query, Stat, TimeSeries
from dashboards.promql import Scope, numbered, once

_OLD_BOARD = "the board or its driver does not report it, or the GPU has slices"
_NO_LINKS = "the GPUs have no NVLinks"
_GPU = "Hostname, UUID"
_NUMBER = "GPU {{GPU}}"
_NO = Meaning(0, "no", GREEN)
_NOT_THROTTLED = "no throttling"


def signs(scope: Scope) -> tuple[Panel, ...]:
    """Return what the driver reports about one GPU, as states."""
    return (
        _sign(
            "Recovery action",
            "The recovery action that the driver requests, read after any XID. none: no action is "
            "needed.",
            "draguard_gpu_recovery_action",
            scope,
            _ACTIONS,
        ),
        _sign(
            "Row remap pending",
            "A memory row is remapped at the next reset. Until then it may fail again.",
            "draguard_gpu_row_remap_pending",
            scope,
            (_NO, Meaning(1, "at the next reset", ORANGE)),
        ),
        _sign(
            "Row remap failed",
            "A memory row could not be remapped. Replace the GPU.",
            "draguard_gpu_row_remap_failure",
            scope,
            (_NO, Meaning(1, "replace GPU", RED)),
        ),
        _sign(
            "SRAM errors",
            "More uncorrectable SRAM errors than NVIDIA allows: run its field diagnostics. Reading "
            "it needs CAP_SYS_ADMIN.",
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
        f"{says} Unknown: the board or its driver does not report it, or it cannot be read now.",
        once(_GPU, scope.seen(family)),
        words,
        empty=_OLD_BOARD,
    )


def memory(scope: Scope) -> tuple[Panel, ...]:
    return (
        _counted(
            scope,
            "ECC errors",
            "ECC errors by GPU since the driver was loaded. Corrected errors have no effect by "
            "themselves. An uncorrected error ends the program that it affects.",
            ("draguard_gpu_ecc_volatile_errors_total", "severity"),
            _OLD_BOARD,
        ),
        _counted(
            scope,
            "Remapped rows",
            "Memory rows that were remapped, by cause. Many in a short time indicate a failing "
            "bank. A GPU with slices does not report it.",
            ("draguard_gpu_remapped_rows_total", "cause"),
            _OLD_BOARD,
        ),
    )


def _counted(
    scope: Scope, title: str, says: str, counter: tuple[str, str], empty: str
) -> TimeSeries:
    """Return bars of a counter's increase by GPU and a label; `counter` is its family and label."""
    family, by = counter
    series = scope.seen(family)
    each = once(f"{_GPU}, link, {by}", f"increase({series}[$__rate_interval])")
    steps = f"sum by (cluster, {_GPU}, {by}) ({each})"
    return happenings(
        title,
        says,
        Query(
            expr=_of_numbers(steps, by, scope), legend=f"{_NUMBER} {{{{{by}}}}}", empty=_OLD_BOARD
        ),
        Query(expr=once("UUID", f"rate({series}[$__rate_interval])"), empty=empty),
    )


def _of_numbers(expr: str, by: str, scope: Scope) -> str:
    """Label series with the GPU's number, so that Prometheus sorts them by it."""
    return f"sum by (cluster, GPU, {by}) ({numbered(expr, scope)})"


def clock_events(scope: Scope) -> TimeSeries:
    series = scope.seen("draguard_gpu_clocks_event_seconds_total")
    held = once(f"{_GPU}, reason", f"rate({series}[$__rate_interval])")
    return TimeSeries(
        title="Throttling",
        says="Share of time in which the clocks of a GPU were limited: a power cap, heat, the "
        "power brake of the board. Throttling is not a fault of the GPU. hw_* for a long time "
        f"points to cooling or power supply. {quiet_says(_NOT_THROTTLED)}",
        queries=(
            Query(
                expr=_of_numbers(held, "reason", scope),
                legend=f"{_NUMBER} {{{{reason}}}}",
                empty=_OLD_BOARD,
            ),
            Query(
                expr=f"0 * count({once('UUID', f'rate({series}[$__rate_interval])')})",
                legend=_NOT_THROTTLED,
                empty=_OLD_BOARD,
            ),
        ),
        unit="percentunit",
        maximum=1,
        sparse=True,
        always=_NOT_THROTTLED,
        colours={_NOT_THROTTLED: PLAIN},
        width=8,
        height=7,
    )


def links_of(scope: Scope) -> tuple[Panel, ...]:
    """Return panels on NVLinks that are down and on their errors."""
    up = once(f"{_GPU}, link", scope.seen("draguard_nvlink_up"))
    down = numbered(f"sum by (cluster, {_GPU}) ({up} == bool 0)", scope)
    return (
        happenings(
            "NVLinks down",
            "NVLinks of each GPU that are down. A lost GPU does not report its links.",
            Query(expr=f"sum by (cluster, GPU) ({down})", legend=_NUMBER, empty=_NO_LINKS),
            Query(expr=up, empty=_NO_LINKS),
            none="The GPUs have no NVLinks",
        ),
        _counted(
            scope,
            "NVLink errors",
            "Errors on the NVLinks of each GPU by kind. Continuing recoveries and replays indicate "
            "a bad cable, board or peer GPU.",
            ("draguard_nvlink_errors_total", "kind"),
            f"{_NO_LINKS}, or do not report errors by link",
        ),
    )
