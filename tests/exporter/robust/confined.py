"""A real exporter with less than usual: rights, a place to write, a log that is read.

Where the tests do not run as root there are no rights to take away, and the
program runs as it is.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from simulator.node import SimulatedNode
from tests.exporter.running import ROOT, Exporter

NOBODY, GROUP = 65532, 4242
_UNSET = ("HOME", "TMPDIR", "USER", "LOGNAME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR")


class Confined(Exporter):
    """Started by another command, with its log where the test wants it."""

    def __init__(
        self,
        node: SimulatedNode,
        role: str,
        *flags: str,
        by: Sequence[str] = (),
        log: int | None = None,
    ) -> None:
        super().__init__(node, role, *flags)
        self._command = [*by, *self._command]
        self._stderr = log
        for name in _UNSET:
            self._environment.pop(name, None)
        # Where there is no room Python 3.11 leaves half a file of bytecode, which nobody can read.
        self._environment["PYTHONDONTWRITEBYTECODE"] = "1"

    def start(self) -> Self:
        with self.log.open("ab") as log:
            out = log.fileno() if self._stderr is None else self._stderr
            self._process = subprocess.Popen(
                self._command, cwd=ROOT, env=self._environment, stdout=out, stderr=out
            )
        return self


def as_nobody() -> list[str]:
    """Return a command that runs another without root, without rights, in a group of its own."""
    if os.getuid() != 0:
        return []
    return [
        *(_tool("setpriv"), f"--reuid={NOBODY}", f"--regid={GROUP}", "--clear-groups"),
        *_rights(*_to_reach_the_interpreter()),
    ]


def with_rights(*names: str) -> list[str]:
    """Return a command that runs another as root with these capabilities and no other."""
    if os.getuid() != 0:
        return []
    return [_tool("setpriv"), "--inh-caps=-all", "--bounding-set=" + _plus(names)]


def read_only(but: Path) -> list[str]:
    """Return a command that runs another where nothing can be written except in one folder."""
    script = 'mount --bind "$0" "$0" && mount -o remount,bind,ro / && exec "$@"'
    user = [] if os.getuid() == 0 else ["--map-root-user"]
    return [_tool("unshare"), *user, "--mount", "sh", "-c", script, str(but)]


def without_room(most: int) -> list[str]:
    """Return a command that runs another for which no file may grow beyond so many bytes."""
    return [_tool("prlimit"), f"--fsize={most}:{most}", "--"]


def folder_of_both(node: SimulatedNode) -> Path:
    """Make a folder for the socket as a pod with an fsGroup has it."""
    node.root.chmod(0o755)
    folder = node.root / "run"
    folder.mkdir()
    if os.getuid() == 0:
        os.chown(folder, 0, GROUP)
    folder.chmod(0o2770)
    return folder


def rights_of(pid: int) -> int:
    """Return the effective capabilities of a process, as bits."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(status.split("CapEff:")[1].split()[0], 16)


def _rights(*names: str) -> list[str]:
    desired = _plus(names)
    return [f"--inh-caps={desired}", f"--ambient-caps={desired}", f"--bounding-set={desired}"]


def _plus(names: Sequence[str]) -> str:
    return ",".join(["-all", *(f"+{name}" for name in names)])


def _to_reach_the_interpreter() -> tuple[str, ...]:
    """Return the right to read that is needed where Python lies in a folder of root's own.

    It gives nothing that a socket or a file must be written for.
    """
    folders = Path(sys.executable).resolve().parents
    return () if all(path.stat().st_mode & 1 for path in folders) else ("dac_read_search",)


def _tool(name: str) -> str:
    found = shutil.which(name)
    assert found, f"{name} of util-linux is needed"
    return found
