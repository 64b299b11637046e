"""A status that the API server refuses costs what it would report, and nothing of what is done."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from remediator.controller.rejected_fields import FIRST_TRY, LAST_TRY, Unstored
from remediator.plan.steps import WriteStatus
from tests.remediator.builders import NODE, dead, gpu, incident, make_status
from tests.remediator.clock import Clock
from tests.remediator.controller.api import INCIDENTS, Json
from tests.remediator.controller.test_blind_watches import (
    SETTLED,
    Room,
    presence,
    room,  # noqa: F401 # pyright: ignore[reportUnusedImport] - a fixture
    set_up,
)


def a_word(status: Json) -> str:
    return 'status.phase: Unsupported value: "Tainted"' if status.get("phase") else ""


def its_size(status: Json) -> str:
    return "request is too large" if status.get("message") else ""


@pytest.mark.parametrize(("misfit", "missing"), [(a_word, "phase"), (its_size, "message")])
def test_taints_are_made_and_raised_though_a_part_of_the_status_is_refused(
    room: Room,  # noqa: F811 - the fixture
    misfit: Callable[[Json], str],
    missing: str,
) -> None:
    room.api.misfit = misfit
    set_up(room)
    room.report(dead(0), gpu(1))
    room.seen("the report is observed", lambda: presence(room) == "Lost")

    room.decide()
    assert room.api.effects() == {"gpu-0": "NoSchedule"}
    room.ahead = SETTLED
    room.decide()

    assert room.api.effects() == {"gpu-0": "NoExecute"}
    status: Any = next(iter(room.api.stored[INCIDENTS].values()))["status"]
    assert missing not in status
    assert (status["fault"]["class"], len(status["scope"]["rules"])) == ("lost", 1)
    assert room.cluster.writer.statuses_refused > 0


def _without(field: str) -> Callable[[Json], str]:
    """The CRD of an older release: what it does not know in a field is refused."""
    refusal = f'status.{field}: Unsupported value: "new"'
    return lambda status: refusal if _field(status, field) else ""


def _field(status: Json, path: str) -> object:
    group, _, name = path.partition(".")
    found: Json = status.get(group) or {}
    return found.get(name) if name else found


def _reported(at: Room) -> Json:
    (one,) = at.api.stored[INCIDENTS].values()
    status: Json = one["status"]
    return status


def _evicting(at: Room, misfit: Callable[[Json], str]) -> None:
    at.api.misfit = misfit
    set_up(at)
    at.report(dead(0), gpu(1))
    at.seen("the report is observed", lambda: presence(at) == "Lost")
    at.decide()
    at.ahead = SETTLED
    at.decide()
    assert at.api.effects() == {"gpu-0": "NoExecute"}


def _writes(at: Room) -> list[tuple[str, str]]:
    return [write for write in at.api.writes if write[1].startswith(INCIDENTS)]


@pytest.mark.parametrize("field", ["phase", "policy.mode", "scope.rules"])
def test_what_is_refused_is_not_written_again_at_each_decision(
    room: Room,  # noqa: F811 - the fixture
    field: str,
) -> None:
    _evicting(room, _without(field))
    status, before, refused = (
        _reported(room),
        len(_writes(room)),
        room.cluster.writer.statuses_refused,
    )
    assert before < 20
    assert not _field(status, field)

    for minutes in range(1, 5):
        room.ahead = SETTLED + timedelta(minutes=minutes)
        room.decide()

    assert len(_writes(room)) == before
    assert room.cluster.writer.statuses_refused == refused
    assert _reported(room) == status
    assert len({entry["text"] for entry in status["timeline"]}) == len(status["timeline"])


@pytest.mark.parametrize(
    "field", ["eviction.taintedTime", "message", "scope.hardware", "scope.rules"]
)
def test_what_an_older_crd_drops_is_written_once_and_remembered(
    room: Room,  # noqa: F811 - the fixture
    field: str,
) -> None:
    room.api.lacks = frozenset({field})
    _evicting(room, lambda _: "")
    before, known = len(_writes(room)), room.cluster.peek(NODE).stored.incidents
    assert not _field(_reported(room), field)

    for minutes in range(1, 4):
        room.ahead = SETTLED + timedelta(minutes=minutes)
        room.decide()

    assert len(_writes(room)) == before
    assert room.cluster.peek(NODE).stored.incidents == known


def test_a_change_in_what_is_dropped_is_remembered_too(
    room: Room,  # noqa: F811 - the fixture
) -> None:
    """What is stored stays the same; later the watch tells it once more."""
    room.api.lacks = frozenset({"message"})
    _evicting(room, lambda _: "")
    (before,) = room.cluster.peek(NODE).stored.incidents
    stated = msgspec.structs.replace(before.status, message="more is known")
    room.cluster.writer.apply(WriteStatus(before, stated))
    known = room.cluster.peek(NODE).stored.incidents
    (name,) = room.api.stored[INCIDENTS]
    spec = room.api.stored[INCIDENTS][name]["spec"]
    room.api.put(INCIDENTS, name, spec={**spec, "hold": {"by": "ana", "reason": "a run"}})
    room.seen("it is observed", lambda: room.cluster.peek(NODE).stored.incidents != known)

    assert room.cluster.peek(NODE).stored.incidents[0].status.message == "more is known"


@pytest.mark.parametrize("field", ["phase", "policy.mode", "scope.rules"])
def test_an_edit_by_a_user_in_between_costs_the_incident_nothing(
    room: Room,  # noqa: F811 - the fixture
    field: str,
) -> None:
    _evicting(room, _without(field))
    known = room.cluster.peek(NODE).stored.incidents
    hold = {"by": "ana", "reason": "a run must end first"}
    (name,) = room.api.stored[INCIDENTS]
    spec = room.api.stored[INCIDENTS][name]["spec"]
    room.api.put(INCIDENTS, name, spec={**spec, "hold": hold})
    room.seen("it is observed", lambda: room.cluster.peek(NODE).stored.incidents != known)

    (after,) = room.cluster.peek(NODE).stored.incidents
    assert [after.status] == [incident.status for incident in known]
    assert after.spec.intents


def test_once_the_crd_is_replaced_the_whole_status_is_written_as_it_was(
    room: Room,  # noqa: F811 - the fixture
) -> None:
    _evicting(room, _without("phase"))
    (known,) = room.cluster.peek(NODE).stored.incidents
    room.decide()
    assert "phase" not in _reported(room)

    room.api.misfit = lambda _: ""
    later = FIRST_TRY + 1
    unstored = room.cluster.writer.unstored
    clock = unstored._clock  # pyright: ignore[reportPrivateUsage] # noqa: SLF001 - five minutes
    unstored._clock = lambda: clock() + later  # pyright: ignore[reportPrivateUsage] # noqa: SLF001 - as above
    room.decide()

    assert _reported(room)["phase"] == known.status.phase
    (after,) = room.cluster.peek(NODE).stored.incidents
    assert after.status == known.status


def test_the_same_status_is_tried_ever_more_rarely() -> None:
    clock, stored = Clock(), incident()
    unstored = Unstored(clock)
    waits: list[float] = []
    for _ in range(6):
        unstored.note(stored, make_status(fault_class="lost", phase="Tainted"))
        begun = clock.seconds
        while not unstored.due_statuses():
            clock.seconds += FIRST_TRY
        waits.append(clock.seconds - begun)
    assert waits == [300, 600, 1200, 2400, LAST_TRY, LAST_TRY]

    unstored.note(stored, make_status(fault_class="lost", phase="Drained"))
    clock.seconds += FIRST_TRY
    assert [*unstored.due_statuses()] == [stored.name], "another one is tried soon"
    unstored.forget(stored.name)
    assert not unstored.due_statuses()


def test_what_another_leader_has_written_since_is_left_as_it_is(
    room: Room,  # noqa: F811 - the fixture
) -> None:
    _evicting(room, _without("phase"))
    unstored = room.cluster.writer.unstored
    (name,) = room.api.stored[INCIDENTS]
    room.api.put(INCIDENTS, name, status={**_reported(room), "message": "by another leader"})
    room.seen(
        "it is observed",
        lambda: "another leader" in room.cluster.peek(NODE).stored.incidents[0].status.message,
    )
    before, clock = len(_writes(room)), unstored._clock  # pyright: ignore[reportPrivateUsage] # noqa: SLF001 - five minutes
    unstored._clock = lambda: clock() + FIRST_TRY + 1  # pyright: ignore[reportPrivateUsage] # noqa: SLF001 - as above
    room.cluster.writer.turn_to(NODE)
    assert len(_writes(room)) == before
    assert not unstored.due_statuses()
