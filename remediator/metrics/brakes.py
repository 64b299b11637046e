"""Emergency stop, open maintenance windows and correlation as samples. Pure."""

from datetime import datetime

from remediator.plan.brakes import emergency_stop
from remediator.plan.correlation import Waves
from remediator.plan.view import Fleet
from remediator.policy.table import Policy
from serving.families import Rows, labels


def brake_rows(fleet: Fleet, policy: Policy, now: datetime) -> Rows:
    """Return the samples of the emergency stop, the maintenance windows and correlation."""
    waves = Waves(fleet, policy, now)
    open_now = [window for window in policy.maintenance if window.when.open_until(now) is not None]
    return {
        "emergency_stop": {(): float(bool(emergency_stop(fleet, policy)))},
        "maintenance_windows_open": {(): float(len(open_now))},
        "correlation_in_force": {labels(why): float(n) for why, n in waves.in_force().items()},
    }
