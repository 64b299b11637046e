"""Application XIDs put down to those who held the GPU, from one report to the next."""

from datetime import timedelta

import msgspec
import pytest

from exporter.model.node_health import GpuHealth, XidRecord
from remediator.controller.crashes import Crashes
from remediator.diagnose.fault import Healthy, Sick
from remediator.model.claim import Claim
from remediator.model.pod import PodFacts
from remediator.plan.boards import bind_boards
from remediator.plan.view import NodeView
from tests.remediator.builders import (
    SLICE_5,
    Stored,
    action,
    at,
    gpu,
    mig_gpu,
    report_with,
    uuid,
    view,
    with_fields,
    xid,
)
from tests.remediator.playing import claim, settle

TEAMS = ("team-a", "team-b")


def held(device: str, namespace: str, pod: str = "train-0", *, admin: bool = False) -> Claim:
    one = claim(device, f"{namespace}-{pod}")
    assert one.status is not None
    assert one.status.allocation is not None
    meta = msgspec.structs.replace(one.metadata, namespace=namespace)
    if not admin:
        return msgspec.structs.replace(one, metadata=meta)
    (result,) = one.status.allocation.devices.results
    devices = msgspec.structs.replace(
        one.status.allocation.devices,
        results=(msgspec.structs.replace(result, admin_access=True),),
    )
    allocation = msgspec.structs.replace(one.status.allocation, devices=devices)
    status = msgspec.structs.replace(one.status, allocation=allocation)
    return msgspec.structs.replace(one, metadata=meta, status=status)


def pod(namespace: str, name: str = "train-0", owner: str = "Job/train") -> PodFacts:
    full = f"{namespace}-{name}"
    return PodFacts(namespace=namespace, name=full, uid=f"u-{full}", owner=owner)


PODS = tuple(map(pod, TEAMS))


def seen(hours: float, *gpus: GpuHealth, holder: str = "", **fields: object) -> NodeView:
    """A node as it is reported at some hour, its first GPU held by a team."""
    one = view(*gpus, pods=PODS, claims=(held("gpu-0", holder),) if holder else ())
    at_that_time = report_with(one, observed_at=at(hours * 3600 + 10))
    return with_fields(one, report=at_that_time, **fields)


def crashed(hours: float, count: int, code: int = 31) -> XidRecord:
    return xid(code, seen=hours * 3600, count=count)


def healthy(index: int, *records: XidRecord, hours: float = 0) -> GpuHealth:
    return gpu(index, *records, recovery_action=action(observed=hours * 3600 + 9))


def test_errors_of_two_teams_on_one_gpu_make_it_suspect() -> None:
    crashes = Crashes()

    assert crashes.find_suspects(seen(0, healthy(0, crashed(0, 7)))) == {}
    assert crashes.find_suspects(seen(1, healthy(0, crashed(1, 8)), holder=TEAMS[0])) == {}
    last = seen(3, healthy(0, crashed(3, 9), hours=3), healthy(1, hours=3), holder=TEAMS[1])
    found = crashes.find_suspects(last)

    assert set(found) == {uuid(0)}
    assert found[uuid(0)].cause == "xid-31-repeated"
    first, second = bind_boards(msgspec.structs.replace(last, suspects=found), at(1))
    assert isinstance(first.verdict, Sick)
    assert isinstance(second.verdict, Healthy)


def test_what_was_there_at_the_first_sight_or_in_another_boot_counts_for_nobody() -> None:
    crashes = Crashes()
    crashes.find_suspects(seen(0, healthy(0, crashed(0, 7)), holder=TEAMS[0]))
    again = seen(1, healthy(0, crashed(1, 9)), holder=TEAMS[1])
    rebooted = with_fields(again, report=report_with(again, boot_id="boot-2"))

    assert not crashes.needs_pods(rebooted)
    assert crashes.find_suspects(rebooted) == {}
    third = seen(2, healthy(0, crashed(2, 10)), holder=TEAMS[0])
    third = with_fields(third, report=report_with(third, boot_id="boot-2"))
    assert crashes.find_suspects(third) == {}


