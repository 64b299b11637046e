"""A new leader's budgets count what the leader before it has begun, whatever its watches show."""

from collections.abc import Generator, Mapping
from itertools import count
from typing import Any

import msgspec
import pytest

from kubeapi.client import ApiError, Client
from kubeapi.endpoint import Endpoint
from kubeapi.versions import Versioned
from remediator.controller.takeover import Takeover
from remediator.model import taint_rule
from remediator.model.incident import incident_name
from remediator.model.taint_rule import Effect, RawRule
from tests.remediator.builders import at, dead, gpu, rule, uuid
from tests.remediator.clock import Clock
from tests.remediator.controller.api import INCIDENTS, RULES, serving
from tests.remediator.controller.test_blind_watches import (
    SETTLED,
    Room,
    leader,
    presence,
    set_up,
)

ELSEWHERE = "node-b"
BOARD = uuid(9, ELSEWHERE)
NAME = incident_name(BOARD, 1)


@pytest.fixture
def room() -> Generator[Room]:
    minutes = count(step=60.0)
    with serving() as (api, endpoint), leader(api, endpoint, lambda: next(minutes)) as one:
        set_up(one)
        yield one


def a_gpu_fails(room: Room) -> None:
    room.report(dead(0), gpu(1))
    room.seen("the report is there", lambda: presence(room) == "Lost")
    room.decide()
    assert room.api.effects()["gpu-0"] == "NoSchedule"
    room.ahead = SETTLED


def the_leader_before_raises(room: Room, effect: Effect) -> None:
    one = rule(9, effect, node=ELSEWHERE)
    made = msgspec.to_builtins(taint_rule.manifest(one, "v1"))
    room.api.put(RULES, one.name, metadata=made["metadata"], spec=made["spec"])


def the_leader_before_writes(room: Room, **status: object) -> None:
    room.api.put(INCIDENTS, NAME, spec={"node": ELSEWHERE, "uuid": BOARD}, status=status)


MOMENT = at(0).isoformat()


def test_a_rule_that_evicts_and_that_no_watch_has_reported_delays_an_eviction(room: Room) -> None:
    room.api.frozen.add(RULES)
    the_leader_before_raises(room, "NoExecute")
    a_gpu_fails(room)

    assert "of the leader before is not reported by the watch" in room.decide().unconfirmed
    assert room.api.effects()["gpu-0"] == "NoSchedule"

    room.api.frozen.clear()
    room.seen("the rule", lambda: len(room.cluster.cache.rules()) == 2)
    room.decide()
    assert room.api.effects()["gpu-0"] == "NoExecute"


@pytest.mark.parametrize(
    "begun",
    [
        {"eviction": {"evictingTime": MOMENT}},
        {"repair": {"requestedTime": MOMENT}},
    ],
)
def test_an_incident_that_has_begun_and_that_no_watch_has_reported_delays_an_eviction(
    room: Room, begun: dict[str, object]
) -> None:
    room.api.frozen.add(INCIDENTS)
    the_leader_before_writes(room, phase="Evicting", **begun)
    a_gpu_fails(room)

    assert f"incident {NAME} of the leader before" in room.decide().unconfirmed
    assert room.api.effects() == {"gpu-0": "NoSchedule"}


def test_what_disrupts_nobody_delays_nothing(room: Room) -> None:
    room.api.frozen.update((RULES, INCIDENTS))
    the_leader_before_raises(room, "NoSchedule")
    the_leader_before_writes(room, phase="Tainted")
    a_gpu_fails(room)

    room.decide()
    assert room.api.effects()["gpu-0"] == "NoExecute"


def test_once_all_was_seen_only_another_takeover_looks_again(room: Room) -> None:
    assert room.cluster.takeover.find_unseen() == ""
    room.api.frozen.add(RULES)
    the_leader_before_raises(room, "NoExecute")
    assert room.cluster.takeover.find_unseen() == ""

    room.cluster.takeover.on_started_leading()
    assert "is not reported by the watch" in room.cluster.takeover.find_unseen()


def test_one_object_that_cannot_be_read_delays_nothing(room: Room) -> None:
    room.api.put(RULES, "odd", spec={"taint": 7})
    room.api.put(INCIDENTS, "odd", spec={"node": []})
    assert room.cluster.takeover.find_unseen() == ""


def test_without_an_answer_nothing_is_taken_for_seen(room: Room) -> None:
    room.api.refused[RULES] = 500
    assert "could not be read (500)" in room.cluster.takeover.find_unseen()
    room.api.refused.clear()
    assert room.cluster.takeover.find_unseen() == ""


class Late:
    """An API server that stores a rule which no watch reports, or answers nothing."""

    def __init__(self, refusal: ApiError | None = None) -> None:
        self.clock = Clock()
        self.read_at: list[float] = []
        self.refusal = refusal

    def get(self, path: str, _: Mapping[str, str] | None = None, /) -> bytes:
        if path != RULES:
            return b'{"items": []}'
        self.read_at.append(self.clock.seconds)
        if self.refusal:
            raise self.refusal
        return msgspec.json.encode(
            {"items": [taint_rule.manifest(rule(9, "NoExecute", node=ELSEWHERE), "v1")]}
        )


@pytest.mark.parametrize(
    ("refusal", "expected"),
    [
        (None, [0.0, 0.5, 1.5, 3.5, 7.5, 15.5, 25.5, 35.5]),
        (ApiError("busy", status=429, retry_after=15.0), [0.0, 15.0, 30.0]),
    ],
)
def test_all_is_read_once_for_all_nodes_and_less_often_while_it_is_late(
    room: Room, refusal: ApiError | None, expected: list[float]
) -> None:
    late, watched = Late(refusal), room.cluster.informers
    takeover = Takeover(late, watched.rules, watched.incidents, late.clock)
    for tenth in range(400):
        late.clock.seconds = tenth / 10
        assert takeover.find_unseen()
    assert late.read_at == expected


def test_who_leads_again_reads_at_once(room: Room) -> None:
    late, watched = Late(), room.cluster.informers
    takeover = Takeover(late, watched.rules, watched.incidents, late.clock)
    for moment in (0.0, 0.1, 0.5, 0.6):
        late.clock.seconds = moment
        assert takeover.find_unseen()
    takeover.on_started_leading()
    late.clock.seconds = 0.7
    assert takeover.find_unseen()
    assert late.read_at == [0.0, 0.5, 0.7]


NOWHERE = Endpoint(server="http://127.0.0.1:1")


class Ending(Versioned[Any]):
    """DeviceTaintRules of a version whose end another thread finds while one is read."""

    @property
    def path(self) -> str:
        raise LookupError("devicetaintrules are not served")


def test_a_version_that_ends_meanwhile_is_not_taken_for_seen(room: Room) -> None:
    watched = room.cluster.informers
    rules = Ending(Client(NOWHERE), "devicetaintrules", ("v1",), RawRule, lambda _: None)
    rules.version, rules.reflector = watched.rules.version, watched.rules.reflector
    takeover = Takeover(Client(NOWHERE), rules, watched.incidents)
    assert "are not served" in takeover.find_unseen()
