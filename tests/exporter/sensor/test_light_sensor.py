"""What the processes on the node do not load, because of the memory that it costs everywhere."""

import subprocess
import sys

import pytest

from tests.exporter.running import ROOT

_NETWORK = ("grpc", "asyncio", "ssl", "http", "email", "prometheus_client", "yaml", "urllib3")


@pytest.mark.parametrize(
    ("entry", "heavy"),
    [
        ("exporter.sensor", ("grpc", "asyncio", "ssl", "prometheus_client", "yaml", "urllib3")),
        ("exporter.sensor.nvml.child", _NETWORK),
        ("exporter.sensor.dcgm.child", (*_NETWORK, "pynvml")),
    ],
)
def test_what_touches_the_node_loads_only_what_it_needs(entry: str, heavy: tuple[str, ...]) -> None:
    script = f"import sys, {entry}; print([n for n in {heavy!r} if n in sys.modules])"
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert ran.stdout.strip() == "[]"
