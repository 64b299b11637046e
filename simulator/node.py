"""A simulated node: a folder with everything that the node agent looks at.

<root>/lib/libnvidia-ml.so.1   the simulated NVML
<root>/scenario.ini            what it answers
<root>/kmsg                    the kernel log
<root>/boot_id                 like /proc/sys/kernel/random/boot_id
<root>/pci, <root>/proc        like /sys/bus/pci/devices and /proc
<root>/kubelet.sock            PodResources
<root>/node_name               for the command line
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from simulator import board, build, system_files
from simulator.gpu import Gpu, Scenario
from simulator.kubelet import Kubelet
from simulator.slices import Publishing, resource_slices
from simulator.topology import Topology

_AS_PUBLISHED = Publishing()


class SimulatedNode(Topology):
    """One node; use it in a `with` block or `close` it."""

    def __init__(self, root: Path, name: str) -> None:
        super().__init__(root)
        self.root = root
        self.name = name
        self.kubelet = Kubelet(root / "kubelet.sock")
        self.generation = 1
        """Of its ResourceSlice pool; raise it when the devices change."""

    def create(
        self,
        gpus: str | Sequence[Gpu] = "8xH100",
        *,
        mig: Mapping[int, Sequence[str]] | None = None,
    ) -> Self:
        """Make the folder new with these GPUs and start the kubelet.

        `gpus` is a list, or words for `board.gpus_of` with `mig`. Raises
        BoardError, BuildError, ScenarioError or KubeletError.
        """
        found = board.gpus_of(self.name, gpus, mig) if isinstance(gpus, str) else list(gpus)
        self.root.mkdir(parents=True, exist_ok=True)
        self.scenario.save(Scenario(gpus=found))
        (self.root / "node_name").write_text(f"{self.name}\n", encoding="utf-8")
        self.reboot()
        return self.open()

    def open(self) -> Self:
        """Serve a folder that `create` made before."""
        system_files.sync(self.root, self.scenario.load())
        self.library_dir.mkdir(exist_ok=True)
        link = self.library_dir / build.LIBRARY
        link.unlink(missing_ok=True)
        link.symlink_to(build.build())
        self.kubelet.start()
        return self

    def close(self) -> None:
        """Stop serving; the folder stays."""
        self.stop()
        self.kubelet.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def library_dir(self) -> Path:
        return self.root / "lib"

    @property
    def pci_devices_dir(self) -> Path:
        """Like /sys/bus/pci/devices: a GPU that is lost or gone stays, one that is removed goes."""
        return self.root / "pci"

    @property
    def proc_dir(self) -> Path:
        """Like /proc, of the processes on the GPUs."""
        return self.root / "proc"

    def environment(self) -> dict[str, str]:
        """Return the variables under which a process loads the simulated library."""
        return {
            "DRAGUARD_SIM_SCENARIO": str(self.scenario.path),
            "LD_LIBRARY_PATH": str(self.library_dir),
        }

    def exporter_flags(self) -> list[str]:
        """Return the flags that point the exporter at this node."""
        return [
            f"--node-name={self.name}",
            f"--nvml-library-dir={self.library_dir}",
            f"--kernel-log={self.kernel_log.path}",
            f"--boot-id-file={self.boot_id_file}",
            f"--pod-resources-socket={self.kubelet.socket}",
            f"--pci-devices-dir={self.pci_devices_dir}",
            f"--proc-dir={self.proc_dir}",
        ]

    def slices(
        self,
        *,
        node_uid: str = "",
        without_uuid: Iterable[str] = (),
        publishing: Publishing = _AS_PUBLISHED,
    ) -> list[dict[str, Any]]:
        """Return the ResourceSlices that NVIDIA's driver would publish now."""
        return resource_slices(
            self.scenario.load(),
            self.name,
            generation=self.generation,
            node_uid=node_uid,
            without_uuid=without_uuid,
            publishing=publishing,
        )
