"""What is made of pytest's ends, and of a mutant: killed by a test that was green without it."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from threading import Event

import pytest

from tests.mutants.copies import CopyError, copies, environment
from tests.mutants.drawn import Mutant
from tests.mutants.no_servers import needs_a_server
from tests.mutants.places import Place
from tests.mutants.report import progress, share, summary, unseen
from tests.mutants.run import Outcome, all_judged, judged
from tests.mutants.verdict import Ran, Verdict, pytest_run

GREEN, RED, ENDED = Ran(0), Ran(1, "FAILED red.py::test_a - assert 1 == 2"), Ran(-9, "no memory")


@pytest.mark.parametrize(
    ("ran", "verdict"),
    [
        (Ran(0), "survived"),
        (Ran(5), "survived"),
        (Ran(1, "FAILED tests/test_a.py::test_b - assert 1 == 2"), "killed"),
        (
            Ran(1, "FAILED test_a - Failed: Timeout (>120.0s) from pytest-timeout."),
            "killed by time-out",
        ),
        (Ran(1, "+++++++++++ Timeout +++++++++++"), "killed by time-out"),
        (Ran(None), "killed by time-out"),
        (Ran(2, "ERROR tests/test_a.py"), "killed"),
        (Ran(4, "ImportError while loading conftest"), "killed"),
        (Ran(-9), "error"),
    ],
)
def test_whatever_ends_green_tests_kills_but_for_a_signal(ran: Ran, verdict: Verdict) -> None:
    assert ran.verdict == verdict


class TestRealPytest:
    @pytest.mark.parametrize(
        ("text", "verdict"),
        [
            ("def test_a(): pass\n", "survived"),
            ("def test_a(): assert False\n", "killed"),
            ("import nothing_of_that_name\n", "killed"),
            ("import pytest\n@pytest.mark.verify\ndef test_a(): assert False\n", "survived"),
            ("def test_a(control_plane): assert False\n", "survived"),
        ],
        ids=["green", "red", "cannot be imported", "exhaustive", "needs a server"],
    )
    def test_ends_as_it_is_understood(self, tmp_path: Path, text: str, verdict: Verdict) -> None:
        (tmp_path / "test_a.py").write_text(text, encoding="utf-8")

        ran = pytest_run(tmp_path, ["test_a.py"])
        assert ran.verdict == verdict, ran.output

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
        assert ran.verdict == "survived", ran.output
        assert list(tmp_path.rglob("__pycache__")) == []


def mutant(path: str = "a.py", before: str = "a < b", after: str = "a <= b") -> Mutant:
    place = Place(line=1, column=2, old="<", new="<=", within="f")
    return Mutant(path=path, place=place, before=before, after=after)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.py").write_text("a < b\n", encoding="utf-8")
    return tmp_path


class Pytest:
    """Plays runs of pytest: each gets what its first path is given, and is remembered.

    Without the mutant all tests are green, but for those of `anyway`.
    """

    def __init__(self, anyway: Ran = GREEN, **by_path: Ran) -> None:
        self.anyway, self.by_path = anyway, by_path
        self.requested: list[tuple[str, ...]] = []
        self.seen: list[str] = []

    def __call__(self, folder: Path, paths: Sequence[str]) -> Ran:
        self.requested.append(tuple(paths))
        self.seen.append((folder / "a.py").read_text(encoding="utf-8"))
        return self.by_path.get(paths[0], GREEN) if "<=" in self.seen[-1] else self.anyway


class TestJudged:
    def test_the_tests_see_the_mutant_and_afterwards_it_is_gone(self, folder: Path) -> None:
        played = Pytest(a=RED)

        assert judged(mutant(), [("a",)], folder, played, set()).verdict == "killed"
        assert played.seen == ["a <= b\n", "a < b\n"]
        assert (folder / "a.py").read_text(encoding="utf-8") == "a < b\n"

    def test_it_is_gone_whatever_happens(self, folder: Path) -> None:
        def fails(_folder: Path, _paths: Sequence[str]) -> Ran:
            raise FileExistsError

        with pytest.raises(FileExistsError):
            judged(mutant(), [("a",)], folder, fails, set())
        assert (folder / "a.py").read_text(encoding="utf-8") == "a < b\n"

    def test_later_steps_are_run_only_while_it_lives(self, folder: Path) -> None:
        played = Pytest(b=RED)

        steps = [("a",), ("b",), ("c",)]
        assert judged(mutant(), steps, folder, played, {"red.py"}).verdict == "killed"
        assert played.requested == [("a",), ("b",)]

    @pytest.mark.parametrize(
        ("first", "second", "verdict"),
        [
            (GREEN, GREEN, "survived"),
            (Ran(5), RED, "killed"),
            (ENDED, RED, "error"),
            (GREEN, ENDED, "error"),
            (Ran(None), RED, "killed by time-out"),
        ],
    )
    def test_of_two_steps(self, first: Ran, second: Ran, verdict: str, folder: Path) -> None:
        outcome = judged(mutant(), [("a",), ("b",)], folder, Pytest(a=first, b=second), set())

        assert outcome.verdict == verdict
        assert outcome.output == ("no memory" if verdict == "error" else "")


class TestWithoutTheMutant:
    """What is red anyway proves nothing."""

    def test_the_file_that_failed_is_run_once(self, folder: Path) -> None:
        played, green = Pytest(a=RED), set[str]()

        for _ in range(2):
            assert judged(mutant(), [("a", "b")], folder, played, green).verdict == "killed"
        assert played.requested == [("a", "b"), ("red.py",), ("a", "b")]

    def test_the_whole_step_is_run_where_pytest_names_no_file(self, folder: Path) -> None:
        played = Pytest(a=Ran(4, "ImportError while loading conftest"))

        assert judged(mutant(), [("a", "b")], folder, played, set()).verdict == "killed"
        assert played.requested == [("a", "b")] * 2

    def test_a_red_one_is_reported(self, folder: Path) -> None:
        outcome = judged(mutant(), [("a",)], folder, Pytest(anyway=RED, a=RED), set())

        assert outcome.verdict == "error"
        assert outcome.output.startswith("FAILED red.py")
        assert outcome.output.endswith("\nIt is red without the mutant, too.")


@pytest.mark.parametrize(
    ("output", "files"),
    [
        ("FAILED tests/a/test_b.py::TestC::test_d[x: y] - assert 1", ("tests/a/test_b.py",)),
        ("ERROR tests/test_b.py - ImportError\nERROR tests/test_b.py", ("tests/test_b.py",)),
        ("1 failed", ()),
    ],
)
def test_the_files_of_failed_tests_are_read_from_the_summary(
    output: str, files: tuple[str, ...]
) -> None:
    assert Ran(1, output).failed == files


def test_mutants_are_judged_side_by_side_each_in_a_copy_of_its_own(tmp_path: Path) -> None:
    folders = [tmp_path / "0", tmp_path / "1"]
    both, seen = Event(), set[Path]()

    def judge(judged_one: Mutant, folder: Path) -> Outcome:
        seen.add(folder)
        if len(seen) == 2:
            both.set()
        verdict = "killed" if both.wait(60) else "survived"
        return Outcome(mutant=judged_one, verdict=verdict)

    reported: list[int] = []
    mutants = [mutant(name) for name in "abcd"]
    outcomes = all_judged(mutants, folders, judge, lambda number, _: reported.append(number))

    assert reported == [1, 2, 3, 4]
    assert {found.mutant.path for found in outcomes if found.verdict == "killed"} == set("abcd")


class TestReport:
    KILLED = Outcome(mutant=mutant("killed.py"), verdict="killed", seconds=1.25)
    LATE = Outcome(mutant=mutant("late.py"), verdict="killed by time-out")
    KNOWN = Outcome(mutant=mutant("known.py"), verdict="explained")
    ALIVE = Outcome(mutant=mutant("living.py"), verdict="survived")
    BROKEN = Outcome(mutant=mutant("broken.py"), verdict="error", output="no memory")

    def test_a_line_for_each(self) -> None:
        assert progress(3, 12, self.KILLED) == " 3/12   1.2 s killed: killed.py:1:2 in f"

    def test_the_share_is_of_those_that_are_killed_or_explained(self) -> None:
        assert share([self.KILLED, self.LATE, self.KNOWN, self.ALIVE, self.BROKEN]) == 60
        assert summary([self.KILLED, self.LATE, self.KNOWN, self.ALIVE, self.BROKEN]) == (
            "60 % of 5 mutants: 2 killed, 1 explained, 1 survived, 1 errors"
        )

    def test_who_survives_is_reported_with_the_change(self) -> None:
        both = [self.LATE, self.ALIVE, self.BROKEN, self.KILLED, self.KNOWN]

        assert list(unseen(both)) == [
            "error: broken.py:1:2 in f\n  - a < b\n  + a <= b",
            "    no memory",
            "survived: living.py:1:2 in f\n  - a < b\n  + a <= b",
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
