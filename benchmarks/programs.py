"""How the programs that are measured are started: compiled before, as in an installed image."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

NVML_CHILD = "NVML child"
DCGM_CHILD = "DCGM child"
CHILDREN = (NVML_CHILD, DCGM_CHILD)
"""Of a sensor."""
_SIGNS: Mapping[str, str] = {
    "-m exporter sensor": "sensor",
    "exporter.sensor.nvml.child": NVML_CHILD,
    "exporter.sensor.dcgm.child": DCGM_CHILD,
}
_LOAD_ALL = """
import importlib, pkgutil
for package in ("allocation", "exporter", "kubeapi", "remediator", "serving"):
    root = importlib.import_module(package)
    for module in pkgutil.walk_packages(root.__path__, package + "."):
        importlib.import_module(module.name)
"""


def bytecode(folder: Path) -> dict[str, str]:
    """Return variables under which modules are loaded as compiled before."""
    return {"PYTHONPYCACHEPREFIX": str(folder / "bytecode"), "PYTHONDONTWRITEBYTECODE": ""}


def compile_all(folder: Path) -> None:
    """Load every module once: compiling takes memory that an installed image never spends."""
    variables = {**os.environ, **bytecode(folder)}
    subprocess.run([sys.executable, "-c", _LOAD_ALL], check=True, env=variables, timeout=120)


def parts(found: Mapping[int, str]) -> dict[str, int]:
    """Return the exporter's processes other than the agent, by name, of {pid: command line}.

    Parents come first: a child that was just forked still has its parent's command line.
    """
    named: dict[str, int] = {}
    for pid, line in found.items():
        for sign, name in _SIGNS.items():
            if sign in line:
                named.setdefault(name, pid)
    return named


def children(found: Mapping[int, str]) -> dict[str, int]:
    """Return the vendor children among the processes that a sensor started."""
    return {name: pid for name, pid in parts(found).items() if name in CHILDREN}
