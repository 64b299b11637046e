"""Memory of processes from the kernel's text, and the clock of another process."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.processes import (
    Mapping,
    alone_megabytes,
    cpu_seconds,
    leader_sleeps,
    mappings,
    maps_of,
    pss_megabytes,
    sleeps,
)
from tests.lab.cluster import await_true

SMAPS = """\
55d0c0a00000-55d0c0a01000 r-xp 00001000 fe:00 123 /usr/bin/my python3
Size:                  8 kB
Pss:                   5 kB
Shared_Clean:          4 kB
Shared_Dirty:          2 kB
Private_Clean:         1 kB
Private_Dirty:         2 kB
THPeligible:           0
VmFlags: rd ex mr mw me
55d0c1000000-55d0c1100000 rw-p 00000000 00:00 0 [heap]
Pss:                  40 kB
Private_Dirty:        40 kB
VmFlags: rd wr
7f0000000000-7f0000001000 rw-p 00000000 00:00 0
Pss:                   7 kB
Private_Dirty:         7 kB
"""


def test_the_kernel_s_text_is_read_mapping_by_mapping() -> None:
    assert mappings(SMAPS) == (
        Mapping("/usr/bin/my python3", "00001000", 5, 3, 6),
        Mapping("", "55d0c1000000-55d0c1100000", 40, 40, 0),
        Mapping("", "7f0000000000-7f0000001000", 7, 7, 0),
    )
    assert mappings("") == ()


def test_pss_is_the_sum_over_all_mappings() -> None:
    assert pss_megabytes(mappings(SMAPS)) == 52 * 1024 / 1e6


def test_alone_a_shared_page_of_a_file_counts_once_and_in_full() -> None:
    library = Mapping("/lib/a.so", "0", pss=3, private=0, shared=9)
    less_of_it = Mapping("/lib/a.so", "0", pss=1, private=0, shared=4)
    elsewhere_in_it = Mapping("/lib/a.so", "1000", pss=1, private=0, shared=2)
    own = Mapping("", "7f00", pss=5, private=5, shared=0)

    found = alone_megabytes([[library, own], [less_of_it, elsewhere_in_it, own]])

    assert found == (9 + 2 + 5 + 5) * 1024 / 1e6


def test_a_process_has_a_cpu_clock_that_runs() -> None:
    mine = time.process_time()
    theirs = cpu_seconds(os.getpid())
    assert mine <= theirs <= time.process_time()


SLEEPER = """
import sys, threading, time
def beside():
    while True:
        time.sleep(0.001)
threading.Thread(target=beside, daemon=True).start()
print("ready", flush=True)
sys.stdin.read()
"""
"""Its first thread waits and its second one sleeps again and again."""


@pytest.fixture
def sleeper() -> Iterator[int]:
    command = [sys.executable, "-c", SLEEPER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield process.pid
        process.kill()


def test_a_process_has_memory_and_shares_some(sleeper: int) -> None:
    # Its own sum: what `getrusage` tells is counted by each CPU for itself, and lags behind.
    reported = Path(f"/proc/{sleeper}/smaps_rollup").read_text(encoding="ascii").splitlines()
    megabytes = {line.split()[0]: int(line.split()[1]) * 1024 / 1e6 for line in reported[1:]}

    found = pss_megabytes(maps_of(sleeper))

    # The interpreter's code is this process's as well; what it wrote is its own.
    assert 1 < megabytes["Private_Dirty:"] < found < megabytes["Rss:"]


def test_a_sleep_of_any_thread_is_counted_and_of_the_first_apart(sleeper: int) -> None:
    # How often the first one slept at its start is the disk's affair.
    await_true("the second sleeps on", lambda: leader_sleeps(sleeper) < sleeps(sleeper) / 2)

    mine, ours = leader_sleeps(os.getpid()), sleeps(os.getpid())
    await_true("this one has slept", lambda: leader_sleeps(os.getpid()) >= mine + 5)
    assert ours > 0
