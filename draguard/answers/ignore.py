"""`draguard ignore INCIDENT`."""

from collections.abc import Sequence

from draguard.answers.command import Question, run
from draguard.connection.help_text import Example

IGNORE = Question(
    command="ignore",
    kind="ignore",
    description="The fault of an incident is not acted on until then: the remediator takes its\n"
    "rules of this GPU down at once. At the end the fault counts again.",
    examples=(
        Example("draguard ignore INCIDENT --for 2d --why 'a test board'", "for two days"),
        Example("draguard ignore INCIDENT --forever --why 'a test board'", "for good"),
        Example("draguard ignore INCIDENT --remove", "take it back"),
    ),
    standard="",
    means="the remediator takes its rules of this GPU down now; the fault counts again at the end",
)


def main(arguments: Sequence[str]) -> int:
    """Answer; see `run` for what it returns."""
    return run(IGNORE, arguments)
