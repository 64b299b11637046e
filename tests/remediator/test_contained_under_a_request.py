"""A contained error is over when it is logged, also while the driver requests a reset for it."""

import msgspec
import pytest

from exporter.model.node_health import MemorySlices
from remediator.plan.view import NodeView
from remediator.policy.limits import LIFTED
from remediator.policy.table import SHIPPED, Policy
from tests.remediator.builders import (
    ALL_SEVEN,
    SLICE_5,
    Stored,
    action,
    at,
    mig_gpu,
    policy,
    report,
    view,
    xid,
)
from tests.remediator.playing import claim, pod, settle

HOUR, DAY = 3600.0, 86400.0
ENFORCED = policy(LIFTED)
OBSERVED = msgspec.structs.replace(ENFORCED, rows=tuple(SHIPPED))
STOPPED = msgspec.structs.replace(ENFORCED, stopped="ana: bad driver")


def node_at(second: float, *, job_since: float | None) -> NodeView:
    """XID 94 on slice 5; ever since the driver requests to drain and reset (recovery action 4)."""
    error = msgspec.structs.replace(xid(94, gi=5), placement=MemorySlices(4, 1), gi_profile_id=19)
    sick = mig_gpu(0, error, recovery_action=action(4, 1, second))
    runs = job_since is not None and second >= job_since
    return view(
        sick,
        report=report(sick, observed_at=at(second)),
        claims=(claim(SLICE_5, "job"),) if runs else (),
        pods=(pod("job", started=at(job_since or 0)),) if runs else (),
    )


@pytest.mark.parametrize("before", [OBSERVED, STOPPED], ids=["only observed", "stopped"])
@pytest.mark.parametrize("job_since", [-60.0, 5 * HOUR], ids=["from before", "from later"])
def test_a_job_is_not_evicted_for_an_error_of_a_day_ago(before: Policy, job_since: float) -> None:
    stored = Stored()
    for second in (2, 60, 6 * HOUR, DAY - 10):
        settle(stored, node_at(second, job_since=job_since), second, before)
    assert "NoExecute" not in stored.effects().values()

    for second in (DAY, DAY + 4, DAY + 60):
        settle(stored, node_at(second, job_since=job_since), second, ENFORCED)

    assert stored.effects() == dict.fromkeys(ALL_SEVEN, "NoSchedule")


def test_a_job_of_that_moment_is_evicted_from_its_slice_alone() -> None:
    stored = Stored()
    for second in (2, 6):
        settle(stored, node_at(second, job_since=-60), second, ENFORCED)

    effects = stored.effects()
    assert effects.pop(SLICE_5) == "NoExecute"
    assert set(effects.values()) <= {"NoSchedule"}
