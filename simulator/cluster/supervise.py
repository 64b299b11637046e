"""Keeps processes that must not outlive their owner.

`Supervisor` starts this module as a child and talks JSON lines with it over its stdin and stdout.
The child is the parent of all processes; when its stdin closes, for whatever reason (also SIGKILL
of the owner), it kills them, waits, and removes the owner's folder. Should it be killed itself,
the kernel kills them (PR_SET_PDEATHSIG).
"""

import contextlib
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


class SupervisorError(Exception):
    """The supervising child is gone or refused a request."""


class Supervisor:
    """Starts and ends processes through the supervising child. Safe from any thread.

    `within` is a command that runs the child at its end, perhaps in namespaces of its own. It
    inherits `pass_fds`, and the folder is then its own to remove.
    """

    def __init__(
        self,
        folder: Path | None = None,
        *,
        within: Sequence[str] = (),
        pass_fds: Sequence[int] = (),
    ) -> None:
        self._guard = threading.Lock()
        self._folder = folder
        removed = "" if within or folder is None else str(folder)
        self._child = subprocess.Popen(
            [*within, sys.executable, "-m", "simulator.cluster.supervise", removed],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            pass_fds=pass_fds,
            # Ctrl-C at a terminal is for the owner, who then closes in order.
            process_group=0,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )

    def start(self, argv: Sequence[str], log: Path) -> int:
        """Start a process with both outputs appended to `log`; returns its process id."""
        return self._ask({"do": "start", "argv": list(argv), "log": str(log)})

    def signal(self, pid: int, number: signal.Signals) -> None:
        """Send a signal to a process started here; nothing happens when it has ended."""
        self._ask({"do": "signal", "pid": pid, "number": int(number)})

    def kill(self, pid: int) -> None:
        """Kill a process and wait for its end."""
        self._ask({"do": "kill", "pid": pid})

    def exit_code(self, pid: int) -> int | None:
        """Return how a process ended, None while it runs."""
        return self._ask({"do": "poll", "pid": pid})

    def close(self) -> None:
        """Kill and reap everything, remove the folder; returns when all is gone."""
        for pipe in (self._child.stdin, self._child.stdout):
            if pipe is not None:
                # A request that could not be sent any more may still be in the buffer.
                with contextlib.suppress(OSError):
                    pipe.close()
        self._child.wait()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _ask(self, request: Mapping[str, Any]) -> Any:
        with self._guard:
            try:
                assert self._child.stdin  # noqa: S101 - opened as a pipe above
                assert self._child.stdout  # noqa: S101 - likewise
                self._child.stdin.write(json.dumps(request) + "\n")
                self._child.stdin.flush()
                answer = json.loads(self._child.stdout.readline())
            except (OSError, ValueError) as error:
                raise SupervisorError("the supervising process is gone") from error
        if "error" in answer:
            raise SupervisorError(answer["error"])
        return answer["value"]


class _Keeper:
    """The child's side: real processes by id."""

    def __init__(self) -> None:
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def do(self, request: Mapping[str, Any]) -> Any:
        match request["do"]:
            case "start":
                return self._start(request["argv"], request["log"])
            case "signal":
                self._processes[request["pid"]].send_signal(request["number"])
            case "kill":
                self._end([self._processes[request["pid"]]])
            case _:
                return self._processes[request["pid"]].poll()
        return None

    def end_all(self) -> None:
        self._end(list(self._processes.values()))

    def _start(self, argv: Sequence[str], log: str) -> int:
        with Path(log).open("ab") as output:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                preexec_fn=lambda: _libc.prctl(  # noqa: PLW1509 - this process has one thread
                    _PR_SET_PDEATHSIG, signal.SIGKILL
                ),
            )
        self._processes[process.pid] = process
        return process.pid

    def _end(self, processes: Sequence["subprocess.Popen[bytes]"]) -> None:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()


def _serve(folder: str) -> None:
    keeper = _Keeper()
    try:
        for line in sys.stdin:
            try:
                answer = {"value": keeper.do(json.loads(line))}
            except (OSError, KeyError) as error:
                answer = {"error": f"{type(error).__name__}: {error}"}
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()
    except OSError:
        pass  # The owner's end of the pipe is gone: the same as a close.
    finally:
        keeper.end_all()
        if folder:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    _serve(sys.argv[1])
