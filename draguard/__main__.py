"""The `draguard` command line: which part to run; everything after that is the part's own."""

import errno
import importlib
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

USAGE = """\
usage: draguard COMMAND [FLAGS]

inspect
  status                     show the fleet: nodes, GPUs, taint rules, incidents
  incidents [NAME]           list open incidents; with a name, show one in detail
  explain xid N              explain an XID, and what Draguard would do about it
  plan                       show what the remediator would do now, and why
  doctor                     check the requirements of this cluster, or this node

act
  hold INCIDENT              pause new taints and evictions on this GPU
  untaint INCIDENT           remove Draguard's taints from a GPU, after confirmation
  ignore INCIDENT            the same, also before there are taints
  confirm-repaired INCIDENT  confirm the repair of a GPU in NeedsHuman
  cordon DEVICE              keep new pods off a GPU or a slice, for maintenance
  uncordon DEVICE            remove such a cordon
  cleanup --all              remove all taints of Draguard, to uninstall it

prepare
  policy check|explain       validate a policy, or simulate a signal under it

run
  exporter sensor|agent|run  monitor this node's GPUs: metrics and health report
  remediator                 taint failed GPUs and slices, evict their pods

`draguard COMMAND --help` shows flags and examples, `--version` the version.
`kubectl draguard COMMAND` is the same.
Exit status: 0: done; 1: a problem, or not all is done; 2: usage error, or no access.
"""


_BY_SIGNAL = 128
"""Added to a signal's number in the exit status, as shells do."""
_WRITING = frozenset(
    {"hold", "untaint", "ignore", "confirm-repaired", "cordon", "uncordon", "cleanup"}
)
_PERHAPS = "interrupted; part of it may be done: check, or run the command again"
_KUBECTLS = frozenset({"-n", "-o"})
"""Flags of dcgm-exporter's that are kubectl's, too: who begins with one does not mean that."""
_UNWRITABLE = frozenset({errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EFBIG})
"""What a full disk answers to whoever writes."""
Main = Callable[[Sequence[str]], int]
_COMMANDS = {
    "status": ("draguard.commands.status", "cli"),
    "incidents": ("draguard.commands.incidents", "cli"),
    "explain": ("draguard.commands.explain", "cli"),
    "plan": ("draguard.commands.plan", "cli"),
    "doctor": ("draguard.commands.doctor", "cli"),
    "hold": ("draguard.commands.hold", "cli"),
    "untaint": ("draguard.commands.untaint", "cli"),
    "ignore": ("draguard.commands.ignore", "cli"),
    "confirm-repaired": ("draguard.commands.confirm_repaired", "cli"),
    "cordon": ("draguard.commands.cordon", "cli"),
    "uncordon": ("draguard.commands.uncordon", "cli"),
    "cleanup": ("draguard.commands.cleanup", "cli"),
    "policy": ("draguard.commands.policy", "cli"),
    "exporter": ("exporter.__main__", "exporter"),
    "remediator": ("remediator.__main__", "remediator"),
}
"""Module with the command's `main`, and the extras whose libraries it needs: a node has none of
the controller's, and the other way round, so only what is asked for is imported."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit status, 2 when there is no such command."""
    _open_streams()
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] in (["-h"], ["--help"]):
        print(USAGE, end="")
    elif given[:1] == ["--version"]:
        print(f"draguard {_version()}")
    elif given and given[0] in _COMMANDS:
        return _run(given[0], given[1:])
    elif given and _is_dcgm_exporters(given[0]):
        return _run("exporter", given)
    else:
        print(_no_command(given[0]) if given else USAGE.rstrip(), file=sys.stderr)
        return 2
    return 0


def _is_dcgm_exporters(word: str) -> bool:
    """Whether a command line begins with a flag of dcgm-exporter's: its image has no commands."""
    if not word.startswith("-"):
        return False
    from exporter.flags.dcgm_exporter import ALIASES, OWN, UNUSED

    flags = {(one.flag, one.short) for one in (*ALIASES, *UNUSED)} | OWN
    spelled = {f"--{flag}" for flag, _ in flags} | {f"-{short}" for _, short in flags if short}
    return word.partition("=")[0] in spelled - _KUBECTLS


def _run(command: str, arguments: Sequence[str]) -> int:
    try:
        status = _imported(command)(arguments)
        sys.stdout.flush()  # here a reader that has gone is noticed
    except ModuleNotFoundError as error:
        extras = _COMMANDS[command][1]
        print(
            f"draguard {command}: the Python module {error.name} is missing; install "
            f"draguard[{extras}]",
            file=sys.stderr,
        )
        return 2
    except BrokenPipeError:
        # Whoever read has gone, such as `head`. Nothing is left for Python to write at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BY_SIGNAL + signal.SIGPIPE
    except KeyboardInterrupt:
        if command in _WRITING:
            print(f"draguard {command}: {_PERHAPS}", file=sys.stderr)
        return _BY_SIGNAL + signal.SIGINT
    except OSError as error:
        if error.errno not in _UNWRITABLE:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print(f"draguard {command}: cannot write the output: {error}", file=sys.stderr)
        return 1
    return status


def _open_streams() -> None:
    """Have all three streams: whoever closed one (`>&-`) wants nothing there, and no crash.

    What stdout cannot spell is spelled out, as stderr does by itself.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            stream = Path(os.devnull).open(mode, encoding="utf-8")  # noqa: SIM115 - to the end
            setattr(sys, name, stream)
    spell_out = getattr(sys.stdout, "reconfigure", None)
    if spell_out is not None:
        spell_out(errors="backslashreplace")


def _version() -> str:
    from importlib import metadata  # megabytes that a node's agent does not need

    return metadata.version("draguard")


def _no_command(word: str) -> str:
    from draguard.nearest import did_you_mean
    from draguard.safe import shown

    meant = did_you_mean(word, _COMMANDS)
    return f"draguard: unknown command {shown(word)!r}{meant}\n`draguard --help` lists all commands"


def _imported(command: str) -> Main:
    run: Main = importlib.import_module(_COMMANDS[command][0]).main
    return run


if __name__ == "__main__":
    sys.exit(main())
