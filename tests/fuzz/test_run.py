"""The run itself: it finds what is planted, names it, and stops what hangs."""

import signal
from random import Random

import pytest

from tests.fuzz import __main__ as program
from tests.fuzz import run
from tests.fuzz.run import fuzz
from tests.fuzz.target import Target, demand


def _digits(random: Random) -> str:
    return str(random.randrange(1000))


def _planted(text: str) -> None:
    if text.startswith("77"):
        raise KeyError(text)
    demand(text != "5", "five is not requested", text)


PLANTED = Target("planted", 1, _digits, _planted)


def test_a_planted_fault_is_found_once_with_its_input() -> None:
    outcome = fuzz(PLANTED, 10_000, seed=1)
    inputs = sorted(finding.input for finding in outcome.findings)
    assert len(inputs) == 2
    assert inputs[0] == "'5'"
    assert inputs[1].startswith("'77")
    assert outcome.inputs == 10_000


def test_the_same_seed_finds_the_same() -> None:
    one, other = (fuzz(PLANTED, 2_000, seed=1).findings for _ in "ab")
    assert [found.number for found in one] == [found.number for found in other] != []
    assert fuzz(PLANTED, 2_000, seed=2).findings[0].number != one[0].number


def test_one_input_can_be_tried_again() -> None:
    found = fuzz(PLANTED, 2_000, seed=1).findings[0]
    again = fuzz(PLANTED, 1, seed=1, first=found.number).findings
    assert [finding.input for finding in again] == [found.input]


def test_what_hangs_is_a_finding_and_the_limit_of_the_test_itself_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run, "LONGEST_SECONDS", 0.05)
    signal.setitimer(signal.ITIMER_REAL, 500)

    def hang(_input: str) -> None:
        while True:
            pass

    (found,) = fuzz(Target("hangs", 1, _digits, hang), 1, seed=1).findings
    assert "TooSlow" in found.error
    assert signal.getitimer(signal.ITIMER_REAL)[0] > 400


def test_a_target_with_many_kinds_of_faults_is_given_up() -> None:
    def broken(text: str) -> None:
        raise type(f"Broken{len(text)}{text[-1]}", (Exception,), {})

    outcome = fuzz(Target("broken", 1, _digits, broken), 1_000, seed=1)
    assert len(outcome.findings) == run.MOST_FINDINGS
    assert outcome.inputs < 1_000


def test_the_command_says_what_it_tried(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _stay_as_it_is(monkeypatch)
    assert program.main(["--only", "quantity", "--inputs", "50", "--seed", "3"]) == 0
    stated = capsys.readouterr().out
    assert "50 inputs" in stated
    assert "seed 3: 0 findings" in stated


def test_the_command_fails_and_prints_the_input_of_a_fault(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _stay_as_it_is(monkeypatch)
    monkeypatch.setattr(program, "TARGETS", (PLANTED,))
    assert program.main(["--only", "planted", "--inputs", "2000"]) == 1
    stated = capsys.readouterr().out
    assert "input: '77" in stated
    assert "again: python -m tests.fuzz --only planted --seed 1 --first " in stated


def _stay_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the limits of the process, in which other tests run as well."""

    def nothing(*_arguments: object) -> None:
        return

    monkeypatch.setattr(program.resource, "setrlimit", nothing)
    monkeypatch.setattr(program.logging, "disable", nothing)
