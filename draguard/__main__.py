"""The `draguard` command line: the first word selects a command, which reads the rest."""

import errno
import importlib
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from draguard.called import program, spelled
from draguard.grammar import UsageError, arranged

USAGE = """\
usage: draguard [GLOBAL FLAGS] COMMAND [FLAGS]

inspect
  status                     show the fleet: nodes, GPUs, taint rules, incidents
  incidents [NAME...]        list open incidents; with names, show them in detail
  explain xid N              explain an XID, and what Draguard would do about it
  plan                       show what the remediator would do now, and why
  doctor                     check the requirements of this cluster, or this node
  version                    show the versions of client, remediator, agents, cluster

act
  hold INCIDENT...           pause new taints and evictions on these GPUs
  untaint INCIDENT...        remove Draguard's taints from GPUs, after confirmation
  ignore INCIDENT...         the same, also before there are taints
  confirm-repaired INCIDENT...
                             confirm the repair of GPUs in NeedsHuman
  cordon DEVICE...           keep new pods off GPUs or slices, for maintenance
  uncordon DEVICE...         remove such cordons
  cleanup --all              remove all taints of Draguard, to uninstall it

prepare
  policy check|explain       validate a policy, or simulate a signal under it

learn
  help [COMMAND]             show flags and examples

run
  exporter sensor|agent|run  monitor this node's GPUs: metrics and health report
  remediator                 taint failed GPUs and slices, evict their pods

global flags, before or after the command: -n NAMESPACE, --context NAME,
--kubeconfig FILE, -o FORMAT.
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
"""Flags of dcgm-exporter that kubectl has, too: in first place they do not mean dcgm-exporter."""
_UNWRITABLE = frozenset({errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EFBIG})
"""Errors of writing to a full or broken disk."""
_CLI = "cli"
_MEANT = {"taint": "cordon", "drain": "cordon --evict", "get": "incidents", "describe": "incidents"}
"""Words of kubectl and of operators, and the command that does it here."""
_COMMANDS = {
    "status": ("draguard.commands.status", "main", _CLI),
    "incidents": ("draguard.commands.incidents", "main", _CLI),
    "explain": ("draguard.commands.explain", "main", _CLI),
    "plan": ("draguard.commands.plan", "main", _CLI),
    "doctor": ("draguard.commands.doctor", "main", _CLI),
    "version": ("draguard.commands.version", "main", _CLI),
    "hold": ("draguard.commands.intents", "hold", _CLI),
    "untaint": ("draguard.commands.untaint", "main", _CLI),
    "ignore": ("draguard.commands.intents", "ignore", _CLI),
    "confirm-repaired": ("draguard.commands.intents", "confirm_repaired", _CLI),
    "cordon": ("draguard.commands.cordon", "main", _CLI),
    "uncordon": ("draguard.commands.uncordon", "main", _CLI),
    "cleanup": ("draguard.commands.cleanup", "main", _CLI),
    "policy": ("draguard.commands.policy", "main", _CLI),
    "exporter": ("exporter.__main__", "main", "exporter"),
    "remediator": ("remediator.__main__", "main", "remediator"),
}
"""Module, function, and the extra whose libraries it needs. Only the module of the command is
imported: a node has none of the controller's libraries, and the other way round."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit status, 2 if there is no such command."""
    _open_streams()
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given and _is_dcgm_exporters(given[0]):
        return _run("exporter", given)
    if given[:1] in (["exporter"], ["remediator"]):
        return _run(given[0], given[1:])
    try:
        words = arranged(given)
    except UsageError as error:
        return _refused(str(error))
    command = words[0] if words else ""
    if command in _COMMANDS:
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

    meant = _MEANT.get(word, "")
    near = f" (did you mean {meant}?)" if meant else did_you_mean(word, _COMMANDS)
    return _refused(f"unknown command {shown(word)!r}{near}")


def _refused(why: str) -> int:
    hint = spelled("`draguard --help` lists all commands")
    print(f"{program()}: {spelled(why)}\n{hint}", file=sys.stderr)
    return 2


def _is_dcgm_exporters(word: str) -> bool:
    """Whether a command line begins with a flag of dcgm-exporter: its image has no commands."""
    if not word.startswith("-"):
        return False
    from exporter.flags.dcgm_exporter import ALIASES, OWN, UNUSED

    flags = {(row.flag, row.short) for row in (*ALIASES, *UNUSED)} | OWN
    spelled = {f"--{flag}" for flag, _ in flags} | {f"-{short}" for _, short in flags if short}
    return word.partition("=")[0] in spelled - _KUBECTLS


def _run(command: str, arguments: Sequence[str]) -> int:
    module, function, extra = _COMMANDS[command]
    try:
        run: Callable[[Sequence[str]], int] = getattr(importlib.import_module(module), function)
        status = run(arguments)
        sys.stdout.flush()  # here a closed pipe is noticed
    except ModuleNotFoundError as error:
        print(
            f"{program()} {command}: the Python module {error.name} is missing; install "
            f"draguard[{extra}]",
            file=sys.stderr,
        )
        return 2
    except BrokenPipeError:
        # The reader, such as `head`, has closed the pipe. Python must write nothing at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BY_SIGNAL + signal.SIGPIPE
    except KeyboardInterrupt:
        if command in _WRITING:
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
