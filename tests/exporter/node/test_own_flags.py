"""`--check` beside the container's exporter looks where that one looks, and at its role's needs."""

from pathlib import Path

import pytest

from exporter.node import own_flags
from simulator.node import SimulatedNode
from tests.exporter.node.test_check import check

SENSOR = ("/usr/bin/python3.11", "/usr/local/bin/draguard", "exporter", "sensor")


def proc(folder: Path, *words: str) -> Path:
    place = folder / "1"
    place.mkdir()
    (place / "cmdline").write_bytes(b"".join(word.encode() + b"\0" for word in words))
    return folder


def test_the_main_process_gives_role_and_flags(tmp_path: Path) -> None:
    folder = proc(tmp_path, *SENSOR, "--sensor-socket=/x", "--dcgm=off")

    assert own_flags.completed(["--check"], folder) == [
        "sensor",
        "--sensor-socket=/x",
        "--dcgm=off",
        "--check",
    ]


def test_a_role_that_was_given_is_taken_as_it_is(tmp_path: Path) -> None:
    folder = proc(tmp_path, *SENSOR, "--dcgm=off")

    assert own_flags.completed(["agent", "--check"], folder) == ["agent", "--check"]
    assert own_flags.completed(["--dcgm=off"], folder) == ["--dcgm=off"]


@pytest.mark.parametrize("words", [("/sbin/init",), ("sh", "-c", "exporter"), ()])
def test_another_main_process_gives_nothing(words: tuple[str, ...], tmp_path: Path) -> None:
    assert own_flags.completed(["--check"], proc(tmp_path, *words)) == ["--check"]
    assert own_flags.flags_of_main(tmp_path / "none") == []


def test_a_sensor_is_not_asked_for_what_the_agent_needs(tmp_path: Path) -> None:
    with SimulatedNode(tmp_path / "n", "node-a").create("2xH100") as node:
        _, stated = check(node, "sensor")

    assert "NVML: 2 GPUs" in stated
    assert "not here api-server (agent): check it in the container agent" in stated
    assert "missing  api-server" not in stated
