"""However often it is asked to, a process ends once and in order."""

import signal
import subprocess
import sys
import time

SCRIPT = """
import os, signal, threading, time
from exporter.ending import Ending

ending = Ending()
ending.listen(signal.SIGTERM)
print("ready", flush=True)
ending.await_signal()
assert ending.asked.is_set()
print("ended", flush=True)
"""


def test_many_signals_at_once_are_one_end() -> None:
    for _ in range(5):
        with subprocess.Popen(
            [sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            until = time.monotonic() + 20
            while process.poll() is None and time.monotonic() < until:
                process.send_signal(signal.SIGTERM)
            assert process.wait(5) == 0
            assert process.stdout.read() == "ended\n"
