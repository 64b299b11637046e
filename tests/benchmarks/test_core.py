"""The benchmark of the decision core counts what its scenario enters, and prints it."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from benchmarks import __main__ as program
from benchmarks.core import (
    entries,
    largest_struct,
    levels_of_imports,
    lines_of_code,
    measure,
    play,
)

COUNTED = '''\
"""A docstring."""

import msgspec


class Small(msgspec.Struct):
    one: int
    """What it is."""


class Large(Small):  # one field more
    other: int


def twice(value: int) -> int:
    """Return the double."""
    return sum(each for each in [value for _ in range(2)])


def numbers():
    yield from (1, 2, 3)


def run() -> list[int]:
    return list(map(lambda value: twice(value), numbers()))
'''


@pytest.fixture
def counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    (tmp_path / "counted_by_the_benchmark.py").write_text(COUNTED, encoding="utf-8")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    importlib.invalidate_caches()
    yield importlib.import_module("counted_by_the_benchmark")
    del sys.modules["counted_by_the_benchmark"]


def test_only_calls_of_functions_made_by_def_are_counted(
    counted: ModuleType, tmp_path: Path
) -> None:
    with entries([tmp_path]) as entered:
        assert counted.run() == [2, 4, 6]
    assert counted.twice(1) == 2  # no more

    names = {name: calls for (_, name), calls in entered.calls.items()}
    assert names == {"run": 1, "numbers": 1, "twice": 3}
    assert entered.files == {counted.__file__}


def test_what_is_called_elsewhere_is_not_counted(counted: ModuleType, tmp_path: Path) -> None:
    with entries([tmp_path / "other"]) as entered:
        counted.run()

    assert (entered.files, entered.calls.total()) == (set(), 0)


def test_lines_without_blanks_comments_and_docstrings_are_code() -> None:
    assert lines_of_code('"""One."""\n\n# two\nx = 1  # three\n\ny = (\n    """four"""\n)\n') == 4


def test_the_largest_struct_has_the_fields_that_it_inherits(counted: ModuleType) -> None:
    assert largest_struct([counted.__name__]) == (2, "Large")


def test_levels_are_the_modules_of_the_longest_chain_of_imports(tmp_path: Path) -> None:
    modules = {
        "p.low": "import os",
        "p.middle": "from p import low",
        "p.high": "from p.middle import x\nfrom elsewhere import y",
        "p.beside": "from p.low import x",
    }
    files = {name: tmp_path / name for name in modules}
    for name, file in files.items():
        file.write_text(modules[name], encoding="utf-8")

    assert levels_of_imports(files) == 3


def test_the_scenario_is_the_same_each_time() -> None:
    play()  # reads the tables
    taints, evicts = play()

    assert play() == (taints, evicts)
    assert taints.calls != evicts.calls


def test_files_and_calls_have_their_goals() -> None:
    figures = {figure.what: figure for figure in measure().figures}

    files = figures["files of plan and diagnose that are entered"]
    calls = figures["calls of their functions"]
    assert (files.budget, calls.budget) == ("15", "300")
    assert 1 < files.values[0] < calls.values[0]


def test_the_program_prints_both(capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["--only", "core"]) == 0

    printed = capsys.readouterr().out
    assert "files of plan and diagnose that are entered" in printed
    assert "calls of their functions" in printed
