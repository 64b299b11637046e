"""`python -m tests.mutants`: changes an operator in a copy of the tree, and sees tests turn red.

The mutants are drawn from the source. The program prints those that no test sees, and ends with 1
when fewer than the wanted share are killed or explained (tests/mutants/explained.txt).
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.mutants.copies import ROOT, CopyError, copies, head
from tests.mutants.drawn import PACKAGES, Mutant, draw, steps_of
from tests.mutants.explained import FILE, explained
from tests.mutants.report import progress, share, summary, unseen
from tests.mutants.run import Outcome, all_judged, judged
from tests.mutants.verdict import pytest_run


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Return 0 when enough mutants are killed."""
    options = _options(arguments)
    try:
        outcomes = _outcomes(options, root)
    except CopyError as error:
        _say(str(error))
        return 1
    _say(*unseen(outcomes))
    if outcomes:
        _say(summary(outcomes))
    return 0 if outcomes and share(outcomes) >= options.share else 1


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--drawn", type=_number, default=10, metavar="N", help="so many [10]")
    parser.add_argument("--seed", metavar="S", help="of the draw [the hash of the commit]")
    parser.add_argument("--package", choices=PACKAGES, help="drawn from this one only [both]")
    parser.add_argument(
        "--share", type=_number, default=80, metavar="P", help="percent that it wants [80]"
    )
    parser.add_argument(
        "--quick", action="store_true", help="no tests that play long stories or start programs"
    )
    parser.add_argument("--jobs", type=_number, default=2, metavar="N", help="side by side [2]")
    return parser.parse_args(arguments)


def _number(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")
    return int(text)


def _outcomes(options: argparse.Namespace, root: Path) -> list[Outcome]:
    """Draw mutants and judge them."""
    seed = options.seed or head(root)
    packages = (options.package,) if options.package else PACKAGES
    with copies(min(options.jobs, options.drawn), root) as folders:
        # From a copy: the checkout may change meanwhile.
        mutants = draw(folders[0], packages, options.drawn, seed)
        reasons = explained((folders[0] / FILE).read_text(encoding="utf-8"))
        _say(f"{len(mutants)} mutants, drawn with --seed {seed}")
        steps = {
            mutant: steps_of(mutant.path, folders[0], quick=options.quick)
            for mutant in mutants
            if mutant.lasting not in reasons
        }
        green = set[str]()

        def judge(mutant: Mutant, folder: Path) -> Outcome:
            return judged(mutant, steps[mutant], folder, pytest_run, green)

        def report(number: int, outcome: Outcome) -> None:
            _say(progress(number, len(steps), outcome))

        known = [Outcome(mutant=m, verdict="explained") for m in mutants if m not in steps]
        return known + all_judged(list(steps), folders, judge, report)


def _say(*lines: str) -> None:
    for line in lines:
        print(line, flush=True)  # noqa: T201 - a command line prints


if __name__ == "__main__":
    sys.exit(main())
