"""`python -m benchmarks.replay.drawn`: our policy on fleets whose parameters are drawn too.

Every draw must be without a fault: precision and recall 1.0, nothing wrongly tainted, nothing
missed. A draw that is not is printed with its parameters, the command that repeats it, and what
was wrong on which GPU and when. Ends with 1 when there is one.
"""

import argparse
import sys
import traceback
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor

import msgspec

from benchmarks.replay.drawing import DAY
from benchmarks.replay.findings import described
from benchmarks.replay.generator import history_with
from benchmarks.replay.ours import enforced, play
from benchmarks.replay.ranges import Draw, drawn
from benchmarks.replay.run import OURS
from benchmarks.replay.scoring import Score, joined, score_node
from remediator.policy.table import Policy


class Outcome(msgspec.Struct, frozen=True):
    draw: Draw
    score: Score
    wrong: tuple[str, ...] = ()
    """What must be 0 and is not, and then each thing that went wrong; empty when all is right."""


def play_draw(draw: Draw, policy: Policy | None = None) -> Outcome:
    """Play our policy on a drawn fleet, node by node."""
    parameters, score, found = draw.parameters, Score(policy=OURS), list[str]()
    for node in range(parameters.nodes):
        history = history_with(parameters, draw.profile, node)
        of_node = Score(policy=OURS)
        try:
            player = play(history, policy or enforced())
        except Exception:  # noqa: BLE001 - whatever it is, it is what the draw has found
            found.append(f"node {node}: {traceback.format_exc()}")
            continue
        score_node(of_node, history, player.store.taints.all(), parameters.days * DAY)
        found += described(of_node.misses, history, player)
        score = joined([score, of_node])
    figures = [f"{name} {count}" for name, count in wrongs(score).items() if count]
    return Outcome(draw, score, (*figures, *found))


def wrongs(score: Score) -> dict[str, int]:
    """Return the counts that must all be 0."""
    return {
        "false taints": score.false,
        "devices wrongly tainted": score.false_devices,
        "faults missed": score.demanded - score.recalled,
        "healthy siblings tainted": score.siblings,
        "slices left": score.slices_left,
        "pods lost wrongly": score.pods_lost,
        "never freed": score.never_freed,
    }


def in_words(draw: Draw) -> str:
    """Return all parameters of a draw in one line."""
    assumed = msgspec.structs.asdict(draw.profile.assumed)
    rates = ", ".join(f"{kind} {rate:.3g}" for kind, rate in draw.profile.rates.items())
    values = ", ".join(f"{name} {value:.6g}" for name, value in assumed.items())
    drawn_from = f"{draw.parameters.in_words('.6g')}, {values}"
    return f"{draw.profile.name}, {drawn_from}; rates per M GPU-h: {rates}"


def lines(outcome: Outcome) -> Iterator[str]:
    """Yield what is printed of a draw: one line, and more when it failed."""
    draw, score = outcome.draw, outcome.score
    yield (
        f"draw {draw.number}: {'FAILED' if outcome.wrong else 'passed'}: "
        f"precision {_part(score.precision)}, recall {_part(score.recall)}, taints "
        f"{score.right} right {score.false} false {score.disputed} disputed, "
        f"{score.recalled} of {score.demanded} faults; {in_words(draw)}"
    )
    if outcome.wrong:
        yield from (f"  {text}" for text in outcome.wrong)
        yield f"  again: {draw.again}"


def _part(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def summed_up(outcomes: Sequence[Outcome]) -> str:
    """Return the two closing lines."""
    whole = joined([Score(policy=OURS), *(outcome.score for outcome in outcomes)])
    failed = sum(bool(outcome.wrong) for outcome in outcomes)
    return (
        f"{len(outcomes):,} fleets: {whole.right:,} taints right, {whole.false:,} false, "
        f"{whole.disputed:,} disputed; {whole.recalled:,} faults tainted, "
        f"{whole.demanded - whole.recalled:,} missed\n"
        f"{len(outcomes) - failed:,} passed, {failed:,} failed"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.replay.drawn", description=__doc__)
    parser.add_argument("--draws", type=int, default=100, help="how many fleets [100]")
    parser.add_argument("--seed", type=int, default=1, help="of every draw [1]")
    parser.add_argument("--first", type=int, default=0, help="number of the first draw [0]")
    parser.add_argument("--workers", type=int, default=2, help="processes [2]")
    given = parser.parse_args(arguments)
    if min(given.draws, given.workers) < 1 or given.first < 0:
        parser.error("--draws and --workers are numbers above 0, and --first one that is not below")
    draws = (drawn(given.seed, given.first + number) for number in range(given.draws))
    outcomes: list[Outcome] = []
    for outcome in _played(draws, given.workers):
        print("\n".join(lines(outcome)), flush=True)
        outcomes.append(outcome)
    print(summed_up(outcomes))
    return 1 if any(outcome.wrong for outcome in outcomes) else 0


def _played(draws: Iterable[Draw], workers: int) -> Iterator[Outcome]:
    if workers == 1:
        yield from map(play_draw, draws)
        return
    with ProcessPoolExecutor(workers) as pool:
        yield from pool.map(play_draw, draws)


if __name__ == "__main__":
    sys.exit(main())
