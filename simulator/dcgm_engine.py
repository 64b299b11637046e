"""Gives a simulated node a DCGM, and lets it fail.

<root>/lib/libdcgm.so.4   the simulated DCGM
<root>/dcgm.ini           what is DCGM's own; device values come from scenario.ini

XIDs, lost GPUs and values are injected into the node itself, as for NVML.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

from simulator import dcgm_build, dcgm_fields
from simulator.dcgm_file import DcgmFile, Sections
from simulator.node import SimulatedNode

EMBEDDED = ""
"""In place of an address: the engine inside the client's process."""
DCGM_LIBRARY = dcgm_build.LIBRARY

Value = float | str
"""A field's value, or `blank`, `not_found`, `not_supported`, `not_permitted`, `error=-8`."""
Fields = Mapping[int, Value]
"""What an entity says, by field."""
System = Literal["pcie", "nvlink", "memory", "sm", "inforom", "thermal", "power", "driver", "xid"]


class DcgmFaultError(Exception):
    """Something that cannot be simulated; the message says what to ask for."""


class SimulatedDcgm:
    """The DCGM of one node; `gpu` is a section's number, `gi` is NVML's id."""

    def __init__(self, node: SimulatedNode) -> None:
        """Build the library if need be, and prepare the folder; raises BuildError."""
        self.node = node
        self.file = DcgmFile(node.root / "dcgm.ini")
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

    def ignore_xid_119(self) -> None:
        """Be a DCGM that goes on after XID 119."""
        self._set("engine", "xid_119", "ignored")

    def set_version(self, version: str) -> None:
        """Be another release of DCGM, such as `4.3.2`."""
        self._set("engine", "version", version)

    def list_links(self) -> None:
        """Be a DCGM that lists NVLinks as entities; 4.6.0 refuses."""
        self._set("engine", "links", "listed")

    def set_link_field(self, gpu: int, link: int, field: int, value: Value) -> None:
        """Set what a field of one NVLink says from now on."""
        count = self.node.gpu(gpu).product.nvlink_count
        if not 0 <= link < count:
            raise DcgmFaultError(f"GPU {gpu} has no link {link}; use one below {count}")
        self._set(f"link {gpu}/{link}", f"field {field}", str(value))

    def add_switch(self, switch: int, *, links: int = 64, fields: Fields | None = None) -> None:
        """Let there be an NVSwitch with so many NVLinks, all up."""
        self._add(f"switch {switch}", {"links": links}, fields)

    def add_cpu(
        self, cpu: int, *, first: int, cores: int, serial: str = "", fields: Fields | None = None
    ) -> None:
        """Let there be a CPU with so many cores, which are counted over all CPUs."""
        settings = {"first_core": first, "cores": cores} | ({"serial": serial} if serial else {})
        self._add(f"cpu {cpu}", settings, fields)

    def set_switch_link(self, switch: int, link: int, fields: Fields, *, up: bool = True) -> None:
        """Say what a link of a switch tells, and whether it is up."""
        self._add(f"switch_link {switch}/{link}", {"state": "up" if up else "down"}, fields)

    def set_core(self, core: int, fields: Fields) -> None:
        """Say what a core tells."""
        self._add(f"core {core}", {}, fields)

    def remove_switch(self, switch: int) -> None:
        """Let an NVSwitch, and its links with it, not be listed any more."""
        with self.file.edit() as sections:
            sections.pop(f"switch {switch}", None)

    def without_switch_module(self) -> None:
        """Be a DCGM that cannot load what lists NVSwitches."""
        self._set("engine", "nvswitch", "missing")

    def without_cpu_serials(self) -> None:
        """Be an engine from before the second version of dcgmGetCpuHierarchy."""
        self._set("engine", "cpu_hierarchy", "v1")

    def first_sample(self, kind: Literal["read", "blank", "late"]) -> None:
        """Say what a watch gives first: the value, N/A, or nothing before the next update."""
        self._set("engine", "first_sample", kind)

    def set_profiling(self, fields: Sequence[int], gpu: int | None = None) -> None:
        """Say which profiling fields the GPUs, or one, can be watched for; none: no module."""
        wrong = [field for field in fields if field not in dcgm_fields.PROFILING]
        if wrong:
            raise DcgmFaultError(f"{wrong[0]} is no profiling field; use ids from 1001 to 1099")
        section = "engine" if gpu is None else self._place(gpu, None, compute=False)
        self._set(section, "profiling", " ".join(map(str, fields)) or "none")

    def set_field(
        self, gpu: int, field: int, value: Value, *, gi: int | None = None, compute: bool = False
    ) -> None:
        """Set what a field of a GPU, GPU instance or compute instance says from now on."""
        if field not in {known.id for known in dcgm_fields.fields()}:
            raise DcgmFaultError(f"DCGM has no field {field}; see simulator/dcgm_fields.py")
        self._set(self._place(gpu, gi, compute=compute), f"field {field}", str(value))

    def clear_field(
        self, gpu: int, field: int, *, gi: int | None = None, compute: bool = False
    ) -> None:
        """Let a field say what the scenario says."""
        with self.file.edit() as sections:
            place = sections.get(self._place(gpu, gi, compute=compute), {})
            place.pop(f"field {field}", None)

    def number(self, gpu: int, gi: int, entity: int, *, compute: bool = False) -> None:
        """Give a GPU instance, or its compute instance, this entity id of DCGM's."""
        self._set(self._place(gpu, gi, compute=compute), "id", str(entity))

    def detach(self, gpu: int) -> None:
        """Unbind a GPU from the driver: status 7, its watches are gone."""
        self._set(self._place(gpu, None, compute=False), "status", "detached")

    def attach(self, gpu: int) -> None:
        """Bind it again: status 1, and nothing of it is watched, whoever looked meanwhile."""
        with self.file.edit() as sections:
            place = sections.setdefault(self._place(gpu, None, compute=False), {})
            place.pop("status", None)
            place["attached"] = str(int(place.get("attached", "0")) + 1)

    def add_incident(
        self,
        gpu: int,
        system: System,
        health: Literal["warn", "fail"] = "fail",
        *,
        gi: int | None = None,
        code: int = 0,
        text: str = "",
    ) -> None:
        """Let health checks of the GPU, or of an instance, report this; XIDs do so themselves."""
        where = f"gpu={gpu}" if gi is None else f"gpu={gpu} gi={gi}"
        words = f"{where} system={system} health={health} code={code} text={text}"
        with self.file.edit() as sections:
            incidents = sections.setdefault("health", {})
            number = 1 + sum(key.startswith("incident ") for key in incidents)
            incidents[f"incident {number}"] = words

    def others_watch_all_gpus(self, systems: int) -> None:
        """Let another client keep the health watches of the group of all GPUs at this mask."""
        self._set("health", "all_gpus", str(systems))

    def others_clear_watches(self) -> None:
        """Let another client clear the health watches of every other group, once."""
        with self.file.edit() as sections:
            health = sections.setdefault("health", {})
            health["taken"] = str(int(health.get("taken", "0")) + 1)

    def clear_incidents(self) -> None:
        """Let health checks report nothing but XIDs."""
        with self.file.edit() as sections:
            sections.pop("health", None)

    def _add(self, section: str, settings: Mapping[str, object], fields: Fields | None) -> None:
        known = {one.id for one in dcgm_fields.fields()}
        if unknown := sorted(set(fields or ()) - known):
            raise DcgmFaultError(f"DCGM has no field {unknown[0]}; see simulator/dcgm_fields.py")
        told = {f"field {number}": value for number, value in (fields or {}).items()}
        written = {**settings, **told}
        with self.file.edit() as sections:
            sections.setdefault(section, {}).update(
                {key: str(value) for key, value in written.items()}
            )

    def _set(self, section: str, key: str, value: str) -> None:
        with self.file.edit() as sections:
            sections.setdefault(section, {})[key] = value

    def _place(self, gpu: int, gi: int | None, *, compute: bool) -> str:
        board = self.node.gpu(gpu)
        if gi is None:
            return f"gpu {gpu}"
        if gi not in {one.gi for one in board.instances}:
            known = ", ".join(str(one.gi) for one in board.instances) or "none"
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
