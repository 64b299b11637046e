"""The `draguard` command line: the first word selects a command, which reads the rest."""

import errno
import importlib
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from draguard.command_table import ACTING, COMMANDS, MEANT, USAGE
from draguard.grammar import UsageError, arranged
from draguard.program_name import program, spelled

_BY_SIGNAL = 128
"""Added to a signal's number in the exit status, as shells do."""
_PERHAPS = "interrupted; part of it may be done: check, or run the command again"
_KUBECTLS = frozenset({"-n", "-o"})
"""Flags of kubectl that dcgm-exporter has, too: as a first word they do not mean dcgm-exporter."""
_UNWRITABLE = frozenset({errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EFBIG})
"""Errors of writing to a full or broken disk."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit status, 2 if there is no such command."""
    _open_streams()
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given and _is_dcgm_exporters(given[0]):
        return _run("exporter", given)
    if given[:1] in (["exporter"], ["remediator"], ["explainer"]):
        return _run(given[0], given[1:])
    try:
        words = arranged(given)
    except UsageError as error:
        return _refused(str(error))
    command = words[0] if words else ""
    if command in COMMANDS:
        return _run(command, words[1:])
    return _without_command(command)


def _without_command(word: str) -> int:
    """Print the usage, the version, or that there is no such command."""
    if not word:
        print(spelled(USAGE.rstrip()), file=sys.stderr)
        return 2
    if word in {"-h", "--help"}:
        print(spelled(USAGE), end="")
        return 0
    if word == "--version":
        from importlib import metadata  # megabytes that a node's agent does not need

        print(f"draguard {metadata.version('draguard')}")
        return 0
    from draguard.phrases import did_you_mean, shown
    from draguard.redaction import without_value

    if word.startswith("-"):
        flag = shown(without_value(word))
        return _refused(f"{flag} is no global flag: write the command first, then its flags")
    meant = MEANT.get(word, "")
    near = f" (did you mean {meant}?)" if meant else did_you_mean(word, COMMANDS)
    return _refused(f"unknown command {shown(without_value(word))!r}{near}")


def _refused(why: str) -> int:
    from draguard.redaction import without_flag_values

    hint = spelled("`draguard --help` lists all commands")
    print(f"{program()}: {spelled(without_flag_values(why))}\n{hint}", file=sys.stderr)
    return 2


def _is_dcgm_exporters(word: str) -> bool:
    """Whether a command line begins with a flag of dcgm-exporter: its image has no commands."""
    if not word.startswith("-"):
        return False
    from exporter.flags.dcgm_exporter import ALIASES, OWN, UNUSED

    flags = {(row.flag, row.short) for row in (*ALIASES, *UNUSED)} | OWN
    spelled = {f"{dashes}{flag}" for flag, _ in flags for dashes in ("-", "--")}
    spelled |= {f"-{short}" for _, short in flags if short}
    return word.partition("=")[0] in spelled - _KUBECTLS


def _run(command: str, arguments: Sequence[str]) -> int:
    row = COMMANDS[command]
    try:
        module = importlib.import_module(row.module)
        run: Callable[[Sequence[str]], int] = getattr(module, row.function)
        status = run(arguments)
        sys.stdout.flush()  # here a closed pipe is noticed
    except ModuleNotFoundError as error:
        print(
            f"{program()} {command}: the Python module {error.name} is missing; install "
            f"draguard[{row.extra}]",
            file=sys.stderr,
        )
        return 2
    except BrokenPipeError:
        # The reader, such as `head`, has closed the pipe. Python must write nothing at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BY_SIGNAL + signal.SIGPIPE
    except KeyboardInterrupt:
        if command in ACTING:
            print(f"{program()} {command}: {_PERHAPS}", file=sys.stderr)
        return _BY_SIGNAL + signal.SIGINT
    except OSError as error:
        if error.errno not in _UNWRITABLE:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print(f"{program()} {command}: cannot write the output: {error}", file=sys.stderr)
        return 1
    return status


def _open_streams() -> None:
    """Open all three streams: after `>&-` one is closed, and output to it must not crash.

    What stdout cannot encode is escaped, as stderr does by itself.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            stream = Path(os.devnull).open(mode, encoding="utf-8")  # noqa: SIM115 - to the end
            setattr(sys, name, stream)
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")


if __name__ == "__main__":
    sys.exit(main())
