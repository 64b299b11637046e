"""`make bench`: measure the budgets of docs/benchmarks.md on this machine, print one table.

Nothing is asserted: the exit code shows only whether everything could be measured.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from benchmarks import (
    churn,
    claims,
    core,
    growth,
    labels,
    pages,
    quiet,
    resources,
    sampling,
    scraping,
    storm,
    tainting,
)
from benchmarks.figures import Section
from benchmarks.lone import GPUS, SLICES, Ground
from benchmarks.machine import machine
from benchmarks.stage import Stage
from benchmarks.table import table
from benchmarks.waiting import TooLate

ROUNDS = 30
_began = time.monotonic()


def say(text: str) -> None:
    print(f"[{time.monotonic() - _began:5.0f} s] {text}", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    given = _given(arguments)
    before = machine()
    chosen = given.only or _NAMES
    try:
        sections = [
            *(_CODE[name]() for name in chosen if name in _CODE),
            *_of_exporter([name for name in chosen if name in _ALONE], given.minutes),
            *_of_chain([name for name in chosen if name in _BENCHMARKS], given.rounds),
        ]
    except (TooLate, ConnectionError) as error:
        print(f"cannot measure: {error}", file=sys.stderr)
        return 1
    print(f"\n{table(sections)}\n\n{before}")
    return 0


def _given(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--only",
        action="append",
        choices=_NAMES,
        help="measure this and nothing else; may be given more than once",
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="faults to measure [30]")
    parser.add_argument(
        "--minutes", type=float, default=growth.MINUTES, help="how long memory is watched [2]"
    )
    given = parser.parse_args(arguments)
    if given.rounds < 1:
        parser.error("--rounds is a number above 0")
    if given.minutes < 0:
        parser.error("--minutes is a number of minutes, 0 or more")
    return given


def _of_exporter(chosen: Sequence[str], minutes: float) -> Iterator[Section]:
    """Measure the exporter alone."""
    if not chosen:
        return
    with Ground(say) as ground:
        for name in chosen:
            yield from _ALONE[name](ground, minutes)


def _of_chain(chosen: Sequence[str], rounds: int) -> Iterator[Section]:
    """Measure exporter and remediator on a whole control plane."""
    if not chosen:
        return
    with Stage(say) as stage:
        say(stage.versions)
        begun = time.monotonic()
        for name in chosen:
            try:
                yield _BENCHMARKS[name](stage, rounds, time.monotonic() - begun)
            except TooLate:
                print(stage.last_words(), file=sys.stderr)
                raise


_CODE: Mapping[str, Callable[[], Section]] = {"core": core.measure, "claims": claims.measure}
_ALONE: Mapping[str, Callable[[Ground, float], Iterator[Section]]] = {
    "page": lambda ground, _: (pages.measure(ground, partition) for partition in (GPUS, SLICES)),
    "sampling": lambda ground, _: (
        sampling.measure(ground, partition, dcgm=dcgm)
        for dcgm in (False, True)
        for partition in (GPUS, SLICES)
    ),
    "growth": lambda ground, minutes: (
        growth.measure(ground, partition, minutes, dcgm=dcgm)
        for dcgm in (False, True)
        for partition in (GPUS, SLICES)
    ),
    "churn": lambda ground, _: (churn.measure(place) for place in (ground,)),
    "labels": lambda ground, _: (
        labels.measure(ground, partition) for partition in (labels.ONE, GPUS, SLICES)
    ),
    "requests": lambda ground, _: (quiet.measure(place) for place in (ground,)),
}
_BENCHMARKS: Mapping[str, Callable[[Stage, int, float], Section]] = {
    "scrape": lambda stage, _rounds, _uptime: scraping.measure(stage, say),
    "cpu": lambda stage, _rounds, _uptime: resources.measure_cpu(stage, say),
    "taint": lambda stage, rounds, _uptime: tainting.measure(stage, rounds, say),
    "memory": lambda stage, _rounds, uptime: resources.measure_memory(stage, say, uptime=uptime),
    "storm": lambda stage, _rounds, _uptime: storm.measure(stage, say),
}
"""In the order of measuring: what disturbs others comes last."""
_NAMES = (*_CODE, *_ALONE, *_BENCHMARKS)

if __name__ == "__main__":
    sys.exit(main())
