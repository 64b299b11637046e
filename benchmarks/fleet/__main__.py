"""`make bench-fleet`: a large fleet on the real apiserver, and the remediator's cost for it.

Nothing is asserted: the exit code shows only whether everything could be measured.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from benchmarks.fleet.bench import FleetBench, Size
from benchmarks.fleet.explaining import ExplainerBench
from benchmarks.fleet.pairs import PairedBench
from benchmarks.machine import machine
from benchmarks.table import table
from benchmarks.waiting import TooLate

_began = time.monotonic()


def say(text: str) -> None:
    print(f"[{time.monotonic() - _began:5.0f} s] {text}", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    given, size = _size(arguments)
    before = machine()
    if given.before is not None:
        kind = partial(PairedBench, before=given.before, rounds=given.rounds or 5)
    elif given.explainer:
        kind = partial(ExplainerBench, rounds=given.rounds or 8)
    else:
        kind = FleetBench
    with kind(size, say) as bench:
        try:
            sections = bench.measure()
        except (TooLate, ConnectionError) as error:
            print(f"cannot measure: {error}\n{bench.last_words()}", file=sys.stderr)
            return 1
    print(f"\n{table(sections)}\n\n{before}\nafter: {machine()}")
    return 0


def _size(arguments: Sequence[str] | None) -> tuple[argparse.Namespace, Size]:
    standard = Size()
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fleet", description=__doc__)
    parser.add_argument("--nodes", type=int, default=standard.nodes)
    parser.add_argument("--gpus", type=int, default=standard.gpus, help="of each node, 8 at most")
    parser.add_argument("--claims", type=int, help="[half of the GPUs; all with --explainer]")
    parser.add_argument("--storm", type=int, default=standard.storm, help="GPUs that fail at once")
    parser.add_argument("--steady", type=float, default=standard.steady, help="seconds of quiet")
    parser.add_argument("--fsync", action="store_true", help="etcd writes to the disk, as it must")
    parser.add_argument("--loaders", type=int, default=standard.loaders, help="loading clients")
    parser.add_argument("--before", type=Path, help="a checkout to compare with, in pairs")
    parser.add_argument("--explainer", action="store_true", help="measure it, with Nodes and pods")
    parser.add_argument("--waiting", type=int, help="claims that wait for it [5 %% of the claims]")
    parser.add_argument("--rounds", type=int, help="pairs [5], or taints of each state [8]")
    given = parser.parse_args(arguments)
    if given.nodes < 1 or not 1 <= given.gpus <= 8:
        parser.error("--nodes is a number above 0, --gpus one from 1 to 8")
    if given.before and (given.before / "benchmarks").resolve() == Path(__file__).parents[1]:
        parser.error("--before is this checkout; give the path of another one")
    if given.before and given.explainer:
        parser.error("--before compares the remediator alone: leave out --explainer")
    all_gpus = given.nodes * given.gpus
    usual = all_gpus if given.explainer else all_gpus // 2
    claims = usual if given.claims is None else min(given.claims, all_gpus)
    sick = min(standard.sick, given.nodes)
    return given, Size(
        nodes=given.nodes,
        gpus=given.gpus,
        claims=claims,
        sick=sick,
        storm=given.storm,
        steady=given.steady,
        fsync=given.fsync,
        loaders=max(given.loaders, 1),
        waiting=claims // 20 if given.waiting is None else given.waiting,
    )


if __name__ == "__main__":
    sys.exit(main())
