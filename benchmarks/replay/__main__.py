"""`make replay`: play drawn fleet histories under our policy and others', print the scores."""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from benchmarks.replay import document, run, signs, sources
from benchmarks.replay.rates import PROFILES, Parameters
from benchmarks.replay.summary import summary


def main(arguments: Sequence[str] | None = None) -> int:
    given = _given(arguments)
    began = time.monotonic()
    parameters = Parameters(seed=given.seed, nodes=given.nodes, days=given.days)
    if given.summary:
        text = summary(Path(given.write or "docs/replay.md").read_text(encoding="utf-8"))
        document.write(given.summary, text, document.SUMMARY)
        return 0
    if given.sources or given.logs or given.states:
        return _of_one_profile(given, parameters)
    if given.renumbering:
        return _renumbered(given, parameters)
    results: list[run.Result] = []
    budgeted: list[run.Budgeted] = []
    for profile in given.profile or PROFILES:
        fleets = list(run.variations(parameters, sensitivity=not given.quick))
        found = run.run(fleets, profile, workers=given.workers)
        for result in found:
            print(document.scores([result]), end="\n\n", flush=True)
            if given.misses:
                print(document.misses(result, given.misses))
        results += found
        if not given.quick:
            budgeted.append(run.with_budgets(run.smaller(parameters), profile))
    print(document.budgeted(budgeted))
    print(f"{time.monotonic() - began:.0f} s")
    if given.write:
        document.write(given.write, document.whole(results, budgeted))
    return 0


def _of_one_profile(given: argparse.Namespace, parameters: Parameters) -> int:
    """Play one profile with fewer and fewer sources, or with GPUs that are of no use though
    nothing fails."""
    profile = (given.profile or list(PROFILES))[-1]
    if given.sources:
        table, marks = document.by_sources(sources.shares(parameters, profile)), document.SOURCES
    elif given.logs:
        table, marks = document.by_log(sources.by_log(parameters, profile)), document.LOGS
    else:
        table = document.unusable(signs.seen_of_each(parameters, profile))
        marks = document.STATES
    fleet = f"{parameters.nodes * 8:,} GPUs, {parameters.days} days, seed {parameters.seed}"
    noise = "" if given.logs else ", no noise of applications"
    heading = f"{profile}: {fleet}{noise}."
    print(f"{heading}\n\n{table}")
    if given.write:
        document.write(given.write, f"{heading}\n\n{table}", marks)
    return 0


def _renumbered(given: argparse.Namespace, parameters: Parameters) -> int:
    """Play fleets in which every node's driver enumerates its GPUs anew."""
    parameters = msgspec.structs.replace(parameters, renumber_share=1.0)
    results: list[run.Result] = []
    for profile in given.profile or PROFILES:
        results += run.run([parameters], profile, workers=given.workers)
        print(document.scores(results[-1:]), end="\n\n", flush=True)
        if given.misses:
            print(document.misses(results[-1], given.misses))
    if given.write:
        document.write(given.write, document.scores(results), document.RENUMBERED)
    return 0


def _given(arguments: Sequence[str] | None) -> argparse.Namespace:
    standard = Parameters()
    parser = argparse.ArgumentParser(prog="python -m benchmarks.replay", description=__doc__)
    parser.add_argument("--profile", action="append", choices=sorted(PROFILES))
    parser.add_argument("--nodes", type=int, default=standard.nodes, help="of 8 GPUs each")
    parser.add_argument("--days", type=int, default=standard.days)
    parser.add_argument("--seed", type=int, default=standard.seed)
    parser.add_argument("--workers", type=int, default=2, help="processes")
    parser.add_argument("--misses", default="", help="list what this policy got wrong (a prefix)")
    parser.add_argument("--quick", action="store_true", help="leave the sensitivity runs out")
    parser.add_argument("--sources", action="store_true", help="with fewer and fewer sources")
    parser.add_argument("--logs", action="store_true", help="by the way to read the kernel log")
    parser.add_argument("--states", action="store_true", help="with GPUs that are of no use")
    parser.add_argument("--renumbering", action="store_true", help="with GPUs whose names change")
    parser.add_argument(
        "--summary", default="", help="only write the table of --write's file anew into this one"
    )
    parser.add_argument("--write", default="", help="file whose generated part is written anew")
    given = parser.parse_args(arguments)
    if min(given.nodes, given.days, given.workers) < 1:
        parser.error("--nodes, --days and --workers are numbers above 0")
    return given


if __name__ == "__main__":
    sys.exit(main())
