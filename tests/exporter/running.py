"""A real exporter on a simulated node: its processes, its page, and bounded waiting."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from http.client import HTTPException
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self, TypeVar

from benchmarks.processes import descendants
from simulator.cluster.ports import free_port
from tests.lab.cluster import LONGEST_PAUSE, SHORTEST_PAUSE

ROOT = Path(__file__).parents[2]
T = TypeVar("T")
PATIENCE = 60.0
HANGS_AFTER = 1.0
"""Seconds, for a test in which a call hangs; where none does, a busy machine may take its time."""
SOON = f"--sample-deadline={HANGS_AFTER:g}"


def wait_for(probe: Callable[[], T | None], seconds: float = PATIENCE, what: str = "") -> T:
    """Return the first true value of a probe; fails with its last value after the time."""
    pauses = _pauses(seconds)
    while not (value := probe()):
        if not next(pauses, False):
            raise AssertionError(f"waited {seconds} s for {what or probe}: {value!r}")
    return value


def _pauses(seconds: float) -> Iterator[bool]:
    """Pause between two looks, for so long in all: soon again at first, then more seldom.

    A look costs its process and the one that is looked at as much as a sample does.
    """
    end, pause = time.monotonic() + seconds, SHORTEST_PAUSE
    while time.monotonic() < end:
        time.sleep(pause)
        pause = min(pause * 1.2, LONGEST_PAUSE)
        yield True


class Page:
    """What `/metrics` said at one moment: what is checked of it is true of the same moment."""

    def __init__(self, text: str) -> None:
        self._text = text

    def series(self, family: str) -> dict[str, float]:
        """Return the samples of a family by label text."""
        found = re.findall(rf"^{family}(?:{{(.*)}})? (\S+)$", self._text, re.MULTILINE)
        return {labels: float(value) for labels, value in found}

    def shows(self, *texts: str) -> bool:
        return all(text in self._text for text in texts)

    def missing(self, *texts: str) -> list[str]:
        return [text for text in texts if text not in self._text]


class Node(Protocol):
    """What an exporter runs on."""

    @property
    def root(self) -> Path:
        """A folder of the test's own."""
        ...

    def exporter_flags(self) -> list[str]: ...

    def environment(self) -> dict[str, str]: ...


class Exporter:
    """One `python -m exporter ROLE` on a node; ends with the block."""

    def __init__(self, node: Node, role: str = "run", *flags: str, **environment: str) -> None:
        self.port = free_port()
        self.socket = node.root / "sensor.sock"
        self.log = node.root / f"{role}-{self.port}.log"
        self._command = [
            *(sys.executable, "-m", "exporter", role),
            *node.exporter_flags(),
            f"--listen=127.0.0.1:{self.port}",
            f"--sensor-socket={self.socket}",
            "--interval=0.3",
            "--lease-interval=0.5",
            "--sample-deadline=10",
            "--hang-retry=2",
            *flags,
        ]
        self._environment = {**os.environ, **node.environment(), **environment}
        # The flag alone must be enough to find the library.
        self._environment.pop("LD_LIBRARY_PATH", None)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, cwd=ROOT, env=self._environment, stdout=log, stderr=log
            )
        return self

    def wait(self) -> int:
        """Return the exit code of an exporter that ends by itself."""
        assert self._process is not None
        return self._process.wait(PATIENCE)

    def stop(self) -> int:
        process = self._process
        assert process is not None
        process.terminate()
        try:
            return process.wait(PATIENCE)
        finally:
            process.kill()
            process.wait()

    def kill(self) -> None:
        process = self._process
        assert process is not None
        process.kill()
        process.wait()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def get(self, path: str = "/metrics", seconds: float = 20.0) -> tuple[int, str]:
        """Return (status, body); (0, reason) while nothing answers."""
        url = f"http://127.0.0.1:{self.port}{path}"
        try:
            with urllib.request.urlopen(url, timeout=seconds) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except (OSError, HTTPException) as error:
            return 0, str(error)

    def page(self) -> Page:
        """Return the page of now; an empty one while nothing answers."""
        return Page(self.get()[1])

    def series(self, family: str) -> dict[str, float]:
        """Return the samples of a family by label text."""
        return self.page().series(family)

    def shows(self, *texts: str) -> bool:
        return self.page().shows(*texts)

    def wait_shows(self, *texts: str, seconds: float = PATIENCE) -> Page:
        """Wait until all of this is on one page, and return that page."""
        pauses = _pauses(seconds)
        while missing := (page := self.page()).missing(*texts):
            if not next(pauses, False):
                raise AssertionError(
                    f"not shown in {seconds} s: {missing}\n{self.logged()[-3000:]}"
                )
        return page

    def wait_logged(self, *texts: str) -> None:
        """Wait for lines in the log, which is written by a thread that nobody waits for."""
        for text in texts:
            wait_for(lambda text=text: text in self.logged(), what=f"{text!r} in the log")

    def wait_count(self, code: int, count: int, seconds: float = PATIENCE) -> None:
        """Wait until exactly `count` XIDs of a code are counted, on whatever GPU."""
        wait_for(lambda: self.count(code) == count, seconds, f"{count} of XID {code}")

    def count(self, code: int) -> int:
        found = self.series("draguard_xid_errors_total")
        return int(sum(value for labels, value in found.items() if f'code="{code}"' in labels))

    def logged(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    def descendants(self) -> dict[int, str]:
        """Return the processes that this one started, and theirs: {pid: command line}."""
        return descendants(self.pid)

    def nvml_child(self) -> int:
        """Return the process id of the NVML child."""

        def running() -> list[int]:
            lines = self.descendants().items()
            return [pid for pid, line in lines if "exporter.sensor.nvml.child" in line]

        return wait_for(running, what="an NVML child")[0]

    def sensor(self) -> int:
        """Return the process id of the sensor that `run` started."""

        def running() -> list[int]:
            lines = self.descendants().items()
            return [pid for pid, line in lines if "-m exporter sensor" in line]

        return wait_for(running, what="a sensor")[0]


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    return state.rpartition(")")[2].split()[0] != "Z"


def send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
