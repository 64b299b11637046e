"""The `draguard` command line: which part to run; everything after that is the part's own."""

import sys
from collections.abc import Callable, Sequence

USAGE = """\
usage: draguard COMMAND [FLAGS]

  exporter sensor|agent|run   watch this node's GPUs: metrics and health report
  remediator                  fence failed GPUs and slices, move their pods, prove the repair
  demo                        watch both work on simulated GPUs and a real control plane

`draguard COMMAND --help` lists a command's flags.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit status, 2 when there is no such command."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] in (["-h"], ["--help"]):
        print(USAGE, end="")
        return 0
    command = _COMMANDS.get(given[0]) if given else None
    if command is None:
        wrong = f"draguard: there is no command {given[0]!r}\n" if given else ""
        print(f"{wrong}{USAGE}", end="", file=sys.stderr)
        return 2
    return command(given[1:])


def _exporter(arguments: Sequence[str]) -> int:
    from exporter.__main__ import main as run

    return run(arguments)


def _remediator(arguments: Sequence[str]) -> int:
    from remediator.__main__ import main as run

    return run(arguments)


def _demo(arguments: Sequence[str]) -> int:
    from draguard.demo.command import main as run

    return run(arguments)


# Imported only when asked for: a node has no libraries of the controller, and the other way round.
_COMMANDS: dict[str, Callable[[Sequence[str]], int]] = {
    "exporter": _exporter,
    "remediator": _remediator,
    "demo": _demo,
}

if __name__ == "__main__":
    sys.exit(main())
