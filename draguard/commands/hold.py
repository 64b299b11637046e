"""`draguard hold INCIDENT`."""

from collections.abc import Sequence

from draguard.commands.intents import Question, run
from draguard.render.help_text import Example

HOLD = Question(
    command="hold",
    kind="Hold",
    description="Pause Draguard on the GPU of an incident until the given time: no new taint, no\n"
    "stronger taint, no eviction. Existing taints stay, and recovery continues.",
    examples=(
        Example("draguard hold INCIDENT --until 4h --reason 'a run must end'", "for four hours"),
        Example("draguard hold GPU-2fa8... --until 2030-07-30T18:00:00Z --reason x", "by GPU UUID"),
        Example("draguard hold INCIDENT --remove", "remove the hold"),
    ),
    endless=False,
    means="no new taint and no eviction on this GPU until then; existing taints stay",
)


def main(arguments: Sequence[str]) -> int:
    """Write it; see `run` for what it returns."""
    return run(HOLD, arguments)
