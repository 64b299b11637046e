"""A property is tried with the same examples in each run, alone and after any other test."""

import sys
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st


def drawn() -> list[tuple[int, str]]:
    """Return the examples of one property, made anew."""
    found: list[tuple[int, str]] = []

    @settings(max_examples=100)
    @given(st.integers(), st.text())
    def take(number: int, text: str) -> None:
        found.append((number, text))

    take()
    return found


def test_a_module_that_is_loaded_meanwhile_changes_no_example(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = drawn()
    module = ModuleType("loaded_meanwhile")
    module.__file__ = str(tmp_path / "loaded_meanwhile.py")
    lines = (f"A{number}, B{number} = {number}, 'word {number}'" for number in range(7531, 7631))
    Path(module.__file__).write_text("\n".join(lines), encoding="utf-8")
    monkeypatch.setitem(sys.modules, module.__name__, module)

    assert drawn() == before
