"""`draguard confirm-repaired INCIDENT`."""

from collections.abc import Sequence

from draguard.cluster.confirmable import refusal
from draguard.cluster.intents import FOREVER
from draguard.commands.intents import Question, run
from draguard.render.help_text import Example

CONFIRM = Question(
    command="confirm-repaired",
    kind="RepairConfirmed",
    description="Confirm the repair of a GPU that Draguard does not untaint after recovery alone.\n"
    "The soak time still applies. A later signal overtakes the confirmation. Refused if it\n"
    "would change nothing: the GPU is still sick, or needs no confirmation.",
    examples=(
        Example(
            "draguard confirm-repaired INCIDENT --reason 'new board, ticket 47'",
            "the repair is done",
        ),
        Example("draguard confirm-repaired INCIDENT --remove", "remove the confirmation"),
    ),
    endless=True,
    standard=FOREVER,
    refusal=refusal,
    means="the GPU is untainted after its soak time, unless a later signal arrives",
)


def main(arguments: Sequence[str]) -> int:
    """Write it; see `run` for what it returns."""
    return run(CONFIRM, arguments)
