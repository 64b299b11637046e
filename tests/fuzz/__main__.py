"""`make fuzz`: a million inputs through every reader of foreign data, the same for the same seed.

Ends with 1 when an input was not handled as it should be; each such input is printed as what can
be pasted into a test.
"""

import argparse
import logging
import resource
import sys
from collections.abc import Callable, Sequence
from time import monotonic

from tests.fuzz.run import Finding, Outcome, fuzz
from tests.fuzz.targets import TARGETS, inputs_of

INPUTS = 1_000_000
_SAY_SECONDS = 5.0
_MOST_MEMORY = 2 << 30
"""Bytes of address space: an input that wants more ends in a MemoryError, which is a finding."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--inputs", type=int, default=INPUTS, help=f"in all [{INPUTS:,}]")
    parser.add_argument("--seed", type=int, default=1, help="of every input [1]")
    parser.add_argument(
        "--only", choices=[target.name for target in TARGETS], help="one target, alone"
    )
    parser.add_argument("--first", type=int, default=0, help="number of the first input [0]")
    given = parser.parse_args(arguments)
    if given.inputs < 1 or given.first < 0:
        parser.error("--inputs is a number above 0, and --first one that is not below")
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, resource.RLIM_INFINITY))
    # What the code has to say of such inputs would fill the screen.
    logging.disable()
    desired = [target for target in TARGETS if given.only in (None, target.name)]
    _say(f"{'target':<20} {'inputs':>9} {'seconds':>8} {'slowest':>18} {'memory':>8} findings")
    outcomes: list[Outcome] = []
    for target in desired:
        inputs = given.inputs if given.only else inputs_of(target, given.inputs)
        outcome = fuzz(target, inputs, given.seed, _progress(target.name, inputs), given.first)
        _say(_line(outcome))
        for finding in outcome.findings:
            _say(_described(finding, given.seed))
        outcomes.append(outcome)
    return _summed_up(outcomes, given.seed)


def _progress(name: str, inputs: int) -> Callable[[int], None]:
    last = monotonic()

    def tell(done: int) -> None:
        nonlocal last
        if monotonic() - last >= _SAY_SECONDS:
            last = monotonic()
            _say(f"  {name}: {done:,} of {inputs:,}")

    return tell


def _line(outcome: Outcome) -> str:
    slowest = f"{outcome.slowest * 1000:.1f} ms #{outcome.slowest_number}"
    return (
        f"{outcome.target:<20} {outcome.inputs:>9,} {outcome.seconds:>8.1f} {slowest:>18} "
        f"{_mebibytes():>4} MiB {len(outcome.findings)}"
    )


def _mebibytes() -> int:
    """Return the most memory that this process ever held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


def _described(finding: Finding, seed: int) -> str:
    again = f"--only {finding.target} --seed {seed} --first {finding.number} --inputs 1"
    return f"\n{finding.error}\ninput: {finding.input}\nagain: python -m tests.fuzz {again}\n"


def _summed_up(outcomes: Sequence[Outcome], seed: int) -> int:
    inputs = sum(outcome.inputs for outcome in outcomes)
    found = sum(len(outcome.findings) for outcome in outcomes)
    seconds = sum(outcome.seconds for outcome in outcomes)
    _say(f"{inputs:,} inputs in {seconds:.0f} s with seed {seed}: {found} findings")
    return 1 if found else 0


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - a command line prints


if __name__ == "__main__":
    sys.exit(main())
