"""`make soak`: the large counts, one part after the other, and what became of each.

A part that fails or takes too long does not stop the next. Ends with 1 when one has failed.
"""

import argparse
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.machine import machine
from benchmarks.soak.document import DocumentError, Row, Run, updated
from benchmarks.soak.parts import NAMES, ROOT, Part, chosen, parts
from benchmarks.soak.running import Outcome, clock, run_all

LOGS = ROOT / "build" / "soak"
SHOWN = 40
"""Lines of the output of a failed part that are printed."""
BUILDS = ("-m", "tests.lab.builds", "test")
_began = time.monotonic()


def main(arguments: Sequence[str] | None = None) -> int:
    given = _given(arguments)
    seed: int = random.SystemRandom().randrange(1, 1_000_000) if given.seed is None else given.seed
    selected = chosen(parts(seed=seed, scale=given.scale, jobs=given.jobs), given.only)
    run = run_of(selected, seed)
    say(f"seed {seed}, commit {run.commit}; {run.machine}")
    given.logs.mkdir(parents=True, exist_ok=True)
    if any(part.servers for part in selected):
        say("builds: the servers of the tests")
        subprocess.run((sys.executable, *BUILDS), cwd=ROOT, check=False)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    return soak(selected, run, given.logs, jobs=given.jobs, write=given.write)


def soak(
    selected: Sequence[Part], run: Run, logs: Path, *, jobs: int = 1, write: Path | None = None
) -> int:
    """Run parts, keep each outcome in a document as soon as it is there, print the last line."""
    outcomes: list[Outcome] = []

    def tell(outcome: Outcome) -> None:
        outcomes.append(outcome)
        verdict = "passed" if outcome.passed else "FAILED"
        say(f"{outcome.part.name}: {verdict} in {clock(outcome.seconds)}: {outcome.figures}")
        if not outcome.passed:
            log = logs / f"{outcome.part.name}.log"
            last = log.read_text(encoding="utf-8", errors="replace").splitlines()[-SHOWN:]
            print("\n".join([*(f"  | {line}" for line in last), f"  all of it: {log}"]), flush=True)
        if write:
            keep(write, run, outcomes)

    try:
        run_all(selected, logs, tell=tell, say=say, jobs=jobs)
    except KeyboardInterrupt:
        say("interrupted: what has ended is kept")
    passed = sum(outcome.passed for outcome in outcomes)
    print(f"{passed} passed, {len(selected) - passed} failed")
    return 0 if passed == len(selected) else 1


def keep(path: Path, run: Run, outcomes: Sequence[Outcome]) -> None:
    """Write a document anew with all that has ended."""
    rows = [
        Row(
            part=outcome.part.name,
            what=outcome.part.what,
            passed=outcome.passed,
            figures=outcome.figures,
            seconds=outcome.seconds,
        )
        for outcome in outcomes
    ]
    text = updated(path.read_text(encoding="utf-8"), run, rows, NAMES)
    path.write_text(text, encoding="utf-8")


def run_of(selected: Sequence[Part], seed: int) -> Run:
    """Return what is run, when and on what."""
    date, _, rest = machine().partition("; ")
    commit = _git("rev-parse", "--short", "HEAD").strip() or "unknown"
    # Lines that an earlier soak wrote do not count as changes.
    if _git("status", "--porcelain", "--", ".", ":!docs/soak.md").strip():
        commit += " with changes"
    return Run(date=date, commit=commit, seed=seed, machine=rest, parts=len(selected))


def _git(*arguments: str) -> str:
    ran = subprocess.run(("git", *arguments), cwd=ROOT, capture_output=True, text=True, check=False)
    return ran.stdout


def say(text: str) -> None:
    for line in text.splitlines():
        print(f"[{clock(time.monotonic() - _began):>7}] {line}", flush=True)


def _given(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--only", nargs="+", default=[], choices=NAMES, metavar="NAME", help=_NAMES)
    parser.add_argument("--seed", type=int, help="of all parts that take one [drawn]")
    parser.add_argument("--scale", type=float, default=1.0, help="of all counts; 0.01 is a try [1]")
    parser.add_argument("--jobs", type=int, default=1, help="parts side by side [1]")
    parser.add_argument("--write", type=Path, help="document whose generated part is written anew")
    parser.add_argument("--logs", type=Path, default=LOGS, help="folder of outputs [build/soak]")
    given = parser.parse_args(arguments)
    if given.scale <= 0 or given.jobs < 1:
        parser.error("--scale is a number above 0, and --jobs one from 1")
    if given.write:
        # A document that cannot be written is refused before anything runs.
        nothing = Run(date="", commit="", seed=0, machine="", parts=0)
        try:
            updated(given.write.read_text(encoding="utf-8"), nothing, ())
        except (OSError, DocumentError) as error:
            parser.error(f"--write {given.write}: {error}")
    return given


_NAMES = f"these parts only: {', '.join(NAMES)}"

if __name__ == "__main__":
    sys.exit(main())
