"""A confirmed repair is weighed against signals whose dates a node's clock has made."""

import pytest

from remediator.diagnose.fault import Unknown
from remediator.model.incident import Incident, with_intent
from remediator.model.intent import IntentRecord
from remediator.plan import overrides
from remediator.plan.board import Board
from tests.remediator.builders import LASTS, at, make_board
from tests.remediator.plan.fleets import an_incident

HOUR = 3600.0


def case(clock: float) -> Board:
    return make_board(Unknown("no matter"), reported_at=at(clock))


def confirmed(through: float, state: str = "InForce") -> Incident:
    """A repair was confirmed when signals up to some date were known."""
    record = IntentRecord(
        kind="RepairConfirmed",
        by=LASTS.by,
        reason=LASTS.reason,
        state=state,
        seen_time=at(0),
        seen_through_time=at(through),
    )
    return with_intent(an_incident("a0", intents=(record,)), "RepairConfirmed", LASTS)


@pytest.mark.parametrize(
    ("through", "signal", "clock", "state"),
    [
        (10, 10, 50, "InForce"),
        (10, 32, 50, "Overtaken"),
        (HOUR, 32, 50, "Overtaken"),
        (HOUR, HOUR, 50, "InForce"),
        (HOUR, 32, HOUR + 1, "InForce"),
    ],
    ids=["the same", "a later one", "the clock was set back", "the old one", "it was not"],
)
def test_a_confirmation_is_overtaken_by_a_signal_after_the_clock_was_set_back(
    through: float, signal: float, clock: float, state: str
) -> None:
    (found,) = overrides.read_intents(case(clock), confirmed(through), at(signal), "", at(60))

    assert found.state == state


def test_what_was_overtaken_stays_so_when_the_clock_has_caught_up() -> None:
    overtaken = confirmed(HOUR, "Overtaken")

    (found,) = overrides.read_intents(case(HOUR + 1), overtaken, at(32), "", at(HOUR + 1))

    assert found.state == "Overtaken"
