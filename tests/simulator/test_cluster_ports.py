"""Each port is given once, whoever asks, and none that is in use or that the kernel may choose."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from simulator.cluster import ports
from simulator.cluster.ports import NoPortError, free_port

ROOT = Path(__file__).parents[2]
RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
ASKING = """
import sys
from simulator.cluster.ports import free_port
print(*(free_port() for _ in range(200)), flush=True)
sys.stdin.read()
"""


def test_no_port_is_given_twice_and_each_can_be_listened_on() -> None:
    given = [free_port() for _ in range(50)]

    assert len(set(given)) == 50
    for port in given:
        socket.create_server(("127.0.0.1", port)).close()


def test_the_kernel_chooses_none_of_them_for_others() -> None:
    first = int(RANGE.read_text(encoding="ascii").split()[0])

    assert free_port() < max(first, 32_768)


def test_processes_that_ask_at_once_are_given_different_ones() -> None:
    """Also where they begin to look at the same place."""
    asking = ASKING.replace("import sys\n", "import os, sys\nos.getpid = lambda: 7\n", 1)
    command = [sys.executable, "-c", asking]
    running = [
        subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    try:
        given = [
            process.stdout.readline().split() for process in running if process.stdout is not None
        ]
    finally:
        for process in running:
            process.communicate("")

    assert [len(ports) for ports in given] == [200, 200, 200]
    assert len({port for ports in given for port in ports}) == 600


def test_when_every_port_is_in_use_it_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = free_port()
    monkeypatch.setattr(ports, "_given", set[int]())
    monkeypatch.setattr(ports, "_FIRST", taken)
    monkeypatch.setattr(ports, "_AFTER", taken + 1)

    with (
        socket.create_server(("127.0.0.1", taken)),
        pytest.raises(NoPortError, match=f"no port from {taken} to {taken} is free"),
    ):
        free_port()
    assert free_port() == taken, "what was in use only was not claimed"
