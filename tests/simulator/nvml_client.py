"""A process that runs the real pynvml over a simulated node's library, line by line."""

import json
import os
import select
import signal
import subprocess
import sys
from types import TracebackType
from typing import Any, Self

from simulator.node import SimulatedNode

_PROGRAM = r"""
import ctypes, json, sys
from ctypes import *
import pynvml as p
names = {"p": p, **vars(p), **vars(ctypes)}

def plain(value):
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, (p.nvmlFriendlyObject,)):
        return {k: plain(v) for k, v in vars(value).items()}
    if isinstance(value, ctypes.Structure):
        return {f[0]: plain(getattr(value, f[0])) for f in value._fields_}
    if isinstance(value, ctypes.Array) or isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, ctypes._SimpleCData):
        return value.value
    if isinstance(value, (ctypes._Pointer, ctypes.Union)):
        return str(type(value).__name__)
    return value

def run(line):
    try:
        code = compile(line, "line", "eval")
    except SyntaxError:
        exec(compile(line, "line", "exec"), names)
        return None
    return plain(eval(code, names))

for line in sys.stdin:
    try:
        answer = {"value": run(line.strip())}
    except p.NVMLError as error:
        answer = {"nvml": error.value}
    except Exception as error:
        answer = {"bug": repr(error)}
    print(json.dumps(answer), flush=True)
"""


class NvmlAnswerError(Exception):
    """NVML answered with an error code."""

    def __init__(self, code: int) -> None:
        super().__init__(f"NVML error {code}")
        self.code = code


class NvmlClient:
    """Asks expressions in pynvml's own names; the process ends with the `with` block."""

    def __init__(self, node: SimulatedNode) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env={**os.environ, **node.environment()},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def begin(self, line: str) -> None:
        """Send a line and do not wait for its answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")

    def answers_within(self, seconds: float) -> bool:
        assert self._process.stdout is not None
        return bool(select.select([self._process.stdout], [], [], seconds)[0])

    def result(self, seconds: float = 20.0) -> Any:
        """Return the value of the line sent before."""
        assert self.answers_within(seconds), "no answer in time"
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the process ended: {self._process.wait(5)}"
        answer = json.loads(line)
        if "nvml" in answer:
            raise NvmlAnswerError(answer["nvml"])
        assert "bug" not in answer, answer["bug"]
        return answer["value"]

    def ask(self, line: str) -> Any:
        self.begin(line)
        return self.result()

    def error_of(self, line: str) -> int:
        """Return the NVML error code that a line ends with, 0 when it succeeds."""
        try:
            self.ask(line)
        except NvmlAnswerError as error:
            return error.code
        return 0

    def killed_by(self, line: str) -> signal.Signals:
        """Send a line that kills the process and return the signal."""
        self.begin(line)
        return signal.Signals(-self._process.wait(20))

    def complaint(self, seconds: float = 20.0) -> str:
        """Return the next line that the library wrote to stderr."""
        assert self._process.stderr is not None
        assert select.select([self._process.stderr], [], [], seconds)[0], "no complaint in time"
        return self._process.stderr.readline().decode(errors="ignore")

    def complains(self) -> bool:
        """Whether there is something on stderr to be read."""
        assert self._process.stderr is not None
        return bool(select.select([self._process.stderr], [], [], 0)[0])

    def stderr_after_end(self) -> str:
        """End the process in peace and return what it wrote to stderr."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.stdin = None
        return self._process.communicate(timeout=20)[1].decode()
