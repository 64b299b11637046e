"""`--check` beside the container's exporter looks where that one looks, and at its role's needs."""

from pathlib import Path

import pytest

from exporter.node import own_flags
from simulator.node import SimulatedNode
from tests.exporter.node.test_check import check

SENSOR = ("/usr/bin/python3.11", "/usr/local/bin/draguard", "exporter", "sensor")
CHECK = ("/usr/bin/python3.11", "/usr/local/bin/draguard", "exporter", "--check")
OURS, OTHERS = "0::/kubepods/pod7/ours\n", "0::/kubepods/pod7/others\n"


def process(proc: Path, pid: int, started: int, cgroup: str, *words: str) -> None:
    place = proc / str(pid)
    place.mkdir(parents=True)
    (place / "cgroup").write_text(cgroup)
    before = " ".join("0" for _ in range(18))
    (place / "stat").write_text(f"{pid} (a name) 1) S {before} {started} 0 0\n")
    (place / "cmdline").write_bytes(b"".join(word.encode() + b"\0" for word in words))


def beside(proc: Path, pid: int, *words: str) -> Path:
    """Return a /proc with the container's first process and, started later, our own."""
    process(proc, pid, 5000, OURS, *words)
    process(proc, 300, 9000, OURS, *CHECK)
    (proc / "self").symlink_to("300")
    return proc


def test_the_first_process_gives_role_and_flags(tmp_path: Path) -> None:
    folder = beside(tmp_path, 1, *SENSOR, "--sensor-socket=/x", "--dcgm=off")

    assert own_flags.completed(["--check"], folder) == [
        "sensor",
        "--sensor-socket=/x",
        "--dcgm=off",
        "--check",
    ]


def test_with_host_pid_it_is_found_among_the_processes_of_the_node(tmp_path: Path) -> None:
    folder = beside(tmp_path, 4000, *SENSOR, "--dcgm=off")
    process(folder, 1, 0, "0::/init.scope\n", "/sbin/init")
    process(folder, 2, 0, "0::/\n")
    process(folder, 3999, 4000, OTHERS, *SENSOR[:-1], "agent", "--labels=lean")
    process(folder, 4001, 5001, OURS, "/usr/bin/python3.11", "-m", "exporter.sensor.nvml.child")
    (folder / "5").mkdir()  # it has ended while it was looked at

    assert own_flags.completed(["--check"], folder) == ["sensor", "--dcgm=off", "--check"]


def test_a_role_that_was_given_is_taken_as_it_is(tmp_path: Path) -> None:
    folder = beside(tmp_path, 1, *SENSOR, "--dcgm=off")

    assert own_flags.completed(["agent", "--check"], folder) == ["agent", "--check"]
    assert own_flags.completed(["--dcgm=off"], folder) == ["--dcgm=off"]


@pytest.mark.parametrize("words", [("/sbin/init",), ("sh", "-c", "exporter"), ()])
def test_another_first_process_gives_nothing(words: tuple[str, ...], tmp_path: Path) -> None:
    """Also where an exporter was started later: it is no container's, but another test's."""
    folder = beside(tmp_path, 1, *words)
    process(folder, 700, 6000, OURS, *SENSOR, "--dcgm=off")

    assert own_flags.completed(["--check"], folder) == ["--check"]
    assert own_flags.flags_of_first(tmp_path / "none") == []


def test_a_sensor_gets_no_requests_for_what_the_agent_needs(tmp_path: Path) -> None:
    with SimulatedNode(tmp_path / "n", "node-a").create("2xH100") as node:
        _, stated = check(node, "sensor")

    assert "NVML: 2 GPUs" in stated
    assert "not here api-server (agent): check it in the container agent" in stated
    assert "missing  api-server" not in stated
