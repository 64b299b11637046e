"""What a person has said is weighed against signals whose dates a node's clock has made."""

import pytest

from remediator.decide import person
from remediator.decide.case import Case
from remediator.judge.fault import Unknown
from remediator.objects.incident import (
    AnswerRecord,
    DeletedRule,
    Incident,
    IncidentStatus,
)
from tests.remediator.builders import NODE, at, uuid
from tests.remediator.decide.fleets import story

CONFIRMED = "draguard.dev/confirmed-repaired"
SAID = "forever; by=ana; why=new board"
HOUR = 3600.0


def case(clock: float) -> Case:
    return Case(node=NODE, uuid=uuid(0), verdict=Unknown("no matter"), reported_at=at(clock))


def answered(through: float, state: str = "InForce") -> Incident:
    """A repair was confirmed when signals up to some date were known."""
    record = AnswerRecord("confirmed-repaired", SAID, state, at(0), at(through))
    one = story("a0", answers=(record,))
    one.metadata.annotations[CONFIRMED] = SAID
    return one


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
    (found,) = person.given(case(clock), answered(through), at(signal), at(60))

    assert found.state == state


def test_what_was_overtaken_stays_so_when_the_clock_has_caught_up() -> None:
    overtaken = answered(HOUR, "Overtaken")

    (found,) = person.given(case(HOUR + 1), overtaken, at(32), at(HOUR + 1))

    assert found.state == "Overtaken"


@pytest.mark.parametrize(("clock", "respected"), [(50, False), (HOUR + 1, True)])
def test_a_signal_after_the_clock_was_set_back_is_news_to_who_deleted_a_rule(
    clock: float, respected: bool
) -> None:
    deleted = DeletedRule("gpu.nvidia.com/node-a/gpu-0", at(0), at(86400), "gpu", at(HOUR))
    one = story("a0", deleted_rules=(deleted,))
    assert isinstance(one.status, IncidentStatus)

    found = person.deletions(case(clock), one, at(32), at(60))

    assert found == ((deleted,) if respected else ())
