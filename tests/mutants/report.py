"""Outcomes into what the program prints, and the share that it wants. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from tests.mutants.run import Outcome
from tests.mutants.verdict import Verdict

SEEN: frozenset[Verdict] = frozenset({"killed", "killed by time-out", "explained"})
_LAST_WORDS = 15
"""Lines of pytest's that are shown of an error."""


def progress(number: int, all_of_them: int, outcome: Outcome) -> str:
    """Return the line about a mutant that was just judged."""
    width = len(str(all_of_them))
    seconds = f"{outcome.seconds:.1f} s"
    return f"{number:>{width}}/{all_of_them} {seconds:>7} {outcome.verdict}: {outcome.mutant.name}"


def unseen(outcomes: Iterable[Outcome]) -> Iterator[str]:
    """Give each mutant that no test has seen, and each of which nothing can be said."""
    for outcome in sorted(outcomes, key=lambda outcome: outcome.mutant.name):
        if outcome.verdict not in SEEN:
            mutant = outcome.mutant
            yield f"{outcome.verdict}: {mutant.name}\n  - {mutant.before}\n  + {mutant.after}"
            yield from (f"    {line}" for line in outcome.output.splitlines()[-_LAST_WORDS:])


def share(outcomes: Sequence[Outcome]) -> float:
    """Return how many of a hundred were killed or are explained."""
    return 100 * sum(outcome.verdict in SEEN for outcome in outcomes) / len(outcomes)


def summary(outcomes: Sequence[Outcome]) -> str:
    """Return the closing line."""
    counts = Counter(outcome.verdict.partition(" ")[0] for outcome in outcomes)
    return (
        f"{share(outcomes):.0f} % of {len(outcomes)} mutants: {counts['killed']} killed, "
        f"{counts['explained']} explained, {counts['survived']} survived, {counts['error']} errors"
    )
