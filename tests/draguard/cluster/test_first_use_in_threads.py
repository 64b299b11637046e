"""Collections are read side by side from the first one on: that crashes no command.

msgspec learns a struct when it is used first. Two threads that do so at once have ended a process.
"""

import subprocess
import sys

SCRIPT = """
import os
import sys
from threading import Barrier, Thread
import msgspec
from draguard.cluster import reading, waiting

KINDS = (*reading.KINDS, *waiting.KINDS)

OBJECT = b'{"metadata": {"name": "a"}, "spec": {"node": "a", "uuid": "b", "fault": "gpu"}}'

def read(kind, begin):
    begin.wait()
    try:
        msgspec.json.decode(OBJECT, type=kind)
    except msgspec.ValidationError:
        pass

def read_all():
    sys.setswitchinterval(1e-6)
    begin = Barrier(3 * len(KINDS))
    threads = [Thread(target=read, args=(kind, begin)) for kind in KINDS * 3]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

for attempt in range(100):
    child = os.fork()
    if child == 0:
        read_all()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if status:
        sys.exit(f"attempt {attempt} ended with {status}")
"""
"""Threads that begin together and change as often as they can, each time in a process that has
read nothing. One attempt in five would crash."""


def test_reading_every_kind_at_once_is_no_crash() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], check=False, capture_output=True)

    assert (done.returncode, done.stderr) == (0, b"")
