"""How long the command line takes on a fleet: whole processes, as a user starts them."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.figures import Figure
from benchmarks.waiting import TooLate

ROUNDS = 7
_BUDGETS: Mapping[str, str] = {"incidents": "0.4 s", "status": "1 s at 1,000 nodes"}


def measure(kubeconfig: Path, variables: Mapping[str, str]) -> Iterator[Figure]:
    """Run each command in turn, several times; the first time, which fills caches, is not counted.

    Raises TooLate when one fails.
    """
    rounds = [
        [_run(command, kubeconfig, variables) for command in _BUDGETS] for _ in range(ROUNDS + 1)
    ]
    for command, took in zip(_BUDGETS, zip(*rounds[1:], strict=True), strict=True):
        what, budget = f"draguard {command}", _BUDGETS[command]
        yield Figure(what=what, unit="s", values=took, budget=budget, digits=2)


def _run(command: str, kubeconfig: Path, variables: Mapping[str, str]) -> float:
    line = [sys.executable, "-m", "draguard", f"--kubeconfig={kubeconfig}", command]
    began = time.monotonic()
    # Of `status`, 1 says that the fleet has a problem.
    done = subprocess.run(
        line,
        env={**os.environ, **variables},
        capture_output=True,
        check=False,
        text=True,
        timeout=60,
    )
    spent = time.monotonic() - began
    if done.returncode not in {0, 1} or not done.stdout:
        raise TooLate(f"draguard {command} ended with {done.returncode}: {done.stderr}")
    return spent
