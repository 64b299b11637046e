"""The command: what it draws, what it says, and when it ends with 1."""

import shutil
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.mutants import __main__ as program
from tests.mutants.copies import ROOT
from tests.mutants.patches import patches
from tests.mutants.verdict import Ran

NAME = "policy-an-hour-is-a-minute"
(PATCH,) = [patch for patch in patches() if patch.name == NAME]


class Played:
    """Pytest as it would end on a copy of the one file, by what stands there."""

    def __init__(self, with_mutant: Ran, without: Ran = Ran(0)) -> None:  # noqa: B008 - frozen
        self._ends = {True: with_mutant, False: without}
        self.arguments: list[tuple[str, ...]] = []

    def __call__(self, folder: Path, arguments: Sequence[str]) -> Ran:
        self.arguments.append(tuple(arguments))
        return self._ends[PATCH.added in (folder / PATCH.path).read_text(encoding="utf-8")]


@pytest.fixture
def on_one_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """Copies have the file that the patch changes, and nothing else."""

    @contextmanager
    def copies(number: int) -> Generator[list[Path]]:
        assert number == 1
        (tmp_path / PATCH.path).parent.mkdir(parents=True)
        shutil.copy(ROOT / PATCH.path, tmp_path / PATCH.path)
        yield [tmp_path]

    monkeypatch.setattr(program, "copies", copies)
    return monkeypatch


Captured = pytest.CaptureFixture[str]


def test_a_mutant_that_is_killed_has_passed(
    on_one_file: pytest.MonkeyPatch, capsys: Captured
) -> None:
    played = Played(Ran(1))
    on_one_file.setattr(program, "pytest_run", played)

    assert program.main(["--only", NAME, "--pytest", "-m 'not slow'"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "1 passed, 0 failed"
    assert lines[-2].endswith(f"killed: {NAME}")
    assert played.arguments == [("-m", "not slow", *PATCH.red)] * 2


def test_a_survivor_fails_with_its_promise(
    on_one_file: pytest.MonkeyPatch, capsys: Captured
) -> None:
    on_one_file.setattr(program, "pytest_run", Played(Ran(0)))

    assert program.main(["--only", NAME]) == 1
    stated = capsys.readouterr().out
    assert f"survived: {NAME}\n  {PATCH.promise}\n" in stated
    assert stated.endswith("\n0 passed, 1 failed\n")


def test_what_is_red_anyway_proves_nothing(
    on_one_file: pytest.MonkeyPatch, capsys: Captured
) -> None:
    on_one_file.setattr(program, "pytest_run", Played(Ran(1), without=Ran(1, "was red before")))

    assert program.main(["--only", NAME]) == 1
    stated = capsys.readouterr().out
    assert f"error: {NAME}" in stated
    assert "was red before" in stated
    assert stated.endswith("\n0 passed, 1 failed\n")


def test_a_name_that_no_patch_has_is_an_error(capsys: Captured) -> None:
    assert program.main(["--only", NAME, "nothing-of-that-name"]) == 1
    assert capsys.readouterr().out == "no patch is called nothing-of-that-name\n"


@pytest.mark.parametrize("number", ["0", "-1", "many"])
def test_a_number_is_above_zero(number: str, capsys: Captured) -> None:
    with pytest.raises(SystemExit) as ended:
        program.main([f"--draw={number}"])
    assert ended.value.code == 2
    assert "is no number above 0" in capsys.readouterr().err
