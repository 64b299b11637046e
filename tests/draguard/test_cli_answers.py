"""`hold`, `ignore`, `confirm-repaired`: what is written is what the remediator reads."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from draguard.__main__ import main
from draguard.answers.value import WrongAnswerError, until_of, value_of
from kubeapi import clock
from remediator.objects import answers
from remediator.objects.answers import Answer, Kind
from tests.chain.scene import INCIDENTS
from tests.draguard.fleet import LOST_STORY, SICK, SLICE_STORY, Fleet
from tests.draguard.told import masked, matches, told

Tell = Callable[..., str]
NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)


@pytest.fixture
def tell(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> Tell:
    def run(*arguments: str, ends: int = 0) -> str:
        return told(capsys, *arguments, "--kubeconfig", fleet.kubeconfig, ends=ends)

    return run


def said(fleet: Fleet, incident: str, kind: Kind) -> str:
    stored = fleet.cluster.get(f"{INCIDENTS}/{incident}")["metadata"]
    return stored.get("annotations", {}).get(answers.annotation(kind), "")


@pytest.mark.parametrize(
    ("command", "kind", "length"),
    [
        ("hold", "hold", timedelta(hours=4)),
        ("ignore", "ignore", timedelta(hours=4)),
        ("confirm-repaired", "confirmed-repaired", timedelta(hours=4)),
    ],
)
def test_an_answer_is_read_as_it_was_meant_and_taken_back(
    command: str, kind: Kind, length: timedelta, fleet: Fleet, tell: Tell
) -> None:
    began = clock.now()

    words = tell(command, LOST_STORY, "--for", "4h", "--why", "a run must end; then we look")

    matches(command, masked(words))
    read = answers.read(kind, said(fleet, LOST_STORY, kind))
    assert isinstance(read, Answer)
    assert (read.by, read.why) == ("admin", "a run must end; then we look")
    assert read.until is not None
    assert abs(read.until - began - length) < timedelta(minutes=2)

    tell(command, LOST_STORY, "--remove")
    assert said(fleet, LOST_STORY, kind) == ""


def test_a_gpu_stands_for_its_open_incident(fleet: Fleet, tell: Tell) -> None:
    tell("hold", SICK, "--until", "2099-01-01T00:00:00Z", "--why", "x", "--by", "ana")

    assert said(fleet, LOST_STORY, "hold") == "2099-01-01T00:00:00Z; by=ana; why=x"
    tell("hold", SICK, "--remove")


def test_an_answer_that_is_there_is_not_lost_by_accident(fleet: Fleet, tell: Tell) -> None:
    tell("hold", SLICE_STORY, "--forever", "--why", "mine", "--by", "ana")

    tell("hold", SLICE_STORY, "--for", "1h", "--why", "other", "--by", "ben", ends=1)
    assert said(fleet, SLICE_STORY, "hold") == "forever; by=ana; why=mine"

    tell("hold", SLICE_STORY, "--for", "1h", "--why", "other", "--by", "ben", "--overwrite")
    assert said(fleet, SLICE_STORY, "hold").endswith("by=ben; why=other")
    tell("hold", SLICE_STORY, "--remove")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["gpu-none-1", "--for", "1h", "--why", "x"], "there is no incident"),
        ([LOST_STORY, "--for", "1h", "--why", "a\x1b[31mb"], "not printable"),
        ([LOST_STORY, "--for", "1h", "--why", "x" * 600], "longer than"),
        ([LOST_STORY, "--for", "1h", "--why", "x", "--by", "a; b"], "semicolon"),
        ([LOST_STORY, "--remove"], "no such answer"),
    ],
)
def test_an_answer_that_would_not_be_read_is_not_written(
    arguments: list[str],
    why: str,
    fleet: Fleet,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["hold", *arguments, "--kubeconfig", fleet.kubeconfig]) == 1
    assert why in capsys.readouterr().err
    assert said(fleet, LOST_STORY, "hold") == ""


@pytest.mark.parametrize("command", ["hold", "ignore", "confirm-repaired"])
@pytest.mark.parametrize("flag", ["--for", "--until"])
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("soon", "'soon' is no duration; write 500ms, 3s, 10m, 24h or 30d; or give a moment"),
        ("4hours", "'4hours' is no duration"),
        ("2026-02-30T00:00:00Z", "is no duration; write"),
        ("2020-01-01T00:00:00Z", "2020-01-01T00:00:00Z is over already"),
        ("0s", "0s is over already"),
        ("9999d", "9999d is longer than 3660 days"),
    ],
)
def test_what_is_no_time_to_come_is_a_wrong_flag_and_no_cluster_is_asked(
    command: str, flag: str, text: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, LOST_STORY, flag, text, "--why", "x", "--kubeconfig", "/nowhere"])

    assert ended.value.code == 2
    assert f"draguard {command}: error: {flag}: " in (said := capsys.readouterr().err)
    assert why in said


@pytest.mark.parametrize("missing", [["--why", "x"], ["--for", "1h"]])
def test_until_when_and_why_have_to_be_said(
    missing: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["ignore", LOST_STORY, *missing])

    assert ended.value.code == 2
    assert "say " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "until"),
    [
        ("30m", "2026-01-05T12:30:00Z"),
        ("4h", "2026-01-05T16:00:00Z"),
        ("2d", "2026-01-07T12:00:00Z"),
        ("2026-07-30T18:00:00Z", "2026-07-30T18:00:00Z"),
        ("2026-07-30T18:00:00+02:00", "2026-07-30T16:00:00Z"),
        ("2026-07-30T18:00:00.5Z", "2026-07-30T18:00:00Z"),
        ("forever", "forever"),
    ],
)
def test_a_length_of_time_and_a_moment_are_stored_as_a_moment(text: str, until: str) -> None:
    assert until_of(text, NOW) == until
    assert value_of("hold", until, "ana", "x") == f"{until}; by=ana; why=x"


def test_either_flag_takes_either_and_says_how_far_it_is(fleet: Fleet, tell: Tell) -> None:
    lasts = tell("hold", LOST_STORY, "--until", "4h", "--why", "x")
    tell("hold", LOST_STORY, "--remove")
    ends = tell("hold", LOST_STORY, "--for", "2099-01-01T00:00:00+02:00", "--why", "x")

    assert "Z, in 4h\n" in lasts
    assert said(fleet, LOST_STORY, "hold").startswith("2098-12-31T22:00:00Z; by=admin")
    assert "2098-12-31T22:00:00Z, in " in ends
    tell("hold", LOST_STORY, "--remove")


def test_who_is_empty_is_refused() -> None:
    with pytest.raises(WrongAnswerError, match="by= is empty"):
        value_of("hold", "forever", "", "x")
