"""`doctor --node-local` beside the container's exporter looks where that one looks."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from draguard.doctor.node_local import node_local
from simulator.node import SimulatedNode
from tests.exporter.node.test_own_flags import SENSOR, beside


def test_in_the_sensor_s_container_it_has_the_sensor_s_flags_and_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        TemporaryDirectory(prefix="dg-") as root,
        SimulatedNode(Path(root), "node-a").create("3xH100") as node,
    ):
        monkeypatch.setenv("DRAGUARD_SIM_SCENARIO", str(node.scenario.path))
        flags = [*node.exporter_flags(), f"--sensor-socket={root}/none.sock"]
        found = {each.about: each for each in node_local([], beside(tmp_path, 1, *SENSOR, *flags))}

    assert found["NVML"].says.startswith("3 GPUs, driver")
    assert found["sensor socket"].says.startswith(f"{root}/none.sock: ")
    assert found["sensor: pod-resources"].state == "ok"
    assert not any(about.startswith("agent: ") for about in found)
