"""Mutants into outcomes: each is made in a copy, its tests are run there, and it is taken back."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from time import monotonic
from typing import TypeVar

import msgspec

from tests.mutants.copies import CopyError, restored
from tests.mutants.verdict import KILLED, Ran, Verdict, pytest_run

T = TypeVar("T")
R = TypeVar("R")
Step = tuple[str, ...]
"""Paths of one run of pytest."""
Test = Callable[[Path, Sequence[str]], Ran]


class Mutant(msgspec.Struct, frozen=True, kw_only=True):
    """One changed line."""

    name: str
    path: str
    """The file that it changes, from the root of the project."""
    about: str
    """What to tell when no test sees it."""
    steps: tuple[Step, ...]
    """Tests that may see it, in this order."""
    apply: Callable[[Path], None]
    """Changes the file in a copy of the tree."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a mutant."""

    mutant: Mutant
    verdict: Verdict
    seconds: float = 0.0
    output: str = ""
    """Why, where it is an error."""

    @property
    def killed(self) -> bool:
        return self.verdict in KILLED


def judged(mutant: Mutant, folder: Path, test: Test = pytest_run) -> Outcome:
    """Return what the tests say of a mutant, which is gone from the copy afterwards."""
    begun, file = monotonic(), folder / mutant.path
    verdict, stated = "survived", ""
    try:
        before = file.read_bytes()
        with restored(file):
            mutant.apply(folder)
            if file.read_bytes() == before:
                raise CopyError(f"{mutant.name} does not change {mutant.path}")
            verdict, stated = _tried(mutant.steps, folder, test)
    except (CopyError, OSError) as error:
        verdict, stated = "error", str(error)
    return Outcome(mutant=mutant, verdict=verdict, seconds=monotonic() - begun, output=stated)


def _tried(steps: Sequence[Step], folder: Path, test: Test) -> tuple[Verdict, str]:
    """Return the verdict of the first step that does not let the mutant pass."""
    for step in steps:
        ran = test(folder, step)
        # Where there are several steps, a selection may leave none of one of them.
        if ran.green or (ran.empty and len(steps) > 1):
            continue
        return ran.verdict, ran.output if ran.verdict == "error" else ""
    return "survived", ""


def all_judged(
    mutants: Sequence[Mutant],
    folders: Sequence[Path],
    tell: Callable[[int, Outcome], None],
    test: Test = pytest_run,
) -> list[Outcome]:
    """Judge mutants side by side, one in each copy; `tell` gets each outcome as it comes."""
    outcomes: list[Outcome] = []
    for _, outcome in _side_by_side(mutants, folders, partial(judged, test=test)):
        outcomes.append(outcome)
        tell(len(outcomes), outcome)
    return outcomes


def red_anyway(
    mutants: Sequence[Mutant], folders: Sequence[Path], test: Test = pytest_run, *, at_once: bool
) -> list[Outcome]:
    """Return as errors the mutants whose tests are not green without them.

    With `at_once` all tests are run as one first, which is enough when all is well.
    """
    steps = sorted({step for mutant in mutants for step in mutant.steps})
    if at_once and test(folders[0], sorted({path for step in steps for path in step})).green:
        return []
    ran = dict(_side_by_side(steps, folders, lambda step, folder: test(folder, step)))
    red = {
        step: result.output for step, result in ran.items() if not (result.green or result.empty)
    }
    stated = {
        mutant.name: [red[step] for step in mutant.steps if step in red] for mutant in mutants
    }
    return [
        Outcome(mutant=mutant, verdict="error", output=f"red without it: {stated[mutant.name][0]}")
        for mutant in mutants
        if stated[mutant.name]
    ]


def _side_by_side(
    things: Sequence[T], folders: Sequence[Path], work: Callable[[T, Path], R]
) -> Iterator[tuple[T, R]]:
    """Give each thing with what work on it in a copy of its own has led to, first done first."""
    free: SimpleQueue[Path] = SimpleQueue()
    for folder in folders:
        free.put(folder)

    def done(thing: T) -> tuple[T, R]:
        folder = free.get()
        try:
            return thing, work(thing, folder)
        finally:
            free.put(folder)

    pool = ThreadPoolExecutor(len(folders))
    try:
        for result in as_completed([pool.submit(done, thing) for thing in things]):
            yield result.result()
    finally:
        pool.shutdown(cancel_futures=True)  # after Ctrl-C no further one begins
