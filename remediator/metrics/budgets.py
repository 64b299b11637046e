"""Use and size of each limit of the policy as samples. Pure."""

from collections.abc import Iterable

from remediator.plan.spending import Used
from serving.families import Rows, labels


def budget_rows(limits: Iterable[Used]) -> Rows:
    """Return for each limit the GPUs that count for it, and its size in GPUs."""
    known = [(labels(limit.budget, limit.ground), limit) for limit in limits]
    return {
        "budget_used_gpus": {row: float(limit.used) for row, limit in known},
        "budget_limit_gpus": {row: float(limit.limit) for row, limit in known},
    }
