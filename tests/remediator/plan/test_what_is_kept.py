"""What an incident keeps of what it knew, and whom it believes."""

import msgspec
import pytest

from remediator.diagnose.fault import Fault, Source, Unknown
from remediator.diagnose.verdict import verdict
from remediator.model.claim import Claim
from remediator.model.incident_status import EVICTION_BLOCKED, SEEN_LIMIT, Condition, SeenSignal
from remediator.plan.evictions import plan_evictions
from remediator.plan.incidents import without_forged
from remediator.plan.signals import with_reported
from tests.remediator.builders import (
    Stored,
    at,
    dead,
    gpu,
    make_board,
    make_granted,
    policy,
    view,
    with_fields,
    xid,
)
from tests.remediator.plan.fleets import an_incident
from tests.remediator.playing import claim, pod, settle


def fault(*sources: Source) -> Fault:
    return Fault(
        fault_class="gpu",
        cause="xid-95",
        last_seen=at(0),
        evidence="",
        sources=sources,
    )


@pytest.mark.parametrize(
    ("known", "by", "believed"),
    [
        ((), (("Syslog",),), 1),
        (("Syslog",), (("Syslog",),), 1),
        (("Kmsg",), (("Syslog",),), 0),
        ((), (("Syslog",), ("Nvml", "Syslog")), 1),
        (("Syslog",), (("Syslog",), ("Kmsg",)), 1),
    ],
)
def test_a_forged_line_is_believed_only_while_nothing_better_is_known(
    known: tuple[Source, ...], by: tuple[tuple[Source, ...], ...], believed: int
) -> None:
    found = without_forged([fault(*sources) for sources in by], an_incident("a0", sources=known))
    assert len(found) == believed
    assert len(by) == 1 or not found[0].forgeable


def test_new_signals_take_the_room_of_silent_ones() -> None:
    before = tuple(
        SeenSignal(code=1000 + code, count=1, first_seen_time=at(0)) for code in range(SEEN_LIMIT)
    )
    fresh = gpu(0, xid(48), xid(95), xid(119), xid(13), xid(9999))
    kept = with_reported(make_board(verdict(fresh), gpu=fresh), before)
    assert kept is not None
    assert len(kept) == SEEN_LIMIT
    assert {signal.code for signal in kept} >= {48, 95, 119}
    assert not {signal.code for signal in kept} & {13, 9999}, "they are no faults"


def test_not_knowing_leaves_the_words_of_blocked_evictions_as_they_were() -> None:
    reported = tuple(
        Condition(type=kind, status="True", reason="x", message=text, last_transition_time=at(0))
        for kind, text in (("Deferred", "another"), (EVICTION_BLOCKED, "web"))
    )
    board = make_board(Unknown("the agent is silent"))
    granted = make_granted(incident=an_incident("a0", conditions=reported))
    assert plan_evictions(board, granted, at(9)).blocked == "web"


@pytest.mark.parametrize(
    ("published", "fields", "incomplete"),
    [
        (False, {"plugin_resources": ("nvidia.com/gpu",)}, "True"),
        (True, {"plugin_resources": ("nvidia.com/gpu",)}, "False"),
        (False, {}, "False"),
        (False, {"plugin_resources": ("nvidia.com/gpu",), "running": False}, "False"),
        (False, {"plugin_resources": ("nvidia.com/gpu",), "extended_claim": "x"}, "False"),
    ],
)
def test_a_pod_to_which_a_device_plugin_may_have_given_the_gpu_is_named(
    published: bool, fields: dict[str, object], incomplete: str
) -> None:
    """The incident has no name for it: only the kubelet knows who got which."""
    stored, seen = Stored(), view(dead(), pods=(pod("train-0", claims=(), **fields),))
    settle(stored, seen if published else with_fields(seen, inventory=()), 1)
    stated = {condition.type: condition for condition in stored.incident.status.conditions}

    assert stated["AffectedPodsIncomplete"].status == incomplete
    assert ("given it to team/train-0" in stated["AffectedPodsIncomplete"].message) == (
        incomplete == "True"
    )


@pytest.mark.parametrize(("pods", "incomplete"), [(None, "True"), ((), "False")])
def test_pods_that_cannot_be_listed_are_reported_missing(
    pods: tuple[()] | None, incomplete: str
) -> None:
    stored = Stored()
    for second in (1, 5):
        settle(stored, view(dead(), claims=(claim("gpu-0"),), pods=pods), second)
    stated = {condition.type: condition for condition in stored.incident.status.conditions}
    assert stated["AffectedPodsIncomplete"].status == incomplete
    assert ("could not be listed" in stated["AffectedPodsIncomplete"].message) == (pods is None)


@pytest.mark.parametrize(
    ("count", "named"), [(1, "team/a"), (3, "team/a, team/b, team/c"), (4, "team/c and 1 more")]
)
def test_three_claims_that_ignore_the_taint_are_named(count: int, named: str) -> None:
    stored, mild = Stored(), policy(ceiling="NoSchedule")
    settle(stored, view(dead()), 100, mild)
    stored.rules = {
        name: msgspec.structs.replace(rule, time_added=at(100))
        for name, rule in stored.rules.items()
    }
    settle(
        stored,
        view(dead(), claims=[allocated(device) for device in "abcd"[:count]], pods=()),
        140,
        mild,
    )
    (reported,) = [
        condition
        for condition in stored.incident.status.conditions
        if condition.type == "TaintIgnored"
    ]
    assert reported.message.endswith(named)


def allocated(name: str) -> Claim:
    held = claim("gpu-0", name)
    assert held.status is not None
    assert held.status.allocation is not None
    allocation = msgspec.structs.replace(held.status.allocation, allocation_timestamp=at(131))
    status = msgspec.structs.replace(held.status, allocation=allocation)
    metadata = msgspec.structs.replace(held.metadata, name=name)
    return msgspec.structs.replace(held, metadata=metadata, status=status)
