"""promtool of the oldest Prometheus that rules must fit, and what any promtool is asked.

2.42 is what Debian 12 ships, and the first that knows `keep_firing_for`.
"""

import subprocess
from pathlib import Path

from simulator.cluster.build import Recipe

RECIPE_2_42 = Recipe(
    name="prometheus-2.42",
    title="promtool 2.42",
    what="promtool 2.42.0 from its Go module; about 2 minutes",
    sources=Path(__file__).parent / "go" / "prometheus-2.42",
    packages=("github.com/prometheus/prometheus/cmd/promtool",),
    programs=("promtool",),
    flags=(
        "-trimpath",
        "-ldflags",
        "-s -w -X github.com/prometheus/common/version.Version=2.42.0",
    ),
)
_SECONDS = 240.0
"""For one file of tests; it takes seconds where nothing else runs."""


def version(programs: Path) -> str:
    """Return what the program says of itself, in one line."""
    done = subprocess.run(
        [programs / "promtool", "--version"], capture_output=True, check=True, text=True
    )
    return (done.stdout or done.stderr).splitlines()[0]


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
