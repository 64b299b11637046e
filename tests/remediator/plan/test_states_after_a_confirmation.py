"""A confirmed repair covers what NVML reads as a state until that has been seen to end."""

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from exporter.model.node_health import FabricHealth, MemoryHealth, NvlinkHealth
from remediator.model.intent import Intent
from remediator.plan.view import NodeView
from tests.remediator.builders import LASTS, Stored, action, at, gpu, report, view, with_fields
from tests.remediator.playing import settle

State = dict[str, Any]
SOAKED = 1000
"""Seconds: more than any soak time."""
READ = MemoryHealth(
    row_remap_failed="False",
    row_remap_pending="False",
    sram_threshold_exceeded="False",
    remap_observed_at=at(-3000),
)
OVER = msgspec.structs.replace(READ, sram_threshold_exceeded="True")
SRAM_UNREAD = msgspec.structs.replace(READ, sram_threshold_exceeded="Unknown")
FAILED = msgspec.structs.replace(READ, row_remap_failed="True")
REMAP_UNREAD = msgspec.structs.replace(READ, row_remap_failed="Unknown")
UNHEALTHY = FabricHealth(state=3, status=0, health_summary=2)
HEALTHY = FabricHealth(state=3, status=0, health_summary=1)
IN_PROGRESS = FabricHealth(state=2)
DOWN = NvlinkHealth(up=(0, 1), down=(2,), failed=(2,))
STATES: list[tuple[State, State, State]] = [
    ({"fabric": UNHEALTHY}, {"fabric": HEALTHY}, {"fabric": IN_PROGRESS}),
    ({"fabric": FabricHealth(state=3, status=5)}, {"fabric": HEALTHY}, {"fabric": IN_PROGRESS}),
    ({"nvlink": DOWN}, {"nvlink": NvlinkHealth(up=(0, 1, 2))}, {}),
    ({"memory": OVER}, {"memory": READ}, {"memory": SRAM_UNREAD}),
    ({"memory": FAILED}, {"memory": READ}, {"memory": REMAP_UNREAD}),
]
IDS = ["fabric", "registration", "link", "SRAM threshold", "row remap"]
of_each_state = pytest.mark.parametrize(("sick", "well", "unread"), STATES, ids=IDS)


def seen(seconds: float, state: State) -> NodeView:
    """The GPU answers all the time, so nothing but what it reads changes."""
    board = gpu(
        0,
        presence_since=at(-3600),
        epoch_started=at(-3600),
        recovery_action=action(0, -3600, seconds),
        **state,
    )
    return view(board, report=report(board, observed_at=at(seconds)))


def play(stored: Stored, times: Iterable[float], state: State) -> None:
    for seconds in times:
        settle(stored, seen(seconds, state), seconds)


def tainted_for(state: State) -> Stored:
    stored = Stored()
    play(stored, (0, 5, 10), state)
    assert stored.effects()
    return stored


def confirm(stored: Stored, seconds: float, state: State, intent: Intent = LASTS) -> None:
    stored.intend("RepairConfirmed", intent)
    play(stored, (seconds,), state)


def confirmation(stored: Stored) -> str:
    (record,) = stored.incident.status.policy.intents
    return record.state


def goes_untainted(stored: Stored, begins: int, state: State) -> bool:
    play(stored, range(begins, begins + SOAKED, 100), state)
    return not stored.effects()


@of_each_state
class TestAStateThatBegins:
    def test_again_is_later_than_a_confirmation_that_found_it_over(
        self, sick: State, well: State, unread: State
    ) -> None:
        stored = tainted_for(sick)
        play(stored, (100,), well)
        confirm(stored, 120, well)
        assert confirmation(stored) == "InForce"

        play(stored, (420, 440), sick)

        assert confirmation(stored) == "Overtaken"
        assert not goes_untainted(stored, 500, unread)

    def test_again_is_later_than_a_confirmation_after_which_it_ended(
        self, sick: State, well: State, unread: State
    ) -> None:
        stored = tainted_for(sick)
        confirm(stored, 20, sick)
        play(stored, (100, 110), well)
        assert confirmation(stored) == "InForce"

        play(stored, (200,), sick)

        assert confirmation(stored) == "Overtaken"
        assert not goes_untainted(stored, 300, unread)

    def test_again_after_a_time_in_which_nothing_was_known(
        self, sick: State, well: State, unread: State
    ) -> None:
        stored = tainted_for(sick)
        confirm(stored, 20, sick)
        play(stored, (100,), well)
        settle(stored, with_fields(seen(110, well), stale="silent"), 110)

        play(stored, (200,), sick)

        assert confirmation(stored) == "Overtaken"
        assert not goes_untainted(stored, 300, unread)

    def test_again_beside_another_one_that_stands_all_the_time(
        self, sick: State, well: State, unread: State
    ) -> None:
        def both(state: State) -> State:
            memory = msgspec.structs.replace(state.get("memory", READ), row_remap_pending="True")
            return state | {"memory": memory}

        stored = tainted_for(both(sick))
        confirm(stored, 20, both(sick))
        play(stored, (100,), both(well))

        play(stored, (200,), both(sick))

        assert confirmation(stored) == "Overtaken"
        assert not goes_untainted(stored, 300, unread)

    def test_again_in_the_report_with_which_the_confirmation_is_read(
        self, sick: State, well: State, unread: State
    ) -> None:
        """Which came first is not known."""
        stored = tainted_for(sick)
        play(stored, (100,), well)

        confirm(stored, 200, sick)

        assert confirmation(stored) == "Overtaken"
        assert not goes_untainted(stored, 300, unread)

    def test_again_is_covered_once_the_user_confirms_again(
        self, sick: State, well: State, unread: State
    ) -> None:
        del unread
        stored = tainted_for(sick)
        confirm(stored, 20, sick)
        play(stored, (100,), well)
        play(stored, (200,), sick)

        confirm(stored, 210, sick, Intent(by="ana", reason="another board"))

        assert confirmation(stored) == "InForce"
        assert goes_untainted(stored, 300, well)


def test_a_state_that_had_not_stood_before_is_later_than_the_confirmation() -> None:
    stored = tainted_for({"memory": OVER})
    confirm(stored, 20, {"memory": OVER})

    play(stored, (100,), {"memory": OVER, "fabric": UNHEALTHY})

    assert confirmation(stored) == "Overtaken"


@of_each_state
class TestAConfirmationStaysInForce:
    def test_while_the_state_for_which_it_was_given_stands_until_that_has_ended(
        self, sick: State, well: State, unread: State
    ) -> None:
        del unread
        stored = tainted_for(sick)
        confirm(stored, 20, sick)
        play(stored, (100, 200, 300), sick)
        assert confirmation(stored) == "InForce"

        assert goes_untainted(stored, 400, well)

    def test_through_a_time_in_which_the_state_is_not_read(
        self, sick: State, well: State, unread: State
    ) -> None:
        """That ends nothing, so nothing begins after it."""
        stored = tainted_for(sick)
        confirm(stored, 20, sick)
        play(stored, (100, 110), unread)
        settle(stored, with_fields(seen(120, sick), stale="silent"), 120)

        play(stored, (200, 210), sick)

        assert confirmation(stored) == "InForce"
        assert goes_untainted(stored, 300, well)


def test_without_a_confirmation_a_state_must_be_read_as_over_also_at_the_end() -> None:
    stored = tainted_for({"fabric": UNHEALTHY})
    play(stored, (100,), {"fabric": HEALTHY})

    assert not goes_untainted(stored, 110, {"fabric": IN_PROGRESS})
