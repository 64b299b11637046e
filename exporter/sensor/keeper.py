"""Keeps the sensor of `run` at work: starts it, waits for its end without looking, starts it again.

The sensor ends with the thread that started it (parent-death signal), so it is
one thread that starts them all.
"""

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Sequence

_log = logging.getLogger(__name__)

_RESTART_SECONDS = 1.0
_END_SECONDS = 4.0
"""After SIGTERM; a sensor ends itself after three."""


class SensorKeeper:
    """One thread, which sleeps for as long as the sensor lives."""

    def __init__(self, arguments: Sequence[str]) -> None:
        flags = [argument for argument in arguments if argument != "run"]
        parent = f"--parent={os.getpid()}"
        self._command = [sys.executable, "-m", "exporter", "sensor", *flags, parent]
        self._guard = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sensor keeper", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Have the sensor end, and wait for it."""
        with self._guard:
            self._stopping.set()
            process = self._process
        if process is not None:
            process.terminate()
            self._thread.join(_END_SECONDS)
            process.kill()
        self._thread.join(1.0)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                with self._guard:
                    if self._stopping.is_set():
                        return
                    process = self._process = subprocess.Popen(self._command)
            except OSError as error:
                _log.error("the sensor cannot be started: %s; it is tried again", error)
            else:
                _log.info("sensor %d started", process.pid)
                code = process.wait()
                if not self._stopping.is_set():
                    _log.warning("the sensor ended with code %d and is started again", code)
            self._stopping.wait(_RESTART_SECONDS)
