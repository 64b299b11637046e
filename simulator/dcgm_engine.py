"""Gives a simulated node a DCGM, and lets it fail.

<root>/lib/libdcgm.so.4   the simulated DCGM
<root>/dcgm.ini           what is DCGM's own; device values come from scenario.ini

XIDs, lost GPUs and values are injected into the node itself, as for NVML.
"""

from collections.abc import Sequence

from simulator import dcgm_build, dcgm_fields
from simulator.dcgm_file import DcgmFaultError, DcgmFile, Sections, Value
from simulator.dcgm_health import DcgmHealth
from simulator.dcgm_parts import DcgmParts
from simulator.dcgm_release import DcgmRelease
from simulator.node import SimulatedNode

EMBEDDED = ""
"""In place of an address: the engine inside the client's process."""
DCGM_LIBRARY = dcgm_build.LIBRARY


class SimulatedDcgm:
    """The DCGM of one node; `gpu` is a section's number, `gi` is NVML's id."""

    def __init__(self, node: SimulatedNode) -> None:
        """Build the library if need be, and prepare the folder; raises BuildError."""
        self.node = node
        self.file = DcgmFile(node.root / "dcgm.ini")
        self.release = DcgmRelease(self.file)
        self.parts = DcgmParts(self.file)
        self.health = DcgmHealth(self.file)
        node.library_dir.mkdir(exist_ok=True)
        link = node.library_dir / DCGM_LIBRARY
        link.unlink(missing_ok=True)
        link.symlink_to(dcgm_build.build_library())
        with self.file.edit() as sections:
            sections.setdefault("engine", {})

    def environment(self) -> dict[str, str]:
        """Return the variables under which a process loads the simulated library."""
        return {**self.node.environment(), "DRAGUARD_SIM_DCGM": str(self.file.path)}

    def listen(self, address: str) -> None:
        """Let a stand-alone engine run at `host:port` or at a socket's path.

        It has seen nothing yet; what happens on the node from now on is its history.
        """
        with self.file.edit() as sections:
            engine = sections.setdefault(f"listen {address}", {})
            engine["since_event"] = str(self._newest_event())

    def kill(self, address: str) -> None:
        """End a stand-alone engine: its clients' calls answer connection lost."""
        self.fail("dead", address)

    def restart(self, address: str) -> None:
        """Start a stand-alone engine anew: old connections are lost, its memory is empty."""
        with self.file.edit() as sections:
            engine = _engine(sections, address)
            engine.pop("failure", None)
            engine.pop("driver_calls", None)
            engine["started"] = str(int(engine.get("started", "0")) + 1)
            engine["since_event"] = str(self._newest_event())

    def fail(self, failure: str, address: str = EMBEDDED, *, call: str = "") -> None:
        """Let every call, or one, fail: dead, hung, segfault, abort, error=-3, slow=200.

        A stand-alone engine that segfaults or aborts is dead for its clients.
        """
        if call and not any(name.startswith(call) for name in dcgm_build.simulated_calls()):
            known = ", ".join(sorted(dcgm_build.simulated_calls()))
            raise DcgmFaultError(f"{call} is not simulated; use one of: {known}")
        with self.file.edit() as sections:
            engine = _engine(sections, address)
            engine["failure"] = f"{failure} on {call}" if call else failure

    def heal(self, address: str = EMBEDDED) -> None:
        """Let calls succeed again; lost connections stay lost."""
        with self.file.edit() as sections:
            _engine(sections, address).pop("failure", None)

    def stop_driver_calls(self, address: str = EMBEDDED) -> None:
        """Make every field of every GPU blank until the engine is restarted, as XID 119 does."""
        with self.file.edit() as sections:
            _engine(sections, address)["driver_calls"] = "stopped"

    def set_link_field(self, gpu: int, link: int, field: int, value: Value) -> None:
        """Set what a field of one NVLink says from now on."""
        count = self.node.gpu(gpu).product.nvlink_count
        if not 0 <= link < count:
            raise DcgmFaultError(f"GPU {gpu} has no link {link}; use one below {count}")
        self.file.set(f"link {gpu}/{link}", f"field {field}", str(value))

    def set_profiling(self, fields: Sequence[int], gpu: int | None = None) -> None:
        """Set which profiling fields can be watched on all GPUs or on one; none: no module."""
        wrong = [field for field in fields if field not in dcgm_fields.PROFILING]
        if wrong:
            raise DcgmFaultError(f"{wrong[0]} is not a profiling field; use ids from 1001 to 1099")
        section = "engine" if gpu is None else self._place(gpu, None, compute=False)
        self.file.set(section, "profiling", " ".join(map(str, fields)) or "none")

    def set_field(
        self, gpu: int, field: int, value: Value, *, gi: int | None = None, compute: bool = False
    ) -> None:
        """Set what a field of a GPU, GPU instance or compute instance says from now on."""
        if field not in {known.id for known in dcgm_fields.fields()}:
            raise DcgmFaultError(f"DCGM has no field {field}; see simulator/dcgm_fields.py")
        self.file.set(self._place(gpu, gi, compute=compute), f"field {field}", str(value))

    def clear_field(
        self, gpu: int, field: int, *, gi: int | None = None, compute: bool = False
    ) -> None:
        """Let a field return the scenario's value again."""
        with self.file.edit() as sections:
            place = sections.get(self._place(gpu, gi, compute=compute), {})
            place.pop(f"field {field}", None)

    def number(self, gpu: int, gi: int, entity: int, *, compute: bool = False) -> None:
        """Give a GPU instance, or its compute instance, this entity id of DCGM's."""
        self.file.set(self._place(gpu, gi, compute=compute), "id", str(entity))

    def detach(self, gpu: int) -> None:
        """Unbind a GPU from the driver: status 7, its watches are gone."""
        self.file.set(self._place(gpu, None, compute=False), "status", "detached")

    def attach(self, gpu: int) -> None:
        """Bind it again: status 1, and its watches are gone even if no client saw it detached."""
        with self.file.edit() as sections:
            place = sections.setdefault(self._place(gpu, None, compute=False), {})
            place.pop("status", None)
            place["attached"] = str(int(place.get("attached", "0")) + 1)

    def _place(self, gpu: int, gi: int | None, *, compute: bool) -> str:
        board = self.node.gpu(gpu)
        if gi is None:
            return f"gpu {gpu}"
        if gi not in {instance.gi for instance in board.instances}:
            known = ", ".join(str(instance.gi) for instance in board.instances) or "none"
            raise DcgmFaultError(f"GPU {gpu} has no GPU instance {gi}; it has: {known}")
        return f"{'ci' if compute else 'gi'} {gpu}/{gi}"

    def _newest_event(self) -> int:
        events = self.node.scenario.load().events
        return events[-1].number if events else 0


def _engine(sections: Sections, address: str) -> dict[str, str]:
    if address == EMBEDDED:
        return sections.setdefault("engine", {})
    name = f"listen {address}"
    if name not in sections:
        raise DcgmFaultError(f"no engine listens at {address}; call listen first")
    return sections[name]
