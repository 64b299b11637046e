"""What pytest did into a verdict on a mutant: killed, survived, or nothing that can be said.

A mutant is killed by a test that fails. A run that found no tests, could not import them or was
called wrongly proves nothing, although pytest does not end with 0 then.
"""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from tests.mutants.copies import environment

Verdict = Literal["killed", "killed by time-out", "survived", "error"]
KILLED: frozenset[Verdict] = frozenset({"killed", "killed by time-out"})

SECONDS = 120
"""For one test. Those of the patches take less than one; what takes so long hangs."""
LONGEST = 3600
"""Seconds for one run of pytest."""
_TIMED_OUT = ("from pytest-timeout", "+++ Timeout +++")
_PLUGINS = ("-p", "tests.mutants.unshrunk")
_OUTPUT = 4000
"""Characters of pytest's last words that are kept."""


class Ran(msgspec.Struct, frozen=True):
    """One run of pytest."""

    status: int | None
    """Its exit status; None: it was ended from outside."""
    output: str = ""

    @property
    def green(self) -> bool:
        return self.status == 0

    @property
    def empty(self) -> bool:
        """Whether no test was left to run."""
        return self.status == 5

    @property
    def verdict(self) -> Verdict:
        match self.status:
            case 0:
                return "survived"
            case 1:
                late = any(mark in self.output for mark in _TIMED_OUT)
                return "killed by time-out" if late else "killed"
            case None:
                return "killed by time-out"
            case _:
                return "error"


def pytest_run(folder: Path, arguments: Sequence[str], seconds: float = LONGEST) -> Ran:
    """Run tests of a copy on the modules of that copy, up to the first that fails."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *_PLUGINS]
    command += ["--timeout", str(SECONDS), *arguments]
    try:
        ran = subprocess.run(
            command,
            cwd=folder,
            env=environment(folder),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        return Ran(None, f"pytest took longer than {seconds:g} s")
    return Ran(ran.returncode, ran.stdout.decode(errors="replace")[-_OUTPUT:])
