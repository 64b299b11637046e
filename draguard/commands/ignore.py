"""`draguard ignore INCIDENT`."""

from collections.abc import Sequence

from draguard.commands.intents import Question, run
from draguard.render.help_text import Example

IGNORE = Question(
    command="ignore",
    kind="Ignore",
    description="Take no action on the fault of an incident until the given time. The remediator\n"
    "removes its taints from this GPU at once. After that time the fault counts again. If\n"
    "there are taints, the command asks for confirmation, as `draguard untaint` does.",
    examples=(
        Example("draguard ignore INCIDENT --until 2d --reason 'a test board'", "for two days"),
        Example("draguard ignore INCIDENT --forever --reason 'a test board'", "forever"),
        Example("draguard ignore INCIDENT --remove", "let the fault count again now"),
    ),
    endless=True,
    untaints=True,
    means="the remediator removes its taints from this GPU now; the fault counts again at the end",
)


def main(arguments: Sequence[str]) -> int:
    """Write it; see `run` for what it returns."""
    return run(IGNORE, arguments)