def test_pods_are_requested_only_when_such_an_error_was_counted() -> None:
    crashes = Crashes()
    before = seen(0, healthy(0, crashed(0, 7), xid(43)))
    risen = seen(1, healthy(0, crashed(1, 8), xid(43)))
    other = seen(1, healthy(0, crashed(0, 7), xid(43, count=90), xid(95)))

    assert not crashes.needs_pods(before)
    crashes.find_suspects(before)
    assert not crashes.needs_pods(before)
    assert not crashes.needs_pods(other)
    assert crashes.needs_pods(risen)
    assert not crashes.needs_pods(with_fields(risen, stale="silent"))
    crashes.find_suspects(risen)
    assert not crashes.needs_pods(risen)


@pytest.mark.parametrize(
    "spoiled",
    [
        {"pods": None},
        {"pods": ()},
        {"claims": ()},
        {"claims": (held("gpu-1", TEAMS[1]),)},
        {"claims": (held("gpu-0", TEAMS[1], admin=True),)},
        {"claims": (held("gpu-0", TEAMS[1]), held("gpu-0", TEAMS[0]))},
        {"claims": (held("gpu-0", TEAMS[1]), held("gpu-0", TEAMS[1], "unlisted"))},
        {"stale": "silent"},
        {"report": None},
        {"elsewhere": {uuid(0): ("node-b",)}},
    ],
)
def test_an_error_that_cannot_be_put_down_to_one_owner_accuses_nobody(
    spoiled: dict[str, object],
) -> None:
    crashes = Crashes()
    crashes.find_suspects(seen(0, healthy(0)))
    crashes.find_suspects(seen(1, healthy(0, crashed(1, 1)), holder=TEAMS[0]))
    second = seen(2, healthy(0, crashed(2, 2)), holder=TEAMS[1])

    crashes.find_suspects(with_fields(second, **spoiled))

    assert crashes.find_suspects(seen(3, healthy(0, crashed(2, 2)))) == {}


def test_a_monitor_with_admin_access_is_no_second_owner() -> None:
    crashes = Crashes()
    monitor = held("gpu-0", "monitoring", admin=True)
    found = crashes.find_suspects(seen(0, healthy(0)))
    for hour, team in enumerate(TEAMS, 1):
        claims = (held("gpu-0", team), monitor)
        found = crashes.find_suspects(seen(hour, healthy(0, crashed(hour, hour)), claims=claims))

    assert set(found) == {uuid(0)}


def test_a_pod_without_a_controller_is_its_own_owner() -> None:
    crashes = Crashes()
    bare = tuple(pod(team, owner="") for team in TEAMS)
    found = crashes.find_suspects(seen(0, healthy(0)))
    for hour, team in enumerate(TEAMS, 1):
        one = seen(hour, healthy(0, crashed(hour, hour)), holder=team, pods=bare)
        found = crashes.find_suspects(one)

    assert set(found) == {uuid(0)}


def test_an_error_of_a_slice_is_its_holders_and_not_the_neighbours() -> None:
    crashes = Crashes()
    neighbour = held("gpu-0-mig-1g10gb-19-0", TEAMS[0], "other")
    found = crashes.find_suspects(view(mig_gpu(0), pods=PODS))
    for hour, team in enumerate(TEAMS, 1):
        record = xid(13, seen=hour * 3600, gi=5, count=hour)
        one = view(mig_gpu(0, record), pods=PODS, claims=(held(SLICE_5, team), neighbour))
        at_that_time = report_with(one, observed_at=at(hour * 3600))
        found = crashes.find_suspects(with_fields(one, report=at_that_time))

    assert set(found) == {uuid(0)}


def test_a_count_that_moves_to_its_slice_is_no_new_error() -> None:
    crashes = Crashes()
    crashes.find_suspects(view(mig_gpu(0, xid(13, count=1)), pods=PODS))

    assert not crashes.needs_pods(view(mig_gpu(0, xid(13, gi=5, count=1))))
    assert crashes.needs_pods(view(mig_gpu(0, xid(13, gi=5, count=2))))


