"""What is slow to make is made before the first test, and one that fails costs only itself."""

import pytest

from simulator.cluster.toolchain import Say
from simulator.compiler import BuildError
from tests.lab import builds


def fails(say: Say) -> object:
    say("trying")
    raise BuildError("no compiler found; install one")


def works(say: Say) -> object:
    say("working")
    return "/made"


def test_one_that_fails_leaves_the_others_made() -> None:
    stated: list[str] = []

    made = builds.make({"first": fails, "second": works}, stated.append)

    assert str(made["first"]) == "no compiler found; install one"
    assert made["second"] == "/made"
    assert stated == ["trying", "working"]


def test_the_program_says_what_to_do_and_fails(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(builds.TIERS, "test", {"first": fails, "second": works})

    assert builds.main("test") == 1
    assert "no compiler found; install one" in capsys.readouterr().err


def test_verify_makes_all_that_test_makes() -> None:
    assert builds.TEST.items() < builds.VERIFY.items()


def test_a_tier_that_is_none_is_refused_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        builds.main("tests")

    assert "invalid choice: 'tests'" in capsys.readouterr().err
