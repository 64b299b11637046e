"""An incident of several classes, each with a row of its own: what is done, and what is said."""

from collections.abc import Mapping
from datetime import timedelta

import msgspec
import pytest

from exporter.model.node_health_condition import NvlinkHealth
from remediator.plan.view import NodeView
from remediator.policy.table import AT_ONCE, Evict, Mode, Policy
from tests.remediator.builders import (
    Stored,
    action,
    at,
    dead,
    gpu,
    policy,
    report,
    view,
    with_fields,
    xid,
)
from tests.remediator.playing import claim, pod, settle, tick

DAY = 86400.0
PATIENT = Evict(within=timedelta(minutes=30))


def with_rows(**changes: Mapping[str, object]) -> Policy:
    """Return a policy with changes to the rows of some classes."""
    rows = policy().rows
    return msgspec.structs.replace(
        policy(), rows=tuple(with_fields(row, **changes.get(row.fault_class, {})) for row in rows)
    )


def lost_as_well(seconds: float) -> NodeView:
    """An uncontained error, and then the GPU falls off the bus."""
    board = dead(0)
    board = with_fields(board, xids=(xid(95), *board.xids), recovery_action=action(1, 1, 2))
    return view(
        board,
        report=report(board, observed_at=at(seconds)),
        claims=(claim("gpu-0"),),
        pods=(pod(),),
        refusals={"u-train-0": "429 TooManyRequests"},
    )


@pytest.mark.parametrize(
    ("lost", "when"),
    [
        (AT_ONCE, "; not before 2026-01-05T12:00:04Z"),
        (
            PATIENT,
            "; by the Eviction API, not before 2026-01-05T12:00:04Z; "
            "deleted not before 2026-01-05T12:30:04Z",
        ),
        (
            Evict(then="wait"),
            "; by the Eviction API, not before 2026-01-05T12:00:04Z; "
            "deleted not before 2026-01-05T12:30:04Z",
        ),
    ],
)
def test_the_event_of_a_pod_names_the_end_by_the_class_that_deletes_first(
    lost: Evict, when: str
) -> None:
    asks, stored = with_rows(gpu={"evict": PATIENT}, lost={"evict": lost}), Stored()

    events = [event for _ in range(4) for event in tick(stored, lost_as_well(1), 1, asks).events]

    (planned,) = [event for event in events if event.reason == "PodEvictionPlanned"]
    assert planned.message.endswith(when)


def test_the_class_that_is_enforced_says_what_happens_and_not_the_worst_one() -> None:
    asks, stored = with_rows(lost={"mode": "incident-only"}), Stored()
    for seconds in (1, 5, 10, 20):
        settle(stored, lost_as_well(seconds), seconds, asks)

    status = stored.incident.status
    assert stored.effects() == {"gpu-0": "NoExecute"}
    assert status.message == "evidence complete, settle time over: pods are evicted"
    assert status.scope.would_taint == ()


@pytest.mark.parametrize("mode", ["off", "incident-only"])
def test_what_keeps_a_taint_is_named_whatever_is_done_about_it(mode: Mode) -> None:
    """The GPU was reset, and a link that is not used is down."""
    asks, stored = with_rows(fabric={"mode": mode}), Stored()
    links = NvlinkHealth(up=(0, 1), down=(3,), failed=(3,))
    sick = gpu(0, xid(95), nvlink=links, recovery_action=action(1, 1, 2))
    for seconds in (1, 5, 10):
        settle(stored, view(sick), seconds, asks)
    for seconds in (200, 1000, 2 * DAY):
        reset = gpu(
            0,
            xid(95),
            epoch=2,
            epoch_started=at(100),
            nvlink=links,
            recovery_action=action(0, 100, seconds),
        )
        settle(stored, view(reset, report=report(reset, observed_at=at(seconds))), seconds, asks)

    assert set(stored.effects()) == {"gpu-0"}
    assert "not untainted while nvlink-failed stands" in stored.incident.status.message


@pytest.mark.parametrize("lowered", [("lost",), ("lost", "gpu")], ids=["one", "both"])
def test_lowering_one_class_takes_no_taint_of_another_that_may_still_stand(
    lowered: tuple[str, ...],
) -> None:
    """The agent is silent: both faults may stand, and the rule names the worse one."""
    stored = Stored()
    for seconds in (1, 5, 10):
        settle(stored, lost_as_well(seconds), seconds)
    assert {rule.fault for rule in stored.rules.values()} == {"lost"}
    asks = with_rows(**{name: {"mode": "incident-only"} for name in lowered})
    silent = with_fields(lost_as_well(10), stale="the agent is silent")

    for seconds in (400, 4000):
        settle(stored, silent, seconds, asks)

    assert stored.effects() == ({"gpu-0": "NoExecute"} if len(lowered) == 1 else {})
