"""The `draguard` command line: which part to run; everything after that is the part's own."""

import importlib
import sys
from collections.abc import Callable, Sequence

USAGE = """\
usage: draguard COMMAND [FLAGS]

  exporter sensor|agent|run   watch this node's GPUs: metrics and health report
  remediator                  fence failed GPUs and slices, move their pods, prove the repair
  policy check|explain        is a policy file sound, and what would a signal do under it
  release                     take Draguard's rules down by hand
  demo                        watch both work on simulated GPUs and a real control plane

`draguard COMMAND --help` lists a command's flags.
"""


Main = Callable[[Sequence[str]], int]
_COMMANDS = {
    "exporter": ("exporter.__main__", "exporter"),
    "remediator": ("remediator.__main__", "remediator"),
    "policy": ("draguard.policy.command", "cli"),
    "release": ("draguard.release_command", "remediator"),
    "demo": ("draguard.demo.command", "cli,simulator"),
}
"""Module with the command's `main`, and the extras whose libraries it needs: a node has none of
the controller's, and the other way round, so only what is asked for is imported."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit status, 2 when there is no such command."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] in (["-h"], ["--help"]):
        print(USAGE, end="")
        return 0
    if not given or given[0] not in _COMMANDS:
        wrong = f"draguard: there is no command {given[0]!r}\n" if given else ""
        print(f"{wrong}{USAGE}", end="", file=sys.stderr)
        return 2
    try:
        run = _imported(given[0])
    except ModuleNotFoundError as error:
        extras = _COMMANDS[given[0]][1]
        print(
            f"draguard {given[0]}: the Python module {error.name} is missing here; install "
            f"draguard[{extras}]",
            file=sys.stderr,
        )
        return 2
    return run(given[1:])


def _imported(command: str) -> Main:
    run: Main = importlib.import_module(_COMMANDS[command][0]).main
    return run


if __name__ == "__main__":
    sys.exit(main())
