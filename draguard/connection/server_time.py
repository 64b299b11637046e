"""What time it is, by the API server's clock: a person's machine may be hours off.

Whether an agent is alive, and until when an answer counts, is told by clocks of
the cluster. A laptop that slept would take the dead for the living.
"""

from datetime import datetime, timedelta

from draguard.connection.whoami import Caller, caller
from kubeapi import clock
from kubeapi.client import ApiError, Client

UNTOLD = timedelta(seconds=3)
"""The server tells whole seconds, and its answer takes a moment: less is no difference."""


def ahead(client: Client) -> timedelta:
    """Return how far the server's clock is ahead of ours; nothing where it does not tell."""
    try:
        return ahead_by(caller(client))
    except ApiError:
        return timedelta()


def ahead_by(told: Caller) -> timedelta:
    """Return the same from an answer that has just come."""
    if told.at is None:
        return timedelta()
    difference = told.at - clock.now()
    return difference if abs(difference) > UNTOLD else timedelta()


def now(difference: timedelta) -> datetime:
    """Return the server's time."""
    return clock.now() + difference
