"""The remediator's Lease into its leader, and whether that can be trusted. Pure."""

from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from draguard.phrases import age, short
from kubeapi.lease import Lease, LeaseSpec
from remediator.controller.agents import LEASE_NAME

LEADERLESS = timedelta(seconds=30)
"""Without a renewal for so long, another replica should lead; a fail-over takes 12 s."""


class Leader(msgspec.Struct, frozen=True):
    holder: str = ""
    renewed: datetime | None = None
    problem: str = ""
    """Why nothing seems to lead, "" if it does."""


def leader_of(leases: Iterable[Lease], now: datetime) -> Leader:
    """Return the holder of the remediator's Lease, checked against the server's time."""
    found = (lease.spec for lease in leases if lease.metadata.name == LEASE_NAME)
    spec = next(found, LeaseSpec())
    holder, renewed = spec.holder_identity or "", spec.renew_time
    return Leader(holder, renewed, leader_problem(holder, renewed, now))


def leader_problem(holder: str | None, renewed: datetime | None, now: datetime) -> str:
    """Return why no remediator seems to lead, "" if one does."""
    if not holder or renewed is None:
        return "no remediator leads: nothing is tainted or untainted"
    if now - renewed > LEADERLESS:
        since = age(renewed, now)
        return f"{holder} last renewed its Lease {since} ago, and no other replica has taken over"
    if renewed - now > LEADERLESS:
        return (
            f"{holder} dates its Lease {short(renewed - now)} ahead of the API server's clock: "
            "whether it leads is unknown"
        )
    return ""
