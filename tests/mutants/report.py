"""Outcomes into what the program prints. Pure."""

from collections.abc import Iterator, Sequence

from tests.mutants.run import Outcome

_LAST_WORDS = 15
"""Lines of pytest's that are shown of an error."""


def progress(number: int, all_of_them: int, outcome: Outcome) -> str:
    """Return the line about a mutant that was just judged."""
    width = len(str(all_of_them))
    seconds = f"{outcome.seconds:.1f} s"
    return f"{number:>{width}}/{all_of_them} {seconds:>7} {outcome.verdict}: {outcome.mutant.name}"


def survivors(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Give each mutant that no test has seen, and each of which nothing can be said."""
    for outcome in sorted(outcomes, key=lambda outcome: outcome.mutant.name):
        if not outcome.killed:
            yield f"{outcome.verdict}: {outcome.mutant.name}\n  {outcome.mutant.about}"
            yield from (f"    {line}" for line in outcome.output.splitlines()[-_LAST_WORDS:])


def sum_of(outcomes: Sequence[Outcome]) -> str:
    """Return the closing line: a mutant that was killed has passed."""
    killed = sum(outcome.killed for outcome in outcomes)
    return f"{killed} passed, {len(outcomes) - killed} failed"


def share(outcomes: Sequence[Outcome]) -> str:
    """Return which share was killed of those of which anything can be said."""
    known = [outcome for outcome in outcomes if outcome.verdict != "error"]
    killed = sum(outcome.killed for outcome in known)
    part = f" ({killed / len(known):.0%})" if known else ""
    errors = len(outcomes) - len(known)
    return f"killed {killed} of {len(known)}{part}" + (f", {errors} errors" if errors else "")
