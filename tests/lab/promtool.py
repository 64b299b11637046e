"""What any promtool is asked of rule files."""

import subprocess
from pathlib import Path

import pytest

RELEASES = ("prometheus_built", pytest.param("prometheus_2_42_built", marks=pytest.mark.verify))
"""The release of the lab and, where everything is verified, Debian's: names of fixtures."""
_SECONDS = 240.0
"""For one file of tests; it takes seconds where nothing else runs."""


def check_rules(programs: Path, rules: Path) -> str:
    """Return what `promtool check rules` has against a file, "" for nothing."""
    return _complaints(programs, "check", "rules", "--lint=all", "--lint-fatal", rules)


def run_tests(programs: Path, tests: Path) -> str:
    """Return what fails of a file of rule tests, "" for nothing."""
    return _complaints(programs, "test", "rules", tests)


def _complaints(programs: Path, *arguments: str | Path) -> str:
    done = subprocess.run(
        [programs / "promtool", *arguments],
        capture_output=True,
        check=False,
        text=True,
        timeout=_SECONDS,
    )
    return f"{done.stdout}{done.stderr}" if done.returncode else ""
