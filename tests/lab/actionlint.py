"""The linter of GitHub's workflows, built once per machine from its Go module."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from simulator.cluster.build import Recipe

VERSION = "v1.7.12"
RECIPE = Recipe(
    name="actionlint",
    title="actionlint",
    what=f"actionlint {VERSION} from its Go module; seconds",
    sources=Path(__file__).parent / "go" / "actionlint",
    packages=("github.com/rhysd/actionlint/cmd/actionlint",),
    programs=("actionlint",),
    flags=("-trimpath", "-ldflags", f"-s -w -X github.com/rhysd/actionlint.version={VERSION}"),
    cgo=False,
)


def faults(programs: Path, workflows: Sequence[Path]) -> str:
    """Return what it finds, "" for nothing; shellcheck and pyflakes of the machine stay out."""
    done = subprocess.run(
        [programs / "actionlint", "-no-color", "-shellcheck=", "-pyflakes=", *workflows],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode in (0, 1), done.stderr
    return done.stdout
