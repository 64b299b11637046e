"""How full the limits of the policy are, as samples. Pure."""

from collections.abc import Iterable

from remediator.metrics.rows import Rows, labels
from remediator.plan.spending import Used


def budget_rows(limits: Iterable[Used]) -> Rows:
    """Return what counts for each limit, and what it may reach, in GPUs."""
    known = [(labels(limit.budget, limit.ground), limit) for limit in limits]
    return {
        "budget_used_gpus": {row: float(limit.used) for row, limit in known},
        "budget_limit_gpus": {row: float(limit.limit) for row, limit in known},
    }
