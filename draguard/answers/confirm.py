"""`draguard confirm-repaired INCIDENT`."""

from collections.abc import Sequence

from draguard.answers.command import Question, run
from draguard.answers.confirmable import refusal
from draguard.answers.value import FOREVER
from draguard.connection.help_text import Example

CONFIRM = Question(
    command="confirm-repaired",
    kind="RepairConfirmed",
    description="Confirm the repair of a GPU that recovery alone does not untaint. The soak time\n"
    "still applies, and a later signal overtakes the confirmation. Refused where it would\n"
    "change nothing: the GPU is still sick, or nothing waits for it.",
    examples=(
        Example("draguard confirm-repaired INCIDENT --reason 'new board, ticket 47'", "it is done"),
        Example("draguard confirm-repaired INCIDENT --remove", "remove it again"),
    ),
    endless=True,
    standard=FOREVER,
    refusal=refusal,
    means="the GPU is untainted after its soak time, unless a later signal comes",
)


def main(arguments: Sequence[str]) -> int:
    """Write it; see `run` for what it returns."""
    return run(CONFIRM, arguments)
