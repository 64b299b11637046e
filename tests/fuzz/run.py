"""Runs targets over many inputs, each made from the seed, the target's name and its number."""

import signal
import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager
from random import Random
from time import monotonic, process_time
from types import FrameType
from typing import Any

import msgspec

from tests.fuzz.target import Target

LONGEST_SECONDS = 20.0
"""For one input, on a machine that does other things as well; what takes so long hangs."""
MOST_FINDINGS = 5
"""Kinds of findings after which a target is given up."""


class TooSlow(BaseException):
    """One input took longer than `LONGEST_SECONDS`. Nothing that is fuzzed may catch it."""


class Finding(msgspec.Struct, frozen=True):
    """The first input of its kind that a target does not handle."""

    target: str
    number: int
    input: str
    """Its repr."""
    error: str
    """The trace."""


class Outcome(msgspec.Struct, frozen=True):
    """How one target did."""

    target: str
    inputs: int
    seconds: float
    slowest: float
    """Seconds of CPU of the check that took longest."""
    slowest_number: int
    findings: tuple[Finding, ...] = ()


def random_of(seed: int, name: str, number: int) -> Random:
    """Return the source of one input; every input can be made again by itself."""
    return Random(f"{seed} {name} {number}")  # noqa: S311 - inputs must come again


def fuzz(
    target: Target,
    inputs: int,
    seed: int,
    tell: Callable[[int], None] = lambda _number: None,
    first: int = 0,
) -> Outcome:
    """Try inputs `first` to `first + inputs`; `tell` hears how many are done."""
    begun = monotonic()
    findings: dict[str, Finding] = {}
    slowest, slowest_number, done = 0.0, first, 0
    for number in range(first, first + inputs):
        made = target.make(random_of(seed, target.name, number))
        started = process_time()
        try:
            with _limited(LONGEST_SECONDS):
                target.check(made)
        except (Exception, TooSlow) as error:  # noqa: BLE001 - whatever it is, it is the finding
            found = _finding(target, number, made, error)
            findings.setdefault(_kind(error), found)
        took = process_time() - started
        if took > slowest:
            slowest, slowest_number = took, number
        done += 1
        tell(done)
        if len(findings) >= MOST_FINDINGS:
            break
    return Outcome(
        target.name,
        done,
        monotonic() - begun,
        slowest,
        slowest_number,
        tuple(findings.values()),
    )


@contextmanager
def _limited(seconds: float) -> Generator[None]:
    """Raise TooSlow in what runs longer; for the main thread."""

    def ring(_number: int, _frame: FrameType | None) -> None:
        raise TooSlow(f"not done after {seconds:g} s")

    before = signal.signal(signal.SIGALRM, ring)
    others = signal.getitimer(signal.ITIMER_REAL)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        # Of the test in which this runs; it is requested anew, and not shortened.
        signal.setitimer(signal.ITIMER_REAL, *others)


def _finding(target: Target, number: int, made: Any, error: BaseException) -> Finding:
    reported = "".join(traceback.format_exception(error))
    return Finding(target.name, number, repr(made), reported)


def _kind(error: BaseException) -> str:
    """Return what two findings share when they are one: the error and where it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    where = [f"{frame.filename}:{frame.lineno}" for frame in frames[-2:]]
    return f"{type(error).__name__} {where}"
