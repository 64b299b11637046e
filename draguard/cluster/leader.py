"""The remediator's Lease into its leader, and whether that can be trusted. Pure."""

from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from draguard.phrases import age, short
from exporter.model.device import GpuDrivers, driver_names
from kubeapi.lease import Lease, LeaseMeta
from remediator.controller.agents import DRIVERS, LEASE_NAME, VERSION
from remediator.controller.policy_on_lease import PolicyRecord, read_record

LEADERLESS = timedelta(seconds=30)
"""Without a renewal for so long, another replica should lead; a fail-over takes 12 s."""


class Leader(msgspec.Struct, frozen=True):
    holder: str = ""
    renewed: datetime | None = None
    problem: str = ""
    """Why nothing seems to lead, "" if it does."""
    version: str = ""
    """Of the leader; "" where it does not publish it."""
    policy: PolicyRecord = PolicyRecord()
    """What it obeys, as it has published it; also what the last leader has."""


def leader_of(leases: Iterable[Lease], now: datetime) -> Leader:
    """Return the holder of the remediator's Lease, checked against the server's time."""
    lease = next((each for each in leases if each.metadata.name == LEASE_NAME), Lease(LeaseMeta()))
    holder, renewed = lease.spec.holder_identity or "", lease.spec.renew_time
    notes = lease.metadata.annotations
    return Leader(
        holder=holder,
        renewed=renewed,
        problem=leader_problem(holder, renewed, now),
        version=notes.get(VERSION, ""),
        policy=read_record(notes),
    )


def drivers_of(lease: Lease | None) -> GpuDrivers:
    """Return the drivers of GPUs that a leader has recorded; none where it is not known."""
    noted = lease.metadata.annotations.get(DRIVERS, "") if lease else ""
    return driver_names(noted.split(","))


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
