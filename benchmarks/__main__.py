"""`make bench`: measure the budgets of docs/benchmarks.md on this machine, print one table.

Nothing is asserted: the exit code says only whether everything could be measured.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence

from benchmarks import fencing, resources, scraping, storm
from benchmarks.figures import Section
from benchmarks.machine import machine
from benchmarks.stage import Stage
from benchmarks.table import table
from benchmarks.tape import TooLate

ROUNDS = 30
_began = time.monotonic()


def say(text: str) -> None:
    print(f"[{time.monotonic() - _began:5.0f} s] {text}", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", choices=tuple(_BENCHMARKS), help="measure one thing only")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="faults to measure [30]")
    given = parser.parse_args(arguments)
    if given.rounds < 1:
        parser.error("--rounds is a number above 0")
    before = machine()
    wanted = [given.only] if given.only else list(_BENCHMARKS)
    try:
        with Stage(say) as stage:
            versions = stage.versions
            sections = list(_measured(stage, wanted, given.rounds))
    except (TooLate, ConnectionError) as error:
        print(f"cannot measure: {error}", file=sys.stderr)
        return 1
    print(f"\n{table(sections)}\n\n{before}\n{versions}")
    return 0


def _measured(stage: Stage, wanted: Sequence[str], rounds: int) -> Iterator[Section]:
    begun = time.monotonic()
    for name in wanted:
        try:
            yield _BENCHMARKS[name](stage, rounds, time.monotonic() - begun)
        except TooLate:
            print(stage.last_words(), file=sys.stderr)
            raise


_BENCHMARKS: dict[str, Callable[[Stage, int, float], Section]] = {
    "scrape": lambda stage, _rounds, _uptime: scraping.measure(stage, say),
    "cpu": lambda stage, _rounds, _uptime: resources.measure_cpu(stage, say),
    "fence": lambda stage, rounds, _uptime: fencing.measure(stage, rounds, say),
    "memory": lambda stage, _rounds, uptime: resources.measure_memory(stage, say, uptime=uptime),
    "storm": lambda stage, _rounds, _uptime: storm.measure(stage, say),
}
"""In the order of measuring: what disturbs others comes last."""

if __name__ == "__main__":
    sys.exit(main())
