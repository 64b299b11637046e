"""However often it is asked to, a process ends once and in order; no signal is lost."""

import select
import signal
import subprocess
import sys

SCRIPT = """
import signal
from exporter.shutdown import Ending

ending = Ending()
ending.listen(signal.SIGTERM)
print("ready", flush=True)
ending.await_signal()
assert ending.requested.is_set()
print("ended", flush=True)
"""


def test_many_signals_at_once_are_one_end() -> None:
    for _ in range(5):
        with subprocess.Popen(
            [sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            try:
                assert process.stdout.readline() == "ready\n"
                for _ in range(200):
                    process.send_signal(signal.SIGTERM)
                # A signal that comes while the interpreter is taken down ends it by its own.
                assert process.wait(60) in (0, -signal.SIGTERM)
                assert process.stdout.read() == "ended\n"
            finally:
                process.kill()


BUSY = """
import signal, sys, threading
from exporter.shutdown import Ending

ending = Ending()
ending.listen(signal.SIGTERM, signal.SIGHUP)
ending.on_hangup(lambda: print("heard", flush=True))
def work():
    while not ending.requested.is_set():
        sum(range(1000))
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
print("ready", flush=True)
ending.await_signal()
"""


def test_a_signal_is_handled_however_busy_the_other_threads_are() -> None:
    command = [sys.executable, "-u", "-c", BUSY]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == b"ready\n"
            for number in range(200):
                process.send_signal(signal.SIGHUP)
                assert select.select([process.stdout], [], [], 60)[0], f"signal {number} is lost"
                assert process.stdout.readline() == b"heard\n"
            process.terminate()
            assert process.wait(60) == 0
        finally:
            process.kill()
