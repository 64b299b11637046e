"""Panels on what happens now and then, as bars: an error, a remapped row, a step that was taken.

Most of the time there is none, and a line at 0 for each of fifty GPUs says less than one for all.
Pure.
"""

from collections.abc import Mapping

from dashboards.panel import PLAIN, Query, TimeSeries

QUIET = "quiet"
"""The legend of the line at 0."""
QUIET_SAYS = (
    f"What is 0 is not drawn; the line `{QUIET}` says that somebody was there to tell of more."
)


def happenings(
    title: str,
    says: str,
    what: Query,
    told: Query,
    *,
    width: int = 8,
    height: int = 7,
    none: str = "Unknown",
    colours: Mapping[str, str] | None = None,
) -> TimeSeries:
    """Return bars of what is above 0; `told` has a row where one would have been told of."""
    # Gives the bars their width, too.
    quiet = Query(expr=f"0 * count({told.expr})", legend=QUIET, empty=told.empty)
    return TimeSeries(
        title=title,
        says=f"{says} {QUIET_SAYS}",
        queries=(what, quiet),
        unit="short",
        decimals=0,
        bars=True,
        sparse=True,
        always=QUIET,
        colours={**(colours or {}), QUIET: PLAIN},
        none=none,
        width=width,
        height=height,
    )
