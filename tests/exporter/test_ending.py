"""However often it is asked to, a process ends once and in order."""

import signal
import subprocess
import sys

SCRIPT = """
import signal
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
            for _ in range(200):
                process.send_signal(signal.SIGTERM)
            # A signal that comes while the interpreter is taken down ends it by its own.
            assert process.wait(20) in (0, -signal.SIGTERM)
            assert process.stdout.read() == "ended\n"
