"""What is drawn, and which tests may see it."""

from pathlib import Path

import pytest

from tests.mutants.copies import ROOT
from tests.mutants.drawn import PACKAGES, ROOMS, draw, every_place, steps_of
from tests.mutants.explained import FILE, explained


class TestDraw:
    def test_the_same_seed_draws_the_same(self, tmp_path: Path) -> None:
        module(tmp_path, "a = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]\n")
        first, again, other = (draw(tmp_path, PACKAGES, 9, seed) for seed in ("a", "a", "b"))

        assert first == again
        assert len(set(first)) == 9
        assert first != other

    def test_each_compiles_and_changes_one_line(self) -> None:
        for mutant in draw(ROOT, PACKAGES, 40, "a seed"):
            before = (ROOT / mutant.path).read_text(encoding="utf-8")
            after = mutant.place.changed(before)
            compile(after, mutant.path, "exec")
            pairs = enumerate(zip(before.split("\n"), after.split("\n"), strict=True), start=1)
            changed = [(number, *pair) for number, pair in pairs if pair[0] != pair[1]]
            ((number, old, new),) = changed
            assert number == mutant.place.line
            assert (old.strip(), new.strip()) == (mutant.before, mutant.after)

    def test_every_room_has_some(self) -> None:
        files = {path for path, _ in every_place(ROOT)}

        assert [
            room
            for package, rooms in ROOMS.items()
            for room in rooms
            if not any(path.startswith(f"{package}/{room}/") for path in files)
        ] == []

    def test_what_is_in_no_function_goes_by_its_module(self, tmp_path: Path) -> None:
        module(tmp_path, "LIMIT = 64\n")
        (mutant,) = draw(tmp_path, PACKAGES, 9, "s")

        assert mutant.lasting == "module\n- LIMIT = 64\n+ LIMIT = 65"

    def test_an_entry_lasts_when_its_function_moves(self, tmp_path: Path) -> None:
        function = "def f():\n    return a < b\n"
        module(tmp_path / "old", function)
        module(tmp_path / "new", f"import a\n\n\n{function}", "other.py")
        (old,), (new,) = (draw(tmp_path / name, PACKAGES, 9, "s") for name in ("old", "new"))

        assert old.name == "remediator/plan/module.py:2:13 in f"
        assert new.name == "remediator/plan/other.py:5:13 in f"
        assert old.lasting == new.lasting == "f\n- return a < b\n+ return a <= b"


def module(root: Path, source: str, name: str = "module.py") -> None:
    folder = root / "remediator" / "plan"
    folder.mkdir(parents=True)
    (folder / name).write_text(source, encoding="utf-8")


def test_the_tests_of_its_own_room_come_first_and_none_is_left_out() -> None:
    steps = steps_of("remediator/plan/stage/caps.py", ROOT)

    assert steps[0] == ("tests/remediator/plan",)
    assert {"tests/remediator/diagnose", "tests/remediator/test_incidents.py"} < set(steps[1])
    assert "tests/remediator/controller" in steps[2]
    there = (ROOT / "tests" / "remediator").iterdir()
    tests = {entry.name for entry in there if entry.is_dir() or entry.match("test_*.py")}
    requested = [Path(path).name for step in steps for path in step]
    assert sorted(requested) == sorted(tests - {"__pycache__"})
    assert steps_of("remediator/plan/stage/caps.py", ROOT, quick=True) == steps[:2]


class TestExplained:
    ENTRY = "f\n- return a < b\n+ return a <= b\nThey are never equal:\na has no date.\n"

    def test_an_entry_has_a_place_and_a_reason(self) -> None:
        assert explained(f"# Heading\n# goes on\n\n{self.ENTRY}\n{self.ENTRY}") == {
            "f\n- return a < b\n+ return a <= b": "They are never equal: a has no date."
        }

    @pytest.mark.parametrize("lines", [1, 2, 3])
    def test_without_one_of_its_lines_it_is_refused(self, lines: int) -> None:
        with pytest.raises(ValueError, match="and reason: 'f"):
            explained("\n".join(self.ENTRY.splitlines()[:lines]))

    def test_those_of_the_project_can_be_read(self) -> None:
        explained((ROOT / FILE).read_text(encoding="utf-8"))
