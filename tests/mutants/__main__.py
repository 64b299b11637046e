"""`python -m tests.mutants`: changes one line after another in a copy, and sees tests turn red.

Without --drawn it makes the mutants of the patch files here; each breaks one promise, and has to be
killed. With --drawn it makes random ones of the source itself, and says which share is killed.
"""

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random
from time import monotonic

from tests.mutants import drawn
from tests.mutants.copies import ROOT, CopyError, copies, head
from tests.mutants.patches import Patch, PatchError, mutant_of, patches
from tests.mutants.report import progress, share, sum_of, survivors
from tests.mutants.run import Mutant, Outcome, all_judged, red_anyway
from tests.mutants.verdict import Ran, pytest_run


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0 when all is as it should be, 1 when a patch survived or nothing could be said."""
    options = _options(arguments)
    try:
        return _drawn(options) if options.drawn else _patches(options)
    except (CopyError, PatchError) as error:
        _say(str(error))
        return 1


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--draw", type=_number, metavar="N", help="so many of the patches [all]")
    which.add_argument("--drawn", type=_number, metavar="N", help="so many random mutants instead")
    which.add_argument("--only", nargs="+", metavar="NAME", help="the patches of these names")
    parser.add_argument("--seed", metavar="S", help="of the draw [the hash of the commit]")
    parser.add_argument("--package", choices=drawn.PACKAGES, help="of --drawn [both]")
    parser.add_argument(
        "--quick",
        action="store_true",
        help="with --drawn: no tests that start programs, which take ten minutes of the exporter",
    )
    parser.add_argument("--jobs", type=_number, default=2, metavar="N", help="side by side [2]")
    parser.add_argument(
        "--pytest",
        default="",
        metavar="ARGUMENTS",
        help="""for every run of pytest, such as '-m "not verify"'""",
    )
    return parser.parse_args(arguments)


def _number(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")
    return int(text)


def _patches(options: argparse.Namespace) -> int:
    chosen = _chosen(options)
    outcomes = _outcomes([mutant_of(patch) for patch in chosen], options, at_once=True)
    _say(*survivors(outcomes), sum_of(outcomes))
    return 0 if all(outcome.killed for outcome in outcomes) else 1


def _chosen(options: argparse.Namespace) -> list[Patch]:
    """Return the requested patches, by name."""
    every = patches()
    if options.draw:
        seed = options.seed or head()
        _say(f"drawn with seed {seed}; again: {_again('--draw', options.draw, seed)}")
        chosen = Random(seed).sample(every, min(options.draw, len(every)))  # noqa: S311 - a draw
        return sorted(chosen, key=lambda patch: patch.name)
    desired: set[str] = set(options.only or ())
    if unknown := desired - {patch.name for patch in every}:
        raise PatchError(f"no patch is called {', '.join(sorted(unknown))}")
    return [patch for patch in every if patch.name in desired or not desired]


def _drawn(options: argparse.Namespace) -> int:
    seed = options.seed or head()
    _say(f"drawn with seed {seed}; again: {_again('--drawn', options.drawn, seed)}")
    packages = (options.package,) if options.package else drawn.PACKAGES
    found = drawn.draw(drawn.every_place(ROOT, packages), ROOT, options.drawn, seed)
    mutants = [drawn.mutant_of(place, ROOT, quick=options.quick) for place in found]
    outcomes = _outcomes(mutants, options, drawn.OPTIONS, at_once=False)
    _say(*survivors(outcomes), share(outcomes))
    return 1 if any(outcome.verdict == "error" for outcome in outcomes) else 0


def _again(which: str, number: int, seed: str) -> str:
    return f"python -m tests.mutants {which} {number} --seed {shlex.quote(seed)}"


def _outcomes(
    mutants: Sequence[Mutant],
    options: argparse.Namespace,
    more: Sequence[str] = (),
    *,
    at_once: bool,
) -> list[Outcome]:
    """Judge mutants, but for those whose tests are red without them: these are errors."""
    arguments = (*more, *shlex.split(options.pytest))

    def test(folder: Path, paths: Sequence[str]) -> Ran:
        return pytest_run(folder, (*arguments, *paths))

    with copies(max(1, min(options.jobs, len(mutants)))) as folders:
        begun = monotonic()
        errors = red_anyway(mutants, folders, test, at_once=at_once)
        _say(f"without a mutant: {len(errors)} red anyway, seen in {monotonic() - begun:.0f} s")
        red = {outcome.mutant.name for outcome in errors}
        sound = [mutant for mutant in mutants if mutant.name not in red]

        def tell(number: int, outcome: Outcome) -> None:
            _say(progress(number, len(sound), outcome))

        return errors + all_judged(sound, folders, tell, test)


def _say(*lines: str) -> None:
    for line in lines:
        print(line, flush=True)  # noqa: T201 - a command line prints


if __name__ == "__main__":
    sys.exit(main())
