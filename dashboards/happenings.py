"""Panels on rare events, as bars: an error, a remapped row, a step that was taken.

Most of the time there are no events, and one line at 0 for all GPUs is easier to read than fifty.
Pure.
"""

from collections.abc import Mapping

from dashboards.panel import PLAIN, Query, TimeSeries
from dashboards.promql import LEADING, of_cluster, once

NO_LEADER = "no remediator leads"
_NO_LEADER_SAYS = "No remediator leads"
QUIET = "no errors"
"""The legend of the line at 0."""
_NONE = "none"
"""The same where what is counted is no error."""


def quiet_says(legend: str = QUIET) -> str:
    """Return how the line at 0 reads."""
    return (
        f"Series that are 0 are not drawn. The line `{legend}` at 0 means that there is data; "
        "without it the value is unknown."
    )


def happenings(
    title: str,
    says: str,
    what: Query,
    reported: Query,
    *,
    width: int = 8,
    height: int = 7,
    none: str = "Unknown",
    colours: Mapping[str, str] | None = None,
    at_0: str = QUIET,
) -> TimeSeries:
    """Return bars of values above 0; `reported` has a row wherever an event would be reported.

    `at_0` is the legend of the line at 0.
    """
    # Gives the bars their width, too.
    quiet = Query(expr=f"0 * count({reported.expr})", legend=at_0, empty=reported.empty)
    return TimeSeries(
        title=title,
        says=f"{says} {quiet_says(at_0)}",
        queries=(what, quiet),
        unit="short",
        decimals=0,
        bars=True,
        sparse=True,
        always=at_0,
        colours={**(colours or {}), at_0: PLAIN},
        none=none,
        width=width,
        height=height,
    )


def taken(
    title: str, says: str, counter: str, by: str, *, width: int = 8, over: str = ""
) -> TimeSeries:
    """Return bars of the remediators' counters; the first value of a new one counts in full.

    Each replica counts only what it did itself, so replicas are added up. So are series that differ
    only in the labels `over`.
    """
    counted, page = of_cluster(counter), of_cluster("draguard_remediator_build_info")
    ago = "offset $__rate_interval"
    first = f"({counted} unless {counted} {ago}) and on (cluster, instance) {page} {ago}"
    labels = ", ".join(part for part in ("instance", by, over) if part)
    each = once(labels, f"({first}) or increase({counted}[$__rate_interval])")
    steps = Query(
        expr=f"sum by ({by}) ({each})",
        legend=" ".join(f"{{{{{label}}}}}" for label in by.split(", ")),
        empty=f"{NO_LEADER}, or none was counted since its start",
        whole="the first value of a new counter counts in full",
    )
    quiet = Query(expr=LEADING, empty=NO_LEADER)
    return happenings(title, says, steps, quiet, width=width, none=_NO_LEADER_SAYS, at_0=_NONE)
