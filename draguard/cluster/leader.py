"""Who leads, and whether that can be believed, from the remediator's Lease. Pure."""

from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from draguard.phrases import age, short
from kubeapi.lease import Lease, LeaseSpec
from remediator.controller.leader import LEASE_NAME

LEADERLESS = timedelta(seconds=30)
"""After so long without a renewal somebody else should lead; fail-over takes 12 s."""


class Leading(msgspec.Struct, frozen=True):
    holder: str = ""
    renewed: datetime | None = None
    why: str = ""
    """Why nobody is believed to lead, "" when somebody is."""


def leading(leases: Iterable[Lease], now: datetime) -> Leading:
    """Judge the remediator's Lease by the server's time."""
    found = (one.spec for one in leases if one.metadata.name == LEASE_NAME)
    spec = next(found, LeaseSpec())
    holder, renewed = spec.holder_identity or "", spec.renew_time
    return Leading(holder, renewed, doubt(holder, renewed, now))


def doubt(holder: str | None, renewed: datetime | None, now: datetime) -> str:
    """Say why nobody is believed to lead, "" when somebody is."""
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
