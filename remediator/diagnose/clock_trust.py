"""Whether our own clock may be trusted, by how far it is from the API server's. Pure."""

from datetime import timedelta

TRUSTED = timedelta(seconds=30)
"""So far apart dates of two replicas may be; far less than any soak time, and more than a busy
API server needs for an answer."""


def clock_doubt(ahead: timedelta) -> str:
    """Return why no time that we count may end, "" where it may.

    `ahead` is how far our clock is ahead of the API server's, negative where it is behind.
    """
    if abs(ahead) <= TRUSTED:
        return ""
    # Without the figure: it is in a metric, and would make each status another one.
    return f"our clock and the API server's are more than {TRUSTED.total_seconds():.0f} s apart"
