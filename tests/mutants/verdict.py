"""Tests of a copy into what they say of the mutant in it: killed, survived, or nothing.

The same tests are green without the mutant (`run`). So whatever else ends them is its doing: a test
that fails, or modules that cannot be imported any more. Only a signal from outside says nothing.
"""

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from tests.mutants.copies import environment

Verdict = Literal["killed", "killed by time-out", "survived", "explained", "error"]

SECONDS = 300
"""For one test; what takes so long hangs, however busy the machine is."""
LONGEST = 3600
"""Seconds for one run of pytest."""
_TIMED_OUT = ("from pytest-timeout", "+++ Timeout +++")
_OPTIONS = (
    *("-x", "-q", "-p", "no:cacheprovider"),
    *("-p", "tests.mutants.unshrunk", "-p", "tests.mutants.no_servers"),
    *("-m", "not verify and not node and not gpu", "--timeout", str(SECONDS)),
)
_OUTPUT = 4000
"""Characters of pytest's last words that are kept."""
_GREEN, _NO_TESTS = 0, 5
_FAILED = re.compile(r"^(?:FAILED|ERROR) ([^\s:]+\.py)", re.MULTILINE)


class Ran(msgspec.Struct, frozen=True):
    """One run of pytest."""

    status: int | None
    """Its exit status; None: it was ended because it took too long."""
    output: str = ""

    @property
    def failed(self) -> tuple[str, ...]:
        """The files of the tests that have failed, as pytest names them in its summary."""
        return tuple(dict.fromkeys(_FAILED.findall(self.output)))

    @property
    def verdict(self) -> Verdict:
        if self.status in (_GREEN, _NO_TESTS):
            return "survived"
        if self.status is None or any(mark in self.output for mark in _TIMED_OUT):
            return "killed by time-out"
        return "killed" if self.status > 0 else "error"


def pytest_run(folder: Path, paths: Sequence[str], seconds: float = LONGEST) -> Ran:
    """Run tests of a copy on the modules of that copy, up to the first that fails."""
    try:
        ran = subprocess.run(
            [sys.executable, "-m", "pytest", *_OPTIONS, *paths],
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
