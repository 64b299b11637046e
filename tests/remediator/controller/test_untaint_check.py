"""A recovered GPU is untainted on what the API server has now, though watches lag unnoticed."""

from collections.abc import Generator
from datetime import timedelta

import msgspec
import pytest

from exporter.model.node_health import GpuHealth
from kubeapi import clock
from remediator.plan.board import RENEWALS_NEEDED
from remediator.plan.steps import Disruption
from tests.remediator.builders import NODE, dead, gpu
from tests.remediator.controller.api import INCIDENTS, LEASES, REPORTS, serving
from tests.remediator.controller.test_blind_watches import Room, leader, presence, set_up

SOAKED = timedelta(seconds=700)


@pytest.fixture
def room() -> Generator[Room]:
    with serving() as served, leader(*served) as room:
        yield room


def repaired() -> GpuHealth:
    now = clock.now()
    action = msgspec.structs.replace(gpu(0).recovery_action, observed_at=now)
    return gpu(0, recovery_action=action, epoch=2, epoch_started=now, presence_since=now)


def it_soaks(room: Room) -> None:
    """A lost GPU is tainted, then answers again, and its agent has confirmed that."""
    set_up(room)
    room.report(dead(0), gpu(1), content_hash="lost")
    room.seen("it is lost", lambda: presence(room) == "Lost")
    room.decide()
    room.report(repaired(), gpu(1), content_hash="well")
    room.seen("it answers", lambda: presence(room) == "Present")
    room.decide()
    for number in range(1, RENEWALS_NEEDED + 2):
        room.renew("well")
        # The first Lease is new to the watch, which lists it as the others.
        room.seen("it counts", lambda: len(room.cluster.peek(NODE).agent.renewals) >= number - 1)  # noqa: B023
    room.decide()
    (incident,) = room.api.stored[INCIDENTS].values()
    assert incident["status"]["recovery"]["confirmedTime"]


def test_it_is_untainted_once_it_has_soaked(room: Room) -> None:
    it_soaks(room)
    room.ahead = SOAKED
    assert not room.decide().unconfirmed
    assert room.api.effects() == {}


def test_a_report_that_no_watch_has_reported_keeps_a_gpu_tainted(room: Room) -> None:
    it_soaks(room)
    room.api.frozen |= {REPORTS, LEASES}
    room.report(dead(0), gpu(1), content_hash="lost again")
    room.ahead = SOAKED
    decision = room.decide()
    assert "the report of node-a differs" in decision.unconfirmed
    assert "untaint deferred: the report of node-a differs" in decision.sentence
    assert decision.wake_at is not None
    assert decision.wake_at - clock.now() - room.ahead < timedelta(seconds=31)
    assert room.api.effects() == {"gpu-0": "NoSchedule"}


def test_a_lease_with_the_hash_of_another_report_keeps_a_gpu_tainted_until_the_next(
    room: Room,
) -> None:
    """The report is the stored one, and the agent has seen more since."""
    it_soaks(room)
    since = healthy_since(room)
    room.renew("more")
    room.seen("it is seen", lambda: room.cluster.peek(NODE).agent.overtaken)
    room.ahead = SOAKED
    room.decide()
    assert room.api.effects() == {"gpu-0": "NoSchedule"}
    assert "waiting for the agent to confirm its report" in room.message()
    assert healthy_since(room) == since, "the soak did not begin anew"

    room.renew("well")
    room.seen("it is seen", lambda: not room.cluster.peek(NODE).agent.overtaken)
    room.decide()
    assert room.api.effects() == {}


def test_a_lease_without_a_hash_contradicts_no_report(room: Room) -> None:
    it_soaks(room)
    room.renew("")
    room.seen("it is seen", lambda: not room.cluster.peek(NODE).agent.renewals)
    room.ahead = SOAKED
    room.decide()
    assert room.api.effects() == {}


def test_a_new_leader_takes_the_last_hash_from_the_list_of_leases(room: Room) -> None:
    it_soaks(room)
    room.renew("more")
    with leader(room.api, room.cluster._client.endpoint) as second:  # pyright: ignore[reportPrivateUsage] # noqa: SLF001 - the same server
        second.seen("it is seen", lambda: second.cluster.peek(NODE).agent.overtaken)
        second.ahead = SOAKED
        second.decide()
    assert room.api.effects() == {"gpu-0": "NoSchedule"}


def test_an_incident_of_which_the_soak_began_anew_unseen_keeps_its_gpu_tainted(room: Room) -> None:
    """Another replica has written it, and the watch of this new leader is behind."""
    it_soaks(room)
    room.api.frozen.add(INCIDENTS)
    ((name, stored),) = room.api.stored[INCIDENTS].items()
    later = (clock.now() + timedelta(seconds=520)).isoformat()
    room.api.put(
        INCIDENTS,
        name,
        status={
            **stored["status"],
            "recovery": {**stored["status"]["recovery"], "healthySinceTime": later},
        },
    )
    room.ahead = SOAKED
    assert f"incident {name} differs" in room.decide().unconfirmed
    assert room.api.effects() == {"gpu-0": "NoSchedule"}

    room.api.frozen.clear()
    room.seen(
        "it catches up",
        lambda: healthy_since(room) != stored["status"]["recovery"]["healthySinceTime"],
    )
    room.ahead = SOAKED + timedelta(seconds=520)
    room.decide()
    assert room.api.effects() == {}


def test_an_untaint_that_cannot_be_looked_at_waits_and_says_so(room: Room) -> None:
    it_soaks(room)
    seen = room.cluster.peek(NODE)
    room.api.refused[REPORTS] = 503
    names = frozenset(incident.name for incident in seen.stored.incidents)
    why = room.cluster.confirm(seen, Disruption(untainted=names))
    assert why == "what it rests on could not be read before the untaint (503)"


def healthy_since(room: Room) -> str:
    seen = room.cluster.peek(NODE).stored.incidents[0].status.recovery.healthy_since
    return seen.isoformat() if seen else ""
