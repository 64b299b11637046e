"""Mutants into outcomes: each is made in a copy, its tests are run there, and it is taken back.

Only a test that is green without a mutant proves anything about one. So the file whose test has
killed a mutant is run once more without it.
"""

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
Test = Callable[[Path, Sequence[str]], Ran]
Judge = Callable[[Mutant, Path], "Outcome"]


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a mutant."""

    mutant: Mutant
    verdict: Verdict
    seconds: float = 0.0
    output: str = ""
    """Why, where it is an error."""


def judged(
    mutant: Mutant, steps: Sequence[Step], folder: Path, test: Test, green: set[str]
) -> Outcome:
    """Return what the first tests that do not pass say of a mutant, which is gone afterwards.

    `green` has the files that are known to be green without a mutant, and gets more of them.
    """
    begun, file = monotonic(), folder / mutant.path
    before = file.read_bytes()
    ran, step = Ran(0), Step()
    try:
        file.write_text(mutant.place.changed(before.decode()), encoding="utf-8")
        for step in steps:
            ran = test(folder, step)
            if ran.verdict != "survived":
                break
    finally:
        file.write_bytes(before)
    why = ran.output if ran.verdict == "error" else ""
    verdict = ran.verdict
    if verdict not in {"survived", "error"}:
        unsure = [path for path in ran.failed or step if path not in green]
        without = test(folder, unsure) if unsure else Ran(0)
        if without.verdict == "survived":
            green.update(unsure)
        else:
            verdict, why = "error", f"{without.output}\nIt is red without the mutant, too."
    return Outcome(mutant=mutant, verdict=verdict, seconds=monotonic() - begun, output=why)


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
