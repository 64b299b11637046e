"""Changes of what a simulated node has while it runs: GPUs, slices, processes, the driver."""

import uuid
from pathlib import Path

from simulator import board, grammar
from simulator.faults import FaultError, Faults, board_of
from simulator.gpu import HEALTHY, Failure, Gpu, Instance, Process, Scenario

_LOST_ON_RELOAD = tuple(
    name
    for name in grammar.VALUE_NAMES
    if name.endswith(("_volatile", "_ns")) or name in ("energy_mj", "remap_pending")
)
"""Numbers that count since the driver was loaded."""
_DRIVER_NOT_LOADED = 9


class Topology(Faults):
    """What can be added to, taken from and changed on the node in `root`."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self._identity = root / "node_name"
        self.boot_id_file = root / "boot_id"

    @property
    def boot_id(self) -> str:
        return self.boot_id_file.read_text(encoding="utf-8").strip()

    def reboot(self) -> None:
        """Start a new boot: another boot id, an empty kernel log; the GPUs stay as they are."""
        self.stop()
        self._introduced.clear()
        self.kernel_log.reboot()
        fresh = self.boot_id_file.with_name(".boot_id")
        fresh.write_text(f"{uuid.uuid4()}\n", encoding="utf-8")
        fresh.replace(self.boot_id_file)

    def add_gpu(self, product: str = "H100") -> int:
        """Put in one more GPU and return its number; raises BoardError."""
        name = self._identity.read_text(encoding="utf-8").strip()
        with self.scenario.edit() as scenario:
            scenario.gpus.append(board.another(name, scenario.gpus, product))
            number = len(scenario.gpus) - 1
            scenario.add_event(number, "bind")
        return number

    def unbind(self, gpu: int) -> None:
        """Unbind the GPU from the driver: NVML no longer lists it, the kernel still does."""
        self._move(gpu, Failure("unbound"), "unbind")

    def bind(self, gpu: int) -> None:
        """Give the GPU back to the driver, after `unbind` or `remove_gpu`."""
        self._move(gpu, HEALTHY, "bind")

    def remove_gpu(self, gpu: int) -> None:
        """Take the GPU from the PCI bus: neither NVML nor the kernel lists it."""
        self._move(gpu, Failure("removed"), "unbind")

    def _move(self, gpu: int, failure: Failure, kind: str) -> None:
        with self.scenario.edit() as scenario:
            board_of(scenario.gpus, gpu).failure = failure
            scenario.add_event(gpu, kind)

    def unload_driver(self) -> None:
        """Every call answers DRIVER_NOT_LOADED from now on; processes on the GPUs are gone."""
        with self.scenario.edit() as scenario:
            scenario.failure = Failure("error", _DRIVER_NOT_LOADED)
            for gpu in scenario.gpus:
                gpu.processes = []

    def load_driver(self, version: str | None = None) -> None:
        """Load the driver again, perhaps another version; its counters start again.

        A process that has the old version's library open gets LIB_RM_VERSION_MISMATCH.
        """
        with self.scenario.edit() as scenario:
            scenario.failure = HEALTHY
            if version is not None:
                scenario.driver, scenario.nvml = version, f"13.{version}"
            for gpu in scenario.gpus:
                for name in _LOST_ON_RELOAD:
                    gpu.values.pop(name, None)

    def set_mig(self, gpu: int, *, on: bool) -> None:
        """Switch MIG mode; slices are gone with it, and so are the processes."""
        with self.scenario.edit() as scenario:
            changed = board_of(scenario.gpus, gpu)
            changed.mig, changed.instances, changed.processes = on, [], []
            scenario.add_event(gpu, "mig")

    def create_instance(
        self, gpu: int, profile: str, *, start: int | None = None, gi: int | None = None
    ) -> Instance:
        """Cut a new slice, at the first free placement or at `start`; raises BoardError."""
        with self.scenario.edit() as scenario:
            made = _created(board_of(scenario.gpus, gpu), profile, start, gi)
            scenario.add_event(gpu, "mig")
        return made

    def destroy_instance(self, gpu: int, gi: int) -> Instance:
        """Remove a slice and the processes in it; returns what it was."""
        with self.scenario.edit() as scenario:
            gone = _destroyed(board_of(scenario.gpus, gpu), gpu, gi)
            scenario.add_event(gpu, "mig")
        return gone

    def recreate_instance(self, gpu: int, gi: int) -> Instance:
        """Destroy a slice and make the same again: same ids and placement, another UUID."""
        with self.scenario.edit() as scenario:
            changed = board_of(scenario.gpus, gpu)
            old = _destroyed(changed, gpu, gi)
            made = _created(changed, old.profile.name, old.start, gi)
            scenario.add_event(gpu, "mig")
        return made

    def start_process(self, gpu: int, process: Process) -> None:
        """Let a process run on the GPU; one with its pid there goes first."""
        with self.scenario.edit() as scenario:
            _end(scenario, process.pid)
            board_of(scenario.gpus, gpu).processes.append(process)

    def end_process(self, pid: int) -> None:
        """End a process on whatever GPUs it runs."""
        with self.scenario.edit() as scenario:
            _end(scenario, pid)

    def put_in_pod(self, pid: int, pod: str, container: str = "c0" * 32) -> None:
        """Let a process belong to a pod (its UID) and a container (64 hexadecimal digits)."""
        with self.scenario.edit() as scenario:
            running = [process for gpu in scenario.gpus for process in gpu.processes]
            found = [process for process in running if process.pid == pid]
            if not found:
                raise FaultError(f"no process has the pid {pid}; start it first")
            for process in found:
                process.pod, process.container = pod, container


def _created(gpu: Gpu, profile: str, start: int | None, gi: int | None) -> Instance:
    made = board.placed(gpu, gpu.instances, profile, start)
    made.uuid = f"MIG-{uuid.uuid4()}"
    if gi is not None:
        made.gi = gi
    gpu.instances.append(made)
    return made


def _destroyed(gpu: Gpu, number: int, gi: int) -> Instance:
    found = [instance for instance in gpu.instances if instance.gi == gi]
    if not found:
        known = ", ".join(str(instance.gi) for instance in gpu.instances) or "none"
        raise FaultError(f"GPU {number} has no GPU instance {gi}; it has: {known}")
    gpu.instances.remove(found[0])
    gpu.processes = [process for process in gpu.processes if process.gi != gi]
    return found[0]


def _end(scenario: Scenario, pid: int) -> None:
    for gpu in scenario.gpus:
        gpu.processes = [process for process in gpu.processes if process.pid != pid]
