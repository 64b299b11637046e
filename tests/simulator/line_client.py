"""A process that answers Python lines over a simulated library, so that a crash costs no test."""

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

ROOT = Path(__file__).parents[2]


class AnswerError(Exception):
    """A line that ended with a code of the library."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class LineClient:
    """Asks lines of a program that answers each with one line of JSON; ends with the block."""

    refused: ClassVar[str]
    """Key of an answer that is an error code."""

    def __init__(self, program: str, environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            cwd=ROOT,
            env={**os.environ, **environment},
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

    def result(self, seconds: float = 60.0) -> Any:
        """Return the value of the line sent before; raises AnswerError."""
        assert self.answers_within(seconds), "no answer in time"
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the process ended: {self._process.wait(60)}"
        answer = json.loads(line)
        if self.refused in answer:
            raise AnswerError(answer[self.refused])
        assert "bug" not in answer, answer["bug"]
        return answer["value"]

    def ask(self, line: str) -> Any:
        self.begin(line)
        return self.result()

    def error_of(self, line: str) -> int:
        """Return the error code that a line ends with, 0 when it succeeds."""
        try:
            self.ask(line)
        except AnswerError as error:
            return error.code
        return 0

    def killed_by(self, line: str) -> signal.Signals:
        """Send a line that kills the process and return the signal."""
        self.begin(line)
        return signal.Signals(-self._process.wait(60))
