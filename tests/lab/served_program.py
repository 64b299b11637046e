"""A server of Go's world as a process on loopback: started, waited for, queried, ended."""

import subprocess
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

START_SECONDS = 120.0
ASK_SECONDS = 60.0


class ServedProgram:
    """One process, ready when its `/-/ready` says so; it ends with the block.

    What it logs is in `<program>.log` of its folder. Entering raises AssertionError with the end of
    that log when the process ends early or is not ready in time.
    """

    def __init__(self, program: Path, folder: Path, arguments: Sequence[str], *, port: int) -> None:
        """`arguments` say among others that it listens on `address`."""
        self.address = f"127.0.0.1:{port}"
        self._command = [str(program), *arguments]
        self._log = folder / f"{program.name}.log"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        with self._log.open("wb") as out:
            self._process = subprocess.Popen(self._command, stdout=out, stderr=out)
        end = time.monotonic() + START_SECONDS
        while not self._is_ready():
            if self._process.poll() is not None or time.monotonic() > end:
                self._end()
                stated = self._log.read_text(encoding="utf-8", errors="replace")[-2000:]
                raise AssertionError(f"{self._command[0]} does not start: {stated}")
            time.sleep(0.1)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def ask(self, path: str, body: bytes | None = None) -> bytes:
        """Return what a path answers; POSTs JSON where there is a body. Raises HTTPError."""
        request = urllib.request.Request(
            f"http://{self.address}{path}",
            data=body,
            headers={"Content-Type": "application/json"} if body else {},
        )
        with urllib.request.urlopen(request, timeout=ASK_SECONDS) as answer:  # noqa: S310 - http
            return answer.read()

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://{self.address}/-/ready", timeout=1) as answer:
                return answer.status == 200
        except OSError:
            return False


def version(program: Path) -> str:
    """Return what a program says of itself, in one line."""
    done = subprocess.run([program, "--version"], capture_output=True, check=True, text=True)
    # promtool 2.42 says it on the other channel
    return (done.stdout or done.stderr).splitlines()[0]
