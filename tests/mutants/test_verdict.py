"""What is made of pytest's ends, and of a mutant: killed by a test that fails, and by no other."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from threading import Event

import pytest

from tests.mutants.copies import CopyError, copies, environment, restored
from tests.mutants.no_servers import needs_a_server
from tests.mutants.report import progress, share, sum_of, survivors
from tests.mutants.run import Mutant, Outcome, all_judged, judged, red_anyway
from tests.mutants.verdict import Ran, Verdict, pytest_run

GREEN, RED, EMPTY = Ran(0), Ran(1, "FAILED test_a.py"), Ran(5)


@pytest.mark.parametrize(
    ("ran", "verdict"),
    [
        (Ran(0), "survived"),
        (Ran(1, "FAILED tests/test_a.py::test_b - assert 1 == 2"), "killed"),
        (
            Ran(1, "FAILED test_a - Failed: Timeout (>120.0s) from pytest-timeout."),
            "killed by time-out",
        ),
        (Ran(1, "+++++++++++ Timeout +++++++++++"), "killed by time-out"),
        (Ran(None), "killed by time-out"),
        (Ran(2, "ERROR tests/test_a.py"), "error"),
        (Ran(3), "error"),
        (Ran(4), "error"),
        (Ran(5), "error"),
        (Ran(-9), "error"),
    ],
)
def test_only_a_test_that_fails_kills(ran: Ran, verdict: Verdict) -> None:
    assert ran.verdict == verdict


class TestRealPytest:
    @pytest.mark.parametrize(
        ("text", "verdict"),
        [
            ("def test_a(): assert False\n", "killed"),
            ("import nothing_of_that_name\n", "error"),
        ],
        ids=["red", "cannot be imported"],
    )
    def test_ends_as_it_is_understood(self, tmp_path: Path, text: str, verdict: Verdict) -> None:
        (tmp_path / "test_a.py").write_text(text, encoding="utf-8")

        assert pytest_run(tmp_path, ["test_a.py"]).verdict == verdict

    def test_that_takes_too_long_is_ended(self, tmp_path: Path) -> None:
        slow = "import time\ndef test_a(): time.sleep(600)\n"
        (tmp_path / "test_a.py").write_text(slow, encoding="utf-8")

        assert pytest_run(tmp_path, ["test_a.py"], seconds=0.5).verdict == "killed by time-out"

    def test_and_what_it_starts_have_the_modules_of_the_copy(self, tmp_path: Path) -> None:
        """`kubeapi` is installed, too: by a link to the checkout."""
        (tmp_path / "kubeapi").mkdir()
        (tmp_path / "kubeapi" / "__init__.py").write_text("OF = 'the copy'\n", encoding="utf-8")
        script = "import os; os.chdir('/'); import kubeapi; print(kubeapi.OF)"
        (tmp_path / "test_a.py").write_text(
            "import kubeapi, subprocess, sys\n"
            "def test_a():\n"
            "    assert kubeapi.OF == 'the copy'\n"
            f"    ran = subprocess.run([sys.executable, '-c', {script!r}], cwd='/',\n"
            "        capture_output=True, text=True)\n"
            "    assert ran.stdout == 'the copy\\n', ran.stderr\n",
            encoding="utf-8",
        )

        ran = pytest_run(tmp_path, ["test_a.py"])
        assert ran.green, ran.output
        assert list(tmp_path.rglob("__pycache__")) == []


def mutant(name: str = "m", *steps: tuple[str, ...], text: str = "changed") -> Mutant:
    def apply(folder: Path) -> None:
        (folder / "a.txt").write_text(text, encoding="utf-8")

    return Mutant(
        name=name,
        path="a.txt",
        about="A promise.",
        steps=steps or (("test_a.py",),),
        apply=apply,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.txt").write_text("as it was", encoding="utf-8")
    return tmp_path


class Pytest:
    """Plays runs of pytest: each gets what its first path is given, and is remembered."""

    def __init__(self, **by_path: Ran) -> None:
        self.by_path = by_path
        self.requested: list[tuple[str, ...]] = []
        self.seen: list[str] = []

    def __call__(self, folder: Path, paths: Sequence[str]) -> Ran:
        self.requested.append(tuple(paths))
        self.seen.append((folder / "a.txt").read_text(encoding="utf-8"))
        return self.by_path.get(paths[0], GREEN)


class TestJudged:
    def test_the_tests_see_the_mutant_and_afterwards_it_is_gone(self, folder: Path) -> None:
        played = Pytest(a=RED)

        assert judged(mutant("m", ("a",)), folder, played).verdict == "killed"
        assert played.seen == ["changed"]
        assert (folder / "a.txt").read_text(encoding="utf-8") == "as it was"

    def test_later_steps_are_run_only_while_it_lives(self, folder: Path) -> None:
        played = Pytest(b=RED)
        steps = (("a",), ("b",), ("c",))

        assert judged(mutant("m", *steps), folder, played).verdict == "killed"
        assert played.requested == [("a",), ("b",)]

    @pytest.mark.parametrize(
        ("first", "second", "verdict"),
        [
            (GREEN, GREEN, "survived"),
            (EMPTY, GREEN, "survived"),
            (EMPTY, RED, "killed"),
            (Ran(2), RED, "error"),
            (GREEN, Ran(4), "error"),
            (Ran(None), RED, "killed by time-out"),
        ],
    )
    def test_of_two_steps(self, first: Ran, second: Ran, verdict: str, folder: Path) -> None:
        played = Pytest(a=first, b=second)

        assert judged(mutant("m", ("a",), ("b",)), folder, played).verdict == verdict

    def test_a_single_step_without_tests_proves_nothing(self, folder: Path) -> None:
        assert judged(mutant("m", ("a",)), folder, Pytest(a=EMPTY)).verdict == "error"

    def test_a_change_that_changes_nothing_is_an_error(self, folder: Path) -> None:
        outcome = judged(mutant(text="as it was"), folder, Pytest())

        assert outcome.verdict == "error"
        assert "does not change a.txt" in outcome.output

    def test_a_file_that_is_not_there_is_an_error(self, tmp_path: Path) -> None:
        assert judged(mutant(), tmp_path, Pytest()).verdict == "error"


class TestRedAnyway:
    def test_all_at_once_is_enough_when_all_are_green(self, folder: Path) -> None:
        played = Pytest()
        mutants = [mutant("m", ("a", "b")), mutant("n", ("b", "c"))]

        assert red_anyway(mutants, [folder], played, at_once=True) == []
        assert played.requested == [("a", "b", "c")]
        assert played.seen == ["as it was"]

    def test_else_each_is_queried_by_itself(self, folder: Path) -> None:
        played = Pytest(a=Ran(1, "boom"), b=EMPTY)
        mutants = [mutant("m", ("a",)), mutant("n", ("b",)), mutant("o", ("c",))]

        (red,) = red_anyway(mutants, [folder], played, at_once=True)
        assert (red.mutant.name, red.verdict) == ("m", "error")
        assert "boom" in red.output
        assert sorted(played.requested[1:]) == [("a",), ("b",), ("c",)]


def test_mutants_are_judged_side_by_side_each_in_a_copy_of_its_own(tmp_path: Path) -> None:
    folders = [tmp_path / "0", tmp_path / "1"]
    for one_of_two in folders:
        one_of_two.mkdir()
        (one_of_two / "a.txt").write_text("as it was", encoding="utf-8")
    both, seen = Event(), set[Path]()

    def test(folder: Path, _paths: Sequence[str]) -> Ran:
        seen.add(folder)
        if len(seen) == 2:
            both.set()
        return RED if both.wait(60) else GREEN

    reported: list[int] = []
    mutants = [mutant(name) for name in "abcd"]
    outcomes = all_judged(mutants, folders, lambda number, _: reported.append(number), test)

    assert reported == [1, 2, 3, 4]
    assert {outcome.mutant.name for outcome in outcomes if outcome.killed} == set("abcd")


class TestReport:
    KILLED = Outcome(mutant=mutant("killed-one"), verdict="killed", seconds=1.25)
    LATE = Outcome(mutant=mutant("late-one"), verdict="killed by time-out")
    ALIVE = Outcome(mutant=mutant("living-one"), verdict="survived")
    BROKEN = Outcome(mutant=mutant("broken-one"), verdict="error", output="no such test")

    def test_a_line_for_each(self) -> None:
        assert progress(3, 12, self.KILLED) == " 3/12   1.2 s killed: killed-one"

    def test_what_was_killed_has_passed(self) -> None:
        assert sum_of([self.KILLED, self.LATE, self.ALIVE]) == "2 passed, 1 failed"
        assert sum_of([self.BROKEN]) == "0 passed, 1 failed"

    def test_the_share_is_of_those_that_were_tried(self) -> None:
        assert share([self.KILLED, self.LATE, self.ALIVE]) == "killed 2 of 3 (67%)"
        assert share([self.KILLED, self.BROKEN]) == "killed 1 of 1 (100%), 1 errors"
        assert share([self.BROKEN]) == "killed 0 of 0, 1 errors"

    def test_who_survives_is_reported_with_the_promise(self) -> None:
        reported = list(survivors([self.LATE, self.ALIVE, self.BROKEN, self.KILLED]))

        assert reported == [
            "error: broken-one\n  A promise.",
            "    no such test",
            "survived: living-one\n  A promise.",
        ]


class TestCopies:
    def test_what_git_knows_or_would_know_is_copied_as_it_lies_there(self, tmp_path: Path) -> None:
        root = repository(tmp_path)
        (root / "tracked.txt").write_text("new text", encoding="utf-8")
        (root / "gone.txt").unlink()
        (root / "untracked").mkdir()
        (root / "untracked" / "b.txt").write_text("b", encoding="utf-8")
        (root / "x.pyc").write_text("ignored", encoding="utf-8")

        with copies(2, root) as folders:
            for folder in folders:
                found = {path.relative_to(folder).as_posix() for path in folder.rglob("*.*")}
                assert found == {".gitignore", "tracked.txt", "untracked/b.txt"}
                assert (folder / "tracked.txt").read_text(encoding="utf-8") == "new text"
            assert root not in [*folders[0].parents, *folders[1].parents]
        assert not folders[0].exists()

    def test_no_checkout_is_reported(self, tmp_path: Path) -> None:
        with pytest.raises(CopyError, match="ls-files"), copies(1, tmp_path):
            pass

    def test_python_looks_into_the_copy_first_and_leaves_nothing_there(
        self, tmp_path: Path
    ) -> None:
        variables = environment(tmp_path)

        assert variables["PYTHONPATH"] == str(tmp_path)
        assert variables["PYTHONDONTWRITEBYTECODE"] == "1"

    def test_a_file_is_put_back_whatever_happens(self, tmp_path: Path) -> None:
        file = tmp_path / "a"
        file.write_bytes(b"before")

        with pytest.raises(FileExistsError), restored(file):
            changed_and_failed(file)
        assert file.read_bytes() == b"before"


def changed_and_failed(file: Path) -> None:
    file.write_bytes(b"after")
    raise FileExistsError


def repository(folder: Path) -> Path:
    root = folder / "checkout"
    root.mkdir()
    for name, text in ((".gitignore", "*.pyc\n"), ("tracked.txt", "old"), ("gone.txt", "")):
        (root / name).write_text(text, encoding="utf-8")
    for command in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", *command], cwd=root, check=True)
    return root


def test_what_needs_a_server_is_known_by_its_fixtures() -> None:
    assert needs_a_server(["tmp_path", "client", "control_plane"])
    assert needs_a_server(["prometheus_2_42_built"])
    assert not needs_a_server(["node", "tmp_path", "rebuilt"])
