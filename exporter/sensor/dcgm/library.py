"""The one door to libdcgm: its calls in, plain values out, every failure a DcgmError.

Runs in the DCGM child only. Each call is noted in shared memory before it is
made. A handle to one engine is kept, embedded in this process or reached over
a socket.
"""

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from exporter.sensor.dcgm import abi, cpus, link_states
from exporter.sensor.dcgm.error import CONNECT, DcgmError
from exporter.sensor.dcgm.values import Answer, Entity
from exporter.sensor.supervisor.call_notes import Slot

_NO_GPU = -1
_VALUES_AT_ONCE = 256
"""Each takes 4128 bytes; the buffer is kept, so this bounds the memory."""


_TOO_OLD = (abi.Status.FUNCTION_NOT_FOUND, abi.Status.VER_MISMATCH)
"""What a library, or an engine, answers that does not know the newer of two calls."""


class LinkTable(msgspec.Struct, frozen=True):
    """A `link_states.LinkState` for each possible NVLink."""

    gpus: dict[int, list[int]]
    switches: dict[int, list[int]]


class InstanceInfo(msgspec.Struct, frozen=True):
    """A MIG instance in DCGM's hierarchy and what NVML calls it (dcgmMigEntityInfo_t)."""

    entity: Entity
    uuid: str
    """Of the physical GPU."""
    gi: int
    ci: int | None
    """None for a GPU instance."""


class IncidentInfo(msgspec.Struct, frozen=True):
    """One incident of a health check, in DCGM's numbers (dcgmIncidentInfo_t)."""

    entity: Entity
    system: int
    health: int
    code: int
    message: str
    severity: int | None = None
    """dcgmErrorSeverity_t of the code, None where this library does not say."""
    category: int | None = None
    """dcgmErrorCategory_t of the code, likewise."""


