"""`draguard confirm-repaired INCIDENT`."""

from collections.abc import Sequence

from draguard.answers.command import Question, run
from draguard.connection.help_text import Example

CONFIRM = Question(
    command="confirm-repaired",
    kind="confirmed-repaired",
    description="You vouch for the repair of a GPU that is not released without a person. The\n"
    "soak time is still waited for, and a new signal overtakes your word.",
    examples=(
        Example("draguard confirm-repaired INCIDENT --why 'new board, ticket 47'", "for a day"),
        Example("draguard confirm-repaired INCIDENT --remove", "take it back"),
    ),
    standard="24h",
    means="the GPU is released after its soak time, unless a new signal comes",
)


def main(arguments: Sequence[str]) -> int:
    """Answer; see `run` for what it returns."""
    return run(CONFIRM, arguments)
