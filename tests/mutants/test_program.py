"""The command on a small tree with real tests: what it says, and when it ends with 1."""

import subprocess
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from tests.mutants.__main__ import main
from tests.mutants.explained import FILE

SOURCE = "def left(a, b):\n    return a - b\n\n\ndef full(a, b):\n    return a >= b\n"
IMPORT = "from remediator.plan.budget import full, left\n"
LEFT = f"{IMPORT}def test_left(): assert left(3, 1) == 2\n"
FULL = "def test_full(): assert full(2, {})\n"
REASON = "full\n- return a >= b\n+ return a > b\nNo budget is ever that full.\n"
OPTIONS = ("--drawn", "2", "--seed", "s", "--package", "remediator")
Captured = pytest.CaptureFixture[str]


def tree(root: Path, tests: str, explained: str = "") -> Path:
    """Return a repository whose budget has two operators, and these tests."""
    files = {
        "remediator/__init__.py": "",
        "remediator/plan/__init__.py": "",
        "remediator/plan/budget.py": SOURCE,
        "tests/remediator/plan/test_budget.py": tests,
        FILE: explained,
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    return root


@pytest.mark.parametrize(
    ("share", "explained", "status", "closing"),
    [
        ("50", "", 0, "50 % of 2 mutants: 1 killed, 0 explained, 1 survived, 0 errors"),
        ("51", "", 1, "50 % of 2 mutants: 1 killed, 0 explained, 1 survived, 0 errors"),
        ("100", REASON, 0, "100 % of 2 mutants: 1 killed, 1 explained, 0 survived, 0 errors"),
    ],
    ids=["enough are killed", "too few are killed", "a survivor is explained"],
)
def test_it_ends_with_the_share(
    tmp_path: Path, share: str, explained: str, status: int, closing: str
) -> None:
    root = tree(tmp_path, LEFT + FULL.format(1), explained)

    with redirect_stdout(StringIO()) as printed:
        assert main([*OPTIONS, "--share", share], root) == status
    assert printed.getvalue().endswith(f"\n{closing}\n")
    survivor = "remediator/plan/budget.py:6:13 in full\n  - return a >= b\n  + return a > b\n"
    assert (f"\nsurvived: {survivor}" in printed.getvalue()) == (not explained)


def test_what_is_red_anyway_proves_nothing(tmp_path: Path, capsys: Captured) -> None:
    root = tree(tmp_path, LEFT + FULL.format(3))

    assert main(OPTIONS, root) == 1
    printed = capsys.readouterr().out
    assert "assert full(2, 3)" in printed
    assert "It is red without the mutant, too." in printed


def test_no_checkout_is_reported(tmp_path: Path, capsys: Captured) -> None:
    assert main(["--seed", "s"], tmp_path) == 1
    assert "git ls-files" in capsys.readouterr().out


@pytest.mark.parametrize("number", ["0", "-1", "many"])
def test_a_number_is_above_zero(number: str, capsys: Captured) -> None:
    with pytest.raises(SystemExit) as ended:
        main([f"--drawn={number}"])
    assert ended.value.code == 2
    assert "is no number above 0" in capsys.readouterr().err
