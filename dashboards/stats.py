"""Single values, all of one size: numbers with colours, and states in words. Pure."""

from dashboards import health
from dashboards.panel import GREEN, ORANGE, RED, UNKNOWN, Meaning, Query, Stat, Step

BAD = (Step(0, GREEN), Step(1, RED))
"""For counts of faults: 0 is healthy, 1 or more is not."""
UNSEEN = (Step(0, GREEN), Step(1, UNKNOWN))
"""For counts of what cannot be seen: 1 or more has the colour of unknown."""
NOTABLE = (Step(0, GREEN), Step(1, ORANGE))
"""For counts that are worth a look if they are above 0."""
SIZE = 4
"""Columns and units of height; six stand side by side."""


def number(
    title: str,
    says: str,
    expr: str,
    steps: tuple[Step, ...],
    *,
    empty: str = "",
    unit: str = "short",
    none: str = "Unknown",
) -> Stat:
    """Return a value with a colour by step."""
    return Stat(
        title=title,
        says=says,
        queries=(Query(expr=expr, empty=empty),),
        unit=unit,
        decimals=None if unit == "bytes" else 0,
        steps=steps,
        none=none,
        width=SIZE,
        height=SIZE,
    )


def state(
    title: str,
    says: str,
    expr: str,
    words: tuple[Meaning, ...],
    *,
    empty: str,
    none: str = "Unknown",
    filled: bool = False,
) -> Stat:
    """Return a state in words."""
    return Stat(
        title=title,
        says=says,
        queries=(Query(expr=expr, empty=empty),),
        meanings=words,
        filled=filled,
        none=none,
        width=SIZE,
        height=SIZE,
    )


def worst(title: str, says: str, expr: str, *, empty: str) -> Stat:
    """Return the worst of some GPUs' states."""
    text = f"{says} {health.LEGEND}"
    return state(title, text, f"max({expr})", health.MEANINGS, empty=empty, filled=True)


def last_look(says: str, expr: str, *, empty: str, none: str) -> Stat:
    """Return the age of the data; data that is too old has the colour of unknown."""
    # A node's clock may be ahead of Prometheus'.
    fresh = (Step(-3600, GREEN), Step(health.STALE_SECONDS, UNKNOWN))
    return number("Data age", says, f"max({expr})", fresh, empty=empty, unit="s", none=none)
