"""What closed incidents are still good for: counting repeats, until they are pruned. Pure."""

from datetime import datetime

from remediator.objects.incident import Incident
from remediator.policy.table import Policy


def pruned(incidents: tuple[Incident, ...], policy: Policy, now: datetime) -> tuple[Incident, ...]:
    """Return closed incidents that are too old to matter."""
    del incidents, policy, now
    return ()
