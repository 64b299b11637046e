"""`draguard ignore INCIDENT`."""

from collections.abc import Sequence

from draguard.answers.command import Question, run
from draguard.connection.help_text import Example

IGNORE = Question(
    command="ignore",
    kind="Ignore",
    description="Do not act on the fault of an incident until then: the remediator removes its\n"
    "taints of this GPU at once. At the end the fault counts again. Where taints stand it\n"
    "asks first, as `draguard untaint` does.",
    examples=(
        Example("draguard ignore INCIDENT --until 2d --reason 'a test board'", "for two days"),
        Example("draguard ignore INCIDENT --forever --reason 'a test board'", "for good"),
        Example("draguard ignore INCIDENT --remove", "remove it again"),
    ),
    endless=True,
    untaints=True,
    means="the remediator removes its taints of this GPU now; the fault counts again at the end",
)


def main(arguments: Sequence[str]) -> int:
    """Write it; see `run` for what it returns."""
    return run(IGNORE, arguments)
