"""Draguard's own processes of one demo: started, looked after, ended.

They are children of a supervising process, which ends them and removes the folder when the demo
is gone, for whatever reason.
"""

import signal
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from simulator.cluster.supervise import Supervisor

_END_SECONDS = 8.0


class StageError(Exception):
    """The demo cannot be set up or go on; the message says what is wrong and what to do."""


class Programs:
    """Owns a temporary folder and the processes that work in it."""

    def __init__(self) -> None:
        # Unix sockets lie in it, whose paths must be short.
        self.folder = Path(tempfile.mkdtemp(prefix="draguard-demo-"))
        self._supervisor = Supervisor(self.folder)
        self._running: dict[str, int] = {}
        self.logs = self.folder / "logs"
        self.logs.mkdir()

    def start(self, name: str, arguments: Sequence[str], more: Mapping[str, str] = {}) -> None:
        """Run `python -m draguard ARGUMENTS` with `more` in its environment."""
        variables = [f"{key}={value}" for key, value in more.items()]
        command = ["env", *variables, sys.executable, "-m", "draguard", *arguments]
        self._running[name] = self._supervisor.start(command, self.log(name))

    def check(self) -> None:
        """Raise StageError when one of the processes has ended."""
        for name, pid in self._running.items():
            code = self._supervisor.exit_code(pid)
            if code is not None:
                raise StageError(
                    f"{name} ended with exit code {code}. If another program took its port in the "
                    f"meantime, start the demo again. Its last words:\n{self.last_words(name)}"
                )

    def log(self, name: str) -> Path:
        return self.logs / f"{name.replace(' ', '-')}.log"

    def last_words(self, name: str, lines: int = 12) -> str:
        if not self.log(name).exists():
            return "(it wrote nothing)"
        return "\n".join(self.log(name).read_text(errors="replace").splitlines()[-lines:])

    def close(self) -> None:
        """Ask every process to end, kill what does not, remove the folder."""
        for pid in self._running.values():
            self._supervisor.signal(pid, signal.SIGTERM)
        deadline = time.monotonic() + _END_SECONDS
        while time.monotonic() < deadline:
            codes = [self._supervisor.exit_code(pid) for pid in self._running.values()]
            if None not in codes:
                break
            time.sleep(0.05)
        self._supervisor.close()
