"""`draguard hold INCIDENT`."""

from collections.abc import Sequence

from draguard.answers.command import Question, run
from draguard.connection.help_text import Example

HOLD = Question(
    command="hold",
    kind="hold",
    description="No new harm to the GPU of an incident until then: no new rule, no stronger\n"
    "one, no eviction. What stands stays, and healing goes on.",
    examples=(
        Example("draguard hold INCIDENT --for 4h --why 'a run must end'", "for four hours"),
        Example("draguard hold GPU-2fa8... --until 2030-07-30T18:00:00Z --why x", "by its GPU"),
        Example("draguard hold INCIDENT --remove", "take it back"),
    ),
    standard="",
    means="no new harm is done to this GPU until then; what stands stays",
)


def main(arguments: Sequence[str]) -> int:
    """Answer; see `run` for what it returns."""
    return run(HOLD, arguments)
