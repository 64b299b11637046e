"""Where operators are changed, and to what: one place of one line at a time, and never a text."""

from pathlib import Path

import pytest

from tests.mutants.copies import ROOT
from tests.mutants.drawn import Drawn, draw, every_place, mutant_of, steps_of
from tests.mutants.places import Place, places


def mutations(source: str) -> set[str]:
    """Return what becomes of a source at each of its places."""
    return {place.changed(source) for place in places(source)}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a < b", {"a <= b"}),
        ("a >= b", {"a > b"}),
        ("a == b", {"a != b"}),
        ("a in b", {"a not in b"}),
        ("a not in b", {"a in b"}),
        ("a is None", {"a is not None"}),
        ("a is not None", {"a is None"}),
        ("a < b <= c", {"a <= b <= c", "a < b < c"}),
        ("(a) < (b)", {"(a) <= (b)"}),
        ("a and b", {"a or b"}),
        ("a or b or c", {"a and b or c", "a or b and c"}),
        ("not a", {"a"}),
        ("a + b", {"a - b"}),
        ("a * b", {"a / b"}),
        ("max(a, b)", {"min(a, b)"}),
        ("any(a)", {"all(a)"}),
        ("a[7]", {"a[8]"}),
        ("a = 0x10", {"a = 17"}),
        ("a = 1_000", {"a = 1001"}),
        ("a = True", {"a = False"}),
        ("b if a else c", {"b if not (a) else c"}),
        ("if a:\n    b", {"if not (a):\n    b"}),
        ("if not a:\n    b", {"if a:\n    b"}),
        ("def f(a: int = 3) -> bool:\n    return a", {
            "def f(a: int = 4) -> bool:\n    return a",
            "def f(a: int = 3) -> bool:\n    return not (a)",
        }),
        ("def f() -> int:\n    return a", set[str]()),
        ("'é…' in b and c", {"'é…' not in b and c", "'é…' in b or c"}),
        ("if 'é' in b:\n    c", {"if 'é' not in b:\n    c", "if not ('é' in b):\n    c"}),
        ("(a\n  and\n  b)", {"(a\n  or\n  b)"}),
    ],
)  # fmt: skip
def test_an_operator_becomes_another(source: str, expected: set[str]) -> None:
    assert mutations(source) == expected


@pytest.mark.parametrize(
    "source",
    [
        '"""a < b and not 3"""',
        "'a + b'",
        "f'{a + 1:04d}'",
        "'a' + b",
        "a: Literal[1] = b",
        "def f(a: Literal[1]) -> Literal[2]: ...",
        "class A(Struct, frozen=True, tag=3): ...",
        "@lru_cache(4096)\ndef f(): ...",
        "_log.info('%d', a + 1)",
        "if TYPE_CHECKING:\n    b = 1",
        "a = None",
        "a = 1.5",
        "a | b",
    ],
)
def test_texts_types_options_and_logs_are_left_alone(source: str) -> None:
    assert mutations(source) == set()


def test_a_place_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="line 1 has no '<'"):
        Place(line=1, column=2, old="<", new="<=").changed("a > b")


@pytest.fixture(scope="module")
def every() -> list[Drawn]:
    return every_place(ROOT)


class TestDrawn:
    def test_the_same_seed_draws_the_same(self, every: list[Drawn]) -> None:
        first, again, other = (draw(every, ROOT, 40, seed) for seed in ("a", "a", "b"))

        assert first == again
        assert len(set(first)) == 40
        assert first != other

    def test_each_compiles_and_changes_one_line(self, every: list[Drawn]) -> None:
        for found in draw(every, ROOT, 40, "a seed"):
            before = (ROOT / found.path).read_text(encoding="utf-8")
            after = found.place.changed(before)
            compile(after, found.path, "exec")
            pairs = zip(before.split("\n"), after.split("\n"), strict=True)
            changed = [number for number, (old, new) in enumerate(pairs, start=1) if old != new]
            assert changed == [found.place.line]

    def test_what_does_not_compile_is_left_out(self, tmp_path: Path) -> None:
        (tmp_path / "a.py").write_text("a < b\n", encoding="utf-8")
        places_of_a = [
            Drawn(path="a.py", place=Place(line=1, column=2, old="<", new=new))
            for new in ("<=", "< <", ">")
        ]

        assert {found.place.new for found in draw(places_of_a, tmp_path, 3, "s")} == {"<=", ">"}

    def test_they_are_of_what_decides_and_reads(self, every: list[Drawn]) -> None:
        files = {found.path for found in every}

        assert "remediator/diagnose/verdict.py" in files
        assert "exporter/sensor/kernel_log/driver_lines.py" in files
        assert not any(name.startswith("remediator/controller") for name in files)
        alone = every_place(ROOT, ("exporter",))
        assert {found.path.split("/")[0] for found in alone} == {"exporter"}

    def test_the_tests_of_its_own_room_come_first_and_none_is_left_out(self) -> None:
        steps = steps_of("remediator/diagnose/scope.py", ROOT)

        assert steps[0] == ("tests/remediator/diagnose",)
        assert "tests/remediator/test_incidents.py" in steps[1]
        assert "tests/remediator/controller" in steps[2]
        there = (ROOT / "tests" / "remediator").iterdir()
        tests = {entry.name for entry in there if entry.is_dir() or entry.match("test_*.py")}
        requested = [Path(path).name for step in steps for path in step]
        assert sorted(requested) == sorted(tests - {"__pycache__"})
        assert steps_of("remediator/diagnose/scope.py", ROOT, quick=True) == steps[:2]

    def test_a_mutant_says_what_it_changes_where(self, tmp_path: Path) -> None:
        source = "a = 1\nb = a  <  2\n"
        folder = tmp_path / "exporter" / "agent" / "join"
        folder.mkdir(parents=True)
        (folder / "x.py").write_text(source, encoding="utf-8")
        tests = tmp_path / "tests" / "exporter" / "agent" / "join"
        tests.mkdir(parents=True)
        (tests / "test_x.py").touch()
        place = Place(line=2, column=7, old="<", new="<=")

        made = mutant_of(Drawn(path="exporter/agent/join/x.py", place=place), tmp_path)
        assert made.name == "exporter/agent/join/x.py:2:7"
        assert made.about == "- b = a  <  2\n  + b = a  <=  2"
        assert made.steps == (("tests/exporter/agent/join",),)
        made.apply(tmp_path)
        assert (folder / "x.py").read_text(encoding="utf-8") == "a = 1\nb = a  <=  2\n"
