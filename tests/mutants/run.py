"""Mutants into outcomes: each is made in a copy, its tests are run there, and it is taken back."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from queue import SimpleQueue
from time import monotonic
from typing import TypeVar

import msgspec

from tests.mutants.drawn import Mutant, Step
from tests.mutants.verdict import Ran, Verdict

T = TypeVar("T")
R = TypeVar("R")
Test = Callable[[Path, Step], Ran]
Judge = Callable[[Mutant, Path], "Outcome"]


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a mutant."""

    mutant: Mutant
    verdict: Verdict
    seconds: float = 0.0
    output: str = ""
    """Why, where it is an error."""


def judged(mutant: Mutant, steps: Sequence[Step], folder: Path, test: Test) -> Outcome:
    """Return what the first tests that do not pass say of a mutant, which is gone afterwards."""
    begun, file = monotonic(), folder / mutant.path
    before = file.read_bytes()
    ran = Ran(0)
    try:
        file.write_text(mutant.place.changed(before.decode()), encoding="utf-8")
        for step in steps:
            ran = test(folder, step)
            if ran.verdict != "survived":
                break
    finally:
        file.write_bytes(before)
    why = ran.output if ran.verdict == "error" else ""
    return Outcome(mutant=mutant, verdict=ran.verdict, seconds=monotonic() - begun, output=why)


def all_judged(
    mutants: Sequence[Mutant],
    folders: Sequence[Path],
    judge: Judge,
    report: Callable[[int, Outcome], None],
) -> list[Outcome]:
    """Judge mutants side by side, one in each copy; `report` gets each outcome as it comes."""
    outcomes: list[Outcome] = []
    for outcome in _side_by_side(mutants, folders, judge):
        outcomes.append(outcome)
        report(len(outcomes), outcome)
    return outcomes


def red_without_mutants(steps: Sequence[Step], folders: Sequence[Path], test: Test) -> str:
    """Return what pytest says of tests that are red anyway, "" where all are green.

    Only tests that are green without a mutant prove anything about one.
    """
    paths = sorted({path for step in steps for path in step})
    lots = [tuple(paths[index :: len(folders)]) for index in range(len(folders))]
    ran = _side_by_side([lot for lot in lots if lot], folders, lambda lot, at: test(at, lot))
    return "\n".join(run.output for run in ran if run.verdict != "survived")


def _side_by_side(
    things: Sequence[T], folders: Sequence[Path], work: Callable[[T, Path], R]
) -> Iterator[R]:
    """Give what work on each thing in a copy of its own has led to, first done first."""
    free: SimpleQueue[Path] = SimpleQueue()
    for folder in folders:
        free.put(folder)

    def done(thing: T) -> R:
        folder = free.get()
        try:
            return work(thing, folder)
        finally:
            free.put(folder)

    pool = ThreadPoolExecutor(len(folders))
    try:
        for result in as_completed([pool.submit(done, thing) for thing in things]):
            yield result.result()
    finally:
        pool.shutdown(cancel_futures=True)  # after Ctrl-C no further one begins