class Library:
    """One loaded libdcgm, and after `start_embedded` or `connect` one engine."""

    def __init__(self, slot: Slot) -> None:
        self._slot = slot
        self._functions: dict[str, Callable[..., int]] = {}
        self._handle = ctypes.c_size_t()
        self._values = (abi.FieldValueV2 * _VALUES_AT_ONCE)()
        self._loaded: ctypes.CDLL | None = None

    def load(self) -> None:
        """Load and initialise the library; LD_LIBRARY_PATH is honoured by the loader."""
        self._slot.begin(_NO_GPU, "dlopen")
        try:
            self._loaded = ctypes.CDLL(abi.SONAME)
        except OSError as error:
            code = abi.Status.LIBRARY_NOT_FOUND
            raise DcgmError("dlopen", code, f"{abi.SONAME} cannot be loaded: {error}") from error
        finally:
            self._slot.end()
        self._call("dcgmInit")

    def start_embedded(self) -> None:
        """Run an engine in this process that reads the driver in `update_all` only."""
        self._call("dcgmStartEmbedded", abi.MODE_MANUAL, ctypes.byref(self._handle))

    def connect(self, address: str, *, unix: bool, timeout_ms: int) -> None:
        """Connect to an nv-hostengine, which forgets our watches when the connection ends."""
        params = abi.ConnectParams(abi.CONNECT_PARAMS_VERSION, 0, timeout_ms, int(unix))
        handle = ctypes.byref(self._handle)
        self._call(CONNECT, address.encode(), ctypes.byref(params), handle)

    def version(self) -> str:
        """Return the engine's version, such as `4.6.0`; "" when it does not say."""
        info = abi.VersionInfo(abi.VERSION_INFO_VERSION)
        self._ask("dcgmHostengineVersionInfo", ctypes.byref(info))
        words = [part.partition(":") for part in _text(info.build).split(";")]
        return next((value for name, _, value in words if name == "version"), "")

    def entities(self, kind: abi.Kind) -> list[int]:
        """List the entities of a kind, also GPUs that the driver let go."""
        found = (ctypes.c_uint * abi.MAX_ENTITIES)()
        count = ctypes.c_int(abi.MAX_ENTITIES)
        self._ask("dcgmGetEntityGroupEntities", kind, found, ctypes.byref(count), 0)
        return found[: max(0, count.value)]

    def gpu_status(self, gpu: int) -> int:
        """Return an `abi.EntityStatus`, or a number that a newer DCGM has."""
        status = ctypes.c_uint()
        self._ask("dcgmGetGpuStatus", gpu, ctypes.byref(status))
        return status.value

    def identity(self, gpu: int) -> tuple[str, str, str]:
        """Return (UUID, PCI bus id, product) of a GPU, as DCGM prints them."""
        answer = abi.DeviceAttributes(abi.DEVICE_ATTRIBUTES_VERSION)
        self._ask("dcgmGetDeviceAttributes", gpu, ctypes.byref(answer))
        who = answer.identifiers
        return _text(who.uuid), _text(who.pci_bus_id), _text(who.name)

    def instances(self) -> list[InstanceInfo]:
        """List GPU instances and compute instances."""
        answer = abi.MigHierarchy(abi.MIG_HIERARCHY_VERSION)
        self._ask("dcgmGetGpuInstanceHierarchy", ctypes.byref(answer))
        found: list[InstanceInfo] = []
        for entry in answer.entities[: answer.count]:
            ci = entry.info.nvml_compute_instance_id
            whole = entry.entity.kind == abi.Kind.GPU_INSTANCE or ci == abi.NO_INSTANCE
            name = (entry.entity.kind, entry.entity.id)
            uuid, gi = _text(entry.info.gpu_uuid), entry.info.nvml_instance_id
            found.append(InstanceInfo(name, uuid, gi, None if whole else ci))
        return found

    def link_states(self) -> LinkTable:
        """Return the state of each possible NVLink, by GPU and by NVSwitch."""
        answer = link_states.LinkStates(link_states.VERSION)
        self._ask("dcgmGetNvLinkLinkStatus", ctypes.byref(answer))
        return LinkTable(
            {gpu.gpu: list(gpu.states) for gpu in answer.gpus[: answer.gpu_count]},
            {
                switch.switch: list(switch.states)
                for switch in answer.switches[: answer.switch_count]
            },
        )

    def cpus(self) -> list[cpus.CpuInfo]:
        """List the CPUs that the engine reads, with their cores."""
        answer = cpus.HierarchyV2(cpus.VERSION_2)
        try:
            self._ask("dcgmGetCpuHierarchy_v2", ctypes.byref(answer))
        except DcgmError as error:
            if error.code not in _TOO_OLD:
                raise
            answer = cpus.HierarchyV1(cpus.VERSION_1)
            self._ask("dcgmGetCpuHierarchy", ctypes.byref(answer))
        return cpus.listed(answer)

    def create_group(self, name: str) -> int:
        group = ctypes.c_size_t()
        self._ask("dcgmGroupCreate", abi.GROUP_EMPTY, name.encode(), ctypes.byref(group))
        return group.value

    def add_entity(self, group: int, kind: int, entity: int) -> None:
        self._ask("dcgmGroupAddEntity", group, kind, entity)

    def destroy_group(self, group: int) -> None:
        self._ask("dcgmGroupDestroy", group)

    def create_field_group(self, name: str, fields: Sequence[int]) -> int:
        """Make a group of at most `abi.MAX_FIELDS` fields; their names are all of the engine's."""
        ids, group = (ctypes.c_ushort * len(fields))(*fields), ctypes.c_size_t()
        made = ctypes.byref(group)
        self._ask("dcgmFieldGroupCreate", len(fields), ids, name.encode(), made)
        return group.value

    def destroy_field_group(self, fields: int) -> None:
        self._ask("dcgmFieldGroupDestroy", fields)

    def watch(self, group: int, fields: int, *, every: float, keep: float) -> None:
        """Have fields read every `every` seconds and their history kept for `keep` seconds."""
        self._ask("dcgmWatchFields", group, fields, int(every * 1_000_000), keep, 0)

    def unwatch(self, group: int, fields: int) -> None:
        self._ask("dcgmUnwatchFields", group, fields)

    def update_all(self) -> None:
        """Have the engine read what is due, and wait for it."""
        self._ask("dcgmUpdateAllFields", 1)

    def latest(self, entities: Sequence[Entity], fields: Sequence[int]) -> list[Answer]:
        """Return the cached value of every field (`abi.MAX_FIELDS` at most) of every entity.

        Never a live read: that fails as a whole when field 230 is among the
        fields, and ends nv-hostengine for a profiling field.
        """
        step = max(1, _VALUES_AT_ONCE // max(1, len(fields)))
        starts = range(0, len(entities), step) if fields else ()
        parts = [self._latest(entities[at : at + step], fields) for at in starts]
        return [answer for part in parts for answer in part]

    def _latest(self, entities: Sequence[Entity], fields: Sequence[int]) -> list[Answer]:
        pairs = (abi.EntityPair * len(entities))(*entities)
        ids = (ctypes.c_ushort * len(fields))(*fields)
        sizes = len(entities), len(fields)
        name = "dcgmEntitiesGetLatestValues"
        self._ask(name, pairs, sizes[0], ids, sizes[1], 0, self._values)
        return [
            _answer((value.kind, value.entity_id), value)
            for value in self._values[: sizes[0] * sizes[1]]
        ]

    def since(self, group: int, fields: int, at: int) -> tuple[list[Answer], int]:
        """Return the history from `at` (microseconds since 1970), and where to go on."""
        received: list[Answer] = []

        def hear(kind: int, entity: int, values: Any, count: int, _data: int | None) -> int:
            received.extend(_answer((kind, entity), value) for value in values[: max(0, count)])
            return 0

        onward, callback = ctypes.c_longlong(at), abi.HISTORY_CALLBACK(hear)
        where = ctypes.byref(onward)
        self._ask("dcgmGetValuesSince_v2", group, fields, at, where, callback, None)
        return received, max(at, onward.value)

    def watch_health(self, group: int, systems: int, *, every: float, keep: float) -> None:
        """Watch these systems (dcgmHealthSystems_t, bits) of a group's GPUs and no other."""
        micros = int(every * 1_000_000)
        params = abi.HealthSetParams(abi.HEALTH_SET_VERSION, group, systems, micros, keep)
        self._ask("dcgmHealthSet_v2", ctypes.byref(params))

    def health_watches(self, group: int) -> int:
        """Return which systems of a group are watched (dcgmHealthSystems_t, bits)."""
        systems = ctypes.c_uint()
        self._ask("dcgmHealthGet", group, ctypes.byref(systems))
        return systems.value

    def check_health(self, group: int) -> list[IncidentInfo]:
        answer = abi.HealthResponse(abi.HEALTH_RESPONSE_VERSION)
        self._ask("dcgmHealthCheck", group, ctypes.byref(answer))
        return [self._incident(incident) for incident in answer.incidents[: answer.count]]

    def _incident(self, incident: Any) -> IncidentInfo:
        code = incident.error.code
        return IncidentInfo(
            (incident.entity.kind, incident.entity.id),
            incident.system,
            incident.health,
            code,
            _text(incident.error.message),
            self._looked_up("dcgmErrorGetPriorityByCode", code),
            self._looked_up("dcgmErrorGetCategoryByCode", code),
        )

    def _looked_up(self, name: str, code: int) -> int | None:
        """Ask a table of the library, which no engine and no GPU can delay."""
        try:
            return (self._functions.get(name) or self._find(name))(code)
        except DcgmError:
            return None

    def _ask(self, name: str, *arguments: Any) -> None:
        self._call(name, self._handle, *arguments)

    def _call(self, name: str, *arguments: Any) -> None:
        function = self._functions.get(name) or self._find(name)
        self._slot.begin(_NO_GPU, name)
        try:
            code = function(*arguments)
        finally:
            self._slot.end()
        if code != abi.Status.OK:
            raise DcgmError(name, code)

    def _find(self, name: str) -> Callable[..., int]:
        try:
            found = getattr(self._loaded, name)
        except AttributeError as error:
            code = abi.Status.FUNCTION_NOT_FOUND
            raise DcgmError(name, code, f"this {abi.SONAME} has no such call") from error
        found.argtypes = abi.SIGNATURES[name]
        self._functions[name] = found
        return found


def _answer(entity: Entity, value: Any) -> Answer:
    kind = chr(value.field_type) if value.field_type < 128 else ""
    raw: int | float | bytes | None = None
    if kind in (abi.INT64, abi.TIMESTAMP):
        raw = value.value.i64
    elif kind == abi.DOUBLE:
        raw = value.value.dbl
    elif kind == abi.STRING:
        raw = value.value.str
    return Answer(entity, value.field_id, value.status, kind, value.ts, raw)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
