"""What a test file leaves behind is seen, whatever it is."""

import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.lab import leftovers

ROOT = Path(__file__).parents[2]
CARELESS = """
import logging.config, os, threading

def test_nothing():
    {deed}
"""
DEEDS = {
    "os.environ['LEFT'] = '1'": "the environment was",
    "logging.config.dictConfig({'version': 1})": "the loggers that are silenced",
    "logging.disable()": "the level below which nothing is logged",
    "threading.Thread(target=threading.Event().wait, name='stray', daemon=True).start()": (
        "threads that do not end: stray"
    ),
}


@pytest.fixture
def as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = os.umask(0o022)
    os.umask(before)
    handler = signal.getsignal(signal.SIGUSR1)
    yield
    os.umask(before)
    signal.signal(signal.SIGUSR1, handler)
    socket.setdefaulttimeout(None)
    logging.getLogger().setLevel(logging.WARNING)


@pytest.mark.parametrize(
    ("deed", "named"),
    [
        (lambda: os.umask(0o007), "the umask was"),
        (lambda: signal.signal(signal.SIGUSR1, signal.SIG_IGN), "the signal handlers were"),
        (lambda: socket.setdefaulttimeout(3.0), "the default time limit of sockets was None"),
        (lambda: logging.getLogger().setLevel(logging.DEBUG), "the level of the root logger was"),
    ],
)
def test_a_change_is_a_sentence(as_it_was: None, deed: Callable[[], object], named: str) -> None:
    before = leftovers.state()
    assert leftovers.changes(before) == []

    deed()

    (stated,) = leftovers.changes(before)
    assert stated.startswith(named.replace(" were", " was"))


def test_a_thread_that_ends_is_waited_for_and_one_of_the_session_may_stay() -> None:
    go, stay = threading.Event(), threading.Event()
    before = set(threading.enumerate())
    with leftovers.kept():
        threading.Thread(target=stay.wait, daemon=True).start()
    threading.Thread(target=go.wait, name="mine", daemon=True).start()

    assert leftovers.threads(before, 0.1) == ["mine"]
    go.set()
    assert leftovers.threads(before, 60) == []
    stay.set()


def test_the_threads_of_a_pool_that_nobody_has_any_more_are_no_leftovers() -> None:
    before = set(threading.enumerate())
    pool = ThreadPoolExecutor(1)
    pool.submit(int).result(60)
    cycle: list[object] = [pool]
    cycle.append(cycle)
    del pool, cycle

    assert leftovers.threads(before, 60) == []


@pytest.mark.parametrize("deed", DEEDS)
def test_the_file_that_left_it_fails(deed: str, tmp_path: Path) -> None:
    (tmp_path / "test_careless.py").write_text(CARELESS.format(deed=deed), encoding="utf-8")
    (tmp_path / "conftest.py").write_text(
        "from tests.conftest import nothing_left_behind\n"
        "from tests.lab import leftovers\n"
        "leftovers.PATIENCE = 0.2\n",
        encoding="utf-8",
    )
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    assert ended.returncode == 1, ended.stdout
    assert "1 passed, 1 error" in ended.stdout
    assert DEEDS[deed] in ended.stdout