def test_a_suspicion_is_forgotten_after_a_day_by_the_nodes_clock() -> None:
    crashes = Crashes()
    crashes.find_suspects(seen(0, healthy(0)))
    for hour, team in enumerate(TEAMS, 1):
        crashes.find_suspects(seen(hour, healthy(0, crashed(hour, hour)), holder=team))

    day = timedelta(hours=24).total_seconds() / 3600
    assert crashes.find_suspects(seen(2, healthy(0, crashed(2, 2))))
    assert crashes.find_suspects(seen(1 + day + 0.1, healthy(0, crashed(2, 2)))) == {}


HOUR = 3_600_000


def set_back(seen: NodeView, hours: int) -> NodeView:
    """A view by the clock that a node has after it was set back; its agent moves all dates."""
    return with_fields(seen, report=report_with(seen, clock_set_back_ms=hours * HOUR))


def test_a_suspicion_is_forgotten_after_a_day_if_the_clock_was_ahead_and_is_set_right() -> None:
    known = Crashes()
    known.find_suspects(seen(720, healthy(0)))
    known.find_suspects(seen(721, healthy(0, crashed(721, 1)), holder="team-a"))
    assert known.find_suspects(seen(722, healthy(0, crashed(722, 2)), holder="team-b"))

    assert known.find_suspects(set_back(seen(3, healthy(0, crashed(2, 2))), 720))
    assert not known.find_suspects(set_back(seen(27, healthy(0, crashed(2, 2))), 720))


def test_what_was_seen_before_the_clock_was_set_back_hides_nothing() -> None:
    known = Crashes()
    known.find_suspects(seen(720, healthy(0)))
    known.find_suspects(seen(721, healthy(0, crashed(721, 1)), holder="team-a"))

    known.find_suspects(set_back(seen(10, healthy(0, crashed(1, 1))), 720))
    assert known.find_suspects(set_back(seen(11, healthy(0, crashed(11, 2)), holder="team-b"), 720))


def test_a_node_that_names_the_gpu_of_another_moves_nothing_of_it() -> None:
    known = Crashes()
    known.find_suspects(seen(0, healthy(0)))
    known.find_suspects(seen(1, healthy(0, crashed(1, 1)), holder="team-a"))
    places = {uuid(0): ("node-a",)}
    liar = with_fields(seen(1, healthy(0)), node="node-b", elsewhere=places)
    known.find_suspects(liar)
    known.find_suspects(set_back(liar, 720))

    assert known.find_suspects(seen(2, healthy(0, crashed(2, 2)), holder="team-b"))


def test_another_nodes_report_is_another_baseline() -> None:
    crashes = Crashes()
    crashes.find_suspects(seen(0, healthy(0)))
    other = view(gpu(0, crashed(1, 1), node="node-b"), node="node-b")

    assert not crashes.needs_pods(other)


def contained(hours: float, count: int, **fields: object) -> XidRecord:
    """Contained errors whose lines request nothing."""
    return with_fields(xid(94, seen=hours * 3600, count=count, reset=False), **fields)


def test_contained_errors_that_go_on_without_mig_make_the_gpu_suspect_in_an_incident() -> None:
    crashes, stored = Crashes(), Stored()
    for number in range(73):
        hours = number / 3
        one = seen(hours, healthy(0, *([contained(hours, number)] if number else []), hours=hours))
        assert not crashes.needs_pods(one)
        settle(stored, with_fields(one, suspects=crashes.find_suspects(one)), hours * 3600 + 11)

    status = stored.incident.status
    assert (status.fault.fault_class, status.fault.cause, status.repair.needs) == (
        "suspect",
        "xid-94-repeated",
        "Diagnosis",
    )
    assert set(stored.effects().values()) <= {"None"}


@pytest.mark.parametrize("mig", [True, None])
def test_where_mig_is_or_may_be_on_they_are_faults_of_their_own(mig: bool | None) -> None:
    crashes = Crashes()

    for hour in range(9):
        errors = (contained(hour, hour),) if hour else ()
        assert crashes.find_suspects(seen(hour, gpu(0, *errors, mig=mig))) == {}


def test_contained_errors_that_any_program_may_have_written_accuse_no_gpu() -> None:
    crashes = Crashes()

    for hour in range(9):
        errors = (contained(hour, hour, sources=("syslog",)),) if hour else ()
        assert crashes.find_suspects(seen(hour, healthy(0, *errors))) == {}
