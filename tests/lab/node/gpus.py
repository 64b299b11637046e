"""The simulated GPUs of a real node: a driver root as NVIDIA's, and what the DRA driver publishes.

<root>/usr/lib/x86_64-linux-gnu/   libnvidia-ml.so.1, the simulator's
<root>/dev/                        nvidia0 and so on, as device files
<root>/sim/                        scenario.ini, kmsg, boot_id, pci and proc (`simulator.node`)
<root>/published.json              slices, and by device what it changes in a container

It is below the lab's folder; the real kernel log takes no lines of the kernel from user space, so
that the driver's lines are in a file. `republish` writes what the DRA driver reads again.
"""

import json
import os
import shutil
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from simulator import board, build, system_files
from simulator.gpu import Gpu, Scenario
from simulator.slices import Publishing, gpu_name, mig_name, resource_slices
from simulator.topology import Topology

SCENARIO = "/host/driver/sim/scenario.ini"
"""Where the lab's exporter finds what its simulated GPUs answer."""
SIMULATED = "sim"
"""The folder of a driver root that stands for what hardware and kernel say."""
LIBRARY_FOLDER = "usr/lib/x86_64-linux-gnu"
LIBRARY = f"{LIBRARY_FOLDER}/{build.LIBRARY}"
_MAJOR, _CONTROL_MINOR = 195, 255
"""NVIDIA's number of its device files, and that of /dev/nvidiactl."""
_AS_PUBLISHED = Publishing()
Json = dict[str, Any]


class Gpus(Topology):
    """The GPUs of one node; faults and changes as of any simulated node."""

    def __init__(
        self,
        root: Path,
        node: str,
        gpus: str,
        mig: Mapping[int, Sequence[str]] | None = None,
        publishing: Publishing = _AS_PUBLISHED,
    ) -> None:
        """Make the driver root. Raises BoardError, BuildError, OSError."""
        simulated = self.simulated = root / SIMULATED
        simulated.mkdir(parents=True)
        super().__init__(simulated)
        self.root = root
        self.node = node
        self.publishing = publishing
        (simulated / "node_name").write_text(f"{node}\n", encoding="utf-8")
        self.scenario.save(Scenario(gpus=board.gpus_of(node, gpus, mig)))
        system_files.sync(simulated, self.scenario.load())
        self.reboot()
        library = root / LIBRARY
        library.parent.mkdir(parents=True)
        shutil.copy(build.build(), library)
        self._make_device_files()
        self.republish()

    @property
    def published(self) -> Path:
        return self.root / "published.json"

    def republish(self, failure: str = "") -> None:
        """Write slices and container edits as the GPUs are now.

        `failure`: why no driver can start.
        """
        scenario = self.scenario.load()
        slices = resource_slices(scenario, self.node, publishing=self.publishing)
        changes: dict[str, Json] = {}
        for gpu in scenario.gpus:
            changes[gpu_name(gpu)] = edits(self.root, gpu, gpu.uuid)
            # Those of a partition are known once it is made (`partition`).
            if not self.publishing.dynamic_mig:
                changes |= {
                    mig_name(gpu, instance): edits(self.root, gpu, instance.uuid)
                    for instance in gpu.instances
                }
        partial = self.published.with_suffix(".new")
        partial.write_text(json.dumps({"slices": slices, "edits": changes, "failure": failure}))
        partial.rename(self.published)

    def specification(self) -> Json:
        """Return the CDI file as NVIDIA's toolkit makes one: `nvidia.com/gpu=all`.

        The scenario lies where the lab's image of the exporter looks for it.
        """
        gpus = self.scenario.load().gpus
        all_of_them = edits(self.root, gpus[0], "void")
        names = [*(f"nvidia{gpu.minor}" for gpu in gpus), "nvidiactl"]
        all_of_them["deviceNodes"] = [_device_node(self.root, name) for name in names]
        all_of_them["mounts"].append(
            {
                "hostPath": str(self.simulated),
                "containerPath": str(Path(SCENARIO).parent),
                "options": ["ro", "nosuid", "nodev", "bind"],
            }
        )
        device = {"name": "all", "containerEdits": all_of_them}
        return {"cdiVersion": "0.6.0", "kind": "nvidia.com/gpu", "devices": [device]}

    def _make_device_files(self) -> None:
        folder = self.root / "dev"
        folder.mkdir()
        minors = {f"nvidia{gpu.minor}": gpu.minor for gpu in self.scenario.load().gpus}
        for name, minor in {**minors, "nvidiactl": _CONTROL_MINOR}.items():
            mode = stat.S_IFCHR | 0o666
            os.mknod(folder / name, mode, os.makedev(_MAJOR, minor))


def edits(root: Path, gpu: Gpu, uuid: str) -> Json:
    """Return CDI's containerEdits for a device of a GPU; `uuid` is the device's."""
    library = {
        "hostPath": str(root / LIBRARY),
        "containerPath": f"/{LIBRARY}",
        "options": ["ro", "nosuid", "nodev", "bind"],
    }
    return {
        "env": [f"NVIDIA_VISIBLE_DEVICES={uuid}"],
        "deviceNodes": [_device_node(root, name) for name in (f"nvidia{gpu.minor}", "nvidiactl")],
        "mounts": [library],
    }


def _device_node(root: Path, name: str) -> Json:
    return {"path": f"/dev/{name}", "hostPath": str(root / "dev" / name)}
