"""Use and size of each limit of the policy as samples. Pure."""

from collections.abc import Iterable

from remediator.metrics.rows import Rows, labels
from remediator.plan.spending import Used


def budget_rows(limits: Iterable[Used]) -> Rows:
    """Return for each limit the GPUs that count for it, and its size in GPUs."""
    known = [(labels(limit.budget, limit.ground), limit) for limit in limits]
    return {
        "budget_used_gpus": {row: float(limit.used) for row, limit in known},
        "budget_limit_gpus": {row: float(limit.limit) for row, limit in known},
    }
