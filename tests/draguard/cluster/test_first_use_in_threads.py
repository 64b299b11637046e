"""Collections are read side by side from the first one on: that crashes no command.

msgspec learns a struct when it is used first. Two threads that do so at once have ended a process.
"""

import subprocess
import sys

import pytest

SCRIPT = """
import sys
from threading import Barrier, Thread
import msgspec
from draguard.cluster.reading import KINDS

OBJECT = b'{"metadata": {"name": "a"}, "spec": {"node": "a", "uuid": "b", "fault": "gpu"}}'
begin = Barrier(3 * len(KINDS))

def read(kind):
    begin.wait()
    try:
        msgspec.json.decode(OBJECT, type=kind)
    except msgspec.ValidationError:
        pass

sys.setswitchinterval(1e-6)
threads = [Thread(target=read, args=(kind,)) for kind in KINDS * 3]
for one in threads:
    one.start()
for one in threads:
    one.join()
"""
"""Threads that begin together and change as often as they can."""


@pytest.mark.parametrize("attempt", range(8))
def test_reading_every_kind_at_once_is_no_crash(attempt: int) -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], check=False, capture_output=True)

    assert (done.returncode, done.stderr) == (0, b""), f"attempt {attempt}"
