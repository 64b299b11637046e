"""The one place that reads the wall clock; all other code takes the time as a value."""

import datetime as dt


def now() -> dt.datetime:
    """Return the current time, in UTC and aware of it."""
    return dt.datetime.now(dt.UTC)  # noqa: TID251 - the place the ban names
