"""Makes and removes MIG partitions of simulated GPUs for the DRA driver: dynamic MIG.

`python -m tests.lab.node.partition FOLDER prepare|unprepare DEVICE`

FOLDER is a driver root (`gpus`), DEVICE the name under which the partition is published. `prepare`
prints what it changes in a container; what is there already stays. MIG mode is on while a GPU has
partitions.
"""

import json
import sys
from pathlib import Path

from simulator.gpu import Gpu
from simulator.product import MigProfile
from simulator.slice_devices import mig_name
from simulator.topology import Topology
from tests.lab.node.gpus import SIMULATED, edits

ROOT = Path(__file__).parents[3]
Place = tuple[int, MigProfile, int]
"""Number of the GPU, profile, first memory slice."""


def main(folder: Path, verb: str, device: str) -> None:
    """Do what the verb says. Raises ValueError for a name that is no partition."""
    topology = Topology(folder / SIMULATED)
    number, profile, start = _place(topology.scenario.load().gpus, device)
    gpu = topology.gpu(number)
    found = [instance for instance in gpu.instances if instance.start == start]
    if verb == "prepare":
        if not gpu.mig:
            topology.set_mig(number, on=True)
        made = found[0] if found else topology.create_instance(number, profile.name, start=start)
        print(json.dumps(edits(folder, gpu, made.uuid)))  # noqa: T201
    elif found:
        topology.destroy_instance(number, found[0].gi)
        if not topology.gpu(number).instances:
            topology.set_mig(number, on=False)


def program(folder: Path) -> Path:
    """Write the program that a driver calls with a verb and a device; returns its path."""
    file = folder / "partition"
    module = f"{sys.executable} -m tests.lab.node.partition"
    file.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {module} {folder} "$@"\n')
    file.chmod(0o755)
    return file


def _place(gpus: list[Gpu], device: str) -> Place:
    """Return the partition of that name."""
    for number, gpu in enumerate(gpus):
        for profile in gpu.product.profiles:
            for start in profile.starts:
                if mig_name(gpu, profile, start) == device:
                    return number, profile, start
    raise ValueError(f"{device} is no partition of these GPUs")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
