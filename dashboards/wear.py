"""Panels on wear and limits: memory errors, remapped rows, clock events, links. Pure."""

from dashboards import stats
from dashboards.happenings import QUIET, QUIET_SAYS, happenings
from dashboards.panel import GREEN, ORANGE, PLAIN, RED, Meaning, Panel, Query, Stat, TimeSeries
from dashboards.promql import Scope, numbered, once

_OLD_BOARD = "the board or its driver does not tell it, or the GPU has slices"
_NO_LINKS = "the GPUs have no NVLinks"
_GPU = "Hostname, UUID"
_NUMBER = "GPU {{GPU}}"
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
    )


def memory(scope: Scope) -> tuple[Panel, ...]:
    return (
        _counted(
            scope,
            "Memory errors",
            "ECC errors by GPU since the driver was loaded. Corrected ones cost nothing by "
            "themselves; an uncorrected one costs the program that it hits.",
            ("draguard_gpu_ecc_volatile_errors_total", "severity"),
            _OLD_BOARD,
        ),
        _counted(
            scope,
            "Rows remapped",
            "Memory rows that were replaced, by what made it necessary. Many in a short time are a "
            "sign that a bank gives out. A GPU with slices does not tell.",
            ("draguard_gpu_remapped_rows_total", "cause"),
            _OLD_BOARD,
        ),
    )


def _counted(
    scope: Scope, title: str, says: str, counter: tuple[str, str], empty: str
) -> TimeSeries:
    """Return bars of a counter's steps by GPU and one more label: `counter` is both."""
    family, by = counter
    told = scope.seen(family)
    each = once(f"{_GPU}, link, {by}", f"increase({told}[$__rate_interval])")
    steps = f"sum by (cluster, {_GPU}, {by}) ({each})"
    return happenings(
        title,
        says,
        Query(
            expr=_of_numbers(steps, by, scope), legend=f"{_NUMBER} {{{{{by}}}}}", empty=_OLD_BOARD
        ),
        Query(expr=once("UUID", f"rate({told}[$__rate_interval])"), empty=empty),
    )


def _of_numbers(expr: str, by: str, scope: Scope) -> str:
    """Call GPUs by their number, in the order of which Prometheus then gives them."""
    return f"sum by (cluster, GPU, {by}) ({numbered(expr, scope)})"


def clock_events(scope: Scope) -> TimeSeries:
    told = scope.seen("draguard_gpu_clocks_event_seconds_total")
    held = once(f"{_GPU}, reason", f"rate({told}[$__rate_interval])")
    return TimeSeries(
        title="Clocks held down",
        says="Share of time in which something held the clocks of a GPU down: a power cap, heat, "
        "the power brake of the board. A limit that does its work, and no fault of the GPU; hw_* "
        f"for long is a matter of cooling or power supply. {QUIET_SAYS}",
        queries=(
            Query(
                expr=_of_numbers(held, "reason", scope),
                legend=f"{_NUMBER} {{{{reason}}}}",
                empty=_OLD_BOARD,
            ),
            Query(
                expr=f"0 * count({once('UUID', f'rate({told}[$__rate_interval])')})",
                legend=QUIET,
                empty=_OLD_BOARD,
            ),
        ),
        unit="percentunit",
        maximum=1,
        sparse=True,
        always=QUIET,
        colours={QUIET: PLAIN},
        width=8,
        height=7,
    )


def links_of(scope: Scope) -> tuple[Panel, ...]:
    """Return how the NVLinks are."""
    up = once(f"{_GPU}, link", scope.seen("draguard_nvlink_up"))
    down = numbered(f"sum by (cluster, {_GPU}) ({up} == bool 0)", scope)
    return (
        happenings(
            "NVLinks down",
            "Links of each GPU that are down. A lost GPU tells nothing of its links.",
            Query(expr=f"sum by (cluster, GPU) ({down})", legend=_NUMBER, empty=_NO_LINKS),
            Query(expr=up, empty=_NO_LINKS),
            none=_NO_LINKS,
        ),
        _counted(
            scope,
            "NVLink errors",
            "Errors on the links of each GPU by kind. Recoveries and replays that go on mean a bad "
            "cable, board or neighbour.",
            ("draguard_nvlink_errors_total", "kind"),
            f"{_NO_LINKS}, or do not tell errors by link",
        ),
    )
